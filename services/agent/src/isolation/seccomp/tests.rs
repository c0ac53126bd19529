//! Tests that run the filter as the kernel does.

use nix::libc;

use super::*;

/// Runs a program for a call, as the kernel does.
fn run(program: &[Instruction], architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let mut accumulator = 0_u32;
    let mut at = 0;
    loop {
        let Instruction { code, then, otherwise, value } = program[at];
        at += 1;
        let jump = |holds: bool| usize::from(if holds { then } else { otherwise });
        match code {
            LOAD => {
                accumulator = match value {
                    NUMBER => number,
                    ARCHITECTURE => architecture,
                    other => arguments[((other - ARGUMENTS) / ARGUMENT_BYTES) as usize] as u32,
                };
            }
            IF_EQUAL => at += jump(accumulator == value),
            IF_AT_LEAST => at += jump(accumulator >= value),
            IF_ANY_BIT => at += jump(accumulator & value != 0),
            JUMP => at += value as usize,
            RETURN => return value,
            other => panic!("unknown step {other:#x}"),
        }
    }
}

fn decide(capabilities: CapabilitySet, call: libc::c_long, arguments: [u64; 6]) -> u32 {
    let program = filter(capabilities, true);
    run(&program, OWN_ARCHITECTURE, u32::try_from(call).unwrap(), arguments)
}

const DENIED: u32 = FAIL | NOT_PERMITTED as u32;

#[test]
fn every_number_gets_the_verdict_of_its_rule() {
    for capabilities in [CapabilitySet::EMPTY, CapabilitySet::DEFAULT, CapabilitySet::ALL] {
        let rules = profile::rules(capabilities, false);
        let program = filter(capabilities, false);
        assert!(program.len() < 4_096, "the kernel accepts no longer program");
        for number in 0..=profile::LAST {
            let found = run(&program, OWN_ARCHITECTURE, number, [0; 6]);
            match rules.get(&number) {
                Some(Verdict::Fail(error)) => assert_eq!(found, FAIL | u32::from(*error), "{number}"),
                Some(Verdict::Allow | Verdict::WithoutBits(..) | Verdict::Only(..) | Verdict::Except(..)) => {
                    assert_eq!(found, ALLOW, "{number}");
                }
                None => assert_eq!(found, DENIED, "{number}"),
            }
        }
    }
}

#[test]
fn other_architectures_and_unknown_calls_do_not_pass() {
    let program = filter(CapabilitySet::ALL, true);
    let read = libc::SYS_read as u32;
    assert_eq!(run(&program, OWN_ARCHITECTURE, read, [0; 6]), ALLOW);
    assert_eq!(run(&program, 0x4000_0003, read, [0; 6]), KILL_PROCESS);
    for number in [profile::LAST + 1, OTHER_INTERFACE, OTHER_INTERFACE + read, u32::MAX] {
        assert_eq!(
            run(&program, OWN_ARCHITECTURE, number, [0; 6]),
            FAIL | u32::from(NOT_KNOWN),
            "{number:#x}"
        );
    }
}

#[test]
fn what_the_default_filter_denies() {
    let denied = [
        libc::SYS_acct,
        libc::SYS_add_key,
        libc::SYS_bpf,
        libc::SYS_clock_settime,
        libc::SYS_delete_module,
        libc::SYS_fanotify_init,
        libc::SYS_finit_module,
        libc::SYS_fsopen,
        libc::SYS_init_module,
        libc::SYS_io_uring_setup,
        libc::SYS_kexec_file_load,
        libc::SYS_kexec_load,
        libc::SYS_keyctl,
        libc::SYS_mount,
        libc::SYS_mount_setattr,
        libc::SYS_move_mount,
        libc::SYS_open_by_handle_at,
        libc::SYS_open_tree,
        libc::SYS_perf_event_open,
        libc::SYS_pivot_root,
        libc::SYS_quotactl,
        libc::SYS_reboot,
        libc::SYS_request_key,
        libc::SYS_setns,
        libc::SYS_settimeofday,
        libc::SYS_swapoff,
        libc::SYS_swapon,
        libc::SYS_syslog,
        libc::SYS_umount2,
        libc::SYS_unshare,
        libc::SYS_userfaultfd,
        libc::SYS_vhangup,
    ];
    for call in denied {
        assert_eq!(decide(CapabilitySet::DEFAULT, call, [0; 6]), DENIED, "{call}");
    }
    // Programs that get this error use the older call, whose flags can be read.
    assert_eq!(decide(CapabilitySet::DEFAULT, libc::SYS_clone3, [0; 6]), FAIL | u32::from(NOT_KNOWN));
}

#[test]
fn some_calls_depend_on_their_arguments() {
    let decide = |call, arguments| decide(CapabilitySet::DEFAULT, call, arguments);
    let first = |value: u64| [value, 0, 0, 0, 0, 0];
    let second = |value: u64| [0, value, 0, 0, 0, 0];
    let fork = libc::SIGCHLD as u64 | libc::CLONE_CHILD_SETTID as u64;
    assert_eq!(decide(libc::SYS_clone, first(fork)), ALLOW);
    assert_eq!(decide(libc::SYS_clone, first(fork | libc::CLONE_NEWUSER as u64)), DENIED);
    assert_eq!(decide(libc::SYS_personality, first(0xffff_ffff)), ALLOW);
    assert_eq!(decide(libc::SYS_personality, first(0x004_0000)), DENIED);
    assert_eq!(decide(libc::SYS_socket, first(libc::AF_INET as u64)), ALLOW);
    assert_eq!(decide(libc::SYS_socket, first(libc::AF_ALG as u64)), DENIED);
    assert_eq!(decide(libc::SYS_ioctl, second(0x5401)), ALLOW);
    assert_eq!(decide(libc::SYS_ioctl, second(0x5412)), DENIED);
    assert_eq!(decide(libc::SYS_ioctl, second(0x1_0000_5412)), DENIED, "the kernel reads 32 bits");
}

#[test]
fn a_capability_opens_its_calls() {
    let set = |name: &str| CapabilitySet::named(name);
    for (name, call) in [
        ("sys_admin", libc::SYS_mount),
        ("sys_admin", libc::SYS_unshare),
        ("sys_time", libc::SYS_settimeofday),
        ("sys_module", libc::SYS_init_module),
        ("sys_boot", libc::SYS_reboot),
        ("dac_read_search", libc::SYS_open_by_handle_at),
        ("bpf", libc::SYS_bpf),
        ("perfmon", libc::SYS_perf_event_open),
        ("sys_ptrace", libc::SYS_ptrace),
    ] {
        let program = filter(set(name), false);
        let number = u32::try_from(call).unwrap();
        assert_eq!(run(&program, OWN_ARCHITECTURE, number, [0; 6]), ALLOW, "{name}");
        let without = filter(CapabilitySet::EMPTY, false);
        assert_eq!(run(&without, OWN_ARCHITECTURE, number, [0; 6]), DENIED, "{name}");
    }
    let program = filter(set("sys_admin"), false);
    let flags = [libc::CLONE_NEWUSER as u64, 0, 0, 0, 0, 0];
    assert_eq!(run(&program, OWN_ARCHITECTURE, libc::SYS_clone as u32, flags), ALLOW);
}
