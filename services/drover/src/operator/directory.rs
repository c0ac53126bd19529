//! The secrets directory. Each file is created completely or not at all, and no existing file is overwritten.
//!
//! A file is written under a temporary name in the same directory, given its mode and owner, flushed, and then renamed. If
//! the process is interrupted, it leaves a temporary file, which the next run removes. A lock excludes other processes that
//! fill the directory.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, lchown,
};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::Uid;

/// The mode of new directories.
const DIRECTORY_MODE: u32 = 0o750;
/// Prefix of the names of temporary files.
const TEMPORARY_PREFIX: &str = ".unfinished-";

/// The users that may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Only its owner.
    Secret,
    /// All users who can reach it.
    Public,
}

/// The numeric ids of a user and a group, as in `65532:65532`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl std::str::FromStr for Owner {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = || format!("expected a user and a group by number, such as 999:999, not {text:?}");
        let (uid, gid) = text.split_once(':').ok_or_else(expected)?;
        let number = |text: &str| text.parse::<u32>().map_err(|_| expected());
        Ok(Self { uid: number(uid)?, gid: number(gid)? })
    }
}

/// A secrets directory that this process has locked, with the lists of new and existing files.
#[derive(Debug)]
pub(super) struct Directory {
    root: PathBuf,
    made: Vec<String>,
    kept: BTreeSet<String>,
    _lock: Flock<File>,
}

impl Directory {
    /// Opens the directory, and creates it if it is missing. Waits while another process has it locked.
    pub(super) fn open(root: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(root).with_context(|| format!("cannot create {}", root.display()))?;
        let opened = File::open(root).with_context(|| format!("cannot open {}", root.display()))?;
        let lock = Flock::lock(opened, FlockArg::LockExclusive)
            .map_err(|(_, error)| error)
            .with_context(|| format!("cannot lock {}", root.display()))?;
        Ok(Self { root: root.to_owned(), made: Vec::new(), kept: BTreeSet::new(), _lock: lock })
    }

    /// The path of the directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The files that were created, in order.
    pub(super) fn made(&self) -> &[String] {
        &self.made
    }

    /// The files that existed already.
    pub(super) fn kept(&self) -> &BTreeSet<String> {
        &self.kept
    }

    /// Creates a sub-directory if it is missing, and sets its owner. It may be a mount point. Removes temporary files of an
    /// earlier run.
    pub(super) fn sub_directory(&self, name: &str, owner: Option<Owner>) -> anyhow::Result<()> {
        let path = self.root.join(name);
        match DirBuilder::new().mode(DIRECTORY_MODE).create(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("cannot create {}", path.display()));
            }
            Ok(()) | Err(_) => {}
        }
        let metadata =
            fs::symlink_metadata(&path).with_context(|| format!("cannot inspect {}", path.display()))?;
        ensure!(metadata.is_dir(), "{} exists and is not a directory", path.display());
        set_owner(&path, owner)?;
        let entries = fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read {}", path.display()))?;
            if entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX) {
                let temporary = entry.path();
                fs::remove_file(&temporary)
                    .with_context(|| format!("cannot remove {}", temporary.display()))?;
            }
        }
        Ok(())
    }

    /// Reads a file; `None` if it does not exist.
    pub(super) fn read(&self, name: &str) -> anyhow::Result<Option<String>> {
        let path = self.root.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Reads a file. If it does not exist, creates it with the text that `make` returns.
    pub(super) fn file(
        &mut self,
        name: &str,
        mode: Mode,
        owner: Option<Owner>,
        make: impl FnOnce() -> anyhow::Result<String>,
    ) -> anyhow::Result<String> {
        if let Some(text) = self.read(name)? {
            set_owner(&self.root.join(name), owner)?;
            self.kept.insert(name.to_owned());
            return Ok(text);
        }
        let text = make()?;
        let temporary = self.write_temporary(name, mode, owner, &text)?;
        let path = self.root.join(name);
        fs::rename(&temporary, &path).with_context(|| format!("cannot create {}", path.display()))?;
        self.flush(&path)?;
        self.made.push(name.to_owned());
        Ok(text)
    }

    /// Replaces a file's text atomically. The file keeps its owner.
    pub(super) fn replace(&mut self, name: &str, mode: Mode, text: &str) -> anyhow::Result<()> {
        let path = self.root.join(name);
        let metadata =
            fs::symlink_metadata(&path).with_context(|| format!("cannot inspect {}", path.display()))?;
        let owner = Uid::effective().is_root().then_some(Owner { uid: metadata.uid(), gid: metadata.gid() });
        let temporary = self.write_temporary(name, mode, owner, text)?;
        fs::rename(&temporary, &path).with_context(|| format!("cannot replace {}", path.display()))?;
        self.flush(&path)?;
        self.made.push(name.to_owned());
        Ok(())
    }

    fn write_temporary(
        &self,
        name: &str,
        mode: Mode,
        owner: Option<Owner>,
        text: &str,
    ) -> anyhow::Result<PathBuf> {
        let path = self.root.join(name);
        let file_name = path.file_name().context("a file has a name")?.to_string_lossy().into_owned();
        let temporary = path.with_file_name(format!("{TEMPORARY_PREFIX}{file_name}"));
        let write = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
            file.write_all(text.as_bytes())?;
            let bits = match mode {
                Mode::Secret => 0o600,
                Mode::Public => 0o644,
            };
            // Before the owner changes: only a privileged process may change the mode of another user's file.
            file.set_permissions(Permissions::from_mode(bits))?;
            file.sync_all()
        };
        write().with_context(|| format!("cannot write {}", temporary.display()))?;
        set_owner(&temporary, owner)?;
        Ok(temporary)
    }

    /// Flushes the directory of a new file, so that its name is durable too.
    fn flush(&self, path: &Path) -> anyhow::Result<()> {
        let directory = path.parent().unwrap_or(&self.root);
        let flushed = File::open(directory).and_then(|directory| directory.sync_all());
        flushed.with_context(|| format!("cannot flush {}", directory.display()))
    }
}

/// Changes the owner of a file or directory of this process's user to `owner`. Leaves those of other users unchanged.
fn set_owner(path: &Path, owner: Option<Owner>) -> anyhow::Result<()> {
    let Some(owner) = owner else { return Ok(()) };
    let metadata =
        fs::symlink_metadata(path).with_context(|| format!("cannot inspect {}", path.display()))?;
    if metadata.uid() != Uid::effective().as_raw()
        || (metadata.uid(), metadata.gid()) == (owner.uid, owner.gid)
    {
        return Ok(());
    }
    let changed = lchown(path, Some(owner.uid), Some(owner.gid));
    changed.with_context(|| {
        format!(
            "cannot change the owner of {} to {}:{} (requires root or CAP_CHOWN)",
            path.display(),
            owner.uid,
            owner.gid
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_once_and_kept() {
        let temporary = tempfile::tempdir().unwrap();
        let mut directory = Directory::open(&temporary.path().join("secrets")).unwrap();
        directory.sub_directory("api", None).unwrap();
        let first = directory.file("api/password", Mode::Secret, None, || Ok("first".to_owned())).unwrap();
        let second = directory.file("api/password", Mode::Secret, None, || Ok("second".to_owned())).unwrap();
        assert_eq!((first.as_str(), second.as_str()), ("first", "first"));
        directory.file("api/ca.pem", Mode::Public, None, || Ok("public".to_owned())).unwrap();
        assert_eq!(directory.made(), ["api/password", "api/ca.pem"]);
        assert_eq!(directory.kept().iter().collect::<Vec<_>>(), ["api/password"]);
        let mode =
            |name: &str| fs::metadata(directory.root().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("api"), mode("api/password"), mode("api/ca.pem")), (0o750, 0o600, 0o644));
        assert_eq!(
            fs::read_dir(directory.root().join("api")).unwrap().count(),
            2,
            "no temporary file is left"
        );
    }

    #[test]
    fn failed_files_leave_nothing_and_unfinished_files_are_removed() {
        let temporary = tempfile::tempdir().unwrap();
        let mut directory = Directory::open(temporary.path()).unwrap();
        directory.sub_directory("api", None).unwrap();
        let failed = directory.file("api/password", Mode::Secret, None, || anyhow::bail!("no chance"));
        assert!(failed.is_err() && directory.made().is_empty());
        fs::write(temporary.path().join("api/.unfinished-password"), "half").unwrap();
        directory.sub_directory("api", None).unwrap();
        assert_eq!(fs::read_dir(temporary.path().join("api")).unwrap().count(), 0);
    }

    #[test]
    fn a_replaced_file_has_the_new_text() {
        let temporary = tempfile::tempdir().unwrap();
        let mut directory = Directory::open(temporary.path()).unwrap();
        directory.file("certificate", Mode::Public, None, || Ok("old".to_owned())).unwrap();
        directory.replace("certificate", Mode::Public, "new").unwrap();
        assert_eq!(directory.read("certificate").unwrap().as_deref(), Some("new"));
        assert!(directory.replace("another", Mode::Public, "new").is_err(), "there is no file to replace");
    }

    #[test]
    fn owners_are_numbers() {
        assert_eq!("999:70".parse(), Ok(Owner { uid: 999, gid: 70 }));
        for text in ["999", "postgres:postgres", "1:2:3", "-1:0", ""] {
            assert!(text.parse::<Owner>().is_err(), "{text}");
        }
    }
}
