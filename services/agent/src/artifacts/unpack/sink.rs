//! Where an archive is unpacked to: an open directory, with limits of what goes into it.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{self, Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::symlinkat;

use crate::disk::tree::{Links, OpenDir, explained};

/// The most directories that a path leads through.
pub(crate) const DEPTH_MAX: usize = 128;
/// Permissions of directories.
const DIR_MODE: u32 = 0o755;
/// The permissions that an archive can give a file, and those that the fetcher needs.
const MODE_MASK: u32 = 0o777;
const MODE_NEEDED: u32 = 0o600;
/// Permissions of a file until it is complete.
const PARTIAL_MODE: u32 = 0o600;
/// The number of bytes that are copied at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// How many times as large as the archive its content may be.
const RATIO_MAX: u64 = 250;
/// The content of an archive that may have any ratio, in bytes.
const ANY_RATIO_BYTES: u64 = 64 << 20;

/// What may still be unpacked.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes_max: u64,
    entries_max: u64,
    bytes: u64,
    entries: u64,
    /// The size of the archive; `None` while it is unknown.
    packed_bytes: Option<u64>,
}

impl Budget {
    /// A budget of bytes and entries.
    pub(crate) fn new(bytes_max: u64, entries_max: u64) -> Self {
        Self { bytes_max, entries_max, bytes: 0, entries: 0, packed_bytes: None }
    }

    fn entry(&mut self) -> io::Result<()> {
        self.entries = self.entries.saturating_add(1);
        if self.entries > self.entries_max {
            return Err(io::Error::other(format!("the archive has more than {} entries", self.entries_max)));
        }
        Ok(())
    }

    fn add(&mut self, bytes: usize) -> io::Result<()> {
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        if self.bytes > self.bytes_max {
            return Err(io::Error::other(format!("the archive contains more than {} bytes", self.bytes_max)));
        }
        let usual = |packed: u64| packed.saturating_mul(RATIO_MAX).max(ANY_RATIO_BYTES);
        if self.packed_bytes.is_some_and(|packed| self.bytes > usual(packed)) {
            let text =
                format!("the content of the archive is more than {RATIO_MAX} times as large as the archive");
            return Err(io::Error::other(text));
        }
        Ok(())
    }
}

/// Where an archive is unpacked to. No link is followed.
pub(crate) struct Sink<'a> {
    root: &'a OpenDir,
    budget: Budget,
}

impl<'a> Sink<'a> {
    /// Unpacks into a directory.
    pub(crate) fn new(root: &'a OpenDir, budget: Budget) -> Self {
        Self { root, budget }
    }

    pub(super) fn set_packed_bytes(&mut self, bytes: u64) {
        self.budget.packed_bytes = Some(bytes);
    }

    /// Makes a directory.
    pub(super) fn dir(&mut self, path: &Path) -> io::Result<()> {
        self.budget.entry()?;
        let mut dir: Option<OpenDir> = None;
        for part in parts(path)? {
            dir = Some(dir.as_ref().unwrap_or(self.root).make(part, DIR_MODE)?);
        }
        Ok(())
    }

    /// Writes a file. Its permissions are those of the archive, without set-uid and set-gid.
    pub(super) fn file(&mut self, path: &Path, mode: u32, content: &mut dyn Read) -> io::Result<()> {
        self.budget.entry()?;
        let (dir, name) = self.place(path)?;
        let mut file = replace(dir.as_ref().unwrap_or(self.root), name)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let count = match content.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            let Some(bytes) = chunk.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
            self.budget.add(count)?;
            file.write_all(bytes)?;
        }
        file.set_permissions(Permissions::from_mode(mode & MODE_MASK | MODE_NEEDED))
    }

    /// Makes a symbolic link. It must stay inside the directory.
    pub(super) fn link(&mut self, path: &Path, target: &Path) -> io::Result<()> {
        self.budget.entry()?;
        let depth = parts(path)?.len().saturating_sub(1);
        if !stays_inside(depth, target) {
            return Err(leads_out(path));
        }
        let (dir, name) = self.place(path)?;
        let dir = dir.as_ref().unwrap_or(self.root);
        match symlinkat(target, dir, name) {
            Err(Errno::EEXIST) => {
                dir.remove_file(name)?;
                Ok(symlinkat(target, dir, name)?)
            }
            made => Ok(made?),
        }
    }

    /// Copies a file of the archive that was unpacked before, for a hard link to it.
    pub(super) fn copy(&mut self, path: &Path, original: &Path) -> io::Result<()> {
        let original: std::path::PathBuf = parts(original)?.into_iter().collect();
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let opened = self.root.open_beneath(&original, flags, Links::Refused);
        let mut file = opened.map_err(|errno| explained(&original, errno))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other(format!("{} is a hard link, and not to a file", path.display())));
        }
        self.file(path, metadata.permissions().mode(), &mut file)
    }

    /// Makes the directories of a path. Returns the last of them, if it is not the root, and the name in it.
    fn place<'p>(&self, path: &'p Path) -> io::Result<(Option<OpenDir>, &'p OsStr)> {
        let mut parts = parts(path)?;
        let name = parts.pop().ok_or_else(|| io::Error::other("an entry of the archive has no name"))?;
        let mut dir: Option<OpenDir> = None;
        for part in parts {
            dir = Some(dir.as_ref().unwrap_or(self.root).make(part, DIR_MODE)?);
        }
        Ok((dir, name))
    }
}

/// Creates a file, in place of a file or link of this name.
fn replace(dir: &OpenDir, name: &OsStr) -> io::Result<File> {
    match dir.create_new(name, PARTIAL_MODE) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            dir.remove_file(name)?;
            dir.create_new(name, PARTIAL_MODE)
        }
        created => created,
    }
}

fn leads_out(path: &Path) -> io::Error {
    let shown: String = path.to_string_lossy().chars().take(200).collect();
    io::Error::other(format!("{} leads out of the archive", model::text::quoted(&shown)))
}

/// The parts of a path in an archive. A path that could lead out of the directory is refused.
fn parts(path: &Path) -> io::Result<Vec<&OsStr>> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) if !name.as_bytes().contains(&0) => parts.push(name),
            Component::CurDir => {}
            Component::Normal(_) | Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(leads_out(path));
            }
        }
    }
    if parts.len() > DEPTH_MAX {
        return Err(io::Error::other(format!("a path leads through more than {DEPTH_MAX} directories")));
    }
    Ok(parts)
}

/// Whether a link in a directory that is this deep stays inside, whatever other such links there are. All `..` must be at
/// the beginning of the target: behind a name they would start from where a link of that name leads to.
pub(crate) fn stays_inside(depth: usize, target: &Path) -> bool {
    let (mut up, mut is_named) = (0_usize, false);
    for component in target.components() {
        match component {
            Component::ParentDir if is_named => return false,
            Component::ParentDir => up = up.saturating_add(1),
            Component::Normal(_) => is_named = true,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    up <= depth && !target.as_os_str().is_empty()
}
