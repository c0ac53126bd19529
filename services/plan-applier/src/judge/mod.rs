//! Judging: verifies a command against the state and computes its changes, including all consequences, at the command's own
//! index (`docs/architecture/commit-path.md`).
//!
//! Pure: the time, the index and the liveness of lease holders come from the caller. The caller also decides the order of
//! commands, what is durable, and when senders are answered. There is a file for each kind of command. Shared consequences
//! have files of their own: `work` holds a command while it is judged; `allocs`, `jobs`, `versions`, `submissions`,
//! `deployments` and `nodes` compute what follows when one of those changes.

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

/// The inputs for judging a command, besides the state.
#[derive(Clone)]
pub struct Inputs<'a> {
    /// The index of the change set, if there will be one: the index after the overlay's.
    pub index: Index,
    /// The cluster's time; never before the overlay's.
    pub at: Timestamp,
    /// The command's request id. The ids of evaluations that the command creates are derived from it.
    pub request_id: RequestId,
    /// The trace that the command belongs to. Evaluations that the command creates continue it.
    pub trace: Option<TraceContext>,
    /// Whether the holder of a lease is alive (`docs/architecture/leases.md`).
    pub is_live: &'a dyn Fn(&Lease) -> bool,
}

/// The result of judging a command.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The command changes the state. The overlay is at [`Inputs::index`] now.
    Changed {
        /// The kind of command, which names events.
        cause: Cause,
        /// The changes, in order.
        changes: Vec<Change>,
        /// The answer, once the changes are durable.
        done: Done,
    },
    /// The command has nothing to do. The overlay is unchanged.
    Unchanged(Done),
    /// The command is refused. The overlay is unchanged.
    Refused(Refusal),
}

/// Judges a command on the overlay, the state after all commands in flight. If the command changes something, its changes
/// are applied to the overlay.
///
/// Changes are applied in place: with a copy to fall back on, each command would copy everything that it changes. If a
/// command is refused after it has changed something, which is rare, `rebuild_overlay` computes the previous overlay again.
pub fn judge(
    overlay: &mut State,
    command: Command,
    inputs: &Inputs<'_>,
    rebuild_overlay: impl FnOnce() -> State,
) -> Verdict {
    let (cause, index) = (cause(&command), overlay.index());
    let mut work = Work::new(overlay, inputs);
    let done = execute(&mut work, command).and_then(|done| finish(&mut work, done));
    let changes = work.into_changes();
    match done {
        Err(refusal) => {
            if !changes.is_empty() {
                *overlay = rebuild_overlay();
            }
            Verdict::Refused(refusal)
        }
        Ok(done) if changes.is_empty() => Verdict::Unchanged(Done { index, written: false, ..done }),
        Ok(done) => {
            Verdict::Changed { cause, changes, done: Done { index: inputs.index, written: true, ..done } }
        }
    }
}

/// Writes the totals over all changes. Returns `done` with the evaluations created.
fn finish(work: &mut Work<'_>, done: Done) -> Result<Done, Refusal> {
    if work.has_changed() {
        work.write_deployments()?;
        work.write_jobs()?;
        work.write_unblocked()?;
        work.advance();
    }
    Ok(Done { evals: work.take_evals(), ..done })
}

/// The kind of a command, for the change set.
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

fn execute(work: &mut Work<'_>, command: Command) -> Result<Done, Refusal> {
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
