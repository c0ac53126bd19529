//! Replaces the scheduler configuration.

use model::Index;
use model::change::Change;
use model::cluster::SchedulerConfig;
use wire::command::{Done, Handler, SetSchedulerConfig};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

impl Handler<SetSchedulerConfig> for Work<'_> {
    fn handle(&mut self, command: SetSchedulerConfig) -> Result<Done, Refusal> {
        let stored = self.state().scheduler_config();
        if let Some(enforced) = command.enforce_index {
            let found = stored.map(|stored| stored.modify_index);
            if found != Some(enforced) {
                let found = found.unwrap_or(Index::ZERO);
                let message =
                    format!("scheduler configuration has modify index {found} instead of {enforced}");
                return Err(refusal(RefusalKind::Conflict, message));
            }
        }
        let index = self.index();
        let create_index = stored.map_or(index, |stored| stored.create_index);
        let config = SchedulerConfig { create_index, modify_index: index, ..command.config };
        self.apply(Change::SchedulerConfig(config))?;
        Ok(Done { object_index: index, ..Done::default() })
    }
}
