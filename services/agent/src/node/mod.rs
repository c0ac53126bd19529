//! Who the agent is: its settings, data directory and identity, the node that it registers, and what the servers last said
//! about the node.

pub(crate) mod artifacts;
pub(crate) mod config;
pub(crate) mod consul;
pub(crate) mod data_dir;
pub(crate) mod dns;
pub(crate) mod facts;
pub(crate) mod fingerprint;
pub(crate) mod host_env;
pub(crate) mod host_networks;
pub(crate) mod identity;
pub(crate) mod isolation_args;
pub(crate) mod leave_args;
pub(crate) mod limits;
pub(crate) mod meta;
pub(crate) mod pair;
pub(crate) mod presence;
pub(crate) mod templates;
pub(crate) mod users;
pub(crate) mod volume_args;
