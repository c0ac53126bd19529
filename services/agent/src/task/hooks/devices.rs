//! Gives a task the devices that the schedulers assigned to it.

use async_trait::async_trait;

use super::{HookError, StartDraft, TaskHook, TaskRun};
use crate::devices::Reservation;

/// The hook.
pub(super) struct Devices;

#[async_trait]
impl TaskHook for Devices {
    fn name(&self) -> &'static str {
        "devices"
    }

    async fn prestart(&self, run: &TaskRun, draft: &mut StartDraft) -> Result<(), HookError> {
        let resources = run.spec.resources();
        let own = resources.tasks.iter().find(|own| own.name == run.name);
        let Some(own) = own.filter(|own| !own.devices.is_empty()) else { return Ok(()) };
        // The node may have lost a device after the servers assigned it, and may find it again.
        let reserved = run.context.devices.reserve(&own.devices);
        let Reservation { env, mounts, devices } =
            reserved.map_err(|error| HookError::recoverable(error.to_string()))?;
        draft.env.extend(env);
        draft.mounts.extend(mounts);
        draft.devices.extend(devices);
        Ok(())
    }
}
