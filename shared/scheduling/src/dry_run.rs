//! Dry runs: what registering a job would change (`docs/rules/scheduling.md` §10.1). Nothing is written to the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::alloc::AllocMetric;
use model::change::Change;
use model::eval::{EvalStatus, EvalTrigger, Evaluation, PlanAnnotations};
use model::job::{Job, JobSpec};
use model::{EvalId, Index, Text, Timestamp};
use state::{Stamp, State};

use crate::{Attempt, NewId, Proposal, schedule};

/// The index at which a job that does not exist is assumed to be registered.
const NEW_JOB_INDEX: Index = Index(100);

/// The result of a dry run.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// Changes that would be made.
    pub annotations: PlanAnnotations,
    /// Metrics of groups that could not be placed.
    pub failed_groups: BTreeMap<Text, AllocMetric>,
    /// Evaluations that would be created.
    pub creates: Vec<Evaluation>,
    /// The index at which the existing job was last changed; 0 if there is none. A registration that names this index
    /// succeeds only if the job has not changed since.
    pub job_modify_index: Index,
    /// The existing job.
    pub existing: Option<Arc<Job>>,
}

/// Computes the result of registering `spec`, on a snapshot. For `rollouts` see [`Attempt`].
///
/// Periodic and parameterized jobs are treated like any other, although registering them would place nothing.
pub fn dry_run(
    state: &State,
    spec: &Arc<JobSpec>,
    now: Timestamp,
    rollouts: bool,
    new_id: NewId<'_>,
) -> DryRun {
    let existing = state.job(&spec.key()).cloned();
    let is_changed = existing.as_ref().is_none_or(|existing| existing.spec != *spec);
    let mut tried = state.clone();
    if is_changed {
        let stamp = Stamp { index: state.index().next(), at: state.at(), request_id: None };
        let job = Change::Job(Arc::new(registered(existing.as_deref(), spec, now)));
        tried.apply_change(&job, stamp).expect("a job change applies to every state");
        tried.advance(stamp);
    }
    let id = EvalId::from_bytes(new_id());
    let eval = Evaluation {
        annotate_plan: true,
        job_modify_index: match &existing {
            Some(existing) if is_changed => existing.job_modify_index.next(),
            Some(_) | None => Index::ZERO,
        },
        ..Evaluation::new(id, spec.key(), spec.kind, spec.priority, EvalTrigger::JobRegister)
    };
    let attempt =
        Attempt { state: &tried, eval: &eval, now, attempts_without_progress: 0, rollouts, explain: true };
    let Proposal { outcome, .. } = schedule(&attempt, new_id);
    // A blocked evaluation names the job as the evaluation of the plan does (http-api A.9): not at all if the job is new or
    // would not change.
    let as_planned = |created: Evaluation| {
        let is_blocked = created.status == EvalStatus::Blocked;
        let job_modify_index = if is_blocked { eval.job_modify_index } else { created.job_modify_index };
        Evaluation { job_modify_index, ..created }
    };
    let after = *outcome.eval;
    DryRun {
        annotations: after.annotations.map(|annotations| *annotations).unwrap_or_default(),
        failed_groups: after.failed_groups,
        creates: outcome.creates.into_iter().map(as_planned).collect(),
        job_modify_index: existing.as_ref().map_or(Index::ZERO, |existing| existing.job_modify_index),
        existing,
    }
}

/// The job version that registering would create.
fn registered(existing: Option<&Job>, spec: &Arc<JobSpec>, now: Timestamp) -> Job {
    let index = existing.map_or(NEW_JOB_INDEX, |existing| existing.job_modify_index.next());
    Job::next_version(existing, Arc::clone(spec), index, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, Scene};

    fn try_out(scene: &Scene, edit: impl FnOnce(&mut JobSpec)) -> DryRun {
        let state = scene.state();
        let mut spec = scene.job_spec();
        edit(&mut spec);
        let mut number = 0u128;
        let mut new_id = || {
            number += 1;
            number.to_be_bytes()
        };
        let before = state.index();
        let found = dry_run(&state, &Arc::new(spec), NOW, true, &mut new_id);
        assert_eq!(state.index(), before, "a dry run does not change the snapshot");
        found
    }

    #[test]
    fn a_new_job_would_be_placed() {
        let run = try_out(&Scene::default().node(1, 4_000, 8_000), |spec| spec.id = "another".into());
        assert_eq!(run.annotations.desired_updates["web"].place, 1);
        assert_eq!((run.job_modify_index, run.existing), (Index::ZERO, None));
    }

    #[test]
    fn a_job_that_does_not_change_is_left_alone() {
        let run = try_out(&Scene::default().node(1, 4_000, 8_000).running(0, 1), |_| {});
        assert_eq!(run.annotations.desired_updates["web"].ignore, 1);
        assert_eq!(run.job_modify_index, Index(10));
    }

    #[test]
    fn groups_that_would_find_no_room_are_reported() {
        let scene = Scene::default().node(1, 4_000, 8_000).running(0, 1);
        let run = try_out(&scene, |spec| spec.task_groups[0].tasks[0].resources.cpu_mhz = 5_000);
        assert_eq!(run.failed_groups.keys().map(|group| &**group).collect::<Vec<_>>(), ["web"]);
        assert_eq!(run.creates.len(), 1, "a blocked evaluation would be created");
        assert_eq!(run.creates[0].job_modify_index, Index(11), "the index of the changed job");
    }

    // http-api A.9
    #[test]
    fn blocked_evaluations_of_new_and_unchanged_jobs_name_no_index() {
        let scene = Scene::default().node(1, 4_000, 8_000);
        let without_room = |spec: &mut JobSpec| spec.task_groups[0].tasks[0].resources.cpu_mhz = 5_000;
        let new = try_out(&scene, |spec| {
            spec.id = "another".into();
            without_room(spec);
        });
        let unchanged = try_out(&Scene::default(), |_| {});
        for run in [new, unchanged] {
            let indexes: Vec<Index> = run.creates.iter().map(|created| created.job_modify_index).collect();
            assert_eq!(indexes, [Index::ZERO]);
        }
    }
}
