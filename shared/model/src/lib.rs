//! The domain types: jobs, allocations, nodes, evaluations, deployments, plans, and change sets.
//!
//! The crate consists of plain data and pure functions, without I/O and without a clock. `canonicalise` and `from_api`
//! convert the JSON types of the API (`api-types`) to domain types, and `to_api` converts them back. The crate `state`
//! stores the objects and applies changes to them. `features` is the list of what is not built, which every crate that
//! refuses such things can see here.

pub mod alloc;
mod api;
mod bytes;
mod canonicalise;
pub mod change;
pub mod cluster;
pub mod columns;
pub mod deployment;
pub mod diff;
pub mod eval;
pub mod features;
pub mod ids;
pub mod invalid;
pub mod job;
pub mod keyring;
mod map;
pub mod messagepack;
mod mirror;
pub mod node;
pub mod pattern;
pub mod plan;
pub mod schedule;
pub mod service;
pub mod small_object;
mod small_object_list;
mod table;
pub mod text;
pub mod time;
pub mod trace;
pub mod volume;

pub use canonicalise::{RegistrationDefaults, canonicalise, canonicalise_for_registration};
pub use ids::{
    AllocId, DeploymentId, Epoch, EvalId, HistoryId, Index, JobKey, JobVersionKey, NodeId, ProcessId,
    RequestId, ScalingPolicyId,
};
pub use invalid::Invalid;
pub use keyring::RootKeyId;
pub use map::Map;
pub use small_object::SmallObject;
pub use table::Table;
pub use text::Text;
pub use time::{Nanos, Timestamp};
pub use trace::TraceContext;
pub use volume::{HostVolumeId, VolumeClaimId};

/// The version of Nomad whose API and behaviour this program offers: what clients see as the version of servers, and jobs
/// as that of nodes.
pub const NOMAD_VERSION: &str = "2.0.5";

/// Whether `value` is the default. Messages and log records omit fields with the default value, because most fields of
/// most objects have it.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
