//! Sets the desired transition of allocations, and evaluates their jobs (N-22.3, R-1.11, R-1.12).

use std::collections::BTreeMap;

use model::change::AllocsChanged;
use model::columns::AllocIds;
use wire::command::{Done, Handler, Transition};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

/// Allocations that do not exist any more are skipped, unless that is all of them.
impl Handler<Transition> for Work<'_> {
    fn handle(&mut self, command: Transition) -> Result<Done, Refusal> {
        let mut ids = Vec::new();
        let mut jobs = BTreeMap::new();
        for alloc in command.allocs.iter().filter_map(|id| self.state().alloc(*id)) {
            ids.push(alloc.id());
            let spec = &alloc.job().spec;
            jobs.entry(alloc.job_key().clone()).or_insert((spec.kind, spec.priority));
        }
        if ids.is_empty() {
            return Err(refusal(RefusalKind::NotFound, "alloc not found"));
        }
        self.change_allocs(AllocsChanged {
            ids: AllocIds(ids),
            by_servers: true,
            transition: Some(command.transition),
            ..AllocsChanged::default()
        })?;
        for (job, (kind, priority)) in jobs {
            self.create_eval(&job, kind, priority, command.trigger.clone(), |_| {})?;
        }
        Ok(Done { object_index: self.index(), ..Done::default() })
    }
}
