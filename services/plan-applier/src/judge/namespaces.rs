//! Creates, changes and deletes namespaces (http-api §19).

use model::change::Change;
use model::cluster::Namespace;
use model::job::JobStatus;
use model::text::quoted;
use wire::command::{DeleteNamespace, Done, Handler, SetNamespace};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal, refusal_of};

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

/// Deletes a namespace, unless it is the default one or contains volumes, jobs that are not dead, or allocations that have
/// not ended on their nodes.
impl Handler<DeleteNamespace> for Work<'_> {
    fn handle(&mut self, command: DeleteNamespace) -> Result<Done, Refusal> {
        let (state, name) = (self.state(), &command.name);
        if **name == *Namespace::DEFAULT {
            return Err(refusal(RefusalKind::Invalid, "can not delete default namespace"));
        }
        if state.namespace(name).is_none() {
            return Err(refusal(RefusalKind::NotFound, "namespace not found"));
        }
        let is_in = |namespace: &str| *namespace == **name;
        let contents = [
            (
                "non-terminal jobs",
                state.jobs().any(|job| is_in(&job.spec.namespace) && job.status != JobStatus::Dead),
            ),
            (
                "non-terminal allocations",
                state
                    .allocs()
                    .any(|alloc| is_in(&alloc.job_key().namespace) && !alloc.client_status().is_terminal()),
            ),
            ("CSI volumes", state.csi_volumes().any(|volume| is_in(&volume.key.namespace))),
            ("host volumes", state.host_volumes().any(|volume| is_in(&volume.namespace))),
        ];
        let problems = contents.into_iter().filter(|(_, has_some)| *has_some);
        let problems: Vec<_> = problems
            .map(|(what, _)| format!("namespace {} has {what} in regions: [global]", quoted(name)))
            .collect();
        if !problems.is_empty() {
            return Err(refusal_of(RefusalKind::Conflict, &problems));
        }
        self.apply(Change::NamespaceDeleted(name.clone()))?;
        Ok(Done { object_index: self.index(), ..Done::default() })
    }
}
