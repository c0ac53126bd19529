//! Sets the health of allocations at a user's request (N-13.6, N-15.3).

use std::collections::BTreeMap;

use model::AllocId;
use model::change::AllocsChanged;
use model::columns::AllocIds;
use model::deployment::{Deployment, description};
use wire::command::{Done, Handler, SetAllocHealth};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

/// Unhealthy allocations fail the deployment. Healthy ones may let it go on, so its job is evaluated.
impl Handler<SetAllocHealth> for Work<'_> {
    fn handle(&mut self, command: SetAllocHealth) -> Result<Done, Refusal> {
        let SetAllocHealth { id, healthy, unhealthy } = command;
        if healthy.is_empty() && unhealthy.is_empty() {
            let message = "must specify at least one healthy/unhealthy allocation ID";
            return Err(refusal(RefusalKind::Invalid, message));
        }
        let forbidden = "can't set health of allocations for a terminal deployment";
        let deployment = self.active_deployment(id, forbidden)?;
        for alloc in healthy.iter().chain(&unhealthy) {
            check_alloc(self, &deployment, *alloc)?;
        }
        let reverts = unhealthy.iter().any(|alloc| reverts(self, &deployment, *alloc));
        let fails = !unhealthy.is_empty();
        let healthy = healthy.into_iter().map(|alloc| (alloc, true));
        let verdicts: BTreeMap<AllocId, bool> =
            healthy.chain(unhealthy.into_iter().map(|alloc| (alloc, false))).collect();
        let at = self.at();
        self.change_allocs(AllocsChanged {
            ids: AllocIds(verdicts.keys().copied().collect()),
            by_servers: true,
            verdicts: verdicts.into_values().map(|healthy| Some((healthy, at))).collect(),
            ..AllocsChanged::default()
        })?;
        let reverted_version = if fails {
            self.fail_deployment(&deployment, description::UNHEALTHY, reverts)?
        } else {
            self.evaluate_deployment(&deployment)?;
            None
        };
        Ok(Done { object_index: self.index(), reverted_version, ..Done::default() })
    }
}

/// Refuses an allocation that is not part of the deployment.
fn check_alloc(work: &Work<'_>, deployment: &Deployment, id: AllocId) -> Result<(), Refusal> {
    let alloc = work.state().alloc(id);
    if alloc.is_some_and(|alloc| alloc.deployment_id() == Some(deployment.id)) {
        return Ok(());
    }
    Err(refusal(RefusalKind::Invalid, format!("unknown alloc \"{id}\"")))
}

/// Whether the group of an allocation asks for the return to a stable version if the deployment fails.
fn reverts(work: &Work<'_>, deployment: &Deployment, id: AllocId) -> bool {
    let alloc = work.state().alloc(id);
    let group = alloc.and_then(|alloc| deployment.groups.get(alloc.group_name()));
    group.is_some_and(|group| group.auto_revert)
}
