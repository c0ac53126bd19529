//! Registers a job: as a new version, or, if its specification is unchanged, only with an evaluation (N-17.11 to N-17.17).

use std::sync::Arc;

use model::Index;
use model::eval::EvalTrigger;
use model::job::{Job, JobSpec};
use wire::command::{Done, Handler, RegisterJob};
use wire::{Refusal, RefusalKind};

use super::submissions::NewSource;
use super::versions::job_modify_index;
use super::work::{Work, refusal};

impl Handler<RegisterJob> for Work<'_> {
    fn handle(&mut self, command: RegisterJob) -> Result<Done, Refusal> {
        if let Err(error) = command.spec.task_groups.check() {
            return Err(refusal(RefusalKind::Invalid, error.to_string()));
        }
        let key = command.spec.key();
        let current = self.state().job(&key).cloned();
        if let Some(missing) = self.state().missing_references(&key, &command.spec.node_pool).next() {
            return Err(refusal(RefusalKind::Invalid, missing.to_string()));
        }
        check_index(command.enforce_index, current.as_deref())?;
        let stored = current.as_ref().map(|current| &*current.spec);
        if let Err(forbidden) = command.spec.check_change(stored) {
            return Err(refusal(RefusalKind::Invalid, forbidden.to_string()));
        }
        let spec = match &current {
            Some(current) => preserve(&command, &current.spec),
            None => command.spec,
        };
        match current.filter(|current| current.spec == spec) {
            None => {
                let source = command.source.map_or(NewSource::Previous, NewSource::Given);
                self.write_version(Arc::clone(&spec), source)?;
            }
            // An existing version without a source may get one; an existing source is not replaced.
            Some(current) => {
                if let Some(source) = command.source {
                    let (version, index) = (current.version_key(), current.job_modify_index);
                    self.store_source(&version, index, NewSource::Given(source))?;
                }
            }
        }
        let priority = command.eval_priority.filter(|priority| *priority > 0).unwrap_or(spec.priority);
        registered(self, &spec, priority)
    }
}

/// Evaluates a job that has been registered with this specification, and answers (N-17.16).
pub(super) fn registered(work: &mut Work<'_>, spec: &JobSpec, priority: u16) -> Result<Done, Refusal> {
    let key = spec.key();
    if spec.template().is_none() {
        work.create_eval(&key, spec.kind, priority, EvalTrigger::JobRegister, |_| {})?;
    }
    Ok(Done { object_index: job_modify_index(work.state(), &key), ..Done::default() })
}

/// Refuses a registration whose enforced index is not the job's modify index (N-17.11).
pub(super) fn check_index(enforced: Option<Index>, current: Option<&Job>) -> Result<(), Refusal> {
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
