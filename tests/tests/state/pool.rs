//! The names of a history's objects: few, so that they meet.

use model::{AllocId, DeploymentId, EvalId, JobKey, NodeId};

pub(crate) const NODES: u8 = 5;
pub(crate) const JOBS: u8 = 3;
pub(crate) const ALLOCS: u8 = 16;
pub(crate) const EVALS: u8 = 6;
pub(crate) const DEPLOYMENTS: u8 = 4;

/// Nodes that nobody touches: so many that those of the pool stand on both sides of a page's end.
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

/// An id is a number, spread so that ids do not sort as their numbers do.
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
    // One namespace's job ids begin with another's, so that ranges of keys have something to mix up.
    let namespace = if number == 0 { "default" } else { "default-too" };
    JobKey::new(namespace, format!("job-{number}"))
}
