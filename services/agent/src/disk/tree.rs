//! Directories that are held open. Tasks may write to the directories of their allocation, and may replace what is in
//! them at any time; the agent and its executors may be root. So the agent and its executors name each file there
//! relative to an open directory. The kernel resolves the name within that directory, and follows no link unless a
//! function says so.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2, renameat};
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

/// How directories are opened.
const DIRECTORY: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY);

/// Which links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// None.
    Refused,
    /// Those that stay inside the directory.
    Inside,
}

/// A directory that is held open.
#[derive(Debug)]
pub(crate) struct OpenDir(OwnedFd);

impl AsFd for OpenDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl OpenDir {
    /// Opens a directory whose path no task can change.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(nix::fcntl::open(path, DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?))
    }

    /// Opens a file or directory inside.
    pub(crate) fn open_beneath(&self, path: &Path, flags: OFlag, links: Links) -> Result<File, Errno> {
        self.resolve(path, flags, Mode::empty(), links).map(File::from)
    }

    fn resolve(&self, path: &Path, flags: OFlag, mode: Mode, links: Links) -> Result<OwnedFd, Errno> {
        let beneath = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let resolve = match links {
            Links::Refused => beneath | ResolveFlag::RESOLVE_NO_SYMLINKS,
            Links::Inside => beneath,
        };
        let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).mode(mode).resolve(resolve);
        openat2(&self.0, path, how)
    }

    /// Opens a directory inside. No link is followed.
    pub(crate) fn dir(&self, path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let opened = self.resolve(path, DIRECTORY, Mode::empty(), Links::Refused);
        opened.map(Self).map_err(|errno| explained(path, errno))
    }

    /// Opens the directory of this name, and creates it if it does not exist. A new one gets exactly these permissions,
    /// regardless of the process's umask.
    pub(crate) fn make(&self, name: impl AsRef<Path>, mode: u32) -> io::Result<Self> {
        let (name, mode) = (name.as_ref(), Mode::from_bits_truncate(mode));
        match mkdirat(&self.0, name, mode) {
            Ok(()) => {
                let made = self.dir(name)?;
                fchmod(&made.0, mode)?;
                Ok(made)
            }
            Err(Errno::EEXIST) => self.dir(name),
            Err(errno) => Err(explained(name, errno)),
        }
    }

    /// Opens the file of this name at its end, and creates it if it does not exist. Refuses anything but a regular
    /// file, and a file with a second name elsewhere.
    pub(crate) fn append(&self, name: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        let name = name.as_ref();
        // A pipe without a reader fails to open, instead of waiting for one.
        let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = File::from(self.create(name, flags, mode)?);
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.nlink() != 1 {
            let text = format!("{} is not a regular file, or has a second name", name.display());
            return Err(io::Error::other(text));
        }
        Ok(file)
    }

    /// Creates a file for writing. A file or link of this name must not exist.
    pub(crate) fn create_new(&self, name: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
        self.create(name.as_ref(), flags, mode).map(File::from)
    }

    fn create(&self, name: &Path, flags: OFlag, mode: u32) -> io::Result<OwnedFd> {
        let created = self.resolve(name, flags, Mode::from_bits_truncate(mode), Links::Refused);
        created.map_err(|errno| explained(name, errno))
    }

    /// Removes the file of this name.
    pub(crate) fn remove_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.0, name.as_ref(), UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes the empty directory of this name.
    pub(crate) fn remove_dir(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.0, name.as_ref(), UnlinkatFlags::RemoveDir)?)
    }

    /// Gives what has a name another one, in place of what has that name.
    pub(crate) fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(renameat(&self.0, from.as_ref(), &self.0, to.as_ref())?)
    }

    /// Moves what has this name into another directory, under the same name.
    pub(crate) fn move_to(&self, name: impl AsRef<OsStr>, other: &Self) -> io::Result<()> {
        Ok(renameat(&self.0, name.as_ref(), &other.0, name.as_ref())?)
    }

    /// The entries.
    pub(crate) fn entries(&self) -> io::Result<fs::ReadDir> {
        fs::read_dir(self.by_descriptor())
    }

    /// A path to the directory that no task can change.
    pub(crate) fn by_descriptor(&self) -> PathBuf {
        by_descriptor(self)
    }
}

/// A path to an open file or directory that no task can change.
pub(crate) fn by_descriptor(file: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

/// The error of an operation on a path inside a directory, in words if the path is refused.
pub(crate) fn explained(path: &Path, errno: Errno) -> io::Error {
    if errno == Errno::ELOOP {
        io::Error::other(format!("{} is a link, or leads through one", path.display()))
    } else if errno == Errno::EXDEV {
        io::Error::other(format!("{} leads out of its directory", path.display()))
    } else {
        errno.into()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    /// A directory `outside`, and a directory `own` that is held open, with a link `away` to the other one.
    fn scene() -> (tempfile::TempDir, OpenDir) {
        let dir = tempfile::tempdir().unwrap();
        for name in ["own", "outside"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        symlink(dir.path().join("outside"), dir.path().join("own/away")).unwrap();
        let own = OpenDir::open(&dir.path().join("own")).unwrap();
        (dir, own)
    }

    #[test]
    fn directories_are_made_with_exactly_their_permissions() {
        let (dir, own) = scene();
        own.make("open", 0o1777).unwrap().make("inner", 0o700).unwrap();
        own.make("open", 0o700).unwrap();
        assert_eq!(mode(&dir.path().join("own/open")), 0o1777, "an existing one keeps its permissions");
        assert_eq!(mode(&dir.path().join("own/open/inner")), 0o700);
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let (dir, own) = scene();
        let outside = dir.path().join("outside");
        symlink(outside.join("file"), dir.path().join("own/file")).unwrap();
        for refused in [
            own.dir("away").map(drop),
            own.make("away", 0o777).map(drop),
            own.dir("away/inner").map(drop),
            own.append("file", 0o600).map(drop),
            own.create_new("file", 0o600).map(drop),
            own.append("away/file", 0o600).map(drop),
        ] {
            refused.unwrap_err();
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert_eq!(own.dir("away").unwrap_err().to_string(), "away is a link, or leads through one");
        assert_eq!(own.dir("../outside").unwrap_err().to_string(), "../outside leads out of its directory");
    }

    #[test]
    fn an_open_directory_stays_the_same_when_it_is_replaced() {
        let (dir, own) = scene();
        let logs = own.make("logs", 0o777).unwrap();
        fs::rename(dir.path().join("own/logs"), dir.path().join("own/moved")).unwrap();
        symlink(dir.path().join("outside"), dir.path().join("own/logs")).unwrap();
        logs.append("web.stdout.0", 0o644).unwrap().write_all(b"hello").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("own/moved/web.stdout.0")).unwrap(), "hello");
        assert_eq!(fs::read_dir(dir.path().join("outside")).unwrap().count(), 0);
    }

    #[test]
    fn only_plain_files_are_appended_to() {
        let (dir, own) = scene();
        own.append("a", 0o600).unwrap().write_all(b"1").unwrap();
        own.append("a", 0o600).unwrap().write_all(b"2").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("own/a")).unwrap(), "12");
        fs::write(dir.path().join("outside/secret"), "").unwrap();
        fs::hard_link(dir.path().join("outside/secret"), dir.path().join("own/b")).unwrap();
        own.append("b", 0o600).unwrap_err();
        nix::unistd::mkfifo(&dir.path().join("own/c"), Mode::S_IRWXU).unwrap();
        own.append("c", 0o600).unwrap_err();
    }

    #[test]
    fn links_that_stay_inside_are_followed_on_request() {
        let (dir, own) = scene();
        fs::write(dir.path().join("own/a"), "").unwrap();
        symlink("a", dir.path().join("own/b")).unwrap();
        let open = |name: &str, links| own.open_beneath(Path::new(name), OFlag::O_RDONLY, links);
        assert!(open("b", Links::Inside).is_ok());
        assert_eq!(open("b", Links::Refused).unwrap_err(), Errno::ELOOP);
        assert_eq!(open("away", Links::Inside).unwrap_err(), Errno::EXDEV);
    }
}
