//! Hooks of tasks: each prepares one thing that a task needs, in a file of its own, and takes it back. The runner
//! calls them in the order of [`all`], and knows none of them.
//!
//! A hook may be interrupted at every point and runs again after a restart of the agent: what it does, it finds done.
//! What it must know of earlier runs is in a file of its own ([`TaskRun::file`]).

mod artifacts;
mod cgroups;
pub(crate) mod chain;
mod check_restarts;
mod devices;
mod dispatch_payload;
mod logs;
mod places;
mod task_dir;
mod task_services;
mod templates;
mod validate;
mod volumes;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use model::Text;
use model::alloc::TaskEventKind;
use model::job::{Task, TaskGroup};

use self::artifacts::Artifacts;
use self::cgroups::Cgroups;
use self::chain::TaskHooks;
use self::check_restarts::CheckRestarts;
use self::devices::Devices;
use self::dispatch_payload::DispatchPayload;
use self::logs::Logs;
use self::task_dir::TaskDir;
use self::task_services::TaskServices;
use self::templates::Templates;
use self::validate::Validate;
use self::volumes::Volumes;
use super::commands::HookRequests;
use super::env::{self, Env};
use super::setup::AllocSetup;
use super::updates::Updates;
use crate::account::Account;
use crate::cgroups::TaskCgroup;
use crate::context::Context;
use crate::disk::dirs::TaskDirs;
use crate::disk::logs::LogFiles;
use crate::driver::start::{Device, Mount, TaskId};
use crate::driver::{Capabilities, Isolation, Running, StartError};
use crate::resources::TaskLimits;
use crate::work::spec::AllocSpec;

/// The hooks of a task, in their order.
pub(crate) fn all() -> TaskHooks {
    TaskHooks::new(vec![
        Box::new(Validate),
        Box::new(TaskDir),
        Box::new(Logs),
        Box::new(DispatchPayload),
        Box::new(Volumes),
        Box::new(Artifacts),
        Box::new(Cgroups),
        Box::new(Devices),
        Box::new(Templates::default()),
        // Before services are withdrawn, which may take a while: their checks must not restart a task that is ending.
        Box::new(CheckRestarts),
        Box::new(TaskServices::default()),
    ])
}

/// A hook of a task.
#[async_trait]
pub(crate) trait TaskHook: Send + Sync {
    /// Its name, as lists it.
    fn name(&self) -> &'static str;

    /// Runs before each start of the task. It is cancelled if the task must end.
    async fn prestart(&self, _: &TaskRun, _: &mut StartDraft) -> Result<(), HookError> {
        Ok(())
    }

    /// Runs after each start, and when a restarted agent has found the running task.
    async fn poststart(&self, _: &TaskRun, _: &Arc<dyn Running>) -> Result<(), HookError> {
        Ok(())
    }

    /// Runs when the servers have changed the allocation while the task runs. At other times the next start sees the change.
    async fn update(&self, _: &TaskRun) -> Result<(), HookError> {
        Ok(())
    }

    /// Runs before the task is ended, also for a restart.
    async fn pre_kill(&self, _: &TaskRun) {}

    /// Runs after each end of the task, and after a start that failed or was cancelled.
    async fn exited(&self, _: &TaskRun) -> Result<(), HookError> {
        Ok(())
    }

    /// Runs after the last end of the task, also if it never started, or ended before a restart of the agent.
    async fn stop(&self, _: &TaskRun) -> Result<(), HookError> {
        Ok(())
    }
}

/// A task, as its hooks see it.
pub(crate) struct TaskRun {
    /// The agent's shared values.
    pub(crate) context: Arc<Context>,
    /// The task's name.
    pub(crate) name: Text,
    /// The allocation, as the servers describe it now.
    pub(crate) spec: Arc<AllocSpec>,
    /// What the allocation has prepared.
    pub(crate) setup: Arc<AllocSetup>,
    /// The task's directories.
    pub(crate) dirs: TaskDirs,
    /// The user that the task runs as; `None` if there is no such user. The driver refuses the task then.
    pub(crate) account: Option<Account>,
    /// What the hooks ask the task's runner to do.
    pub(crate) requests: HookRequests,
    pub(super) updates: Updates,
}

/// What a task will be started with. Hooks add to it.
#[derive(Debug, Clone)]
pub(crate) struct StartDraft {
    /// Which start it is.
    pub(crate) id: TaskId,
    /// A directory for the driver's data about the task. It does not exist yet.
    pub(crate) state_dir: PathBuf,
    /// The task's environment. The driver's configuration may refer to it.
    pub(crate) env: BTreeMap<String, String>,
    /// Where the task's output goes; `None` discards it.
    pub(crate) logs: Option<LogFiles>,
    /// What the task may use of the node.
    pub(crate) resources: TaskLimits,
    /// The control groups that were made for this start.
    pub(crate) cgroup: Option<TaskCgroup>,
    /// What is mounted into the task.
    pub(crate) mounts: Vec<Mount>,
    /// The devices that the task may use.
    pub(crate) devices: Vec<Device>,
    /// The variables that name the devices which were reserved for the task. They are also in `env`.
    pub(crate) device_env: BTreeMap<String, String>,
}

/// Why a hook failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct HookError {
    /// The reason.
    pub(crate) message: String,
    /// Whether a retry may help.
    pub(crate) recoverable: bool,
    /// The event of the task that shows it; `None` is the general one of hooks.
    pub(crate) event: Option<TaskEventKind>,
}

impl HookError {
    /// An error that a retry may help.
    pub(crate) fn recoverable(message: impl Into<String>) -> Self {
        Self { message: message.into(), recoverable: true, event: None }
    }

    /// An error that a retry does not help.
    pub(crate) fn unrecoverable(message: impl Into<String>) -> Self {
        Self { recoverable: false, ..Self::recoverable(message) }
    }

    /// The task is not valid on this node.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        let message = message.into();
        let event = TaskEventKind::FailedValidation { error: message.as_str().into() };
        Self::unrecoverable(message).with_event(event)
    }

    /// Shows the error by an event of its own.
    #[must_use]
    pub(crate) fn with_event(self, event: TaskEventKind) -> Self {
        Self { event: Some(event), ..self }
    }
}

impl From<StartError> for HookError {
    fn from(error: StartError) -> Self {
        if error.recoverable { Self::recoverable(error.message) } else { Self::unrecoverable(error.message) }
    }
}

impl From<io::Error> for HookError {
    fn from(error: io::Error) -> Self {
        Self::recoverable(error.to_string())
    }
}

impl TaskRun {
    /// The group and the task, as the job describes them.
    ///
    /// # Errors
    /// If the job no longer has the task.
    pub(crate) fn job_parts(&self) -> Result<(&TaskGroup, &Task), HookError> {
        let parts = self.spec.group().zip(self.spec.task(&self.name));
        parts.ok_or_else(|| HookError::invalid("the job has no such task"))
    }

    /// The task's environment before its hooks add to it. Its driver can do `able`.
    ///
    /// # Errors
    /// If the job no longer has the task, or the environment would be too large.
    pub(crate) fn env(&self, able: Capabilities) -> Result<Env, String> {
        let (group, task) = self.job_parts().map_err(|error| error.message)?;
        // A task in an image has nothing of the machine, and so none of its environment.
        let host_env = match able.isolation {
            Isolation::None | Isolation::Chroot => self.context.host_env.of(self.account.as_ref()),
            Isolation::Image => Env::new(),
        };
        let paths = match able.isolation {
            Isolation::None => self.dirs.clone(),
            Isolation::Chroot | Isolation::Image => self.dirs.seen_by_task(),
        };
        let network = self.setup.network.as_ref().and_then(|network| network.status.as_ref());
        env::build(&self.spec, group, task, &self.context.node, &paths, &host_env, network)
    }

    /// The file that a hook keeps while the task is not dead, across its restarts.
    pub(crate) fn file(&self, hook: &str) -> PathBuf {
        self.context.store.task(self.spec.id(), &self.name).join(format!("hook-{hook}"))
    }

    /// Records an event of the task.
    pub(crate) async fn event(&self, event: TaskEventKind) {
        self.updates.event(event).await;
    }
}
