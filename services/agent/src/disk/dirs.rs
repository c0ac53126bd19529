//! The directories of an allocation: `<id>/alloc/{logs,tmp,data}`, which its tasks share, and
//! `<id>/<task>/{local,secrets,private,tmp}`.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::secrets::{SECRETS, Secrets};
use super::tree::OpenDir;

/// Permissions of an allocation's directory and of the directory of all allocations. Only their owner can list them, which
/// protects the directories below.
const PARENT_MODE: u32 = 0o711;
/// Permissions of directories that every task of an allocation may write to.
const OPEN_MODE: u32 = 0o777;
/// The same, but only a file's owner may remove it.
const TMP_MODE: u32 = 0o1777;

/// The name of the directory that an allocation's tasks share. No task may have this name.
pub(crate) const SHARED: &str = "alloc";
/// The directory of the tasks' output, below the allocation's directory.
pub(crate) const LOGS: &str = "alloc/logs";
/// The name of the directory with the data that a replacement takes over.
const DATA: &str = "data";
/// The name of the directory with a task's data.
const LOCAL: &str = "local";

/// The directories of one allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AllocDirs {
    /// The allocation's root directory, which contains all others.
    pub(crate) root: PathBuf,
    /// The directory that its tasks share.
    pub(crate) shared: PathBuf,
}

/// The directories of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskDirs {
    /// The root directory of the task's allocation.
    pub(crate) alloc: PathBuf,
    /// The directory that the allocation's tasks share.
    pub(crate) shared: PathBuf,
    /// The task's root directory, which contains its others.
    pub(crate) task: PathBuf,
    /// The task's data.
    pub(crate) local: PathBuf,
    /// The task's secrets.
    pub(crate) secrets: PathBuf,
    name: String,
}

impl AllocDirs {
    /// The directories of the allocation with this root.
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { shared: root.join(SHARED), root }
    }

    /// Creates the directories that do not exist.
    pub(crate) fn build(&self) -> io::Result<()> {
        build_parent(&self.root)?;
        let shared = OpenDir::open(&self.root)?.make(SHARED, OPEN_MODE)?;
        for (name, mode) in [("logs", OPEN_MODE), (DATA, OPEN_MODE), ("tmp", TMP_MODE)] {
            shared.make(name, mode)?;
        }
        Ok(())
    }

    /// The directories of one of the allocation's tasks.
    pub(crate) fn task(&self, name: &str) -> TaskDirs {
        let task = self.root.join(name);
        TaskDirs {
            alloc: self.root.clone(),
            shared: self.shared.clone(),
            local: task.join(LOCAL),
            secrets: task.join(SECRETS),
            task,
            name: name.to_owned(),
        }
    }

    /// Moves the data of an earlier allocation on the same node here: the shared data, and `local` of the tasks that both
    /// have. Where a move fails, the new allocation starts without data.
    pub(crate) fn take_over<'a>(
        &self,
        earlier: &Self,
        tasks: impl Iterator<Item = &'a str>,
    ) -> io::Result<()> {
        let (from, to) = (OpenDir::open(&earlier.root)?, OpenDir::open(&self.root)?);
        replace(DATA, &from.dir(SHARED)?, &to.dir(SHARED)?)?;
        for name in tasks {
            if let Some(from) = existing(from.dir(name))? {
                replace(LOCAL, &from, &to.make(name, OPEN_MODE)?)?;
            }
        }
        Ok(())
    }
}

impl TaskDirs {
    /// Creates the directories that do not exist.
    pub(crate) fn build(&self, secrets: &Secrets) -> io::Result<()> {
        let task = self.open_alloc()?.make(&self.name, OPEN_MODE)?;
        task.make(LOCAL, OPEN_MODE)?;
        task.make("tmp", TMP_MODE)?;
        secrets.build(&task)
    }

    /// The directories as a task sees them whose root is not the node's.
    pub(crate) fn seen_by_task(&self) -> Self {
        let below_root = |name: &str| Path::new("/").join(name);
        Self {
            alloc: self.alloc.clone(),
            shared: below_root(SHARED),
            task: below_root(""),
            local: below_root(LOCAL),
            secrets: below_root(SECRETS),
            name: self.name.clone(),
        }
    }

    /// Opens the root directory of the allocation.
    pub(crate) fn open_alloc(&self) -> io::Result<OpenDir> {
        OpenDir::open(&self.alloc)
    }

    /// Opens the task's root directory.
    pub(crate) fn open(&self) -> io::Result<OpenDir> {
        self.open_alloc()?.dir(&self.name)
    }

    /// Opens the directory with the task's data.
    pub(crate) fn open_local(&self) -> io::Result<OpenDir> {
        self.open()?.dir(LOCAL)
    }
}

/// Creates the directory of all allocations, or of one. Tasks cannot write where it is; the operator may have put a link
/// there.
pub(crate) fn build_parent(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(PARENT_MODE).create(dir) {
        Ok(()) => fs::set_permissions(dir, Permissions::from_mode(PARENT_MODE)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Moves a directory to the place of another, which must be empty or absent.
fn replace(name: &str, from: &OpenDir, to: &OpenDir) -> io::Result<()> {
    // Opening the name fails if it is not a directory, or is a link.
    if existing(from.dir(name))?.is_none() {
        return Ok(());
    }
    existing(to.remove_dir(name))?;
    from.move_to(name, to)
}

/// Converts the error that something does not exist to `None`.
fn existing<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::testing::secrets;

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
            task.build(&secrets()).unwrap();
        }
        assert_eq!(mode(&dirs.root), 0o711);
        for path in ["alloc", "alloc/logs", "alloc/data", "web", "web/local"] {
            assert_eq!(mode(&dirs.root.join(path)), 0o777, "{path}");
        }
        for path in ["alloc/tmp", "web/tmp"] {
            assert_eq!(mode(&dirs.root.join(path)), 0o1777, "{path}");
        }
        for path in ["web/secrets", "web/private"] {
            assert_eq!(mode(&dirs.root.join(path)), 0o700, "{path}");
        }
    }

    #[test]
    fn a_replacement_finds_the_data_of_the_one_before_it() {
        let parent = tempfile::tempdir().unwrap();
        let (old, new) = (AllocDirs::new(parent.path().join("1")), AllocDirs::new(parent.path().join("2")));
        for dirs in [&old, &new] {
            dirs.build().unwrap();
        }
        old.task("web").build(&secrets()).unwrap();
        fs::write(old.shared.join("data/a"), "shared").unwrap();
        fs::write(old.task("web").local.join("b"), "own").unwrap();
        new.take_over(&old, ["web", "other"].into_iter()).unwrap();
        assert_eq!(fs::read_to_string(new.shared.join("data/a")).unwrap(), "shared");
        assert_eq!(fs::read_to_string(new.task("web").local.join("b")).unwrap(), "own");
        assert!(!new.root.join("other").exists());
    }

    #[test]
    fn directories_that_a_task_replaced_by_links_are_not_used() {
        let parent = tempfile::tempdir().unwrap();
        let (old, new) = (AllocDirs::new(parent.path().join("1")), AllocDirs::new(parent.path().join("2")));
        for dirs in [&old, &new] {
            dirs.build().unwrap();
        }
        let outside = parent.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o700)).unwrap();
        for path in [old.shared.join("data"), new.shared.join("logs")] {
            fs::remove_dir(&path).unwrap();
            symlink(&outside, path).unwrap();
        }
        new.take_over(&old, std::iter::empty()).unwrap_err();
        assert!(new.shared.join("data").is_dir() && !new.shared.join("data").is_symlink());
        new.build().unwrap_err();
        assert_eq!(mode(&outside), 0o700);
    }
}
