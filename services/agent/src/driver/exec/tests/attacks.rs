//! What a task may try. Each attack succeeds if it reaches what a task must not reach; the error says how far it came.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use nix::errno::Errno;
use nix::libc::{self, c_long};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::kill;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::{Pid, Uid, chdir, chroot, sethostname, setresuid};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// The variable with the path of a file of the node.
pub(super) const MARKER: &str = "MARKER";
/// The variable with a path that is in the command lines of the node's processes.
pub(super) const HIDDEN: &str = "HIDDEN";

/// The variable with the id of a process of the node.
pub(super) const HOST_PID: &str = "HOST_PID";

/// What becomes of an attack.
type Attacked = Result<(), String>;

/// An attack, with its name.
type Attack = (&'static str, fn() -> Attacked);

/// The attacks.
pub(super) const ATTACKS: &[Attack] = &[
    ("mount-tmpfs", || mounted("tmpfs")),
    ("mount-proc", || mounted("proc")),
    ("mount-cgroup-for-release-agent", || mounted("cgroup")),
    ("mount-cgroup2", || mounted("cgroup2")),
    ("remount-writable", || {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND;
        text(mount(None::<&str>, "/usr", None::<&str>, flags, None::<&str>))
    }),
    ("unmount-mask", || text(umount2("/private", MntFlags::MNT_DETACH))),
    ("mount-api", || text(rustix::mount::fsopen("tmpfs", rustix::mount::FsOpenFlags::empty()).map(drop))),
    ("mount-tree", || call(libc::SYS_open_tree, [libc::AT_FDCWD as usize, 0, 1, 0, 0])),
    ("pivot-root", || {
        call(libc::SYS_pivot_root, [c"/tmp".as_ptr() as usize, c"/tmp".as_ptr() as usize, 0, 0, 0])
    }),
    ("device-in-root", || device("/disk")),
    ("device-in-dev", || device("/dev/disk")),
    ("device-in-tmp", || device("/tmp/disk")),
    ("device-in-alloc", || device("/alloc/data/disk")),
    ("device-memory", || read("/dev/mem")),
    ("device-kernel-log", || read("/dev/kmsg")),
    ("core-pattern", || write("/proc/sys/kernel/core_pattern")),
    ("sysrq", || write("/proc/sysrq-trigger")),
    ("uevent-helper", || write("/sys/kernel/uevent_helper")),
    ("kernel-memory", || read("/proc/kcore")),
    ("keys-of-others", || read("/proc/keys")),
    ("keyring-search", || call(libc::SYS_keyctl, [0, usize::MAX - 3, 0, 0, 0])),
    ("keyring-add", || call(libc::SYS_add_key, [c"user".as_ptr() as usize, c"x".as_ptr() as usize, 0, 0, 0])),
    ("keyring-request", || {
        call(libc::SYS_request_key, [c"user".as_ptr() as usize, c"x".as_ptr() as usize, 0, 0, 0])
    }),
    ("become-root", || {
        if Uid::effective().is_root() {
            return Err("it is root already".into());
        }
        text(setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)))
    }),
    ("more-capabilities", || {
        let all = CapabilitySet::from_bits_retain((1 << 41) - 1);
        let sets = CapabilitySets { effective: all, permitted: all, inheritable: all };
        text(set_capabilities(None, sets))
    }),
    ("chroot-twice", chroot_twice),
    ("raw-socket", || socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)),
    ("packet-socket", || socket(libc::AF_PACKET, libc::SOCK_RAW, 0)),
    ("crypto-socket", || socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0)),
    ("vsock", || socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0)),
    ("module-load", || call(libc::SYS_init_module, [0, 0, c"".as_ptr() as usize, 0, 0])),
    ("module-load-file", || call(libc::SYS_finit_module, [0, c"".as_ptr() as usize, 0, 0, 0])),
    ("module-unload", || call(libc::SYS_delete_module, [c"none".as_ptr() as usize, 0, 0, 0, 0])),
    ("link-to-node", || {
        let link = "/local/link";
        let _ = fs::remove_file(link);
        symlink(marker(), link).map_err(|error| error.to_string())?;
        read(link)
    }),
    ("root-of-first-process", || read(&format!("/proc/1/root{}", marker()))),
    ("working-directory-of-first-process", || read(&format!("/proc/1/cwd/../../../..{}", marker()))),
    ("above-the-root", || read(&format!("/../../../..{}", marker()))),
    ("namespace-of-users", || text(unshare(CloneFlags::CLONE_NEWUSER))),
    ("namespace-of-mounts", || text(unshare(CloneFlags::CLONE_NEWNS))),
    ("namespace-by-clone", || {
        call(libc::SYS_clone, [(libc::CLONE_NEWUSER | libc::SIGCHLD) as usize, 0, 0, 0, 0])
    }),
    ("namespace-by-clone3", || call(libc::SYS_clone3, [0, 0, 0, 0, 0])),
    ("join-namespace", || {
        let namespace = File::open("/proc/self/ns/mnt").map_err(|error| error.to_string())?;
        text(setns(namespace, CloneFlags::CLONE_NEWNS))
    }),
    ("open-by-handle", || {
        let handle = [0_u8; 136];
        call(libc::SYS_open_by_handle_at, [libc::AT_FDCWD as usize, handle.as_ptr() as usize, 0, 0, 0])
    }),
    ("bpf", || call(libc::SYS_bpf, [0, 0, 0, 0, 0])),
    ("perf-events", || call(libc::SYS_perf_event_open, [0, 0, usize::MAX, usize::MAX, 0])),
    ("userfaultfd", || call(libc::SYS_userfaultfd, [0, 0, 0, 0, 0])),
    ("io-uring", || call(libc::SYS_io_uring_setup, [1, 0, 0, 0, 0])),
    ("fanotify", || call(libc::SYS_fanotify_init, [0, 0, 0, 0, 0])),
    ("kexec", || call(libc::SYS_kexec_load, [0, 0, 0, 0, 0])),
    ("swap-on", || call(libc::SYS_swapon, [c"/local/swap".as_ptr() as usize, 0, 0, 0, 0])),
    // Only says what control, alternate and delete do.
    ("reboot", || call(libc::SYS_reboot, [0xfee1_dead, 672_274_793, 0, 0, 0])),
    ("set-time", || call(libc::SYS_settimeofday, [0, 0, 0, 0, 0])),
    ("accounting", || call(libc::SYS_acct, [c"/local/acct".as_ptr() as usize, 0, 0, 0, 0])),
    ("quota", || call(libc::SYS_quotactl, [0, 0, 0, 0, 0])),
    ("kernel-log", || call(libc::SYS_syslog, [10, 0, 0, 0, 0])),
    #[cfg(target_arch = "x86_64")]
    ("input-and-output-ports", || call(libc::SYS_ioperm, [0x70, 1, 1, 0, 0])),
    #[cfg(target_arch = "x86_64")]
    ("input-and-output-level", || call(libc::SYS_iopl, [3, 0, 0, 0, 0])),
    ("type-into-terminal", || call(libc::SYS_ioctl, [0, 0x5412, c"x".as_ptr() as usize, 0, 0])),
    ("host-name", || text(sethostname("escaped"))),
    ("processes-of-node", processes_of_node),
    ("trace-process-of-node", || call(libc::SYS_ptrace, [16, host_pid()? as usize, 0, 0, 0])),
    ("signal-process-of-node", || text(kill(Pid::from_raw(host_pid()?), None))),
    ("read-process-of-node", || call(libc::SYS_process_vm_readv, [host_pid()? as usize, 0, 0, 0, 0])),
    ("secrets-of-other-task", || read("/alloc/../other/secrets/key")),
    ("secrets-of-other-task-by-first-process", || read("/proc/1/root/../other/secrets/key")),
    ("private-of-agent", || read("/private/token")),
    ("passwords-of-node", || read("/etc/shadow")),
    ("accounts-of-node", || write("/etc/passwd")),
    ("programs-of-node", || write("/usr/bin/env")),
    ("program-of-agent", || write("/proc/self/exe")),
    ("logs-of-task", || write("/alloc/logs/web.stdout.0")),
];

fn text<T>(outcome: Result<(), T>) -> Attacked
where
    T: std::fmt::Display,
{
    outcome.map_err(|error| error.to_string())
}

fn marker() -> String {
    env::var(MARKER).unwrap()
}

/// A process of the node, whose id no process of the task has.
fn host_pid() -> Result<i32, String> {
    /// The task starts fewer processes.
    const OWN_MAX: i32 = 500;
    let pid: i32 = env::var(HOST_PID).unwrap().parse().unwrap();
    if pid > OWN_MAX { Ok(pid) } else { Err(format!("{pid} could be a process of the task")) }
}

/// Makes a system call. Whatever it returns without an error is a success.
fn call(number: c_long, arguments: [usize; 5]) -> Attacked {
    let [a, b, c, d, e] = arguments;
    // SAFETY: the pointers among the arguments are to texts that outlive the call, or null; no call here writes to memory.
    let outcome = unsafe { libc::syscall(number, a, b, c, d, e) };
    text(Errno::result(outcome).map(drop))
}

fn socket(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> Attacked {
    call(libc::SYS_socket, [family as usize, kind as usize, protocol as usize, 0, 0])
}

fn mounted(kind: &str) -> Attacked {
    text(mount(Some("none"), "/tmp", Some(kind), MsFlags::empty(), None::<&str>))
}

/// Reads a file. An empty one is covered.
fn read(path: &str) -> Attacked {
    let mut content = [0; 16];
    let length = File::open(path).and_then(|mut file| file.read(&mut content));
    match length {
        Ok(0) => Err("it is empty".into()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Opens a file for writing.
fn write(path: &str) -> Attacked {
    text(OpenOptions::new().append(true).open(path).map(drop))
}

/// Makes a device, which is the memory of the node, and opens it.
fn device(path: &str) -> Attacked {
    mknod(path, SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 1)).map_err(|error| error.to_string())?;
    let opened = File::open(path).map(drop);
    let _ = fs::remove_file(path);
    text(opened)
}

/// Leaves a root by a directory that was opened before a second one was entered.
fn chroot_twice() -> Attacked {
    let _ = fs::create_dir("/local/inner");
    chroot("/local/inner").map_err(|error| error.to_string())?;
    for _ in 0..16 {
        chdir("..").map_err(|error| error.to_string())?;
    }
    chroot(".").map_err(|error| error.to_string())?;
    read(&marker())
}

/// Looks for the executor, whose command line names a directory of the node.
fn processes_of_node() -> Attacked {
    let hidden = env::var(HIDDEN).unwrap();
    let entries = fs::read_dir("/proc").map_err(|error| error.to_string())?;
    for entry in entries.flatten() {
        let command =
            fs::read(Path::new("/proc").join(entry.file_name()).join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&command).contains(&hidden) {
            return Ok(());
        }
    }
    Err("no process of the node is there".into())
}
