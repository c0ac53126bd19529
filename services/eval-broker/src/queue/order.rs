//! Which evaluation comes first, where several could.

use std::cmp::Reverse;

use model::eval::Evaluation;
use model::{EvalId, Index};

/// The place of a ready evaluation among those of other jobs: the most urgent first, then the oldest.
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

/// The place of an evaluation among those that wait behind another of their job: the most urgent first, then the one
/// that changed last, for it stands for the others too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BehindRank(Reverse<u16>, Reverse<Index>, EvalId);

impl BehindRank {
    pub(super) fn of(eval: &Evaluation) -> Self {
        Self(Reverse(eval.priority), Reverse(eval.modify_index), eval.id)
    }

    pub(super) fn id(self) -> EvalId {
        self.2
    }
}
