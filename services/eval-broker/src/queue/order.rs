//! Orders of evaluations in the queue.

use std::cmp::Reverse;

use model::eval::Evaluation;
use model::{EvalId, Index};

/// Order of ready evaluations: highest priority first, then oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadyRank(Reverse<u16>, Index, EvalId);

impl ReadyRank {
    pub(super) fn of(eval: &Evaluation) -> Self {
        Self(Reverse(eval.priority), eval.create_index, eval.id)
    }

    pub(super) fn id(self) -> EvalId {
        self.2
    }
}

/// Order of pending evaluations of a job: highest priority first, then most recently changed, because that one also
/// covers the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PendingRank(Reverse<u16>, Reverse<Index>, EvalId);

impl PendingRank {
    pub(super) fn of(eval: &Evaluation) -> Self {
        Self(Reverse(eval.priority), Reverse(eval.modify_index), eval.id)
    }

    pub(super) fn id(self) -> EvalId {
        self.2
    }
}
