//! The ids of a history's objects. There are few of each kind, so that commands often refer to the same objects.

use model::{AllocId, DeploymentId, EvalId, JobKey, NodeId};

pub(crate) const NODES: u8 = 5;
pub(crate) const JOBS: u8 = 3;
pub(crate) const ALLOCS: u8 = 16;
pub(crate) const EVALS: u8 = 6;
pub(crate) const DEPLOYMENTS: u8 = 4;

/// Nodes that no command changes. Their number makes the nodes of the pool lie on both sides of a page boundary.
pub(crate) const BYSTANDERS: u8 = 62;

/// Every id of the pool.
pub(crate) fn alloc_ids() -> impl Iterator<Item = AllocId> {
    (0..ALLOCS).map(alloc_id)
}

/// Every id of the pool.
pub(crate) fn node_ids() -> impl Iterator<Item = NodeId> {
    (0..NODES).map(node_id)
}

/// Every key of the pool.
pub(crate) fn job_keys() -> impl Iterator<Item = JobKey> {
    (0..JOBS).map(job_key)
}

/// Makes an id from a number. Ids do not sort like their numbers.
fn spread(number: u8) -> [u8; 16] {
    [(number + 1).wrapping_mul(97); 16]
}

pub(crate) fn alloc_id(number: u8) -> AllocId {
    AllocId::from_bytes(spread(number))
}

pub(crate) fn node_id(number: u8) -> NodeId {
    NodeId::from_bytes(spread(number))
}

pub(crate) fn eval_id(number: u8) -> EvalId {
    EvalId::from_bytes(spread(number))
}

pub(crate) fn deployment_id(number: u8) -> DeploymentId {
    DeploymentId::from_bytes(spread(number))
}

pub(crate) fn job_key(number: u8) -> JobKey {
    // Job ids of one namespace are prefixes of another's, to test ranges of keys.
    let namespace = if number == 0 { "default" } else { "default-too" };
    JobKey::new(namespace, format!("job-{number}"))
}
