//! [`Attempts`]: decides after each attempt at an evaluation whether to make another, based on the applier's answer.
//!
//! Pure. The limit of attempts without progress is enforced by `scheduling`, which is given their number.

use model::Index;
use wire::RefusalKind;
use wire::command::{CommandError, Done, PlanVerdict};

/// Maximum number of consecutive stale plans before the evaluation is returned to the broker. A plan is stale if the
/// plan of another attempt on the same job was committed first.
const STALE_MAX: u8 = 16;

/// The attempts at one leased evaluation.
#[derive(Debug)]
pub struct Attempts {
    at_least: Index,
    attempts_without_progress: u8,
    stale: u8,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Schedule on a snapshot at this index or later.
    Schedule {
        /// The index.
        at_least: Index,
        /// Number of attempts without progress since the last attempt that made progress.
        attempts_without_progress: u8,
    },
    /// The worker is done with the evaluation.
    End(End),
}

/// How the work on an evaluation ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The outcome is committed, or the evaluation needs no more work. The broker learns this from the feed.
    Finished,
    /// The evaluation is returned to the broker; this does not count as a failed delivery.
    Returned(ReturnReason),
    /// The evaluation is nacked, which counts as a failed delivery.
    Failed(String),
}

/// Why an evaluation is returned that did not cause the problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnReason {
    /// The replica did not reach this index in time.
    Behind(Index),
    /// No applier answered in time.
    NoApplier,
    /// This program's scheduler is too old.
    Outdated,
    /// The applier has newer state than the worker, in which the plan is unnecessary or wrong.
    Superseded,
    /// The worker is stopping.
    Stopping,
}

impl ReturnReason {
    /// The reason as a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Behind(_) => "behind",
            Self::NoApplier => "no-applier",
            Self::Outdated => "outdated",
            Self::Superseded => "overtaken",
            Self::Stopping => "stopping",
        }
    }
}

impl Attempts {
    /// No attempt yet; the first snapshot must be at the delivery's wait index or later.
    pub fn new(wait_index: Index) -> Self {
        Self { at_least: wait_index, attempts_without_progress: 0, stale: 0 }
    }

    /// The next attempt.
    pub fn attempt(&self) -> Next {
        Next::Schedule { at_least: self.at_least, attempts_without_progress: self.attempts_without_progress }
    }

    /// The next step after the answer to a plan.
    pub fn answered(&mut self, answer: &Result<Done, CommandError>) -> Next {
        match answer {
            Ok(done) => self.next_after_verdict(done),
            Err(error) => Next::End(end_after_refusal(error)),
        }
    }

    fn next_after_verdict(&mut self, done: &Done) -> Next {
        let Some(result) = &done.plan else {
            return Next::End(End::Failed("the applier's answer contains no result of the plan".to_owned()));
        };
        match result.verdict {
            PlanVerdict::Whole => return Next::End(End::Finished),
            PlanVerdict::Part => (self.attempts_without_progress, self.stale) = (0, 0),
            PlanVerdict::Nothing => {
                self.attempts_without_progress = self.attempts_without_progress.saturating_add(1);
                self.stale = 0;
            }
            PlanVerdict::Stale if self.stale == STALE_MAX => {
                return Next::End(End::Returned(ReturnReason::Superseded));
            }
            PlanVerdict::Stale => self.stale += 1,
        }
        if !result.refresh_index.is_set() {
            return Next::End(End::Failed("missing state refresh after partial commit".to_owned()));
        }
        self.at_least = self.at_least.max(result.refresh_index);
        self.attempt()
    }
}

fn end_after_refusal(error: &CommandError) -> End {
    match error {
        CommandError::Refused(refusal) => match refusal.kind {
            // The evaluation is finished or deleted, or the job was registered again. The next worker will see which.
            RefusalKind::NotFound | RefusalKind::Conflict => End::Returned(ReturnReason::Superseded),
            RefusalKind::Outdated => End::Returned(ReturnReason::Outdated),
            RefusalKind::NotReady | RefusalKind::Deposed | RefusalKind::OutcomeUnknown => {
                End::Returned(ReturnReason::NoApplier)
            }
            RefusalKind::Invalid | RefusalKind::Forbidden => End::Failed(telemetry::chain(error)),
        },
        CommandError::Unavailable { .. } => End::Returned(ReturnReason::NoApplier),
        CommandError::Unreadable(_) | CommandError::TooLarge { .. } => End::Failed(telemetry::chain(error)),
    }
}

#[cfg(test)]
mod tests {
    use wire::Refusal;
    use wire::command::PlanResult;

    use super::*;

    fn verdict(verdict: PlanVerdict, refresh_index: u64) -> Result<Done, CommandError> {
        let plan = PlanResult { verdict, refresh_index: Index(refresh_index), rejected_nodes: Vec::new() };
        Ok(Done { plan: Some(plan), ..Done::default() })
    }

    fn refusal(kind: RefusalKind) -> Result<Done, CommandError> {
        Err(CommandError::Refused(Refusal { kind, message: "no".into() }))
    }

    fn schedule(at_least: u64, attempts_without_progress: u8) -> Next {
        Next::Schedule { at_least: Index(at_least), attempts_without_progress }
    }

    #[test]
    fn the_first_attempt_needs_the_wait_index_and_a_whole_plan_is_the_end() {
        let mut attempts = Attempts::new(Index(41));
        assert_eq!(attempts.attempt(), schedule(41, 0));
        assert_eq!(attempts.answered(&verdict(PlanVerdict::Whole, 0)), Next::End(End::Finished));
    }

    #[test]
    fn fruitless_attempts_count_until_one_makes_progress() {
        let mut attempts = Attempts::new(Index(41));
        assert_eq!(attempts.answered(&verdict(PlanVerdict::Nothing, 50)), schedule(50, 1));
        assert_eq!(attempts.answered(&verdict(PlanVerdict::Nothing, 50)), schedule(50, 2));
        assert_eq!(attempts.answered(&verdict(PlanVerdict::Stale, 52)), schedule(52, 2)); // `docs/architecture/evaluations.md`
        assert_eq!(attempts.answered(&verdict(PlanVerdict::Part, 60)), schedule(60, 0));
        assert_eq!(attempts.answered(&verdict(PlanVerdict::Nothing, 55)), schedule(60, 1));
    }

    #[test]
    fn a_plan_that_is_always_too_late_does_not_go_on_for_ever() {
        let mut attempts = Attempts::new(Index(41));
        for n in 1..=u64::from(STALE_MAX) {
            assert_eq!(attempts.answered(&verdict(PlanVerdict::Stale, 41 + n)), schedule(41 + n, 0));
        }
        let next = attempts.answered(&verdict(PlanVerdict::Stale, 100));
        assert_eq!(next, Next::End(End::Returned(ReturnReason::Superseded)));
    }

    #[test]
    fn refusals_count_against_the_evaluation_only_where_the_plan_is_at_fault() {
        let end = |answer| match Attempts::new(Index(41)).answered(&answer) {
            Next::End(end) => end,
            next @ Next::Schedule { .. } => panic!("{next:?}"),
        };
        for kind in [RefusalKind::NotFound, RefusalKind::Conflict] {
            assert_eq!(end(refusal(kind)), End::Returned(ReturnReason::Superseded));
        }
        assert_eq!(end(refusal(RefusalKind::Outdated)), End::Returned(ReturnReason::Outdated));
        assert_eq!(end(refusal(RefusalKind::OutcomeUnknown)), End::Returned(ReturnReason::NoApplier));
        let unavailable = Err(CommandError::Unavailable { reason: "nobody".to_owned() });
        assert_eq!(end(unavailable), End::Returned(ReturnReason::NoApplier));
        assert_eq!(end(refusal(RefusalKind::Invalid)), End::Failed("refused: no".to_owned()));
        assert!(matches!(end(Err(CommandError::TooLarge { bytes: 2, max: 1 })), End::Failed(_)));
        assert!(matches!(end(Ok(Done::default())), End::Failed(_)));
        assert!(matches!(end(verdict(PlanVerdict::Part, 0)), End::Failed(_)));
    }
}
