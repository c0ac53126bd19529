//! Control groups: the kernel's limits and counters of tasks, with hierarchies of version 1 and 2.
//!
//! Each task has a group, `<parent>/share.slice/<alloc>.<task>.scope`, or in `reserve.slice` if it has reserved cores. With
//! version 1 there is one in each hierarchy. The agent makes the group before the task's process starts. That process
//! enters it itself, before it becomes the task's program, so that all of the task is in it, and nothing of the executor.
//!
//! | module | holds |
//! |---|---|
//! | `task` | the groups of one task |
//! | `partition` | which processors belong to which tasks |
//! | `overrides` | groups that a job names instead of those that the agent makes |
//! | `parent` | the agent's place in the hierarchies |
//! | `hierarchy` (pure) | which hierarchies there are |
//! | `values`, `counters` (pure) | the contents of the kernel's files |

mod counters;
mod files;
mod hierarchy;
mod overrides;
mod parent;
mod partition;
mod task;
mod values;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use model::{AllocId, NodeId};
use sha2::{Digest as _, Sha256};
use telemetry::chain;

use self::hierarchy::{Controller, Mounts, own_group};
use self::partition::{RESERVE, SHARE, Version};
use self::task::Group;
use crate::resources::TaskLimits;

pub(crate) use overrides::Overrides;
pub(crate) use task::TaskCgroup;

const MOUNTINFO: &str = "/proc/self/mountinfo";
const OWN_CGROUPS: &str = "/proc/self/cgroup";

/// The name of a group that says that an agent uses the parent. The id of its node follows.
const OWNER: &str = "agent-";
/// The end of the name of a task's group.
const SCOPE: &str = ".scope";
/// The number of characters of an allocation's id.
const ID_LENGTH: usize = 36;
/// The number of characters of a task's name up to which a group has it unchanged.
const TASK_NAME_MAX: usize = 128;
/// What a longer or unusual name is cut to, and the number of bytes of its hash that follow.
const TASK_NAME_CUT: usize = 64;
const HASH_BYTES: usize = 8;

/// The hierarchies of control groups, and the agent's place in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cgroups {
    version: Version,
    /// The parents of the slices: one with version 2, and one for each hierarchy with version 1.
    parents: Vec<Parent>,
    /// Their path within a hierarchy.
    inner: PathBuf,
    /// The processors that tasks can use; `None` if they cannot be divided between tasks.
    cpus: Option<BTreeSet<u16>>,
}

/// The parent of the slices in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parent {
    dir: PathBuf,
    controllers: Vec<Controller>,
}

/// Checks the name of the parent group: a path below the root of the hierarchies.
///
/// # Errors
/// If it is not such a path.
pub(crate) fn parent_path(name: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(name.trim_matches('/'));
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if path.as_os_str().is_empty() || !is_plain || name.contains('\n') {
        return Err(format!("{name:?} is not a path below the root of the cgroups, such as nomad.slice"));
    }
    Ok(path)
}

impl Cgroups {
    /// Finds the hierarchies and makes the agent's place in them. `excluded` are processors that no task may use. `None`
    /// if this process may not make groups, or there are none: then the log says which limits of tasks are not enforced.
    pub(crate) fn detect(parent: &Path, excluded: &BTreeSet<u16>) -> Option<Self> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (mountinfo, list) = (read(MOUNTINFO), read(OWN_CGROUPS));
        match Self::make(&Mounts::read(&mountinfo), own_group(&list), parent, excluded) {
            Ok(found) => {
                found.log();
                Some(found)
            }
            Err(error) => {
                tracing::warn!(
                    error = chain(&error),
                    "limits of tasks on compute, memory and processes are not enforced: the agent cannot make cgroups"
                );
                None
            }
        }
    }

    fn make(
        mounts: &Mounts,
        own: Option<&Path>,
        parent: &Path,
        excluded: &BTreeSet<u16>,
    ) -> io::Result<Self> {
        let unified = mounts.unified.as_deref();
        let mut found = match unified.filter(|mount| parent::has_controllers(mount)) {
            Some(mount) => {
                let place = parent::prepare_v2(mount, own, parent)?;
                let inner = place.parent.strip_prefix(mount).unwrap_or(parent).to_owned();
                let parents = vec![Parent { dir: place.parent, controllers: place.controllers }];
                Self { version: Version::V2, parents, inner, cpus: None }
            }
            None if mounts.controllers.is_empty() => {
                return Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    "no hierarchy of cgroups with controllers is mounted",
                ));
            }
            None => {
                let mut parents: Vec<Parent> = Vec::new();
                for (controller, dir) in parent::prepare_v1(&mounts.controllers, parent)? {
                    // Several controllers may share a hierarchy.
                    match parents.iter_mut().find(|known| known.dir == dir) {
                        Some(known) => known.controllers.push(controller),
                        None => parents.push(Parent { dir, controllers: vec![controller] }),
                    }
                }
                Self { version: Version::V1, parents, inner: parent.to_owned(), cpus: None }
            }
        };
        found.divide(excluded);
        Ok(found)
    }

    /// Prepares the division of the processors. If that fails, the controller is not used.
    fn divide(&mut self, excluded: &BTreeSet<u16>) {
        let has_cpuset = |parent: &Parent| parent.controllers.contains(&Controller::Cpuset);
        let Some(at) = self.parents.iter().position(has_cpuset) else { return };
        match partition::prepare(self.version, &self.parents[at].dir, excluded) {
            Ok(cpus) => self.cpus = Some(cpus),
            Err(error) => {
                tracing::warn!(error = chain(&error), "processors cannot be divided between tasks");
                match self.version {
                    Version::V1 => drop(self.parents.remove(at)),
                    Version::V2 => {
                        self.parents[at].controllers.retain(|controller| *controller != Controller::Cpuset);
                    }
                }
            }
        }
    }

    fn log(&self) {
        let has = |controller| self.parents.iter().any(|parent| parent.controllers.contains(&controller));
        tracing::info!(version = self.version_number(), parent = %self.inner.display(), "tasks run in cgroups");
        for (controller, limit) in [
            (Controller::Cpu, "shares of compute"),
            (Controller::Memory, "memory"),
            (Controller::Pids, "numbers of processes"),
            (Controller::Cpuset, "reserved cores"),
        ] {
            if !has(controller) {
                tracing::warn!(
                    controller = controller.as_str(),
                    limit,
                    "a limit of tasks is not enforced: the controller of cgroups is not available here"
                );
            }
        }
    }

    /// The version of the hierarchies, 1 or 2.
    pub(crate) fn version_number(&self) -> u8 {
        match self.version {
            Version::V1 => 1,
            Version::V2 => 2,
        }
    }

    /// The path of the parent group within a hierarchy, such as `nomad.slice`.
    pub(crate) fn parent_name(&self) -> String {
        self.inner.display().to_string()
    }

    /// The processors that tasks can use; `None` if cores cannot be reserved for a task.
    pub(crate) fn cpus(&self) -> Option<&BTreeSet<u16>> {
        self.cpus.as_ref()
    }

    /// Groups of version 2 that do not exist, with these processors.
    #[cfg(test)]
    pub(crate) fn for_tests(cpus: impl Into<BTreeSet<u16>>) -> Self {
        let inner = PathBuf::from("nomad.slice");
        Self { version: Version::V2, parents: Vec::new(), inner, cpus: Some(cpus.into()) }
    }

    /// The groups of a task with these limits. They are not created yet.
    pub(crate) fn task(&self, alloc: AllocId, task: &str, limits: &TaskLimits) -> TaskCgroup {
        let slice = if limits.cores.is_empty() { SHARE } else { RESERVE };
        self.named(slice, &scope_name(alloc, task))
    }

    fn named(&self, slice: &str, name: &str) -> TaskCgroup {
        let group = |parent: &Parent| {
            let slice_dir = parent.dir.join(slice);
            // In version 1, the processors of each group would have to follow those of its slice. So tasks without
            // reserved cores have none of their own there.
            let is_shared = self.version == Version::V1
                && slice == SHARE
                && parent.controllers.contains(&Controller::Cpuset);
            Group {
                dir: if is_shared { slice_dir } else { slice_dir.join(name) },
                controllers: parent.controllers.clone(),
                is_own: !is_shared,
            }
        };
        let groups = self.parents.iter().map(group).collect();
        TaskCgroup { version: self.version, groups, inner: self.inner.join(slice).join(name) }
    }

    /// Kills what is left in the groups of a task, and removes them.
    pub(crate) fn remove_task(&self, alloc: AllocId, task: &str) -> io::Result<()> {
        let name = scope_name(alloc, task);
        // The job may have changed since they were made, and with it the slice.
        let removed = [SHARE, RESERVE].map(|slice| self.named(slice, &name).remove());
        removed.into_iter().collect()
    }

    /// Kills what is left in the groups of an allocation, and removes them.
    pub(crate) fn remove_alloc(&self, alloc: AllocId) -> io::Result<()> {
        let own: Vec<_> = self.scopes()?.into_iter().filter(|(owner, ..)| *owner == alloc).collect();
        let mut outcome = Ok(());
        for (_, slice, name) in own {
            // One that cannot be removed does not keep the others.
            outcome = outcome.and(self.named(slice, &name).remove());
        }
        outcome
    }

    /// The allocations that have groups, if no other agent uses the parent: the groups of another would look like what an
    /// allocation has left behind. `node` is this agent's.
    pub(crate) fn leftovers(&self, node: NodeId) -> io::Result<BTreeSet<AllocId>> {
        let Some(parent) = self.parents.first() else { return Ok(BTreeSet::new()) };
        let own = format!("{OWNER}{node}");
        files::make(&parent.dir.join(&own))?;
        // The groups are listed first: another agent makes its mark before it makes them.
        let found = self.scopes()?.into_iter().map(|(alloc, ..)| alloc).collect();
        let others =
            files::children(&parent.dir)?.into_iter().filter(|name| name.starts_with(OWNER) && *name != own);
        let others: Vec<_> = others.collect();
        if others.is_empty() {
            return Ok(found);
        }
        tracing::info!(
            parent = %parent.dir.display(),
            others = others.join(", "),
            "cgroups that no allocation has any more are not looked for: other agents use the same parent, or have used it \
             since the machine was started"
        );
        Ok(BTreeSet::new())
    }

    /// Takes back the mark that [`Self::leftovers`] has made, unless there are groups of tasks: they may be this agent's, and
    /// another must not take them for what is left of its own.
    pub(crate) fn leave(&self, node: NodeId) {
        let is_empty = self.scopes().is_ok_and(|scopes| scopes.is_empty());
        if let Some(parent) = self.parents.first().filter(|_| is_empty) {
            // Fails if there is none.
            let _ = fs::remove_dir(parent.dir.join(format!("{OWNER}{node}")));
        }
    }

    /// The groups of tasks in all hierarchies: the allocation, the slice and the name of each.
    fn scopes(&self) -> io::Result<BTreeSet<(AllocId, &'static str, String)>> {
        let mut found = BTreeSet::new();
        for parent in &self.parents {
            for slice in [SHARE, RESERVE] {
                for name in files::children(&parent.dir.join(slice))? {
                    let alloc = name.get(..ID_LENGTH).and_then(|id| id.parse::<AllocId>().ok());
                    if let Some(alloc) = alloc.filter(|_| name.ends_with(SCOPE)) {
                        found.insert((alloc, slice, name));
                    }
                }
            }
        }
        Ok(found)
    }
}

fn scope_name(alloc: AllocId, task: &str) -> String {
    format!("{alloc}.{}{SCOPE}", plain(task))
}

/// A task's name as a part of a group's name. Characters that make trouble there are replaced, and then a hash keeps names
/// apart.
fn plain(task: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if task.len() <= TASK_NAME_MAX && task.chars().all(is_plain) {
        return task.to_owned();
    }
    let cut = task.chars().take(TASK_NAME_CUT).map(|c| if is_plain(c) { c } else { '_' });
    let mut name: String = cut.collect();
    name.push('-');
    for byte in &Sha256::digest(task.as_bytes())[..HASH_BYTES] {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
