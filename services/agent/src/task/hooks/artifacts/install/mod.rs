//! Inspects what a fetcher has delivered, and moves it to the destination of the artifact. The fetcher is not trusted, and
//! tasks may replace what is in the destination at any time: everything is done relative to open directories, and no link
//! is followed.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, readlinkat, renameat};
use nix::sys::stat::{FileStat, SFlag, fstatat};
use nix::unistd::{Gid, Uid, fchownat, getegid, geteuid, symlinkat};

use super::plan::Plan;
use crate::artifacts::source::Kind;
use crate::artifacts::{DEPTH_MAX, ENTRIES_MAX, Mode, stays_inside};
use crate::disk::tree::{Links, OpenDir};

/// Permissions of directories that are made for an artifact.
const DIR_MODE: u32 = 0o755;
/// Permissions of files until they have their own.
const PARTIAL_MODE: u32 = 0o600;
/// The permissions that an artifact can have.
const MODE_MASK: u32 = 0o777;

/// The owner of what is installed.
type Ids = (u32, u32);

/// Moves what was delivered to its destination. It belongs to the task's user (`account`) if the artifact says so, otherwise
/// to the agent's. The error is a text for people.
pub(super) fn install(
    out: &OpenDir,
    alloc: &OpenDir,
    plan: &Plan,
    account: Option<Ids>,
) -> Result<(), String> {
    let owner = match (plan.chown, account) {
        (true, Some(ids)) => ids,
        (true, None) => return Err("the artifact is for the user of the task, who does not exist".to_owned()),
        (false, _) => (geteuid().as_raw(), getegid().as_raw()),
    };
    let install = || match &plan.source.subdir {
        None => place(out, alloc, plan, owner),
        Some(dir) => {
            let chosen = out.dir(dir);
            place(
                &chosen.map_err(|error| explained("cannot open the directory of the source", &error))?,
                alloc,
                plan,
                owner,
            )
        }
    };
    install().map_err(|error| error.to_string())
}

fn explained(what: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!("{what}: {error}"))
}

fn place(root: &OpenDir, alloc: &OpenDir, plan: &Plan, owner: Ids) -> io::Result<()> {
    let mut left = ENTRIES_MAX;
    inspect(root, 0, owner, &mut left)?;
    if plan.mode == Mode::File && matches!(plan.source.kind, Kind::Http(_)) {
        let (dir, name) = only_file(root, 0)?;
        let parent = plan.destination.parent().unwrap_or_else(|| Path::new(""));
        let to_name =
            plan.destination.file_name().ok_or_else(|| io::Error::other("the destination has no name"))?;
        let to = dir_of(alloc, parent)?;
        let dir = dir.as_ref().unwrap_or(root);
        return move_leaf(dir, &name, to.as_ref().unwrap_or(alloc), to_name, owner);
    }
    let to = dir_of(alloc, &plan.destination)?;
    let to = to.as_ref().ok_or_else(|| io::Error::other("the destination has no name"))?;
    if plan.chown {
        fchown(to, Some(owner.0), Some(owner.1))?;
    }
    merge(root, to, owner)
}

/// Opens a directory of the allocation, and makes what does not exist. `None` is the allocation's own.
fn dir_of(alloc: &OpenDir, path: &Path) -> io::Result<Option<OpenDir>> {
    let mut dir: Option<OpenDir> = None;
    for part in path {
        dir = Some(dir.as_ref().unwrap_or(alloc).make(part, DIR_MODE)?);
    }
    Ok(dir)
}

/// The names in a directory, in their order.
fn names(dir: &OpenDir) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in dir.entries()? {
        names.push(entry?.file_name());
        if names.len() > usize::try_from(ENTRIES_MAX).unwrap_or(usize::MAX) {
            return Err(too_many());
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn too_many() -> io::Error {
    io::Error::other(format!("the artifact has more than {ENTRIES_MAX} files"))
}

/// The kinds of entries that an artifact may have.
enum Entry {
    Dir,
    File,
    Link,
}

fn stat(dir: &OpenDir, name: &OsStr) -> Result<FileStat, Errno> {
    fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW)
}

fn kind(dir: &OpenDir, name: &OsStr) -> io::Result<Entry> {
    let found = stat(dir, name)?;
    let kind = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT;
    if kind == SFlag::S_IFDIR {
        Ok(Entry::Dir)
    } else if kind == SFlag::S_IFLNK {
        Ok(Entry::Link)
    } else if kind != SFlag::S_IFREG {
        Err(io::Error::other(format!("{} is neither a file, a directory nor a link", name.display())))
    } else if found.st_nlink == 1 {
        Ok(Entry::File)
    } else {
        Err(io::Error::other(format!("{} has a second name", name.display())))
    }
}

/// Checks everything in a directory, and gives it its owner and its permissions. Links must stay inside the artifact.
fn inspect(dir: &OpenDir, depth: usize, owner: Ids, left: &mut u64) -> io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(io::Error::other(format!(
            "the artifact has more than {DEPTH_MAX} directories in each other"
        )));
    }
    for name in names(dir)? {
        *left = left.checked_sub(1).ok_or_else(too_many)?;
        match kind(dir, &name)? {
            Entry::Dir => {
                let inner = dir.dir(&name)?;
                inspect(&inner, depth.saturating_add(1), owner, left)?;
                fchown(&inner, Some(owner.0), Some(owner.1))?;
            }
            Entry::File => {
                let file = open(dir, &name)?;
                let mode = file.metadata()?.mode() & MODE_MASK;
                fchown(&file, Some(owner.0), Some(owner.1))?;
                file.set_permissions(Permissions::from_mode(mode))?;
            }
            Entry::Link => {
                let target = readlinkat(dir, &*name)?;
                if !stays_inside(depth, Path::new(&target)) {
                    return Err(io::Error::other(format!(
                        "the link {} leads out of the artifact",
                        name.display()
                    )));
                }
                chown_link(dir, &name, owner)?;
            }
        }
    }
    Ok(())
}

fn open(dir: &OpenDir, name: &OsStr) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let opened = dir.open_beneath(Path::new(name), flags, Links::Refused);
    opened.map_err(|errno| crate::disk::tree::explained(Path::new(name), errno))
}

fn chown_link(dir: &OpenDir, name: &OsStr, (uid, gid): Ids) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    Ok(fchownat(dir, name, Some(uid), Some(gid), AtFlags::AT_SYMLINK_NOFOLLOW)?)
}

/// The only file of an artifact, with its directory if that is not the artifact's own.
fn only_file(dir: &OpenDir, depth: usize) -> io::Result<(Option<OpenDir>, OsString)> {
    let not_one = || io::Error::other("the source is not a single file, and the mode is file");
    let names = names(dir)?;
    let [name] = &names[..] else { return Err(not_one()) };
    match kind(dir, name)? {
        Entry::File => Ok((None, name.clone())),
        Entry::Dir if depth < DEPTH_MAX => {
            let inner = dir.dir(name)?;
            let (found, name) = only_file(&inner, depth.saturating_add(1))?;
            Ok((Some(found.unwrap_or(inner)), name))
        }
        Entry::Dir | Entry::Link => Err(not_one()),
    }
}

/// Moves everything in a directory into another one, in place of what has the same names.
fn merge(from: &OpenDir, to: &OpenDir, owner: Ids) -> io::Result<()> {
    for name in names(from)? {
        if let Entry::Dir = kind(from, &name)? {
            let inner = from.dir(&name)?;
            let is_new = stat(to, &name).is_err();
            let made = to.make(&name, DIR_MODE)?;
            if is_new {
                fchown(&made, Some(owner.0), Some(owner.1))?;
            }
            merge(&inner, &made, owner)?;
        } else {
            move_leaf(from, &name, to, &name, owner)?;
        }
    }
    Ok(())
}

/// Moves a file or link, in place of what has its new name. Secrets are on a file system of their own, where it is copied.
fn move_leaf(from: &OpenDir, name: &OsStr, to: &OpenDir, to_name: &OsStr, owner: Ids) -> io::Result<()> {
    match renameat(from, name, to, to_name) {
        Err(Errno::EXDEV) => {}
        Err(Errno::EISDIR) => {
            return Err(io::Error::other(format!("{} is a directory in the destination", to_name.display())));
        }
        moved => return Ok(moved?),
    }
    match to.remove_file(to_name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed?,
    }
    if let Entry::Link = kind(from, name)? {
        symlinkat(&*readlinkat(from, name)?, to, to_name)?;
        return chown_link(to, to_name, owner);
    }
    let mut source = open(from, name)?;
    let mut copy = to.create_new(to_name, PARTIAL_MODE)?;
    io::copy(&mut source, &mut copy)?;
    fchown(&copy, Some(owner.0), Some(owner.1))?;
    copy.set_permissions(Permissions::from_mode(source.metadata()?.mode() & MODE_MASK))
}

#[cfg(test)]
mod tests;
