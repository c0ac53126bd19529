//! Registers a job: as a new version, or, if its specification is unchanged, only with an evaluation (N-17.11 to N-17.17).

use std::sync::Arc;

use model::Index;
use model::eval::EvalTrigger;
use model::features::Feature;
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
    check_references(work, &command.spec)?;
    check_index(command.enforce_index, current.as_deref())?;
    check_kind(&command.spec, current.as_deref())?;
    let spec = match &current {
        Some(current) => preserve(&command, &current.spec),
        None => command.spec,
    };
    match current.filter(|current| current.spec == spec) {
        None => work.write_version(Arc::clone(&spec), command.source)?,
        // An existing version without a source may get one; an existing source is not replaced.
        Some(current) if command.source.is_some() => {
            work.store_source(&current.version_key(), current.job_modify_index, command.source)?;
        }
        Some(_) => {}
    }
    let registered = work.state().job(&key).cloned().expect("the job exists, or has just been written");
    if !is_template(&registered) {
        let priority = command.eval_priority.filter(|priority| *priority > 0).unwrap_or(spec.priority);
        work.create_eval(&key, spec.kind, priority, EvalTrigger::JobRegister, |_| {})?;
    }
    Ok(Done { object_index: job_modify_index(work.state(), &key), ..Done::default() })
}

/// Refuses a job whose namespace or node pool does not exist (N-17.17).
fn check_references(work: &Work<'_>, spec: &JobSpec) -> Result<(), Refusal> {
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

/// Refuses a registration whose enforced index is not the job's modify index (N-17.11).
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

/// Refuses changes that a registration may not make to a job (N-17.12), and kinds of jobs that are not built.
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
    // Their jobs would never be launched (N-23, N-24). A stopped job launches none.
    let missing = Feature::first_missing([
        (Feature::PeriodicJobs, spec.periodic.is_some()),
        (Feature::ParameterizedJobs, spec.parameterized_job.is_some() && !spec.dispatched),
    ]);
    match missing {
        Some(feature) if !spec.stop => invalid(feature.refusal()),
        Some(_) | None => Ok(()),
    }
}

/// The specification, with counts and resources of the stored one if the command preserves them (N-17.15).
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
