//! What a task's isolation consists of. Pure: drivers make the description, executors carry it out.
//!
//! Agent and executor may be of different versions. A field that an older agent does not know has a default that isolates
//! at least as much.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::capabilities::Granted;

/// The isolation of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Isolation {
    /// The namespaces.
    pub(crate) namespaces: Namespaces,
    /// The host name that the task sees; `None` is the node's.
    pub(crate) hostname: Option<String>,
    /// The files that the task sees.
    pub(crate) root: Root,
    /// What the task may do.
    pub(crate) confinement: Confinement,
}

/// The namespaces of a task. Each task has its own mounts, host name and view of the control groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Namespaces {
    /// Whether the task has its own processes; otherwise it sees all of the node.
    pub(crate) pid: bool,
    /// Whether the task has its own shared memory, semaphores and message queues; otherwise it has the node's.
    pub(crate) ipc: bool,
    /// The network namespace of the allocation; `None` is the node's.
    pub(crate) network: Option<PathBuf>,
    /// Whether the task is in control groups of its own, which it then sees as the root of all.
    pub(crate) cgroup: bool,
}

/// The root of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Root {
    /// The directory of the allocation. No task can change its path.
    pub(crate) alloc: PathBuf,
    /// The directory in it that becomes the root: the task's own.
    pub(crate) dir: PathBuf,
    /// What is mounted into it, in this order.
    pub(crate) binds: Vec<Bind>,
    /// Paths in it that are covered, so that the task cannot see what is there.
    pub(crate) masked: Vec<PathBuf>,
    /// Whether the node's root is unmounted. Otherwise it is only covered, which a root in memory (initramfs) requires.
    pub(crate) pivot: bool,
}

/// A file, directory or device of the node that is mounted into a task's root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bind {
    /// What is mounted.
    pub(crate) source: Source,
    /// Where, as a path in the task's root.
    pub(crate) target: PathBuf,
    /// Whether the task cannot write to it.
    pub(crate) read_only: bool,
    /// Whether a source that does not exist is passed over.
    pub(crate) optional: bool,
    /// Whether it is a device that the task may open.
    pub(crate) device: bool,
    /// Whether later mounts below it are seen on the other side.
    pub(crate) sharing: Sharing,
}

/// What a bind mounts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Source {
    /// A path of the node that no task can change. Links in it are followed.
    Node(PathBuf),
    /// A path in the allocation's directory, which belongs to its tasks. No link in it is followed.
    Alloc(PathBuf),
}

/// Whether mounts that are made later below a bind are seen on the other side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Sharing {
    /// They are not.
    #[default]
    Private,
    /// The task sees those of the node.
    FromNode,
    /// Both see those of the other.
    Both,
}

/// What a task may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confinement {
    /// The user that it runs as.
    pub(crate) user: User,
    /// Its capabilities.
    pub(crate) capabilities: Granted,
    /// Whether its processes may trace each other. They may where they see no others.
    pub(crate) may_trace: bool,
    /// The number of files that a process may have open, as the kernel's soft and hard limit. What the node does not
    /// permit is left as it is.
    pub(crate) open_files: Option<(u64, u64)>,
}

/// The user that a task runs as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct User {
    /// The user's id.
    pub(crate) uid: u32,
    /// The id of the user's primary group.
    pub(crate) gid: u32,
    /// The ids of all groups that the user is in.
    pub(crate) groups: Vec<u32>,
}
