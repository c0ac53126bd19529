//! The start of a task: its hooks prepare it, and its driver starts it.

use std::future::Future;
use std::io;
use std::sync::Arc;

use model::Text;
use model::alloc::TaskEventKind as Event;
use model::job::{Task, TaskGroup};
use model::text::quoted;
use telemetry::{attribute, traces};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::record::{StartRecord, start_id};
use super::{KillRequested, TaskRunner};
use crate::driver::start::{Prepare, Progress, Start, TaskId};
use crate::driver::{Capabilities, Driver, NetworkMode, Running, StartError};
use crate::resources::TaskLimits;
use crate::task::env::Env;
use crate::task::hooks::chain::FailedHook;
use crate::task::hooks::{StartDraft, TaskRun};
use crate::task::interpolation::Interpolator;
use crate::task::unsupported::missing_driver;
use crate::work::spec::AllocSpec;

/// The number of bytes in a MB of memory.
const MB: u64 = 1 << 20;

/// Why a task was not started.
pub(super) enum NotStarted {
    /// It cannot be started.
    Failed {
        /// The event that says why.
        event: Event,
        /// Whether a retry may help.
        recoverable: bool,
    },
    /// It must end.
    Killed,
}

impl NotStarted {
    fn invalid(error: impl Into<Text>) -> Self {
        Self::Failed { event: Event::FailedValidation { error: error.into() }, recoverable: false }
    }

    fn not_saved(error: &io::Error) -> Self {
        let error = format!("cannot save the task's state: {error}").into();
        Self::Failed { event: Event::DriverFailure { error }, recoverable: true }
    }
}

impl From<StartError> for NotStarted {
    fn from(error: StartError) -> Self {
        Self::Failed {
            event: Event::DriverFailure { error: error.message.into() },
            recoverable: error.recoverable,
        }
    }
}

impl From<FailedHook> for NotStarted {
    fn from(FailedHook { hook, error }: FailedHook) -> Self {
        let general = Event::HookFailed { hook: hook.into(), error: error.message.into() };
        Self::Failed { event: error.event.unwrap_or(general), recoverable: error.recoverable }
    }
}

impl From<KillRequested> for NotStarted {
    fn from(KillRequested: KillRequested) -> Self {
        Self::Killed
    }
}

impl TaskRunner {
    /// Starts the task. A kill ends what hooks and the driver prepare; from then on, the start runs to its end, because a
    /// start that was cut off could leave something running.
    pub(super) async fn try_start(&self, restarts: u64) -> Result<Arc<dyn Running>, NotStarted> {
        let run = self.task_run();
        let (_, task) = parts(&run)?;
        let driver = self.driver_of(task)?;
        let (progress, mut events) = Progress::new();
        let id = task_id(&run);
        let prepared = Box::pin(async {
            let start = self.prepare(&run, &*driver, id, progress).await?;
            driver.prepare(&Prepare::of(&start)).await?;
            Ok::<_, NotStarted>(start)
        });
        let start = tokio::select! {
            biased;
            killed = self.kill_requested() => return Err(killed.into()),
            start = self.reporting(&mut events, prepared) => start?,
        };
        // The record is saved before the driver starts the task, so that it is complete at every moment of a crash.
        let id = start.id.start.clone();
        let record = StartRecord { id, restarts, handle: None };
        self.save_record(&record).await.map_err(|error| NotStarted::not_saved(&error))?;
        let span = || tracing::info_span!("start driver", { attribute::TASK_DRIVER } = &*task.driver);
        let running =
            self.reporting(&mut events, driver.start(start).instrument(traces::within(span))).await?;
        let record = StartRecord { handle: Some(running.handle()), ..record };
        if let Err(error) = self.save_record(&record).await {
            // Another agent would not find the task again, and would start it a second time.
            if let Err(error) = self.stop(&running).await {
                tracing::error!(
                    alloc.id = %run.spec.id(), task = &*self.name, error, "cannot end a task whose handle cannot be saved"
                );
            }
            running.destroy().await;
            return Err(NotStarted::not_saved(&error));
        }
        Ok(running)
    }

    /// Fetches what the start needs, as far as that can be known before the hooks have run. The start repeats what fails
    /// here, and shows why.
    pub(super) async fn prepare_early(&self) {
        let run = self.task_run();
        let Ok((_, task)) = parts(&run) else { return };
        let Ok(driver) = self.driver_of(task) else { return };
        let Ok(env) = run.env(driver.capabilities()) else { return };
        let Ok(config) = Interpolator::new(&self.context.node).fill_config(&task.config, &env) else {
            return;
        };
        let (progress, mut events) = Progress::new();
        let prepare = Prepare { id: task_id(&run), config, progress };
        if let Err(error) = self.reporting(&mut events, driver.prepare(&prepare)).await {
            tracing::debug!(
                alloc.id = %run.spec.id(), task = &*self.name, error = error.message,
                "cannot fetch early what a task needs"
            );
        }
    }

    fn driver_of(&self, task: &Task) -> Result<Arc<dyn Driver>, NotStarted> {
        let driver = self.context.drivers.get(&task.driver);
        let missing = || NotStarted::invalid(missing_driver(&task.driver));
        driver.cloned().ok_or_else(missing)
    }

    /// Runs the hooks, and completes what they have prepared.
    async fn prepare(
        &self,
        run: &TaskRun,
        driver: &dyn Driver,
        id: TaskId,
        progress: Progress,
    ) -> Result<Start, NotStarted> {
        let able = driver.capabilities();
        let mut draft = StartDraft {
            state_dir: self.driver_dir(&id.start),
            id,
            env: run.env(able).map_err(NotStarted::invalid)?,
            logs: None,
            resources: limits(&run.spec, &self.name, self.context.node.usable_mhz()),
            cgroup: None,
            mounts: Vec::new(),
            devices: Vec::new(),
            device_env: Env::new(),
        };
        self.hooks.prestart(run, &mut draft).await?;
        let (_, task) = parts(run)?;
        let network = run.setup.network.clone();
        if let Some(what) = missing_capability(able, &draft, network.is_some()) {
            return Err(NotStarted::invalid(format!("driver {} {what}", quoted(&task.driver))));
        }
        let config = Interpolator::new(&self.context.node)
            .fill_config(&task.config, &draft.env)
            .map_err(NotStarted::invalid)?;
        Ok(Start {
            id: draft.id,
            config,
            env: draft.env,
            user: Text::clone(&task.user),
            dirs: run.dirs.clone(),
            state_dir: draft.state_dir,
            logs: draft.logs,
            resources: draft.resources,
            cgroup: draft.cgroup,
            mounts: draft.mounts,
            devices: draft.devices,
            device_env: draft.device_env,
            network,
            ports: run.spec.resources().ports,
            progress,
        })
    }

    /// Does some work, and records the events that it sends meanwhile.
    async fn reporting<T>(&self, events: &mut mpsc::Receiver<Event>, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        let outcome = loop {
            tokio::select! {
                biased;
                Some(event) = events.recv() => self.updates.event(event).await,
                outcome = &mut work => break outcome,
            }
        };
        while let Ok(event) = events.try_recv() {
            self.updates.event(event).await;
        }
        outcome
    }
}

/// The group and the task, as the job describes them.
fn parts(run: &TaskRun) -> Result<(&TaskGroup, &Task), NotStarted> {
    run.job_parts().map_err(|error| NotStarted::invalid(error.message))
}

fn task_id(run: &TaskRun) -> TaskId {
    let job = &run.spec.job.spec;
    TaskId {
        alloc: run.spec.id(),
        alloc_name: run.spec.name(),
        job: Text::clone(&job.id),
        namespace: Text::clone(&job.namespace),
        group: Text::clone(&run.spec.common.task_group),
        task: Text::clone(&run.name),
        start: start_id(),
    }
}

/// What a task may use, as it was assigned to the allocation.
fn limits(spec: &AllocSpec, task: &str, node_mhz: u64) -> TaskLimits {
    let resources = spec.resources();
    let Some(own) = resources.tasks.into_iter().find(|own| own.name == *task) else {
        return TaskLimits { node_mhz, ..TaskLimits::default() };
    };
    TaskLimits {
        cpu_shares: own.cpu_mhz.into(),
        node_mhz,
        cores: own.cores,
        memory_bytes: u64::from(own.memory_mb) * MB,
        // A negative value is no limit.
        memory_max_bytes: u64::try_from(own.memory_max_mb).map_or(u64::MAX, |mb| mb.saturating_mul(MB)),
        pids_max: None,
    }
}

/// What a start needs that the driver cannot do.
fn missing_capability(able: Capabilities, draft: &StartDraft, has_network: bool) -> Option<&'static str> {
    if !draft.mounts.is_empty() && !able.mounts {
        return Some("cannot mount volumes into its tasks");
    }
    if !draft.devices.is_empty() && !able.devices {
        return Some("cannot give devices to its tasks");
    }
    match has_network {
        true if !able.networks.contains(&NetworkMode::Group) => {
            Some("cannot start tasks in the network of their group")
        }
        false if !able.networks.contains(&NetworkMode::Host) => {
            Some("cannot start tasks in the network of the node")
        }
        true | false => None,
    }
}
