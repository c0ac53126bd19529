//! A job is registered: a new version of it, or only another look where nothing changed (N-17.11 to N-17.17).

use std::sync::Arc;

use model::Index;
use model::eval::EvalTrigger;
use model::job::{Job, JobSpec};
use wire::command::{Done, RegisterJob};
use wire::{Refusal, RefusalKind};

use super::jobs::is_template;
use super::versions::job_modify_index;
use super::work::{Work, refusal};

pub(super) fn register_job(work: &mut Work<'_>, command: RegisterJob) -> Result<Done, Refusal> {
    if let Err(error) = command.spec.task_groups.check() {
        return Err(refusal(RefusalKind::Invalid, error.to_string()));
    }
    let key = command.spec.key();
    let current = work.state().job(&key).cloned();
    check_surroundings(work, &command.spec)?;
    check_index(command.enforce_index, current.as_deref())?;
    check_kind(&command.spec, current.as_deref())?;
    let spec = match &current {
        Some(current) => preserve(&command, &current.spec),
        None => command.spec,
    };
    match current.filter(|current| current.spec == spec) {
        None => work.write_version(Arc::clone(&spec), command.source)?,
        // A version that is there already may get a source, but no other one.
        Some(current) if command.source.is_some() => {
            work.keep_source(&current.version_key(), current.job_modify_index, command.source)?;
        }
        Some(_) => {}
    }
    let registered = work.state().job(&key).cloned().expect("it was there, or has just been written");
    if !is_template(&registered) {
        let priority = command.eval_priority.filter(|priority| *priority > 0).unwrap_or(spec.priority);
        work.make_eval(&key, spec.kind, priority, EvalTrigger::JobRegister, |_| {})?;
    }
    Ok(Done { object_index: job_modify_index(work.state(), &key), ..Done::default() })
}

/// Refuses what the job cannot live in (N-17.17).
fn check_surroundings(work: &Work<'_>, spec: &JobSpec) -> Result<(), Refusal> {
    let JobSpec { id, namespace, node_pool, .. } = spec;
    let missing = if work.state().namespace(namespace).is_none() {
        format!("job \"{id}\" is in nonexistent namespace \"{namespace}\"")
    } else if work.state().node_pool(node_pool).is_none() {
        format!("job \"{id}\" is in nonexistent node pool \"{node_pool}\"")
    } else {
        return Ok(());
    };
    Err(refusal(RefusalKind::Invalid, missing))
}

/// Refuses a registration for another state of the job than it is in (N-17.11).
fn check_index(enforced: Option<Index>, current: Option<&Job>) -> Result<(), Refusal> {
    let Some(enforced) = enforced else { return Ok(()) };
    let conflict = match current {
        None if !enforced.is_set() => return Ok(()),
        None => "job does not exist".to_owned(),
        Some(_) if !enforced.is_set() => "job already exists".to_owned(),
        Some(current) if current.job_modify_index == enforced => return Ok(()),
        Some(current) => {
            format!("job exists with conflicting job modify index: {}", current.job_modify_index)
        }
    };
    Err(refusal(RefusalKind::Conflict, format!("Enforcing job modify index {enforced}: {conflict}")))
}

/// Refuses what a registration may not make of a job (N-17.12), and kinds of jobs that are not built.
fn check_kind(spec: &JobSpec, current: Option<&Job>) -> Result<(), Refusal> {
    let invalid = |message: String| Err(refusal(RefusalKind::Invalid, message));
    match current {
        None if spec.dispatched => return invalid("job can't be submitted with 'Dispatched' set".to_owned()),
        None => {}
        Some(Job { spec: current, .. }) => {
            if spec.kind != current.kind {
                return invalid(format!(
                    "cannot update job from type \"{}\" to \"{}\"",
                    current.kind, spec.kind
                ));
            }
            let templates = [
                ("periodic", current.periodic.is_some(), spec.periodic.is_some()),
                ("parameterized", current.parameterized_job.is_some(), spec.parameterized_job.is_some()),
            ];
            for (word, was, is) in templates {
                if was && !is {
                    return invalid(format!("cannot update {word} job to being non-{word}"));
                }
                if is && !was {
                    return invalid(format!("cannot update non-{word} job to being {word}"));
                }
            }
            if spec.dispatched != current.dispatched {
                return invalid("cannot change whether a job is dispatched".to_owned());
            }
        }
    }
    // Their launches would never come (N-23, N-24); a stopped one waits for none.
    if !spec.stop && spec.periodic.is_some() {
        return invalid("periodic jobs are not built yet".to_owned());
    }
    if !spec.stop && spec.parameterized_job.is_some() && !spec.dispatched {
        return invalid("parameterized jobs are not built yet".to_owned());
    }
    Ok(())
}

/// The specification with what of the stored one is to stay (N-17.15).
fn preserve(command: &RegisterJob, stored: &JobSpec) -> Arc<JobSpec> {
    let mut spec = Arc::clone(&command.spec);
    if !command.preserve_counts && !command.preserve_resources {
        return spec;
    }
    for group in &mut Arc::make_mut(&mut spec).task_groups {
        let Some((_, old)) = stored.group(&group.name) else { continue };
        if command.preserve_counts {
            group.count = old.count;
        }
        if command.preserve_resources {
            for task in &mut group.tasks {
                if let Some(old) = old.tasks.iter().find(|old| old.name == task.name) {
                    task.resources = old.resources.clone();
                }
            }
        }
    }
    spec
}
