//! Grants a singleton's lease to a process (`docs/architecture/leases.md`).

use model::Epoch;
use model::change::Change;
use model::cluster::Lease;
use wire::command::{Done, Handler, TakeLease};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

/// The current holder keeps its lease. Another process gets it, with the next epoch, once the holder is no longer alive, or
/// once the sender reports that nobody listens in the holder's place.
impl Handler<TakeLease> for Work<'_> {
    fn handle(&mut self, command: TakeLease) -> Result<Done, Refusal> {
        let TakeLease { service, process, gone } = command;
        let mut epoch = Epoch(1);
        if let Some(lease) = self.state().lease(service) {
            if lease.holder == process {
                return Ok(Done {
                    epoch: Some(lease.epoch),
                    object_index: lease.modify_index,
                    ..Done::default()
                });
            }
            if gone != Some(lease.epoch) && (self.inputs().is_live)(lease) {
                let message = format!("{} is active as the {service}", lease.holder);
                return Err(refusal(RefusalKind::Conflict, message));
            }
            epoch = Epoch(lease.epoch.0 + 1);
        }
        let modify_index = self.index();
        self.apply(Change::Lease(Lease { service, holder: process, epoch, modify_index }))?;
        Ok(Done { epoch: Some(epoch), object_index: modify_index, ..Done::default() })
    }
}
