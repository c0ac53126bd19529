//! Which hierarchies of control groups a process sees, from `/proc/self/mountinfo` and `/proc/self/cgroup`. Pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A controller that the agent uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Controller {
    /// Shares of the processors.
    Cpu,
    /// Counters of processor time, in hierarchies of version 1.
    Cpuacct,
    /// Which processors are used.
    Cpuset,
    /// Stops all processes of a group at once, in hierarchies of version 1.
    Freezer,
    /// Memory.
    Memory,
    /// The number of processes.
    Pids,
}

impl Controller {
    /// Those of version 1.
    pub(super) const V1: [Self; 6] =
        [Self::Cpu, Self::Cpuacct, Self::Cpuset, Self::Freezer, Self::Memory, Self::Pids];
    /// Those of version 2, in which the others are part of every group.
    pub(super) const V2: [Self; 4] = [Self::Cpu, Self::Cpuset, Self::Memory, Self::Pids];

    /// The kernel's name.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cpuacct => "cpuacct",
            Self::Cpuset => "cpuset",
            Self::Freezer => "freezer",
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }
}

/// The hierarchies that are mounted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Mounts {
    /// That of version 2.
    pub(super) unified: Option<PathBuf>,
    /// Those of version 1, by the controllers that we use. Several controllers may have the same.
    pub(super) controllers: BTreeMap<Controller, PathBuf>,
}

impl Mounts {
    /// Reads the kernel's list of mounts. Of several mounts of a hierarchy, the last one counts, which hides the others.
    pub(super) fn read(mountinfo: &str) -> Self {
        let mut mounts = Self::default();
        for line in mountinfo.lines() {
            let Some((mount, file_system)) = line.split_once(" - ") else { continue };
            let Some(point) = mount.split(' ').nth(4).map(unescaped) else { continue };
            let mut fields = file_system.split(' ');
            match (fields.next(), fields.nth(1)) {
                (Some("cgroup2"), _) => mounts.unified = Some(point),
                (Some("cgroup"), Some(options)) => {
                    let is_named = |controller: &Controller| {
                        options.split(',').any(|option| option == controller.as_str())
                    };
                    for controller in Controller::V1.into_iter().filter(is_named) {
                        mounts.controllers.insert(controller, point.clone());
                    }
                }
                _ => {}
            }
        }
        mounts
    }
}

/// A path of the list of mounts, in which some characters are written in octal.
fn unescaped(field: &str) -> PathBuf {
    let plain =
        field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\");
    PathBuf::from(plain)
}

/// The group of version 2 in the kernel's list of a process's groups, relative to the root that the process sees; `None`
/// if there is none, or it is outside that root.
pub(super) fn own_group(list: &str) -> Option<&Path> {
    let path = list.lines().find_map(|line| line.strip_prefix("0::/"))?;
    (!path.starts_with("..")).then_some(Path::new(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_found() {
        let hybrid = "\
25 30 0:22 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
26 25 0:23 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
27 25 0:24 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
28 25 0:25 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
29 25 0:26 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
";
        let mounts = Mounts::read(hybrid);
        assert_eq!(mounts.unified, Some(PathBuf::from("/sys/fs/cgroup/unified")));
        let expected = [
            (Controller::Cpu, "/sys/fs/cgroup/cpu,cpuacct"),
            (Controller::Cpuacct, "/sys/fs/cgroup/cpu,cpuacct"),
            (Controller::Memory, "/sys/fs/cgroup/memory"),
        ];
        assert_eq!(mounts.controllers, expected.map(|(name, path)| (name, PathBuf::from(path))).into());
        let only =
            Mounts::read("31 23 0:27 / /my\\040groups rw shared:4 - cgroup2 cgroup rw,nsdelegate\nodd\n");
        assert_eq!(only, Mounts { unified: Some(PathBuf::from("/my groups")), ..Mounts::default() });
        assert_eq!(Mounts::read(""), Mounts::default());
    }

    #[test]
    fn the_own_group_is_that_of_version_2() {
        let list = "9:name=systemd:/init\n4:memory:/x\n0::/system.slice/drover-agent.service\n";
        assert_eq!(own_group(list), Some(Path::new("system.slice/drover-agent.service")));
        assert_eq!(own_group("0::/\n"), Some(Path::new("")));
        assert_eq!(own_group("0::/../other\n"), None);
        assert_eq!(own_group("4:memory:/x\n"), None);
    }
}
