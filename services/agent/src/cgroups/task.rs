//! The control groups of one task: made before its process starts, entered by that process itself, read while it runs, and
//! emptied and removed after its end.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::counters::{self, MemoryTexts};
use super::files::{children, explained, keyed, make, open, read, read_existing, write};
use super::hierarchy::Controller;
use super::partition::{self, Version};
use super::values;
use crate::resources::{TaskLimits, TaskUsage};

/// The list of a group's processes.
const PROCESSES: &str = "cgroup.procs";
/// The list of a group's threads in version 1. A process that has just been forked is one thread, and enters by this list
/// without a lock that all processes of the machine would wait for.
const THREADS: &str = "tasks";
/// Kills all processes of a group of version 2, since kernel 5.14.
const KILL: &str = "cgroup.kill";
/// Stops all processes of a group, in version 1 and 2.
const FREEZER: [(&str, &str, &str); 2] = [("freezer.state", "FROZEN", "THAWED"), ("cgroup.freeze", "1", "0")];
/// How many descendants a group may have in a row. More are not followed.
const DEPTH_MAX: usize = 16;

/// The maximum number of attempts to empty or remove a group, and the pause between them: 15 seconds in all, which is how
/// long a killed task may take to end.
const ROUNDS_MAX: u32 = 1_500;
const ROUND_PAUSE: Duration = Duration::from_millis(10);

/// The control groups of a task: in version 2 one, in version 1 one for each hierarchy. It is only their names: it stays
/// valid when the agent restarts, and in other processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskCgroup {
    pub(super) version: Version,
    pub(super) groups: Vec<Group>,
    /// The path within each hierarchy, from the root that the agent sees.
    pub(super) inner: PathBuf,
}

/// The group of a task in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Group {
    pub(super) dir: PathBuf,
    /// The controllers that limit and count there.
    pub(super) controllers: Vec<Controller>,
    /// Whether it belongs to the task alone, and so is made, emptied and removed with it. If not, the task only enters it.
    pub(super) is_own: bool,
}

/// The open lists of a task's groups, for a new process that enters them before it becomes the task's.
#[derive(Debug)]
pub(crate) struct Entry(Vec<File>);

impl Entry {
    /// Moves the calling process, which must have a single thread, into the groups. Between fork and exec, it is safe to
    /// call: it only writes to files that are open, and allocates no memory.
    pub(crate) fn enter(&self) -> io::Result<()> {
        for mut file in &self.0 {
            file.write_all(b"0")?;
        }
        Ok(())
    }
}

impl TaskCgroup {
    /// Creates the groups with these limits. Processes that an earlier start has left in them are killed.
    pub(crate) fn create(&self, limits: &TaskLimits) -> io::Result<()> {
        let has_cpusets = self.own().any(|group| group.controllers.contains(&Controller::Cpuset));
        if !limits.cores.is_empty() && !has_cpusets {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "reserved cores cannot be enforced: the controller cpuset is not available on this node",
            ));
        }
        for group in self.own() {
            let has_cpuset = group.controllers.contains(&Controller::Cpuset);
            if has_cpuset && !limits.cores.is_empty() {
                partition::hold(self.version, &group.dir, &limits.cores)?;
            } else {
                make(&group.dir)?;
            }
        }
        self.kill()?;
        for group in self.own() {
            for controller in &group.controllers {
                let settings = match self.version {
                    Version::V1 => values::v1(*controller, limits),
                    Version::V2 => values::v2(*controller, limits),
                };
                settings.iter().try_for_each(|(file, value)| write(&group.dir, file, value))?;
            }
        }
        Ok(())
    }

    /// Groups of version 2 that do not exist.
    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        let dir = PathBuf::from("/sys/fs/cgroup/nomad.slice/share.slice/0.web.scope");
        let groups = vec![Group { dir, controllers: vec![Controller::Memory], is_own: true }];
        Self { version: Version::V2, groups, inner: PathBuf::from("nomad.slice/share.slice/0.web.scope") }
    }

    /// Opens the lists of the groups by which a new process enters them.
    pub(crate) fn open(&self) -> io::Result<Entry> {
        let name = match self.version {
            Version::V1 => THREADS,
            Version::V2 => PROCESSES,
        };
        let list = |group: &Group| {
            let path = group.dir.join(name);
            open(&path).map_err(|error| explained(&path, &error))
        };
        self.groups.iter().map(list).collect::<io::Result<_>>().map(Entry)
    }

    /// What the task uses. A group that is gone counts nothing.
    pub(crate) fn usage(&self) -> io::Result<TaskUsage> {
        let text = |controller, file| self.counter(controller, file);
        let (cpu, memory) = match self.version {
            Version::V1 => {
                let cpu = counters::cpu_v1(
                    &text(Controller::Cpuacct, "cpuacct.usage")?,
                    &text(Controller::Cpuacct, "cpuacct.stat")?,
                    &text(Controller::Cpu, "cpu.stat")?,
                );
                let memory = counters::memory_v1(&MemoryTexts {
                    stat: text(Controller::Memory, "memory.stat")?,
                    current: text(Controller::Memory, "memory.usage_in_bytes")?,
                    peak: text(Controller::Memory, "memory.max_usage_in_bytes")?,
                    swap: String::new(),
                    kernel: text(Controller::Memory, "memory.kmem.usage_in_bytes")?,
                });
                (cpu, memory)
            }
            Version::V2 => {
                let memory = counters::memory_v2(&MemoryTexts {
                    stat: text(Controller::Memory, "memory.stat")?,
                    current: text(Controller::Memory, "memory.current")?,
                    peak: text(Controller::Memory, "memory.peak")?,
                    swap: text(Controller::Memory, "memory.swap.current")?,
                    kernel: String::new(),
                });
                // Every group counts its processor time, with and without the controller.
                let dir = self.own().next().map(|group| &group.dir);
                let stat = dir.map(|dir| read_existing(dir, "cpu.stat")).transpose()?.flatten();
                (counters::cpu_v2(&stat.unwrap_or_default()), memory)
            }
        };
        let pids = self.processes()?.into_iter().filter_map(|pid| u32::try_from(pid.as_raw()).ok()).collect();
        Ok(TaskUsage { cpu, memory, pids })
    }

    /// How many processes the kernel has killed in the groups for lack of memory, since they were created.
    pub(crate) fn oom_kills(&self) -> io::Result<u64> {
        let file = match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        Ok(keyed(&self.counter(Controller::Memory, file)?, "oom_kill").unwrap_or(0))
    }

    /// The task's processes, including those in groups that it has made itself.
    pub(crate) fn processes(&self) -> io::Result<Vec<Pid>> {
        let Some(group) = self.emptied() else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        collect_processes(&group.dir, DEPTH_MAX, &mut found)?;
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Kills all processes of the task, and waits until there is none. None escapes: a new process is in the groups of the
    /// process that started it, whatever else they do.
    pub(crate) fn kill(&self) -> io::Result<()> {
        let Some(group) = self.emptied() else { return Ok(()) };
        for _ in 0..ROUNDS_MAX {
            let processes = self.processes()?;
            if processes.is_empty() {
                return Ok(());
            }
            if write(&group.dir, KILL, "1").is_err() {
                self.kill_frozen(&group.dir)?;
            }
            thread::sleep(ROUND_PAUSE);
        }
        let left = self.processes()?;
        if left.is_empty() {
            return Ok(());
        }
        let left: Vec<_> = left.iter().map(Pid::to_string).collect();
        let text = format!("processes do not end although they were killed: {}", left.join(", "));
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    }

    /// Stops all processes, so that they start no others meanwhile, kills them and lets them end. Without a freezer, new ones
    /// are killed in the next round.
    fn kill_frozen(&self, dir: &Path) -> io::Result<()> {
        let freezer = FREEZER.into_iter().find(|(file, ..)| dir.join(file).exists());
        if let Some((file, frozen, _)) = freezer {
            write(dir, file, frozen)?;
        }
        let outcome = self.processes().map(|processes| {
            // This process is not in the group, unless somebody has put it there.
            for pid in processes.into_iter().filter(|pid| *pid != Pid::this()) {
                // Fails if the process has ended.
                let _ = kill(pid, Signal::SIGKILL);
            }
        });
        match freezer {
            Some((file, _, thawed)) => write(dir, file, thawed).and(outcome),
            None => outcome,
        }
    }

    /// Kills what is left in the groups, and removes them. It is not an error if they do not exist.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.kill()?;
        for group in self.own().filter(|group| group.dir.exists()) {
            remove_tree(&group.dir, DEPTH_MAX)?;
            if group.controllers.contains(&Controller::Cpuset)
                && let Some(slice) = group.dir.parent()
                && slice.ends_with(partition::RESERVE)
            {
                partition::give_back(self.version, slice)?;
            }
        }
        Ok(())
    }

    /// Whether all groups belong to the task alone but for those that it shares with others of its slice, so that their
    /// counters are the task's.
    pub(crate) fn is_complete(&self) -> bool {
        self.groups.iter().all(|group| group.is_own || group.controllers == [Controller::Cpuset])
    }

    fn own(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|group| group.is_own)
    }

    /// The group by which processes are found and killed. In version 1, all processes are in all hierarchies; that of the
    /// freezer is preferred.
    fn emptied(&self) -> Option<&Group> {
        self.own()
            .find(|group| group.controllers.contains(&Controller::Freezer))
            .or_else(|| self.own().next())
    }

    /// The text of a counter; empty if there is no such controller, file or group.
    fn counter(&self, controller: Controller, file: &str) -> io::Result<String> {
        let group = self.own().find(|group| group.controllers.contains(&controller));
        let text = group.map(|group| read_existing(&group.dir, file)).transpose()?.flatten();
        Ok(text.unwrap_or_default())
    }
}

/// Adds the processes of a group and of those below it. A group that vanishes has none.
fn collect_processes(dir: &Path, depth: usize, found: &mut Vec<Pid>) -> io::Result<()> {
    let list = match read(dir, PROCESSES) {
        Ok(list) => list,
        // A group of threads has no list of processes. They are in that of the group above it.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::Unsupported) => {
            String::new()
        }
        Err(error) => return Err(error),
    };
    // 0 is a process that cannot be seen from here.
    let pids = list.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0);
    found.extend(pids.map(Pid::from_raw));
    if depth > 0 {
        for child in children(dir)? {
            collect_processes(&dir.join(child), depth - 1, found)?;
        }
    }
    Ok(())
}

/// Removes a group without processes, with those below it. The kernel may take a moment until it lets go of one.
pub(super) fn remove_tree(dir: &Path, depth: usize) -> io::Result<()> {
    if depth > 0 {
        for child in children(dir)? {
            remove_tree(&dir.join(child), depth - 1)?;
        }
    }
    for round in 0.. {
        match fs::remove_dir(dir) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && round < ROUNDS_MAX => {
                thread::sleep(ROUND_PAUSE);
            }
            Err(error) => return Err(explained(dir, &error)),
        }
    }
    Ok(())
}
