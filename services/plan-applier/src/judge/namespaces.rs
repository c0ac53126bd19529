//! Creates, changes and deletes namespaces (http-api §19).

use model::change::Change;
use model::cluster::Namespace;
use model::job::JobStatus;
use wire::command::{DeleteNamespace, Done, Handler, SetNamespace};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

/// Maximum number of ids that a refusal lists.
const NAMED_MAX: usize = 10;

impl Handler<SetNamespace> for Work<'_> {
    fn handle(&mut self, command: SetNamespace) -> Result<Done, Refusal> {
        let index = self.index();
        let stored = self.state().namespace(&command.namespace.name);
        let create_index = stored.map_or(index, |stored| stored.create_index);
        let namespace = Namespace { create_index, modify_index: index, ..command.namespace };
        self.apply(Change::Namespace(Box::new(namespace)))?;
        Ok(Done { object_index: index, ..Done::default() })
    }
}

/// Deletes a namespace, unless it is the default one or contains volumes, or jobs or allocations that are not terminal.
impl Handler<DeleteNamespace> for Work<'_> {
    fn handle(&mut self, command: DeleteNamespace) -> Result<Done, Refusal> {
        let (state, name) = (self.state(), &command.name);
        if **name == *Namespace::DEFAULT {
            return Err(refusal(RefusalKind::Invalid, "can not delete default namespace"));
        }
        if state.namespace(name).is_none() {
            return Err(refusal(RefusalKind::NotFound, "namespace not found"));
        }
        let jobs = state.jobs().filter(|job| job.spec.namespace == *name && job.status != JobStatus::Dead);
        let jobs: Vec<_> = jobs.take(NAMED_MAX).map(|job| job.spec.id.to_string()).collect();
        if !jobs.is_empty() {
            let what = jobs.join(", ");
            let message = format!("namespace {name:?} has non-terminal jobs: {what}");
            return Err(refusal(RefusalKind::Conflict, message));
        }
        let is_live = |namespace: &str| *namespace == **name;
        let allocs =
            state.allocs().filter(|alloc| is_live(&alloc.job_key().namespace) && !alloc.is_terminal());
        let allocs: Vec<_> = allocs.take(NAMED_MAX).map(|alloc| alloc.id().to_string()).collect();
        if !allocs.is_empty() {
            let message = format!("namespace {name:?} has non-terminal allocations: {}", allocs.join(", "));
            return Err(refusal(RefusalKind::Conflict, message));
        }
        let has_volumes = state.csi_volumes().any(|volume| is_live(&volume.key.namespace))
            || state.host_volumes().any(|volume| is_live(&volume.namespace));
        if has_volumes {
            return Err(refusal(RefusalKind::Conflict, format!("namespace {name:?} has volumes")));
        }
        self.apply(Change::NamespaceDeleted(name.clone()))?;
        Ok(Done { object_index: self.index(), ..Done::default() })
    }
}
