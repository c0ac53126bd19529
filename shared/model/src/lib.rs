//! The domain: jobs, allocations, nodes, evaluations, deployments, plans, and the changes that commands make of them.
//!
//! Plain data and pure functions on it. The API's JSON (`api-types`) comes in through `canonicalise` and `from_api`
//! and goes out through `to_api`; where objects live and how they change is `state`'s business. There is no I/O and
//! no clock here.

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
pub mod ids;
pub mod invalid;
pub mod job;
pub mod keyring;
mod map;
mod mirror;
pub mod node;
pub mod plan;
pub mod text;
pub mod time;
pub mod trace;
pub mod volume;

pub use canonicalise::{RegistrationDefaults, canonicalise, canonicalise_for_registration};
pub use ids::{
    AllocId, DeploymentId, Epoch, EvalId, HistoryId, HostVolumeId, Index, JobKey, JobVersionKey, NodeId,
    ProcessId, RequestId, RootKeyId, VolumeClaimId,
};
pub use invalid::Invalid;
pub use map::Map;
pub use text::Text;
pub use time::{Nanos, Timestamp};
pub use trace::TraceContext;

/// Whether messages and records leave a field out: most objects say little of what they could.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
