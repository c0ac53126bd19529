//! Messages between scheduler workers and the evaluation broker.
//!
//! There is no ack message: the broker sees in the feed that an evaluation is finished (`docs/architecture/evaluations.md`). Tokens only avoid
//! wasted work; the applier prevents two workers from placing the same allocations.

use model::job::JobType;
use model::{EvalId, Index, RequestId};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// Version of the scheduler in this program. If a worker's version is older than the applier's, the broker and the
/// applier refuse its requests as outdated.
pub const SCHEDULER_VERSION: u16 = 1;

/// Requests evaluations. The response is [`Dequeued`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dequeue {
    /// The types of schedulers that the worker runs.
    pub kinds: Vec<JobType>,
    /// Maximum number of evaluations in the response.
    pub max: u16,
    /// How long to wait for the first evaluation, in milliseconds.
    pub timeout_ms: u32,
    /// Version of the worker's scheduler.
    pub scheduler_version: u16,
}

/// Evaluations for a worker; empty after the timeout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dequeued {
    /// The evaluations, in descending order of urgency.
    pub evals: Vec<Delivery>,
}

/// One leased evaluation. The worker reads it from its replica, once the replica has reached the wait index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The evaluation.
    pub eval_id: EvalId,
    /// Its priority.
    pub priority: u16,
    /// The type of its scheduler.
    pub kind: JobType,
    /// Identifies this lease. A later lease of the same evaluation has another token.
    pub token: RequestId,
    /// The index that the worker's snapshot must have reached.
    pub wait_index: Index,
    /// Duration of the lease, in milliseconds. After it, another worker may get the evaluation.
    pub lease_ms: u32,
}

/// A worker's request about an evaluation that it has leased. The response is [`EvalLeaseResponse`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvalLeaseRequest {
    /// The evaluation.
    pub eval_id: EvalId,
    /// The token of the lease.
    pub token: RequestId,
    /// The action to take.
    pub action: EvalLeaseAction,
}

/// A worker's request about an evaluation that it has leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EvalLeaseAction {
    /// Extends the lease: the worker is still waiting for something.
    Renew,
    /// Nacks the evaluation because the worker could not work on it, for instance because its replica was behind or no
    /// applier was active. Does not count as a delivery.
    GiveBack,
    /// Nacks the evaluation because the scheduler failed on it. Counts as a delivery.
    Fail,
}

/// Whether the lease was still valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvalLeaseResponse {
    /// `false` if the lease had expired or the token belongs to another lease. The worker then drops the evaluation.
    pub held: bool,
}

kinds! {
    Dequeue => "broker.dequeue",
    Dequeued => "broker.dequeued",
    EvalLeaseRequest => "broker.eval-lease",
    EvalLeaseResponse => "broker.eval-lease-response",
}
