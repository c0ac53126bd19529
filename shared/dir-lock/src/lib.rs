//! Locks a directory for one process at a time.
//!
//! The lock is on the file `lock` in the directory, which also names the process that holds it. The system releases the
//! lock when that process ends, however it ends; the file stays. Child processes do not inherit the lock. The crate
//! does not wait until a lock is free.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};

/// The name of the file that is locked.
const FILE: &str = "lock";
/// Permissions of that file.
const FILE_MODE: u32 = 0o600;
/// How much of the file is read to learn who holds the lock; a process id is shorter.
const HOLDER_BYTES_MAX: u64 = 20;

/// A lock on a directory. Dropping it releases the lock.
#[derive(Debug)]
pub struct DirLock {
    _file: Flock<File>,
}

/// Why a directory cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process holds the lock, or this process already does.
    #[error("{} uses {}", holder(*pid), dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The process that holds the lock, if it has said so.
        pid: Option<u32>,
    },
    /// The file cannot be opened, locked or written.
    #[error("cannot lock {}", dir.display())]
    Io {
        /// The directory.
        dir: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

impl DirLock {
    /// Locks a directory, which must exist.
    ///
    /// # Errors
    /// If it is locked already, or the file cannot be used.
    pub fn try_acquire(dir: &Path) -> Result<Self, Error> {
        let failed = |source: io::Error| Error::Io { dir: dir.to_owned(), source };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            // The directory may belong to another user.
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(dir.join(FILE))
            .map_err(failed)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut file) => {
                name_holder(&mut file).map_err(failed)?;
                Ok(Self { _file: file })
            }
            Err((mut file, Errno::EAGAIN)) => {
                Err(Error::InUse { dir: dir.to_owned(), pid: named_holder(&mut file) })
            }
            Err((_, errno)) => Err(failed(errno.into())),
        }
    }
}

/// Writes the id of this process into the locked file.
fn name_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// The process that the file names; `None` while it has not written its id.
fn named_holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(HOLDER_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_user_at_a_time_and_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let lock = DirLock::try_acquire(dir.path()).unwrap();
        let refused = DirLock::try_acquire(dir.path()).unwrap_err();
        let expected = format!("process {} uses {}", std::process::id(), dir.path().display());
        assert_eq!(refused.to_string(), expected);
        drop(lock);
        DirLock::try_acquire(dir.path()).unwrap();
    }

    #[test]
    fn a_holder_that_has_not_named_itself_is_another_process() {
        let dir = tempfile::tempdir().unwrap();
        let _lock = DirLock::try_acquire(dir.path()).unwrap();
        std::fs::write(dir.path().join(FILE), "").unwrap();
        let refused = DirLock::try_acquire(dir.path()).unwrap_err();
        assert!(refused.to_string().starts_with("another process uses "), "{refused}");
    }

    #[test]
    fn a_link_is_not_locked() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = dir.path().join("elsewhere");
        std::fs::write(&elsewhere, "kept").unwrap();
        std::os::unix::fs::symlink(&elsewhere, dir.path().join(FILE)).unwrap();
        assert!(matches!(DirLock::try_acquire(dir.path()), Err(Error::Io { .. })));
        assert_eq!(std::fs::read_to_string(elsewhere).unwrap(), "kept");
    }

    #[test]
    fn a_child_process_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let lock = DirLock::try_acquire(dir.path()).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        drop(lock);
        let second = DirLock::try_acquire(dir.path());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(second.is_ok());
    }
}
