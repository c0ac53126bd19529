//! Judging: what a command does to the cluster, worked out in one place at the command's own index (design §1).
//!
//! Pure: the moment, the index and who is alive come from the caller. Which commands come in which order, what is
//! durable, and who is answered when is the business of the shell around it. There is a file for each kind of command.
//! What several of them entail is beside them: `work` holds a command while it is judged; `allocs`, `jobs`, `versions`,
//! `submissions`, `deployments` and `nodes` know what follows when one of those changes.

mod allocs;
mod bootstrap;
mod collect_garbage;
mod delete_evals;
mod deployments;
mod deregister_job;
mod deregister_nodes;
mod evaluate_job;
mod evaluate_node;
mod fail_deployment;
mod jobs;
mod namespaces;
mod node_pools;
mod nodes;
mod register_job;
mod register_node;
mod report_allocs;
mod root_keys;
mod scheduler_config;
mod set_eligibility;
mod submissions;
mod submit_plan;
mod take_lease;
#[cfg(test)]
mod tests;
mod transition;
mod update_deployments;
mod update_evals;
mod update_nodes;
mod versions;
mod work;

use model::change::{Cause, Change};
use model::cluster::Lease;
use model::{Index, RequestId, Timestamp, TraceContext};
use state::State;
use wire::Refusal;
use wire::command::{Command, Done};

pub use bootstrap::bootstrap;

pub(crate) use jobs::is_template;
use work::Work;

/// What a command is judged with, beside the state.
#[derive(Clone)]
pub struct Given<'a> {
    /// The index that the change set gets if there is one: the one after the overlay's.
    pub index: Index,
    /// The cluster's time; never before the overlay's.
    pub at: Timestamp,
    /// The command's id; evaluations that it makes are derived from it.
    pub request_id: RequestId,
    /// The trace that the command is part of; evaluations that it makes carry it on.
    pub trace: Option<TraceContext>,
    /// Whether the holder of a lease was heard of lately (design §5).
    pub live: &'a dyn Fn(&Lease) -> bool,
}

/// What becomes of a command.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It changes something; the overlay is at [`Given::index`] now.
    Changed {
        /// What kind of command it was, as events name it.
        cause: Cause,
        /// What it changes, in this order.
        changes: Vec<Change>,
        /// The answer, once it is durable.
        done: Done,
    },
    /// There is rightly nothing to do; the overlay is as it was.
    Unchanged(Done),
    /// It may not be; the overlay is as it was.
    Refused(Refusal),
}

/// Judges a command on the state with everything in flight. If it changes something, the overlay moves on by that.
///
/// It is judged in place: a copy to fall back on would have each command copy anew all that it changes. `as_it_was` makes
/// the overlay again for a command that is refused after it has begun, which few are.
pub fn judge(
    overlay: &mut State,
    command: Command,
    given: &Given<'_>,
    as_it_was: impl FnOnce() -> State,
) -> Verdict {
    let (cause, index) = (cause(&command), overlay.index());
    let mut work = Work::new(overlay, given);
    let done = carry_out(&mut work, command).and_then(|done| work.finish(done));
    let changes = work.into_changes();
    match done {
        Err(refusal) => {
            if !changes.is_empty() {
                *overlay = as_it_was();
            }
            Verdict::Refused(refusal)
        }
        Ok(done) if changes.is_empty() => Verdict::Unchanged(Done { index, written: false, ..done }),
        Ok(done) => {
            Verdict::Changed { cause, changes, done: Done { index: given.index, written: true, ..done } }
        }
    }
}

/// What kind of command it is, as the change set says.
fn cause(command: &Command) -> Cause {
    match command {
        Command::RegisterJob(_) => Cause::JobRegistered,
        Command::DeregisterJob(_) => Cause::JobDeregistered,
        Command::EvaluateJob(_) => Cause::JobEvaluated,
        Command::Transition(_) => Cause::AllocTransition,
        Command::SubmitPlan(_) => Cause::PlanResult,
        Command::UpdateEvals(_) | Command::DeleteEvals(_) => Cause::EvaluationUpdated,
        Command::RegisterNode(_) => Cause::NodeRegistration,
        Command::UpdateNodes(_) => Cause::NodeStatus,
        Command::ReportAllocs(_) => Cause::AllocationUpdated,
        Command::DeregisterNodes(_) => Cause::NodeDeregistration,
        Command::SetEligibility(_) => Cause::NodeEligibility,
        Command::UpdateDeployments(_) | Command::FailDeployment(_) => Cause::DeploymentStatusUpdate,
        Command::CollectGarbage(_) => Cause::Garbage,
        Command::EvaluateNode(_) => Cause::NodeStatus,
        Command::SetNodePool(_) => Cause::NodePoolUpserted,
        Command::DeleteNodePool(_) => Cause::NodePoolDeleted,
        Command::SetNamespace(_)
        | Command::DeleteNamespace(_)
        | Command::SetSchedulerConfig(_)
        | Command::AddRootKey(_) => Cause::Settings,
        Command::TakeLease(_) => Cause::Lease,
    }
}

fn carry_out(work: &mut Work<'_>, command: Command) -> Result<Done, Refusal> {
    match command {
        Command::RegisterJob(command) => register_job::register_job(work, *command),
        Command::DeregisterJob(command) => deregister_job::deregister_job(work, &command),
        Command::EvaluateJob(command) => evaluate_job::evaluate_job(work, &command),
        Command::Transition(command) => transition::transition(work, &command),
        Command::SubmitPlan(command) => submit_plan::submit_plan(work, *command),
        Command::UpdateEvals(command) => update_evals::update_evals(work, command),
        Command::DeleteEvals(command) => delete_evals::delete_evals(work, command),
        Command::RegisterNode(command) => register_node::register_node(work, *command),
        Command::UpdateNodes(command) => update_nodes::update_nodes(work, &command),
        Command::ReportAllocs(command) => report_allocs::report_allocs(work, command),
        Command::DeregisterNodes(command) => deregister_nodes::deregister_nodes(work, &command),
        Command::SetEligibility(command) => set_eligibility::set_eligibility(work, &command),
        Command::UpdateDeployments(command) => update_deployments::update_deployments(work, &command),
        Command::FailDeployment(command) => fail_deployment::fail_deployment(work, command),
        Command::CollectGarbage(command) => collect_garbage::collect_garbage(work, command),
        Command::EvaluateNode(command) => evaluate_node::evaluate_node(work, command),
        Command::SetNamespace(command) => namespaces::set_namespace(work, *command),
        Command::DeleteNamespace(command) => namespaces::delete_namespace(work, &command),
        Command::SetNodePool(command) => node_pools::set_node_pool(work, *command),
        Command::DeleteNodePool(command) => node_pools::delete_node_pool(work, &command),
        Command::SetSchedulerConfig(command) => scheduler_config::set_scheduler_config(work, &command),
        Command::AddRootKey(command) => root_keys::add_root_key(work, command),
        Command::TakeLease(command) => take_lease::take_lease(work, &command),
    }
}
