//! Between workers and the evaluation broker.
//!
//! There is no message that says *done*: the broker sees an evaluation finish in the feed (design §6). Tokens only
//! save work; what keeps two workers from placing twice is the applier.

use model::job::JobType;
use model::{EvalId, Index, RequestId};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// The version of the scheduler in this program. A worker older than the applier places nothing: broker and applier
/// refuse it as outdated.
pub const SCHEDULER_VERSION: u16 = 1;

/// Asks for evaluations. Answered by [`Dequeued`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dequeue {
    /// Which schedulers the worker runs.
    pub kinds: Vec<JobType>,
    /// How many evaluations it takes at once.
    pub max: u16,
    /// How long it waits for the first one, in milliseconds.
    pub timeout_ms: u32,
    /// The version of its scheduler.
    pub scheduler_version: u16,
}

/// Evaluations for a worker; none when the time was up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dequeued {
    /// The evaluations, the most urgent first.
    pub evals: Vec<Delivery>,
}

/// One evaluation handed out. The worker reads it from its replica, once that has reached the wait index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The evaluation.
    pub eval_id: EvalId,
    /// Its priority.
    pub priority: u16,
    /// Which scheduler it is for.
    pub kind: JobType,
    /// Names this hand-out; a later one of the same evaluation has another.
    pub token: RequestId,
    /// The index that a snapshot must have reached.
    pub wait_index: Index,
    /// How long the worker has it before it goes to another, in milliseconds.
    pub lease_ms: u32,
}

/// What a worker says of an evaluation that it has. Answered by [`HandOutAnswer`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOut {
    /// The evaluation.
    pub eval_id: EvalId,
    /// The hand-out.
    pub token: RequestId,
    /// What to do.
    pub action: HandOutAction,
}

/// What a worker wants done with an evaluation that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HandOutAction {
    /// It still waits for something; the lease begins anew.
    Renew,
    /// It could not work on it, for no fault of the evaluation's: its replica was behind, or no applier was there. Does
    /// not count as a delivery.
    GiveBack,
    /// The scheduler failed on it. Counts as a delivery.
    Fail,
}

/// Whether the hand-out was still good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOutAnswer {
    /// `false`: it had expired, or the token is another's; the worker drops the evaluation.
    pub held: bool,
}

kinds! {
    Dequeue => "broker.dequeue",
    Dequeued => "broker.dequeued",
    HandOut => "broker.hand-out",
    HandOutAnswer => "broker.hand-out-answer",
}
