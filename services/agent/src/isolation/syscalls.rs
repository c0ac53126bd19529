//! System calls for which no crate has a safe function.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use nix::errno::Errno;
use nix::libc;
use rustix::mount::MountAttrFlags;

use super::seccomp::Instruction;

/// `mount_setattr` for a mount and all below it.
const RECURSIVE: libc::c_int = 0x8000;
/// The operation of `keyctl` that gives the process a new, empty keyring of its session.
const JOIN_SESSION_KEYRING: libc::c_int = 1;
/// The first descriptor after those of input and output.
const FIRST_OTHER_FD: libc::c_uint = 3;

/// The kernel's `struct mount_attr`.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// The kernel's `struct sock_fprog`.
#[repr(C)]
struct FilterProgram {
    length: libc::c_ushort,
    steps: *const Instruction,
}

fn result(outcome: libc::c_long) -> io::Result<()> {
    Ok(Errno::result(outcome).map(drop)?)
}

/// Adds attributes to a mount that is held open, and to those below it. A propagation of 0 leaves it as it is.
pub(super) fn set_mount_attributes(
    mount: &impl AsFd,
    attributes: MountAttrFlags,
    propagation: u64,
) -> io::Result<()> {
    let attr = MountAttr { set: attributes.bits().into(), clear: 0, propagation, user_namespace: 0 };
    // SAFETY: the kernel reads an empty path and a structure of the size that it is told; both outlive the call.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | RECURSIVE,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    result(outcome)
}

/// Gives the process a new session keyring, so that it shares no keys with the process that started it.
pub(super) fn new_session_keyring() -> io::Result<()> {
    // SAFETY: the call takes a number and a name, which may be absent.
    let outcome =
        unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, std::ptr::null::<libc::c_char>()) };
    result(outcome)
}

/// Marks all descriptors but those of input and output, so that the next program does not get them.
pub(super) fn close_others_on_exec() -> io::Result<()> {
    // SAFETY: the call takes numbers only, and closes nothing before the process becomes another program.
    let outcome = unsafe {
        libc::syscall(libc::SYS_close_range, FIRST_OTHER_FD, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    result(outcome)
}

/// Installs a filter of system calls for this thread and what it starts. The thread must have given up new privileges.
pub(super) fn install_filter(program: &[Instruction]) -> io::Result<()> {
    let length: libc::c_ushort =
        program.len().try_into().map_err(|_| io::Error::other("the filter is too long"))?;
    let program = FilterProgram { length, steps: program.as_ptr() };
    // SAFETY: the kernel copies as many instructions as the program says, which outlives the call. `Instruction` has the
    // layout of the kernel's `struct sock_filter`.
    let outcome = unsafe {
        libc::prctl(libc::PR_SET_SECCOMP, libc::c_ulong::from(libc::SECCOMP_MODE_FILTER), &raw const program)
    };
    result(outcome.into())
}
