//! Commands about evaluations, among them schedulers' plans.

use model::change::Cause;
use model::eval::{EvalStatus, Evaluation};
use model::plan::{Outcome, Plan};
use model::{Epoch, EvalId, Index, Text};
use serde::{Deserialize, Serialize};

use super::info::{Class, CommandBody, CommandInfo};
use crate::role::Role;

/// Maximum number of evaluations in one [`DeleteEvals`] (`docs/rules/scheduling.md` §12, *ids per delete request*).
pub const EVALS_DELETED_MAX: usize = 7_281;

/// Adds the commands of this file to [`Command`](super::Command).
macro_rules! eval_commands {
    ($($so_far:tt)*) => {
        collect! {
            $($so_far)*
            /// Submits a scheduler's plan together with the outcome of its evaluation.
            SubmitPlan(Box<SubmitPlan>),
            /// Commits the broker's decisions about evaluations.
            UpdateEvals(UpdateEvals),
            /// Deletes evaluations.
            DeleteEvals(DeleteEvals),
        }
    };
}

/// A scheduler's plan with the outcome of its evaluation, as one command (`docs/architecture/evaluations.md`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubmitPlan {
    /// The proposed plan. An empty plan counts as a plan.
    pub plan: Plan,
    /// The evaluation's outcome if the whole plan is accepted.
    pub outcome: Outcome,
    /// Version of the worker's scheduler.
    pub scheduler_version: u16,
}

impl CommandBody for SubmitPlan {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Scheduler,
            class: Class::Plans { priority: self.plan.priority },
            cause: Cause::PlanResult,
            is_expensive: false,
            is_deferrable: true,
        }
    }
}

/// The broker's decisions about evaluations: delivered too often, duplicate, or superseded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateEvals {
    /// The broker's epoch. The command is refused if this epoch is older than the lease's.
    pub epoch: Epoch,
    /// Changes of existing evaluations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<EvalUpdate>,
    /// New evaluations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub creates: Vec<Evaluation>,
    /// Deletes unblock records older than this index, because no blocked evaluation needs them any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forget_unblocked_before: Option<Index>,
}

impl CommandBody for UpdateEvals {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::EvalBroker,
            class: Class::Rest,
            cause: Cause::EvaluationUpdated,
            is_expensive: false,
            is_deferrable: true,
        }
    }
}

/// One change for several evaluations. Evaluations that are terminal or deleted when the command is executed are
/// skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvalUpdate {
    /// The evaluations.
    pub ids: Vec<EvalId>,
    /// The new status.
    pub status: EvalStatus,
    /// Description of the new status.
    #[serde(default)]
    pub description: Text,
    /// The evaluation that follows them; `None` keeps the existing value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_eval: Option<EvalId>,
    /// Skips evaluations that changed after this index. A pending evaluation whose index was raised represents a later
    /// event, and a decision from before that event must not mark it as superseded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless_changed_since: Option<Index>,
}

/// Deletes evaluations in any status. Refused unless the broker is paused (http-api §15).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteEvals {
    /// The evaluations.
    pub ids: Vec<EvalId>,
}

impl CommandBody for DeleteEvals {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::EvaluationUpdated,
            is_expensive: true,
            is_deferrable: true,
        }
    }
}

#[cfg(any(test, feature = "samples"))]
mod samples {
    use super::*;
    use crate::broker::SCHEDULER_VERSION;
    use crate::command::Sample;
    use crate::samples::{EPOCH, EVAL, INDEX, eval, plan};

    impl Sample for SubmitPlan {
        fn samples() -> Vec<Self> {
            vec![Self {
                plan: plan(),
                outcome: Outcome { eval: Box::new(eval()), creates: vec![eval()] },
                scheduler_version: SCHEDULER_VERSION,
            }]
        }
    }

    impl Sample for UpdateEvals {
        fn samples() -> Vec<Self> {
            let update = EvalUpdate {
                ids: vec![EVAL],
                status: EvalStatus::Failed,
                description: "delivered too often".into(),
                next_eval: Some(EVAL),
                unless_changed_since: Some(INDEX),
            };
            vec![
                Self {
                    epoch: EPOCH,
                    updates: vec![update],
                    creates: vec![eval()],
                    forget_unblocked_before: Some(INDEX),
                },
                Self {
                    epoch: EPOCH,
                    updates: Vec::new(),
                    creates: Vec::new(),
                    forget_unblocked_before: None,
                },
            ]
        }
    }

    impl Sample for DeleteEvals {
        fn samples() -> Vec<Self> {
            vec![Self { ids: vec![EVAL] }]
        }
    }
}
