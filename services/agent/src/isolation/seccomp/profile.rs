//! The system calls that tasks may make. The list is that of container engines, with fewer exceptions. Pure.
//!
//! What is not listed fails with EPERM. Among that is what reaches beyond namespaces (keyrings, modules, clocks, swap,
//! other processes' handles to files), what has often been a way into the kernel (io_uring, userfaultfd, bpf, old calls
//! that nobody uses), and what makes namespaces, in which a process has more capabilities.

use std::collections::BTreeMap;

use nix::libc;

use super::super::capabilities::CapabilitySet;
use super::{NOT_KNOWN, Verdict};

/// The highest number that this list knows.
pub(super) const LAST: u32 = libc::SYS_mseal as u32;

/// Makes a list of numbers.
macro_rules! calls {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}

/// What every task may call.
const ALLOWED: &[libc::c_long] = calls! {
    SYS_accept SYS_accept4 SYS_adjtimex SYS_bind SYS_brk SYS_capget SYS_capset SYS_chdir SYS_clock_adjtime
    SYS_clock_getres SYS_clock_gettime SYS_clock_nanosleep SYS_close SYS_close_range SYS_connect
    SYS_copy_file_range SYS_dup SYS_dup3 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2
    SYS_eventfd2 SYS_execve SYS_execveat SYS_exit SYS_exit_group SYS_faccessat SYS_faccessat2 SYS_fadvise64
    SYS_fallocate SYS_fanotify_mark SYS_fchdir SYS_fchmod SYS_fchmodat SYS_fchown SYS_fchownat SYS_fcntl
    SYS_fdatasync SYS_fgetxattr SYS_flistxattr SYS_flock SYS_fremovexattr SYS_fsetxattr SYS_fstat
    SYS_fstatfs SYS_fsync SYS_ftruncate SYS_futex SYS_futex_waitv SYS_get_robust_list SYS_getcpu SYS_getcwd
    SYS_getdents64 SYS_getegid SYS_geteuid SYS_getgid SYS_getgroups SYS_getitimer SYS_getpeername
    SYS_getpgid SYS_getpid SYS_getppid SYS_getpriority SYS_getrandom SYS_getresgid SYS_getresuid
    SYS_getrlimit SYS_getrusage SYS_getsid SYS_getsockname SYS_getsockopt SYS_gettid SYS_gettimeofday
    SYS_getuid SYS_getxattr SYS_inotify_add_watch SYS_inotify_init1 SYS_inotify_rm_watch SYS_io_cancel
    SYS_io_destroy SYS_io_getevents SYS_io_setup SYS_io_submit SYS_ioprio_get SYS_ioprio_set SYS_kill
    SYS_landlock_add_rule SYS_landlock_create_ruleset SYS_landlock_restrict_self SYS_lgetxattr SYS_linkat
    SYS_listen SYS_listxattr SYS_llistxattr SYS_lremovexattr SYS_lseek SYS_lsetxattr SYS_madvise
    SYS_membarrier SYS_memfd_create SYS_memfd_secret SYS_mincore SYS_mkdirat SYS_mknodat SYS_mlock
    SYS_mlock2 SYS_mlockall SYS_mmap SYS_mprotect SYS_mq_getsetattr SYS_mq_notify SYS_mq_open
    SYS_mq_timedreceive SYS_mq_timedsend SYS_mq_unlink SYS_mremap SYS_mseal SYS_msgctl SYS_msgget SYS_msgrcv
    SYS_msgsnd SYS_msync SYS_munlock SYS_munlockall SYS_munmap SYS_name_to_handle_at SYS_nanosleep
    SYS_newfstatat SYS_openat SYS_openat2 SYS_pidfd_open SYS_pidfd_send_signal SYS_pipe2 SYS_pkey_alloc
    SYS_pkey_free SYS_pkey_mprotect SYS_ppoll SYS_prctl SYS_pread64 SYS_preadv SYS_preadv2 SYS_prlimit64
    SYS_process_mrelease SYS_pselect6 SYS_pwrite64 SYS_pwritev SYS_pwritev2 SYS_read SYS_readahead
    SYS_readlinkat SYS_readv SYS_recvfrom SYS_recvmmsg SYS_recvmsg SYS_remap_file_pages SYS_removexattr
    SYS_renameat SYS_renameat2 SYS_restart_syscall SYS_rseq SYS_rt_sigaction SYS_rt_sigpending
    SYS_rt_sigprocmask SYS_rt_sigqueueinfo SYS_rt_sigreturn SYS_rt_sigsuspend SYS_rt_sigtimedwait
    SYS_rt_tgsigqueueinfo SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_sched_getaffinity
    SYS_sched_getattr SYS_sched_getparam SYS_sched_getscheduler SYS_sched_rr_get_interval
    SYS_sched_setaffinity SYS_sched_setattr SYS_sched_setparam SYS_sched_setscheduler SYS_sched_yield
    SYS_seccomp SYS_semctl SYS_semget SYS_semop SYS_semtimedop SYS_sendfile SYS_sendmmsg SYS_sendmsg
    SYS_sendto SYS_set_robust_list SYS_set_tid_address SYS_setfsgid SYS_setfsuid SYS_setgid SYS_setgroups
    SYS_setitimer SYS_setpgid SYS_setpriority SYS_setregid SYS_setresgid SYS_setresuid SYS_setreuid
    SYS_setrlimit SYS_setsid SYS_setsockopt SYS_setuid SYS_setxattr SYS_shmat SYS_shmctl SYS_shmdt
    SYS_shmget SYS_shutdown SYS_sigaltstack SYS_signalfd4 SYS_socketpair SYS_splice SYS_statfs SYS_statx
    SYS_symlinkat SYS_sync SYS_sync_file_range SYS_syncfs SYS_sysinfo SYS_tee SYS_tgkill SYS_timer_create
    SYS_timer_delete SYS_timer_getoverrun SYS_timer_gettime SYS_timer_settime SYS_timerfd_create
    SYS_timerfd_gettime SYS_timerfd_settime SYS_times SYS_tkill SYS_truncate SYS_umask SYS_uname
    SYS_unlinkat SYS_utimensat SYS_vmsplice SYS_wait4 SYS_waitid SYS_write SYS_writev
};

/// What every task may call of the older calls, which only this architecture has.
#[cfg(target_arch = "x86_64")]
const ALLOWED_OLDER: &[libc::c_long] = calls! {
    SYS_access SYS_alarm SYS_arch_prctl SYS_chmod SYS_chown SYS_creat SYS_dup2 SYS_epoll_create
    SYS_epoll_wait SYS_eventfd SYS_fchmodat2 SYS_fork SYS_futimesat SYS_get_thread_area SYS_getdents
    SYS_getpgrp SYS_inotify_init SYS_lchown SYS_link SYS_lstat SYS_mkdir SYS_mknod SYS_modify_ldt SYS_open
    SYS_pause SYS_pipe SYS_poll SYS_readlink SYS_rename SYS_rmdir SYS_select SYS_set_thread_area
    SYS_signalfd SYS_stat SYS_symlink SYS_time SYS_unlink SYS_utime SYS_utimes SYS_vfork
};
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLDER: &[libc::c_long] = &[];

/// What reads and changes other processes: allowed where a task sees only its own.
const TRACING: &[libc::c_long] = calls! {
    SYS_kcmp SYS_pidfd_getfd SYS_process_madvise SYS_process_vm_readv SYS_process_vm_writev SYS_ptrace
};

/// What a capability opens.
const OPENED: &[(&str, &[libc::c_long])] = &[
    ("bpf", calls![SYS_bpf]),
    ("dac_read_search", calls![SYS_open_by_handle_at]),
    ("perfmon", calls![SYS_perf_event_open]),
    (
        "sys_admin",
        calls! {
            SYS_bpf SYS_clone3 SYS_fanotify_init SYS_fsconfig SYS_fsmount SYS_fsopen SYS_fspick
            SYS_lookup_dcookie SYS_mount SYS_mount_setattr SYS_move_mount SYS_open_tree SYS_perf_event_open
            SYS_quotactl SYS_quotactl_fd SYS_setdomainname SYS_sethostname SYS_setns SYS_syslog SYS_umount2
            SYS_unshare
        },
    ),
    ("sys_boot", calls![SYS_reboot]),
    ("sys_chroot", calls![SYS_chroot]),
    ("sys_module", calls![SYS_delete_module SYS_finit_module SYS_init_module]),
    ("sys_nice", calls![SYS_get_mempolicy SYS_mbind SYS_set_mempolicy SYS_set_mempolicy_home_node]),
    ("sys_pacct", calls![SYS_acct]),
    ("sys_ptrace", TRACING),
    ("sys_time", calls![SYS_clock_settime SYS_settimeofday]),
    ("sys_tty_config", calls![SYS_vhangup]),
    ("syslog", calls![SYS_syslog]),
];

/// What a capability opens of the older calls.
#[cfg(target_arch = "x86_64")]
const OPENED_OLDER: &[(&str, &[libc::c_long])] = &[("sys_rawio", calls![SYS_iopl SYS_ioperm])];
#[cfg(not(target_arch = "x86_64"))]
const OPENED_OLDER: &[(&str, &[libc::c_long])] = &[];

/// The flags of `clone` that make namespaces.
const NAMESPACES: u32 = (libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWUTS) as u32;
/// The execution domains: the usual one and the one of 32 bits, each also with the version of an older kernel, and the
/// question which one it is.
const PERSONALITIES: &[u32] = &[0x0, 0x0008, 0x2_0000, 0x2_0008, 0xffff_ffff];
/// Families of sockets that reach the kernel's cryptography and the hypervisor.
const REFUSED_SOCKETS: &[u32] = &[libc::AF_ALG as u32, libc::AF_VSOCK as u32];
/// What a terminal can be told that acts for the person in front of it: to type, and to paste.
const REFUSED_IOCTLS: &[u32] = &[libc::TIOCSTI as u32, libc::TIOCLINUX as u32];

/// The verdicts by number, for a task whose processes can have these capabilities. What is missing is not permitted.
pub(super) fn rules(capabilities: CapabilitySet, may_trace: bool) -> BTreeMap<u32, Verdict> {
    let mut rules = BTreeMap::new();
    let mut set = |calls: &[libc::c_long], verdict: Verdict| {
        rules.extend(calls.iter().filter_map(|call| Some((u32::try_from(*call).ok()?, verdict))));
    };
    set(ALLOWED, Verdict::Allow);
    set(ALLOWED_OLDER, Verdict::Allow);
    set(&[libc::SYS_clone], Verdict::WithoutBits(0, NAMESPACES));
    // Its flags are in memory, where the filter cannot look. Programs then use `clone`.
    set(&[libc::SYS_clone3], Verdict::Fail(NOT_KNOWN));
    set(&[libc::SYS_personality], Verdict::Only(0, PERSONALITIES));
    set(&[libc::SYS_socket], Verdict::Except(0, REFUSED_SOCKETS));
    set(&[libc::SYS_ioctl], Verdict::Except(1, REFUSED_IOCTLS));
    if may_trace {
        set(TRACING, Verdict::Allow);
    }
    for (name, calls) in OPENED.iter().chain(OPENED_OLDER) {
        if capabilities.contains(CapabilitySet::named(name)) {
            set(calls, Verdict::Allow);
        }
    }
    if capabilities.contains(CapabilitySet::named("sys_admin")) {
        set(&[libc::SYS_clone], Verdict::Allow);
    }
    rules
}
