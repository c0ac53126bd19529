//! Scales a task group, or only records that somebody wanted to (N-26).

use std::sync::Arc;

use model::eval::EvalTrigger;
use model::job::{Job, JobSpec, JobType, SCALING_EVENTS_MAX, ScalingEvent, ScalingEvents, TaskGroup};
use model::text::quoted;
use model::{EvalId, JobKey, Text};
use wire::command::{Done, Handler, SCALING_NOTE_BYTES_MAX, ScaleJob};
use wire::{Refusal, RefusalKind};

use super::register_job::check_index;
use super::submissions::NewSource;
use super::versions::job_modify_index;
use super::work::{Work, refusal};

impl Handler<ScaleJob> for Work<'_> {
    fn handle(&mut self, command: ScaleJob) -> Result<Done, Refusal> {
        let key = &command.job;
        let Some(job) = self.state().job(key).cloned() else {
            return Err(refusal(RefusalKind::NotFound, format!("job {} not found", quoted(&key.id))));
        };
        let previous_count = check(self, &job, &command)?;
        let eval_id = match command.count {
            Some(count) => scale(self, &job, &command.group, count)?,
            None => None,
        };
        let ScaleJob { job: key, group, count, message, error, meta, .. } = command;
        let (at, create_index) = (self.at(), self.index());
        let event = ScalingEvent { at, count, previous_count, message, error, meta, eval_id, create_index };
        record(self, &key, &group, event);
        // The event may be the only change, and totals are written at the end only if something else has changed.
        self.write_jobs()?;
        Ok(Done { object_index: job_modify_index(self.state(), &key), ..Done::default() })
    }
}

/// Refuses a request that may not be, in the order of N-26.2. Returns the count of the group.
fn check(work: &Work<'_>, job: &Job, command: &ScaleJob) -> Result<u32, Refusal> {
    let invalid = |message: String| Err(refusal(RefusalKind::Invalid, message));
    if command.note_bytes() > SCALING_NOTE_BYTES_MAX {
        return invalid(format!(
            "message and metadata of a scaling event may have {SCALING_NOTE_BYTES_MAX} bytes at most"
        ));
    }
    if job.spec.kind == JobType::System && command.count.is_some_and(|count| count > 1) {
        return invalid("jobs of type \"system\" can only be scaled between 0 and 1".to_owned());
    }
    let Some((_, group)) = job.spec.group(&command.group) else {
        let group = quoted(&command.group);
        return invalid(format!("task group {group} specified for scaling does not exist in job"));
    };
    if let Some(count) = command.count {
        if let Some(problem) = out_of_bounds(group, i64::from(count)) {
            return invalid(problem);
        }
        let groups = job.spec.task_groups.iter().filter(|other| other.name != group.name);
        let others = groups.map(|other| u64::from(other.count));
        let total = others.fold(u64::from(count), u64::saturating_add);
        if total > u64::from(command.count_max) {
            let max = command.count_max;
            return invalid(format!(
                "total count was greater than configured job_max_count: {total} > {max}"
            ));
        }
        let is_rolling_out = work.state().latest_deployment(&command.job).is_some_and(|deployment| {
            deployment.job.create_index == job.create_index && !deployment.status.is_terminal()
        });
        if is_rolling_out {
            return invalid("job scaling blocked due to active deployment".to_owned());
        }
    }
    check_index(command.enforce_index, Some(job))?;
    Ok(group.count)
}

/// What is wrong with a count according to the group's scaling policy.
fn out_of_bounds(group: &TaskGroup, count: i64) -> Option<String> {
    let policy = group.scaling.as_deref()?;
    if let Some(min) = policy.min.filter(|min| count < *min) {
        return Some(format!("group count was less than scaling policy minimum: {count} < {min}"));
    }
    let max = policy.max.filter(|max| count > *max)?;
    Some(format!("group count was greater than scaling policy maximum: {count} > {max}"))
}

/// Writes a version with the new count, also if it is the old one, and evaluates the job (N-26.3). The version has the
/// source of the one before.
fn scale(work: &mut Work<'_>, job: &Job, group: &Text, count: u32) -> Result<Option<EvalId>, Refusal> {
    let mut spec = JobSpec::clone(&job.spec);
    for scaled in spec.task_groups.iter_mut().filter(|scaled| scaled.name == *group) {
        scaled.count = count;
    }
    let spec = Arc::new(spec);
    work.write_version(Arc::clone(&spec), NewSource::Previous)?;
    if spec.template().is_some() {
        return Ok(None);
    }
    let eval = work.create_eval(&spec.key(), spec.kind, spec.priority, EvalTrigger::JobScaling, |_| {})?;
    Ok(Some(eval))
}

/// Records an event as the group's newest (N-26.4). Events of groups that the job does not have any more are forgotten.
fn record(work: &mut Work<'_>, key: &JobKey, group: &Text, event: ScalingEvent) {
    let Some(job) = work.state().job(key).cloned() else { return };
    let Some(touched) = work.touch_job(key) else { return };
    let mut events = touched.summary.scaling_events.take().map(Arc::unwrap_or_clone).unwrap_or_default();
    insert(&mut events, group, event);
    events.retain(|name, _| job.spec.group(name).is_some());
    touched.summary.scaling_events = Some(Arc::new(events));
}

fn insert(events: &mut ScalingEvents, group: &Text, event: ScalingEvent) {
    let of_group = events.entry(Text::clone(group)).or_default();
    of_group.insert(0, event);
    of_group.truncate(SCALING_EVENTS_MAX);
}
