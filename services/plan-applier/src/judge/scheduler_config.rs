//! Replaces the scheduler configuration.

use model::Index;
use model::change::Change;
use model::cluster::SchedulerConfig;
use wire::command::{Done, SetSchedulerConfig};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

pub(super) fn set_scheduler_config(
    work: &mut Work<'_>,
    command: &SetSchedulerConfig,
) -> Result<Done, Refusal> {
    let stored = work.state().scheduler_config();
    if let Some(enforced) = command.enforce_index {
        let found = stored.map(|stored| stored.modify_index);
        if found != Some(enforced) {
            let found = found.unwrap_or(Index::ZERO);
            let message = format!("scheduler configuration has modify index {found} instead of {enforced}");
            return Err(refusal(RefusalKind::Conflict, message));
        }
    }
    let index = work.index();
    let create_index = stored.map_or(index, |stored| stored.create_index);
    let config = SchedulerConfig { create_index, modify_index: index, ..command.config };
    work.apply(Change::SchedulerConfig(config))?;
    Ok(Done { object_index: index, ..Done::default() })
}
