//! Opens files within an allocation's directory only: the kernel resolves paths so that neither `..` nor a link leads
//! outside, whatever tasks do concurrently.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Component, Path, PathBuf};

use model::text::quoted;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use wire::files::PROHIBITED;
use wire::{Refusal, RefusalKind};

use super::{invalid, io_refusal, not_found};
use crate::disk::dirs::{LOGS, SHARED};
use crate::disk::secrets::{PRIVATE, SECRETS};
use crate::disk::tree::{self, Links, OpenDir};

/// Directories of a task that the API does not read.
const GUARDED: [&str; 2] = [SECRETS, PRIVATE];
/// The refusal of a path that leads out of the directory.
const ESCAPES: &str = "Path escapes the alloc directory";

/// An allocation's directory.
#[derive(Debug)]
pub(super) struct AllocRoot {
    root: OpenDir,
    path: PathBuf,
}

impl AllocRoot {
    /// Opens the directory.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let path = root.canonicalize()?;
        Ok(Self { root: OpenDir::open(&path)?, path })
    }

    /// Opens the directory of the tasks' output.
    pub(super) fn logs(&self) -> io::Result<OpenDir> {
        self.root.dir(LOGS)
    }

    /// Opens the file or directory at a path, for inspection. `action` names what failed if it cannot be opened.
    pub(super) fn entry(&self, path: &str, action: &str) -> Result<Entry, Refusal> {
        let relative = relative(path)?;
        if let Some(refusal) = guarded(&relative, path) {
            return Err(refusal);
        }
        // Does not wait for the other end of a pipe, and does not affect devices.
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let place = place(&self.path, &relative);
        let opened = self.root.open_beneath(&relative, flags, Links::Inside).map_err(|errno| {
            let escapes = [Errno::EXDEV, Errno::ELOOP].contains(&errno);
            if escapes { invalid(ESCAPES) } else { failed(action, &place, errno) }
        })?;
        let entry = Entry { file: opened, place };
        // A link within the directory may lead to a guarded one.
        let real = fs::read_link(entry.by_descriptor()).map_err(|error| io_refusal(path, &error))?;
        let real = real.strip_prefix(&self.path).map_err(|_| invalid(ESCAPES))?;
        match guarded(real, path) {
            Some(refusal) => Err(refusal),
            None => Ok(entry),
        }
    }

    /// Opens a regular file for reading.
    pub(super) fn file(&self, path: &str) -> Result<File, Refusal> {
        let file = self.entry(path, "stat")?.file;
        let kind = file.metadata().map_err(|error| io_refusal(path, &error))?.file_type();
        if kind.is_dir() {
            return Err(invalid(format!("file {} is a directory", quoted(path))));
        }
        if kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device() {
            return Err(invalid(format!("file {} is not a regular file", quoted(path))));
        }
        Ok(file)
    }
}

/// An open file or directory of an allocation.
#[derive(Debug)]
pub(super) struct Entry {
    /// The open file or directory.
    pub(super) file: File,
    /// Its path on the node, as it was requested: a link in it is not resolved.
    pub(super) place: PathBuf,
}

impl Entry {
    /// A path to it that no task can change.
    pub(super) fn by_descriptor(&self) -> PathBuf {
        tree::by_descriptor(&self.file)
    }
}

/// Makes a path relative to the root. `.` is the root itself. `..` takes back the name before it, whatever that name leads
/// to (http-api §13).
fn relative(path: &str) -> Result<PathBuf, Refusal> {
    let mut relative = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => relative.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir if relative.pop() => {}
            Component::ParentDir | Component::Prefix(_) => return Err(invalid(ESCAPES)),
        }
    }
    if relative.as_os_str().is_empty() {
        relative.push(".");
    }
    Ok(relative)
}

/// The path on the node of a path relative to the root.
fn place(root: &Path, relative: &Path) -> PathBuf {
    if relative == Path::new(".") { root.to_owned() } else { root.join(relative) }
}

/// The refusal of an action that failed: the action, the path on the node, and why, in the operating system's words
/// (http-api §13).
pub(super) fn failed(action: &str, place: &Path, errno: Errno) -> Refusal {
    let message = format!("{action} {}: {}", place.display(), errno.desc().to_ascii_lowercase());
    if errno == Errno::ENOENT {
        return not_found(message);
    }
    Refusal { kind: RefusalKind::NotReady, message: message.into() }
}

/// The refusal of an action on a path in an allocation's directory that cannot be opened.
pub(super) fn no_root(root: &Path, action: &str, path: &str, error: &io::Error) -> Refusal {
    let errno = error.raw_os_error().map_or(Errno::ENOENT, Errno::from_raw);
    relative(path).map_or_else(|refusal| refusal, |relative| failed(action, &place(root, &relative), errno))
}

/// Refuses paths to a task's secrets. The comparison ignores case, because some file systems do.
fn guarded(relative: &Path, requested: &str) -> Option<Refusal> {
    let mut parts = relative.components();
    let (task, dir) = (parts.next()?.as_os_str(), parts.next()?.as_os_str());
    if task == SHARED {
        return None;
    }
    let kind = GUARDED.into_iter().find(|name| dir.eq_ignore_ascii_case(name))?;
    // The texts are "Reading secret file prohibited" and "Reading private file prohibited".
    let kind = kind.trim_end_matches('s');
    Some(invalid(format!("Reading {kind} {PROHIBITED}: {requested}")))
}
