//! The mounts of a task's root, and the change into it.
//!
//! The root is the task's own directory, which its processes may have changed in an earlier run. So everything is done by
//! open directories: what is mounted is opened without following links of the task, and a mount point is looked up within
//! the root, from which no link leads out. All mounts are in the task's own namespace, and end with it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat};
use nix::libc;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, SFlag, fstat, mkdirat};
use nix::unistd::{chdir, chroot, fchdir, pivot_root, symlinkat};

use super::description::{Bind, Namespaces, Root, Sharing, Source};
use super::mounts::{DATA, HARMLESS, Mounted, READ_ONLY, leave_peers};
use crate::disk::tree::OpenDir;

/// Permissions of mount points that are made.
const DIR_MODE: Mode = Mode::from_bits_truncate(0o755);
const FILE_MODE: Mode = Mode::from_bits_truncate(0o644);
/// The maximum number of links that the path of a mount point may lead through.
const LINKS_MAX: u32 = 8;

/// The size of `/dev`, which holds no data.
const DEV_SIZE: &str = "64k";
/// The size of the memory that a task's processes share by name, as container engines set it.
const SHM_SIZE: &str = "64m";
/// The size of a file system that covers a directory.
const MASK_SIZE: &str = "4k";

/// The devices that every task has.
const DEVICES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];
/// The links in `/dev`, with where they lead.
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("ptmx", "pts/ptmx"),
    ("stderr", "/proc/self/fd/2"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
];

/// Parts of `/proc` that change the node.
const READ_ONLY_PATHS: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];
/// What tells of the node and its other processes more than a task needs, as container engines cover it.
const MASKED_PATHS: [&str; 13] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/bpf",
];

/// Where the kernel shows the control groups of version 2, and a file that only these have.
const CGROUPS: &str = "/sys/fs/cgroup";
const CGROUPS_MARK: &str = "/sys/fs/cgroup/cgroup.controllers";

/// Mounts what a task sees, and makes it the root of this process, which must be in new namespaces already.
pub(crate) fn enter(root: &Root, namespaces: &Namespaces) -> io::Result<()> {
    let alloc = OpenDir::open(&root.alloc)?;
    let dir = alloc.dir(&root.dir)?;
    let with_name = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| io::Error::other(format!("cannot mount {path}: {error}"))
    };
    // Copied while they still have the peers by which later mounts are seen.
    let mut binds = Vec::new();
    for bind in &root.binds {
        match copy_of(bind, &alloc) {
            Ok(mounted) => binds.push((bind, mounted)),
            Err(error) if bind.optional && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(with_name(&bind.target)(error)),
        }
    }
    let own = Mounted::copy(&dir)?;
    let has_unified_cgroups = Path::new(CGROUPS_MARK).exists();
    leave_peers()?;
    own.restrict(HARMLESS, Sharing::Private)?;
    own.attach(&dir)?;
    let inner = Inner(own);
    inner.mount_kernel(namespaces, has_unified_cgroups)?;
    inner.mount_devices(namespaces)?;
    for (bind, mounted) in binds {
        inner.mount(&mounted, &bind.target).map_err(with_name(&bind.target))?;
    }
    for path in READ_ONLY_PATHS {
        inner.make_read_only(Path::new(path)).map_err(with_name(Path::new(path)))?;
    }
    for path in MASKED_PATHS.iter().map(Path::new).chain(root.masked.iter().map(PathBuf::as_path)) {
        inner.mask(path).map_err(with_name(path))?;
    }
    inner.become_root(root.pivot)
}

/// What a bind mounts, with its attributes.
fn copy_of(bind: &Bind, alloc: &OpenDir) -> io::Result<Mounted> {
    let mounted = match &bind.source {
        Source::Node(path) => Mounted::copy_path(path)?,
        Source::Alloc(path) => Mounted::copy(&alloc.dir(path)?)?,
    };
    // A device must stay one. Whether it is written to, its own permissions say.
    let attributes = match (bind.device, bind.read_only) {
        (true, _) => rustix::mount::MountAttrFlags::MOUNT_ATTR_NOSUID,
        (false, true) => HARMLESS.union(READ_ONLY),
        (false, false) => HARMLESS,
    };
    mounted.restrict(attributes, bind.sharing)?;
    Ok(mounted)
}

/// The kinds of mount points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dir,
    File,
}

/// The task's root, which is not yet this process's.
struct Inner(Mounted);

impl AsFd for Inner {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Inner {
    /// Mounts the views of the kernel: processes, devices and settings.
    fn mount_kernel(&self, namespaces: &Namespaces, has_unified_cgroups: bool) -> io::Result<()> {
        self.mount(&Mounted::new("proc", &[], DATA)?, Path::new("/proc"))?;
        self.mount(&Mounted::new("sysfs", &[], DATA.union(READ_ONLY))?, Path::new("/sys"))?;
        if namespaces.cgroup && has_unified_cgroups {
            // Shows the task's own control group. Programs find their limits there.
            self.mount(&Mounted::new("cgroup2", &[], DATA.union(READ_ONLY))?, Path::new(CGROUPS))?;
        }
        Ok(())
    }

    /// Mounts `/dev`. The devices are those of the node: a task cannot make any, because no other file system of its root
    /// accepts devices.
    fn mount_devices(&self, namespaces: &Namespaces) -> io::Result<()> {
        let dev = Mounted::new("tmpfs", &[("mode", "755"), ("size", DEV_SIZE)], DATA)?;
        self.mount(&dev, Path::new("/dev"))?;
        for name in DEVICES {
            let device = Mounted::copy_path(&Path::new("/dev").join(name))?;
            self.mount(&device, &Path::new("/dev").join(name))?;
        }
        for (name, target) in DEVICE_LINKS {
            symlinkat(target, &dev, name)?;
        }
        let terminals = [("mode", "620"), ("ptmxmode", "666"), ("gid", "5")];
        let attributes = rustix::mount::MountAttrFlags::MOUNT_ATTR_NOSUID
            .union(rustix::mount::MountAttrFlags::MOUNT_ATTR_NOEXEC);
        self.mount(&Mounted::new("devpts", &terminals, attributes)?, Path::new("/dev/pts"))?;
        let (shm, queues) = if namespaces.ipc {
            let shm = Mounted::new("tmpfs", &[("mode", "1777"), ("size", SHM_SIZE)], DATA)?;
            (shm, Mounted::new("mqueue", &[], DATA))
        } else {
            let queues = Mounted::copy_path(Path::new("/dev/mqueue"));
            (Mounted::copy_path(Path::new("/dev/shm"))?, queues)
        };
        self.mount(&shm, Path::new("/dev/shm"))?;
        match queues {
            Ok(queues) => self.mount(&queues, Path::new("/dev/mqueue")),
            // The kernel has no message queues, or the node does not show them.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENOENT)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Mounts something at a path in the root.
    fn mount(&self, mounted: &Mounted, target: &Path) -> io::Result<()> {
        let kind = if is_dir(mounted)? { Kind::Dir } else { Kind::File };
        mounted.attach(&self.mount_point(target, kind, 0)?)
    }

    /// Makes what is at a path in the root, and everything below it, read-only.
    fn make_read_only(&self, path: &Path) -> io::Result<()> {
        let Some(found) = self.find(path)? else { return Ok(()) };
        let copy = Mounted::copy(&found)?;
        copy.restrict(DATA.union(READ_ONLY), Sharing::Private)?;
        copy.attach(&found)
    }

    /// Covers what is at a path in the root.
    fn mask(&self, path: &Path) -> io::Result<()> {
        let Some(found) = self.find(path)? else { return Ok(()) };
        let cover = if is_dir(&found)? {
            Mounted::new("tmpfs", &[("mode", "755"), ("size", MASK_SIZE)], DATA.union(READ_ONLY))?
        } else {
            Mounted::copy_path(Path::new("/dev/null"))?
        };
        cover.attach(&found)
    }

    /// What is at a path in the root, or `None` if there is nothing. Links lead to what they mean in the root.
    fn find(&self, path: &Path) -> io::Result<Option<OwnedFd>> {
        let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(resolve);
        match openat2(self, path, how) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// What is at a path in the root, and is made if there is nothing.
    fn mount_point(&self, path: &Path, kind: Kind, links: u32) -> io::Result<OwnedFd> {
        if let Some(found) = self.find(path)? {
            return if is_dir(&found)? == (kind == Kind::Dir) {
                Ok(found)
            } else {
                Err(io::Error::other("one is a directory and the other is not"))
            };
        }
        let (Some(parent), Some(Component::Normal(name))) = (path.parent(), path.components().next_back())
        else {
            return Err(io::Error::other("not a path of a mount point"));
        };
        let parent_dir = self.mount_point(parent, Kind::Dir, links)?;
        if let Ok(target) = readlinkat(&parent_dir, name) {
            // A link that leads to nothing: what it means is made.
            if links == LINKS_MAX {
                return Err(Errno::ELOOP.into());
            }
            return self.mount_point(&joined(parent, Path::new(&target)), kind, links + 1);
        }
        let flags = OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        if kind == Kind::Dir {
            mkdirat(&parent_dir, name, DIR_MODE)?;
        } else {
            let made = flags | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY;
            openat(&parent_dir, name, made, FILE_MODE)?;
        }
        Ok(openat(&parent_dir, name, flags | OFlag::O_PATH, Mode::empty())?)
    }

    /// Makes this the root of the process, and unmounts everything else.
    fn become_root(&self, pivot: bool) -> io::Result<()> {
        fchdir(self)?;
        if pivot {
            // The old root is mounted over the new one, and then unmounted.
            pivot_root(".", ".").map_err(|errno| {
                io::Error::other(format!("cannot change the root: {}; see no_pivot_root", errno.desc()))
            })?;
            umount2(".", MntFlags::MNT_DETACH)?;
        } else {
            mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>)?;
            chroot(".")?;
        }
        Ok(chdir("/")?)
    }
}

/// Where a relative or absolute link in a directory leads to, as an absolute path without `.` and `..`.
fn joined(dir: &Path, link: &Path) -> PathBuf {
    let mut path = PathBuf::from("/");
    for component in dir.join(link).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => {
                path.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    path
}

fn is_dir(file: &impl AsFd) -> io::Result<bool> {
    Ok(SFlag::from_bits_truncate(fstat(file)?.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR)
}

/// Opens a file below this process's root for changing its permissions, if it is in the root's own file system and not in
/// one that is mounted there. Links that stay in it are followed.
pub(crate) fn open_own(path: &Path) -> io::Result<OwnedFd> {
    let root = openat(AT_FDCWD, "/", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    let resolve =
        ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS | ResolveFlag::RESOLVE_NO_XDEV;
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    Ok(openat2(&root, path, OpenHow::new().flags(flags).resolve(resolve))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_as_in_the_root() {
        let joined = |dir: &str, link: &str| joined(Path::new(dir), Path::new(link)).display().to_string();
        assert_eq!(joined("/etc", "../run/resolv.conf"), "/run/resolv.conf");
        assert_eq!(joined("/etc", "/run/./resolv.conf"), "/run/resolv.conf");
        assert_eq!(joined("/etc", "../../../../x"), "/x");
    }
}
