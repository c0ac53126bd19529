//! The directories of an allocation: `<id>/alloc/{logs,tmp,data}`, which its tasks share, and
//! `<id>/<task>/{local,secrets,private,tmp}`. They are plain directories without mounts (A-13.2 asks for memory-backed
//! secrets where possible).

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Permissions of an allocation's directory and of the directory of all allocations. Only their owner can list them, which
/// protects the directories below.
const PARENT_MODE: u32 = 0o711;
/// Permissions of directories that every task of an allocation may write to.
const OPEN_MODE: u32 = 0o777;
/// The same, but only a file's owner may remove it.
const TMP_MODE: u32 = 0o1777;

/// The name of the directory that an allocation's tasks share. No task may have this name.
pub(crate) const SHARED: &str = "alloc";

/// The directories of one allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AllocDirs {
    /// The allocation's root directory, which contains all others.
    pub(crate) root: PathBuf,
    /// The directory that its tasks share.
    pub(crate) shared: PathBuf,
    /// The directory of the tasks' output.
    pub(crate) logs: PathBuf,
}

/// The directories of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskDirs {
    /// The directory that the allocation's tasks share.
    pub(crate) shared: PathBuf,
    /// The task's root directory, which contains the others.
    pub(crate) task: PathBuf,
    /// The task's data.
    pub(crate) local: PathBuf,
    /// The task's secrets.
    pub(crate) secrets: PathBuf,
    private: PathBuf,
    tmp: PathBuf,
}

impl AllocDirs {
    /// The directories of the allocation with this root.
    pub(crate) fn new(root: PathBuf) -> Self {
        let shared = root.join(SHARED);
        Self { logs: shared.join("logs"), shared, root }
    }

    /// Creates the directories that do not exist.
    pub(crate) fn build(&self) -> io::Result<()> {
        make(&self.root, PARENT_MODE)?;
        make(&self.shared, OPEN_MODE)?;
        make(&self.logs, OPEN_MODE)?;
        make(&self.shared.join("data"), OPEN_MODE)?;
        make(&self.shared.join("tmp"), TMP_MODE)
    }

    /// The directories of one of the allocation's tasks.
    pub(crate) fn task(&self, name: &str) -> TaskDirs {
        let task = self.root.join(name);
        TaskDirs {
            shared: self.shared.clone(),
            local: task.join("local"),
            secrets: task.join("secrets"),
            private: task.join("private"),
            tmp: task.join("tmp"),
            task,
        }
    }

    /// Moves the data of an earlier allocation on the same node here: the shared data, and `local` of the tasks that both
    /// have. Where a move fails, the new allocation starts without data.
    pub(crate) fn take_over<'a>(
        &self,
        earlier: &Self,
        tasks: impl Iterator<Item = &'a str>,
    ) -> io::Result<()> {
        replace(&earlier.shared.join("data"), &self.shared.join("data"))?;
        for name in tasks {
            let (from, to) = (earlier.task(name), self.task(name));
            if from.local.exists() {
                make(&to.task, OPEN_MODE)?;
                replace(&from.local, &to.local)?;
            }
        }
        Ok(())
    }
}

impl TaskDirs {
    /// Creates the directories that do not exist.
    pub(crate) fn build(&self) -> io::Result<()> {
        for dir in [&self.task, &self.local, &self.secrets, &self.private] {
            make(dir, OPEN_MODE)?;
        }
        make(&self.tmp, TMP_MODE)
    }
}

/// Creates the directory of all allocations.
pub(crate) fn build_parent(dir: &Path) -> io::Result<()> {
    make(dir, PARENT_MODE)
}

/// Creates a directory with exactly these permissions, regardless of the process's umask.
fn make(dir: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(dir) {
        Ok(()) => fs::set_permissions(dir, Permissions::from_mode(mode)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Moves a directory to the place of another, which must be empty or absent.
fn replace(from: &Path, to: &Path) -> io::Result<()> {
    if !from.exists() {
        return Ok(());
    }
    match fs::remove_dir(to) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fs::rename(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn directories_are_laid_out_as_the_api_shows_them() {
        let parent = tempfile::tempdir().unwrap();
        let dirs = AllocDirs::new(parent.path().join("7"));
        let task = dirs.task("web");
        for _ in 0..2 {
            dirs.build().unwrap();
            task.build().unwrap();
        }
        assert_eq!(mode(&dirs.root), 0o711);
        for path in ["alloc", "alloc/logs", "alloc/data", "web", "web/local", "web/secrets", "web/private"] {
            assert_eq!(mode(&dirs.root.join(path)), 0o777, "{path}");
        }
        for path in ["alloc/tmp", "web/tmp"] {
            assert_eq!(mode(&dirs.root.join(path)), 0o1777, "{path}");
        }
    }

    #[test]
    fn a_replacement_finds_the_data_of_the_one_before_it() {
        let parent = tempfile::tempdir().unwrap();
        let (old, new) = (AllocDirs::new(parent.path().join("1")), AllocDirs::new(parent.path().join("2")));
        for dirs in [&old, &new] {
            dirs.build().unwrap();
        }
        old.task("web").build().unwrap();
        fs::write(old.shared.join("data/a"), "shared").unwrap();
        fs::write(old.task("web").local.join("b"), "own").unwrap();
        new.take_over(&old, ["web", "other"].into_iter()).unwrap();
        assert_eq!(fs::read_to_string(new.shared.join("data/a")).unwrap(), "shared");
        assert_eq!(fs::read_to_string(new.task("web").local.join("b")).unwrap(), "own");
        assert!(!new.root.join("other").exists());
    }
}
