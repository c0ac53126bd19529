//! Deletes the registration of a service on request (http-api §21).

use model::change::Change;
use model::service::{ServiceKey, ServiceRegistration, alloc_of_registration};
use wire::command::{DeleteService, Done, Handler};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

/// The registration is found by namespace and id alone. The allocation is in the id.
impl Handler<DeleteService> for Work<'_> {
    fn handle(&mut self, command: DeleteService) -> Result<Done, Refusal> {
        let DeleteService { namespace, id } = command;
        let mut keys: Vec<ServiceKey> = Vec::new();
        if let Some(alloc) = alloc_of_registration(&id) {
            let registrations = self.state().small_objects_of::<ServiceRegistration>(alloc);
            let is_meant = |key: &&ServiceKey| key.namespace == namespace && key.id == id;
            keys.extend(registrations.map(|registration| &registration.key).filter(is_meant).cloned());
        }
        if keys.is_empty() {
            return Err(refusal(RefusalKind::NotFound, "service registration not found"));
        }
        keys.into_iter().try_for_each(|key| self.apply(Change::ServiceRegistrationDeleted(key)))?;
        Ok(Done { object_index: self.index(), ..Done::default() })
    }
}
