//! The values that a task's limits have in the files of its control groups. Pure.

use super::hierarchy::Controller;
use crate::resources::TaskLimits;

/// A file, and what is written to it.
pub(super) type Setting = (&'static str, String);

/// The range of shares in version 1.
const SHARES: (u64, u64) = (2, 1 << 18);
/// The range of weights in version 2.
const WEIGHTS: (u64, u64) = (1, 10_000);
/// The compute that counts as a whole node if it is not known, in MHz.
const DEFAULT_NODE_MHZ: u64 = 100_000;

/// What is written for one controller of a hierarchy of version 1. Reserved cores are not included.
pub(super) fn v1(controller: Controller, limits: &TaskLimits) -> Vec<Setting> {
    match controller {
        Controller::Cpu if limits.cpu_shares > 0 => {
            vec![("cpu.shares", limits.cpu_shares.clamp(SHARES.0, SHARES.1).to_string())]
        }
        Controller::Memory => {
            let mut settings: Vec<_> = hard_limit(limits)
                .map(|bytes| ("memory.limit_in_bytes", bytes.to_string()))
                .into_iter()
                .collect();
            if has_reservation(limits) {
                settings.push(("memory.soft_limit_in_bytes", limits.memory_bytes.to_string()));
            }
            settings
        }
        Controller::Pids => pids(limits),
        Controller::Cpu | Controller::Cpuacct | Controller::Cpuset | Controller::Freezer => Vec::new(),
    }
}

/// What is written for one controller of version 2. Reserved cores are not included.
///
/// Weights count only among tasks. They are parts of the node's compute, so that small shares stay apart, too.
pub(super) fn v2(controller: Controller, limits: &TaskLimits) -> Vec<Setting> {
    match controller {
        Controller::Cpu if limits.cpu_shares > 0 => {
            let node_mhz = if limits.node_mhz > 0 { limits.node_mhz } else { DEFAULT_NODE_MHZ };
            let weight = limits.cpu_shares.saturating_mul(WEIGHTS.1) / node_mhz;
            vec![("cpu.weight", weight.clamp(WEIGHTS.0, WEIGHTS.1).to_string())]
        }
        Controller::Memory => {
            let mut settings: Vec<_> =
                hard_limit(limits).map(|bytes| ("memory.max", bytes.to_string())).into_iter().collect();
            if has_reservation(limits) {
                settings.push(("memory.low", limits.memory_bytes.to_string()));
            }
            settings
        }
        Controller::Pids => pids(limits),
        Controller::Cpu | Controller::Cpuacct | Controller::Cpuset | Controller::Freezer => Vec::new(),
    }
}

/// The memory that the task can have at most; `None` if there is no limit.
fn hard_limit(limits: &TaskLimits) -> Option<u64> {
    let most = if limits.memory_max_bytes > 0 { limits.memory_max_bytes } else { limits.memory_bytes };
    (most > 0 && most < u64::MAX).then_some(most)
}

/// Whether the task may use more memory than is reserved for it.
fn has_reservation(limits: &TaskLimits) -> bool {
    limits.memory_bytes > 0 && limits.memory_max_bytes > limits.memory_bytes
}

fn pids(limits: &TaskLimits) -> Vec<Setting> {
    limits.pids_max.map(|most| ("pids.max", most.to_string())).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn written(settings: Vec<Setting>) -> Vec<String> {
        settings.into_iter().map(|(file, value)| format!("{file}={value}")).collect()
    }

    fn memory(memory_bytes: u64, memory_max_bytes: u64) -> TaskLimits {
        TaskLimits { memory_bytes, memory_max_bytes, ..TaskLimits::default() }
    }

    #[test]
    fn shares_become_shares_or_parts_of_the_node() {
        let limits = |cpu_shares, node_mhz| TaskLimits { cpu_shares, node_mhz, ..TaskLimits::default() };
        for (cpu_shares, node_mhz, shares, weight) in [
            (500, 10_000, "500", "500"),
            (1, 100_000, "2", "1"),
            (1_000_000, 2_000, "262144", "10000"),
            (100, 0, "100", "10"),
        ] {
            let limits = limits(cpu_shares, node_mhz);
            assert_eq!(written(v1(Controller::Cpu, &limits)), [format!("cpu.shares={shares}")]);
            assert_eq!(written(v2(Controller::Cpu, &limits)), [format!("cpu.weight={weight}")]);
        }
        assert!(
            v1(Controller::Cpu, &limits(0, 0)).is_empty() && v2(Controller::Cpu, &limits(0, 0)).is_empty()
        );
    }

    #[test]
    fn memory_is_limited_to_what_the_task_may_use() {
        let cases: [(TaskLimits, &[&str], &[&str]); 4] = [
            (memory(64 * MB, 0), &["memory.limit_in_bytes=67108864"], &["memory.max=67108864"]),
            (
                memory(64 * MB, 128 * MB),
                &["memory.limit_in_bytes=134217728", "memory.soft_limit_in_bytes=67108864"],
                &["memory.max=134217728", "memory.low=67108864"],
            ),
            (memory(64 * MB, u64::MAX), &["memory.soft_limit_in_bytes=67108864"], &["memory.low=67108864"]),
            (memory(0, 0), &[], &[]),
        ];
        for (limits, first, second) in cases {
            assert_eq!(written(v1(Controller::Memory, &limits)), first);
            assert_eq!(written(v2(Controller::Memory, &limits)), second);
        }
    }

    #[test]
    fn the_number_of_processes_is_limited_if_it_is_given() {
        let limits = TaskLimits { pids_max: Some(64), ..TaskLimits::default() };
        assert_eq!(written(v2(Controller::Pids, &limits)), ["pids.max=64"]);
        assert!(v1(Controller::Pids, &TaskLimits::default()).is_empty());
    }
}
