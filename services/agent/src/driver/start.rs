//! What a driver gets to start a task.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use model::alloc::{PortMapping, TaskEventKind};
use model::{AllocId, Map, Text};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::cgroups::TaskCgroup;
use crate::disk::dirs::TaskDirs;
use crate::disk::logs::LogFiles;
use crate::networks::AllocNetwork;
use crate::resources::TaskLimits;

/// The maximum number of events of a start that wait to be recorded. Further ones are dropped: they only say how far the
/// start has come.
const PROGRESS_EVENTS_MAX: usize = 16;

/// The parameters of a task's start.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    /// Which task it is.
    pub(crate) id: TaskId,
    /// The interpolated driver configuration.
    pub(crate) config: Map<String, Value>,
    /// The task's environment.
    pub(crate) env: BTreeMap<String, String>,
    /// The user that the task runs as. If it is empty, the driver decides.
    pub(crate) user: Text,
    /// The task's directories.
    pub(crate) dirs: TaskDirs,
    /// A directory for the driver's data about the task. It does not exist yet.
    pub(crate) state_dir: PathBuf,
    /// Where the task's output goes; `None` discards it.
    pub(crate) logs: Option<LogFiles>,
    /// What the task may use of the node.
    pub(crate) resources: TaskLimits,
    /// The control groups that were made for this start; `None` if the node has none.
    pub(crate) cgroup: Option<TaskCgroup>,
    /// What is mounted into the task.
    pub(crate) mounts: Vec<Mount>,
    /// The devices that the task may use.
    pub(crate) devices: Vec<Device>,
    /// The variables that name the devices which were reserved for the task. They are also in `env`, where the job could have
    /// set them itself.
    pub(crate) device_env: BTreeMap<String, String>,
    /// The network of the allocation; `None` is the node's.
    pub(crate) network: Option<Arc<AllocNetwork>>,
    /// The allocation's ports.
    pub(crate) ports: Vec<PortMapping>,
    /// Tells how far the start has come.
    pub(crate) progress: Progress,
}

/// What is known of a task before it starts, so that a driver can fetch what the start needs.
#[derive(Debug, Clone)]
pub(crate) struct Prepare {
    /// Which task it is.
    pub(crate) id: TaskId,
    /// The interpolated driver configuration.
    pub(crate) config: Map<String, Value>,
    /// Tells how far it has come.
    pub(crate) progress: Progress,
}

impl Prepare {
    /// What a driver fetches for a start.
    pub(crate) fn of(start: &Start) -> Self {
        Self { id: start.id.clone(), config: start.config.clone(), progress: start.progress.clone() }
    }
}

/// One start of a task. Drivers name and label what they create by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskId {
    /// The allocation.
    pub(crate) alloc: AllocId,
    /// The allocation's name.
    pub(crate) alloc_name: Text,
    /// The job.
    pub(crate) job: Text,
    /// The job's namespace.
    pub(crate) namespace: Text,
    /// The task group.
    pub(crate) group: Text,
    /// The task.
    pub(crate) task: Text,
    /// The id of the start, which differs from that of every other start of the task.
    pub(crate) start: String,
}

/// A file or directory of the node that is mounted into a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Its path on the node.
    pub(crate) source: PathBuf,
    /// Its path in the task.
    pub(crate) target: PathBuf,
    /// Whether the task cannot write to it.
    pub(crate) read_only: bool,
    /// Whether later mounts below it are seen on the other side.
    pub(crate) propagation: Propagation,
    /// Its SELinux label, as container engines read it; empty is the driver's.
    pub(crate) selinux_label: String,
}

/// Whether mounts below a mount are seen on the other side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are not.
    #[default]
    Private,
    /// The task sees those of the node.
    HostToTask,
    /// Both see those of the other.
    Bidirectional,
}

/// A device of the node that a task may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    /// Its path on the node.
    pub(crate) source: PathBuf,
    /// Its path in the task.
    pub(crate) target: PathBuf,
    /// What the task may do: any of `r`, `w` and `m`, which is making the device.
    pub(crate) permissions: String,
}

/// Records events of a task while it is being started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Option<mpsc::Sender<TaskEventKind>>);

impl Progress {
    /// Creates it with the receiver of the events.
    pub(crate) fn new() -> (Self, mpsc::Receiver<TaskEventKind>) {
        let (events, receiver) = mpsc::channel(PROGRESS_EVENTS_MAX);
        (Self(Some(events)), receiver)
    }

    /// Records an event of the task.
    pub(crate) fn event(&self, event: TaskEventKind) {
        if let Some(events) = &self.0 {
            // Fails if the start is over, or too many events wait.
            let _ = events.try_send(event);
        }
    }
}
