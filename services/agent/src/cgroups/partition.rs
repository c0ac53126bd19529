//! Divides the processors between tasks that have reserved cores and all others. The two slices below the agent's parent
//! group are the two sides: each task with reserved cores has a group with these in [`RESERVE`], and the processors of
//! [`SHARE`] are those that no such group has.
//!
//! The groups themselves are the only record of what is reserved. So a restarted agent finds it unchanged, and a group
//! that is gone has given its cores back.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::files::{children, make, read, write};
use crate::cpu_list;

/// The groups of tasks without reserved cores.
pub(super) const SHARE: &str = "share.slice";
/// The groups of tasks with reserved cores.
pub(super) const RESERVE: &str = "reserve.slice";

/// The processors of a group.
const CPUS: &str = "cpuset.cpus";
/// The processors that a group of version 2 has in fact. Without a setting of its own, those of its parent.
const EFFECTIVE_CPUS: &str = "cpuset.cpus.effective";
/// The memory nodes of a group.
const MEMS: &str = "cpuset.mems";

/// Taken while the processors are divided anew. Only the agent does so.
static DIVIDING: Mutex<()> = Mutex::new(());

/// The version of the hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Version {
    /// One hierarchy for each controller.
    V1,
    /// A single hierarchy.
    V2,
}

/// Prepares the agent's parent group, whose slices exist. Tasks get the processors of the group above it, without
/// `excluded`. Returns those that they get.
pub(super) fn prepare(
    version: Version,
    parent: &Path,
    excluded: &BTreeSet<u16>,
) -> io::Result<BTreeSet<u16>> {
    let _dividing = lock();
    let slices = [parent.join(RESERVE), parent.join(SHARE)];
    if version == Version::V1 {
        // Groups of version 1 begin without processors and memory, and then no process can enter them.
        for dir in [parent, slices[0].as_path(), slices[1].as_path()] {
            inherit(dir, MEMS)?;
            inherit(dir, CPUS)?;
        }
    }
    let all = processors(version, above(parent)?)?;
    let usable: BTreeSet<u16> = all.difference(excluded).copied().collect();
    if usable.is_empty() {
        return Err(io::Error::other("no processors are left for tasks: all are reserved by the settings"));
    }
    if write(parent, CPUS, &cpu_list::format(usable.iter().copied())).is_err() {
        // In version 1, a group must have all processors of those below it.
        narrow(&slices[0], &usable)?;
        narrow(&slices[1], &usable)?;
        write(parent, CPUS, &cpu_list::format(usable.iter().copied()))?;
    }
    if version == Version::V1 {
        write(&slices[0], CPUS, &cpu_list::format(usable.iter().copied()))?;
    }
    divide(version, parent)?;
    Ok(usable)
}

/// Gives cores to the group of a task, which is a child of [`RESERVE`], and takes them away from other tasks. The group is
/// created if it does not exist.
pub(super) fn hold(version: Version, group: &Path, cores: &[u16]) -> io::Result<()> {
    let _dividing = lock();
    let slice = above(group)?;
    let parent = above(slice)?;
    let usable = processors(version, parent)?;
    let missing: Vec<u16> = cores.iter().filter(|core| !usable.contains(core)).copied().collect();
    if !missing.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "the reserved cores {} are not among those that tasks can use on this node, {}",
                cpu_list::format(missing),
                cpu_list::format(usable)
            ),
        ));
    }
    make(group)?;
    if version == Version::V1 {
        inherit(group, MEMS)?;
    }
    write(group, CPUS, &cpu_list::format(cores.iter().copied()))?;
    divide(version, parent)
}

/// Gives the cores of groups that are gone back to other tasks.
pub(super) fn give_back(version: Version, slice: &Path) -> io::Result<()> {
    let _dividing = lock();
    divide(version, above(slice)?)
}

/// Gives all processors that no task has reserved to the others. If none is left, they have all, because they could not
/// run without.
fn divide(version: Version, parent: &Path) -> io::Result<()> {
    let reserve = parent.join(RESERVE);
    let mut share = processors(version, parent)?;
    let usable = share.clone();
    for group in children(&reserve)? {
        // A group may vanish meanwhile.
        let held = read(&reserve.join(group), CPUS).unwrap_or_default();
        let held = cpu_list::parse(&held).map_err(io::Error::other)?;
        share.retain(|core| !held.contains(core));
    }
    let share = if share.is_empty() { usable } else { share };
    let list = cpu_list::format(share);
    match version {
        Version::V1 => assign(&parent.join(SHARE), &list),
        Version::V2 => write(&parent.join(SHARE), CPUS, &list),
    }
}

/// Gives processors to a group of version 1 and to all below it, which engines of containers have made. Groups that lose
/// processors lose them from below, and groups that gain some gain them from above.
fn assign(dir: &Path, list: &str) -> io::Result<()> {
    let below = || children(dir)?.iter().try_for_each(|child| assign(&dir.join(child), list));
    match write(dir, CPUS, list) {
        Ok(()) => below(),
        Err(_) => below().and_then(|()| write(dir, CPUS, list)),
    }
}

/// Takes processors away from a group of version 1 and from all below it. One that has no others gets all that are left.
fn narrow(dir: &Path, usable: &BTreeSet<u16>) -> io::Result<()> {
    for child in children(dir)? {
        narrow(&dir.join(child), usable)?;
    }
    let held = processors(Version::V1, dir)?;
    let left: BTreeSet<u16> = held.intersection(usable).copied().collect();
    let left = if left.is_empty() { usable } else { &left };
    write(dir, CPUS, &cpu_list::format(left.iter().copied()))
}

/// The processors that a group has.
fn processors(version: Version, dir: &Path) -> io::Result<BTreeSet<u16>> {
    let file = if version == Version::V1 { CPUS } else { EFFECTIVE_CPUS };
    cpu_list::parse(&read(dir, file)?).map_err(io::Error::other)
}

/// Sets what a group does not have yet as the group above it has it.
fn inherit(dir: &Path, file: &str) -> io::Result<()> {
    if !read(dir, file)?.trim().is_empty() {
        return Ok(());
    }
    let from = above(dir)?;
    // The root has everything.
    inherit(from, file)?;
    write(dir, file, read(from, file)?.trim())
}

fn above(dir: &Path) -> io::Result<&Path> {
    dir.parent().ok_or_else(|| io::Error::other(format!("{} has no parent", dir.display())))
}

fn lock() -> MutexGuard<'static, ()> {
    // A poisoned lock is harmless, because the record is in the groups.
    DIVIDING.lock().unwrap_or_else(PoisonError::into_inner)
}
