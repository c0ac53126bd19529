//! Registers the services of a task after each start, and withdraws them before each end.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use model::Text;
use model::alloc::TaskEventKind;
use model::text::quoted;

use super::{HookError, TaskHook, TaskRun};
use crate::driver::{DriverNetwork, Running};
use crate::services::desired::Owner;
use crate::services::{Advertised, Registering};
use crate::task::advertised;

/// The name of the hook.
const NAME: &str = "task_services";

/// The hook.
#[derive(Default)]
pub(super) struct TaskServices {
    /// The network that the driver gave the running task.
    network: Mutex<Option<DriverNetwork>>,
}

impl TaskServices {
    /// Registers the services as the job describes them now. Users see a failure among the events of the task.
    async fn register(&self, run: &TaskRun) -> Result<(), HookError> {
        let network = self.network.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let services = &run.context.services;
        let registered = match found(run, network.as_ref()) {
            Ok(found) => services.register(&Registering {
                alloc: run.spec.id(),
                owner: owner(run),
                name: &run.name,
                is_canary: run.spec.work.canary,
                services: &found,
            }),
            Err(error) => {
                // What was registered before the change must not stay.
                services.ended(run.spec.id(), &owner(run));
                Err(error)
            }
        };
        if let Err(error) = &registered {
            let (hook, error) = (NAME.into(), error.as_str().into());
            run.event(TaskEventKind::HookFailed { hook, error }).await;
        }
        registered.map_err(HookError::recoverable)
    }
}

#[async_trait]
impl TaskHook for TaskServices {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn poststart(&self, run: &TaskRun, running: &Arc<dyn Running>) -> Result<(), HookError> {
        *self.network.lock().unwrap_or_else(PoisonError::into_inner) = running.network();
        self.register(run).await
    }

    async fn update(&self, run: &TaskRun) -> Result<(), HookError> {
        self.register(run).await
    }

    async fn pre_kill(&self, run: &TaskRun) {
        run.context.services.withdraw(run.spec.id(), owner(run)).await;
    }

    async fn exited(&self, run: &TaskRun) -> Result<(), HookError> {
        run.context.services.ended(run.spec.id(), &owner(run));
        Ok(())
    }

    async fn stop(&self, run: &TaskRun) -> Result<(), HookError> {
        run.context.services.ended(run.spec.id(), &owner(run));
        Ok(())
    }
}

/// The services of the task, with their names filled in and their addresses.
fn found(run: &TaskRun, driver_network: Option<&DriverNetwork>) -> Result<Vec<Advertised>, String> {
    let (_, task) = run.job_parts().map_err(|error| error.message)?;
    if task.services.is_empty() {
        return Ok(Vec::new());
    }
    let missing = || format!("driver {} is not on this node", quoted(&task.driver));
    let able = run.context.drivers.get(&task.driver).ok_or_else(missing)?.capabilities();
    let (env, node, network) = (run.env(able)?, &run.context.node, run.setup.network.as_deref());
    advertised::of_task(&run.spec, task, node, &env, network, driver_network)
}

fn owner(run: &TaskRun) -> Owner {
    Owner::Task(Text::clone(&run.name))
}
