//! The directories of a task that hold secrets: file systems in memory where the agent may mount them, otherwise
//! plain directories. Either way only the user that the task runs as may enter them.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, fchmod, fstat};
use nix::unistd::{Gid, Uid, fchown, geteuid};
use telemetry::chain;

use super::tree::OpenDir;

/// The name of the directory with secrets of the job.
pub(crate) const SECRETS: &str = "secrets";
/// The name of the directory with secrets that the task itself does not see.
pub(crate) const PRIVATE: &str = "private";
/// Permissions of both.
const MODE: u32 = 0o700;
/// The size of a file system for secrets for which the job names none, in MB.
const DEFAULT_MB: u32 = 1;
/// The name and type of file systems in memory.
const TMPFS: &str = "tmpfs";

/// Where secrets are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// In memory, if the kernel permits it.
    Memory,
    /// On disk.
    Disk,
}

/// The secrets of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Secrets {
    /// Where they are kept.
    pub(crate) storage: Storage,
    /// The ids of the user that the task runs as, and of the user's group.
    pub(crate) owner: (u32, u32),
    /// The size that the job asks for, in MB; 0 if it asks for none.
    pub(crate) size_mb: u32,
}

/// A file system that is mounted for secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tmpfs {
    owner: (u32, u32),
    size_mb: u32,
    /// Whether it may be swapped out to disk, which kernels before 6.4 cannot prevent.
    may_swap: bool,
}

impl fmt::Display for Tmpfs {
    /// The options of the mount.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner: (uid, gid), size_mb, may_swap } = self;
        let swap = if *may_swap { "" } else { ",noswap" };
        write!(f, "size={size_mb}m,mode={MODE:o},uid={uid},gid={gid}{swap}")
    }
}

impl Storage {
    /// Memory if this process is root, as only root can mount. If it is not, this says so.
    pub(crate) fn detect() -> Self {
        if geteuid().is_root() {
            return Self::Memory;
        }
        tracing::warn!(
            "secrets of tasks are kept on disk: the agent is not root, and so cannot mount a tmpfs"
        );
        Self::Disk
    }
}

impl Secrets {
    /// Creates the directories in a task's directory. Existing directories are kept.
    pub(crate) fn build(&self, task: &OpenDir) -> io::Result<()> {
        let agent = (geteuid().as_raw(), nix::unistd::getegid().as_raw());
        let size_mb = if self.size_mb == 0 { DEFAULT_MB } else { self.size_mb };
        self.make(task, SECRETS, Tmpfs { owner: self.owner, size_mb, may_swap: false })?;
        self.make(task, PRIVATE, Tmpfs { owner: agent, size_mb: DEFAULT_MB, may_swap: false })
    }

    fn make(&self, task: &OpenDir, name: &'static str, tmpfs: Tmpfs) -> io::Result<()> {
        let dir = task.make(name, MODE)?;
        // A file system in it is from an earlier start of the task.
        let is_mounted = fstat(task)?.st_dev != fstat(&dir)?.st_dev;
        if is_mounted || (self.storage == Storage::Memory && try_mount(&dir, name, tmpfs)?) {
            return Ok(());
        }
        let (uid, gid) = tmpfs.owner;
        if geteuid().is_root() && uid != geteuid().as_raw() {
            fchown(&dir, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        // It may have been created by an earlier version, with other permissions.
        Ok(fchmod(&dir, Mode::from_bits_truncate(MODE))?)
    }
}

/// Mounts a file system in memory on a directory. Returns whether the kernel permits that.
fn try_mount(dir: &OpenDir, name: &str, tmpfs: Tmpfs) -> io::Result<bool> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    // The task could replace the directory by a link; what is open stays the same.
    let target = dir.by_descriptor();
    let attempt = |tmpfs: Tmpfs| {
        let options = tmpfs.to_string();
        mount(Some(TMPFS), target.as_path(), Some(TMPFS), flags, Some(options.as_str()))
    };
    let outcome = match attempt(tmpfs) {
        Err(Errno::EINVAL) => attempt(Tmpfs { may_swap: true, ..tmpfs }),
        outcome => outcome,
    };
    match outcome {
        Ok(()) => Ok(true),
        Err(errno @ (Errno::EPERM | Errno::EACCES | Errno::ENODEV | Errno::ENOSYS)) => {
            tracing::warn!(
                directory = name,
                error = chain(&errno),
                "secrets of a task are kept on disk: cannot mount a tmpfs"
            );
            Ok(false)
        }
        Err(errno) => Err(io::Error::other(format!("cannot mount a tmpfs on {name}: {errno}"))),
    }
}

/// Unmounts what is mounted for the tasks of an allocation, whose directory this is. Their secrets are gone then.
pub(crate) fn unmount(alloc: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(alloc) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(());
        }
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        for name in [SECRETS, PRIVATE] {
            let path = entry.path().join(name);
            match umount2(&path, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW) {
                // Nothing is mounted there, or this process may not mount.
                Ok(()) | Err(Errno::EINVAL | Errno::ENOENT | Errno::EPERM) => {}
                Err(errno) => {
                    return Err(io::Error::other(format!("cannot unmount {}: {errno}", path.display())));
                }
            }
        }
    }
    Ok(())
}

/// Unmounts what is mounted for the tasks of all allocations, whose directories are in this one.
pub(crate) fn unmount_all(allocs: &Path) -> io::Result<()> {
    for entry in fs::read_dir(allocs)? {
        unmount(&entry?.path())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use nix::unistd::getegid;

    use super::*;

    fn own(storage: Storage, size_mb: u32) -> Secrets {
        Secrets { storage, owner: (geteuid().as_raw(), getegid().as_raw()), size_mb }
    }

    #[test]
    fn the_options_of_a_mount_say_who_may_use_it_and_how_much() {
        let tmpfs = Tmpfs { owner: (1_000, 100), size_mb: 3, may_swap: false };
        assert_eq!(tmpfs.to_string(), "size=3m,mode=700,uid=1000,gid=100,noswap");
        let older = Tmpfs { may_swap: true, ..tmpfs };
        assert_eq!(older.to_string(), "size=3m,mode=700,uid=1000,gid=100");
    }

    #[test]
    fn secrets_on_disk_can_be_entered_only_by_the_tasks_user() {
        let dir = tempfile::tempdir().unwrap();
        let task = OpenDir::open(dir.path()).unwrap();
        fs::create_dir(dir.path().join(SECRETS)).unwrap();
        own(Storage::Disk, 0).build(&task).unwrap();
        for name in [SECRETS, PRIVATE] {
            let metadata = fs::metadata(dir.path().join(name)).unwrap();
            assert_eq!((metadata.mode() & 0o7777, metadata.uid()), (MODE, geteuid().as_raw()), "{name}");
        }
    }

    /// Where the test may mount, the secrets are in memory, and gone after the unmount. Elsewhere they are on disk.
    #[test]
    fn in_memory_secrets_end_with_their_allocation() {
        let dir = tempfile::tempdir().unwrap();
        let alloc = dir.path().join("7");
        fs::create_dir_all(alloc.join("web")).unwrap();
        let task = OpenDir::open(&alloc.join("web")).unwrap();
        let storage = if geteuid().is_root() { Storage::Memory } else { Storage::Disk };
        let secrets = own(storage, 2);
        secrets.build(&task).unwrap();
        let key = alloc.join("web/secrets/key");
        fs::write(&key, "sesame").unwrap();
        secrets.build(&task).unwrap();
        assert_eq!(fs::read_to_string(&key).unwrap(), "sesame", "a second start keeps them");
        let is_mounted = fs::metadata(&key).unwrap().dev() != fs::metadata(&alloc).unwrap().dev();
        let mode = fs::metadata(alloc.join("web/secrets")).unwrap().mode() & 0o7777;
        unmount(&alloc).unwrap();
        assert_eq!(mode, MODE);
        assert_eq!(key.exists(), !is_mounted);
        unmount(&alloc).unwrap();
        unmount_all(dir.path()).unwrap();
    }

    #[test]
    fn nothing_is_mounted_or_changed_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (task, outside) = (dir.path().join("web"), dir.path().join("outside"));
        for path in [&task, &outside] {
            fs::create_dir(path).unwrap();
        }
        symlink(&outside, task.join(SECRETS)).unwrap();
        let before = fs::metadata(&outside).unwrap();
        own(Storage::Memory, 0).build(&OpenDir::open(&task).unwrap()).unwrap_err();
        let after = fs::metadata(&outside).unwrap();
        assert_eq!((before.mode(), before.dev()), (after.mode(), after.dev()));
    }
}
