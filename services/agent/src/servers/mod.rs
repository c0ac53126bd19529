//! Contact with the servers: registers the node, sends heartbeats, and follows the node's work.

pub(crate) mod contact;
pub(crate) mod follow;
mod heartbeats;
pub(crate) mod leave;
