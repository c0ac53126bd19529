//! Judging: verifies a command against the state and computes its changes, including all consequences, at the command's own
//! index (`docs/architecture/commit-path.md`).
//!
//! Pure: the time, the index and the liveness of lease holders come from the caller. The caller also decides the order of
//! commands, what is durable, and when senders are answered. There is a file for each kind of command, in which `Work` is
//! its handler. Shared consequences have files of their own: `work` holds a command while it is judged; `allocs`, `jobs`,
//! `versions`, `submissions`, `deployments`, `nodes` and `services` compute what follows when one of those changes.

mod allocs;
mod bootstrap;
mod collect_garbage;
mod complete_drains;
mod delete_evals;
mod delete_service;
mod deployments;
mod deregister_job;
mod deregister_nodes;
mod evaluate_job;
mod evaluate_node;
mod fail_deployment;
mod host_volumes;
mod jobs;
mod launch;
mod mark_rejected_node;
mod namespaces;
mod node_pools;
mod nodes;
mod pause_deployment;
mod promote_deployment;
mod reconcile_summaries;
mod register_job;
mod register_node;
mod report_allocs;
mod revert_job;
mod root_keys;
mod scale_job;
mod scheduler_config;
mod services;
mod set_alloc_health;
mod set_eligibility;
mod submissions;
mod submit_plan;
mod take_lease;
#[cfg(test)]
mod tests;
mod transition;
mod update_deployments;
mod update_drain;
mod update_evals;
mod update_nodes;
mod update_services;
mod version_fields;
mod versions;
mod volume_claims;
mod work;

use model::change::{Cause, Change};
use model::cluster::Lease;
use model::{Index, RequestId, Timestamp, TraceContext};
use state::State;
use wire::Refusal;
use wire::command::{Command, Done};

pub use bootstrap::bootstrap;

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
    /// Settings of the process.
    pub settings: Settings,
}

/// Settings on which the consequences of commands depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How many versions without a tag are kept of a job, and how many sources (`job_tracked_versions`).
    pub versions_kept: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { versions_kept: 6 }
    }
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
    let (cause, index) = (command.info().cause, overlay.index());
    let mut work = Work::new(overlay, inputs);
    let done = command.handle_with(&mut work).and_then(|done| finish(&mut work, done));
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

/// Writes the totals over all changes. Returns `done` with the evaluations created, without those of children that were held
/// back: they are about other jobs than the command.
fn finish(work: &mut Work<'_>, done: Done) -> Result<Done, Refusal> {
    work.write_deployments()?;
    let own_evals = work.eval_count();
    if work.has_changed() {
        work.write_jobs()?;
        work.release_held()?;
        work.write_jobs()?;
        work.write_unblocked()?;
        work.advance();
    }
    let mut evals = work.take_evals();
    evals.truncate(own_evals);
    Ok(Done { evals, ..done })
}
