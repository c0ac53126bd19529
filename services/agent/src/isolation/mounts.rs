//! Mounts that are held open. A mount is made detached, gets its attributes, and is then attached to an open file or
//! directory. No path is resolved a second time, so no link can redirect it, and nothing can use it before it is complete.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::AT_FDCWD;
use nix::mount::{MsFlags, mount};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use super::description::Sharing;
use super::syscalls::set_mount_attributes;
use crate::disk::tree::by_descriptor;

/// What no mount in a task's root may have: programs that give rights, and device nodes.
pub(super) const HARMLESS: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);
/// The same without programs.
pub(super) const DATA: MountAttrFlags = HARMLESS.union(MountAttrFlags::MOUNT_ATTR_NOEXEC);
/// No writing.
pub(super) const READ_ONLY: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_RDONLY;

/// The values of `mount_setattr` for the propagation of mounts.
const PRIVATE: u64 = MsFlags::MS_PRIVATE.bits();
const FROM_PEERS: u64 = MsFlags::MS_SLAVE.bits();
const UNCHANGED: u64 = 0;

/// A detached mount, or one that has been attached.
#[derive(Debug)]
pub(super) struct Mounted(OwnedFd);

impl AsFd for Mounted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Mounted {
    /// A copy of what is mounted at an open file or directory, with everything mounted below it.
    pub(super) fn copy(of: &impl AsFd) -> io::Result<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE
            | OpenTreeFlags::AT_EMPTY_PATH;
        Ok(Self(open_tree(of, "", flags)?))
    }

    /// A copy of what is mounted at a path that no task can change. Links are followed.
    pub(super) fn copy_path(path: &Path) -> io::Result<Self> {
        let flags =
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        Ok(Self(open_tree(AT_FDCWD, path, flags)?))
    }

    /// A new file system of this kind.
    pub(super) fn new(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> io::Result<Self> {
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (key, value) in options {
            fsconfig_set_string(&context, *key, *value)?;
        }
        fsconfig_create(&context)?;
        Ok(Self(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?))
    }

    /// Adds attributes to the mount and to those below it, and decides who sees later mounts.
    pub(super) fn restrict(&self, attributes: MountAttrFlags, sharing: Sharing) -> io::Result<()> {
        let propagation = match sharing {
            Sharing::Private => PRIVATE,
            Sharing::FromNode => FROM_PEERS,
            Sharing::Both => UNCHANGED,
        };
        set_mount_attributes(self, attributes, propagation)
    }

    /// Attaches the mount to an open file or directory.
    pub(super) fn attach(&self, target: &impl AsFd) -> io::Result<()> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        Ok(move_mount(self, "", target, "", flags)?)
    }
}

/// Keeps the mounts of this namespace from others. Those that others make are still seen.
pub(super) fn leave_peers() -> io::Result<()> {
    let flags = MsFlags::MS_REC | MsFlags::MS_SLAVE;
    Ok(mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)?)
}

/// This program, mounted so that nobody can write to it, with the path at which it can be started.
///
/// A process of a task that is root could otherwise reach the program through `/proc/<pid>/exe` of a process that is about
/// to become the task, and replace it on the node.
pub(crate) fn own_program() -> io::Result<(OwnedFd, PathBuf)> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let program = Mounted(open_tree(AT_FDCWD, "/proc/self/exe", flags)?);
    program.restrict(READ_ONLY, Sharing::Private)?;
    let path = by_descriptor(&program);
    Ok((program.0, path))
}
