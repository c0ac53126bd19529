//! Resource usage of tasks, from two readings of their counters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use model::{AllocId, Text};
use telemetry::{chain, clock};
use wire::Refusal;
use wire::stats::{AllocStats, Counted, PROCESSES_MAX, TaskStats, Usage};

use super::blocking;
use crate::driver::Running;
use crate::proc::{ProcessReading, TICKS_PER_SEC};
use crate::resources::{CpuUsage, TaskUsage};

/// The number of nanoseconds in a second.
const NS_PER_SEC: f64 = 1e9;

/// Readings by task.
pub(super) type Readings = BTreeMap<(AllocId, Text), TaskReading>;

/// A reading of the counters of a task.
#[derive(Debug, Clone)]
pub(super) struct TaskReading {
    pub(super) at: Instant,
    /// What the driver measures.
    usage: TaskUsage,
    /// The counters of its processes.
    processes: BTreeMap<u32, ProcessReading>,
}

/// Reads the counters of running tasks. A task that has no processes, or whose driver measures nothing, is left out.
pub(super) async fn read(alloc: AllocId, running: &[(Text, Arc<dyn Running>)]) -> Result<Readings, Refusal> {
    let mut measured = Vec::new();
    for (name, task) in running {
        let usage = match task.usage().await {
            Ok(Some(usage)) if !usage.pids.is_empty() || usage.cpu != CpuUsage::default() => usage,
            Ok(Some(_) | None) => continue,
            Err(error) => {
                tracing::debug!(alloc.id = %alloc, task = &**name, error = chain(&error), "cannot measure a task");
                continue;
            }
        };
        measured.push(((alloc, Text::clone(name)), usage));
    }
    blocking(move || Ok(measured.into_iter().map(|(key, usage)| (key, TaskReading::of(usage))).collect()))
        .await
}

impl TaskReading {
    /// Adds the counters of the processes. Those that have ended meanwhile are left out.
    fn of(usage: TaskUsage) -> Self {
        let processes = usage.pids.iter().filter_map(|pid| Some((*pid, ProcessReading::of(*pid)?))).collect();
        Self { at: clock::monotonic(), usage, processes }
    }
}

/// The usage of tasks between two readings, with processors of this speed.
pub(super) fn stats(before: &Readings, after: &Readings, mhz: f64) -> AllocStats {
    let at = clock::now();
    let mut room = PROCESSES_MAX;
    let tasks = after.iter().filter_map(|(key, now)| {
        let then = before.get(key)?;
        let span_secs = now.at.saturating_duration_since(then.at).as_secs_f64();
        let used =
            |(pid, now): (&u32, &ProcessReading)| (*pid, usage(then.processes.get(pid), now, span_secs, mhz));
        let mut processes: Vec<(u32, Usage)> = now.processes.iter().map(used).collect();
        let sum = processes.iter().fold(Usage::default(), |sum, (_, usage)| sum.and(*usage));
        let sum = measured(&then.usage, &now.usage, sum, span_secs, mhz);
        processes.truncate(room);
        room -= processes.len();
        Some(TaskStats {
            task: Text::clone(&key.1),
            at,
            sum,
            counted: counted(&now.usage),
            processes,
            devices: Vec::new(),
        })
    });
    AllocStats { tasks: tasks.collect() }
}

/// What the driver counts for the task as a whole only.
fn counted(usage: &TaskUsage) -> Counted {
    Counted {
        cache_bytes: usage.memory.cache,
        usage_bytes: usage.memory.usage,
        usage_max_bytes: usage.memory.max_usage,
        kernel_bytes: usage.memory.kernel_usage,
        throttled_periods: usage.cpu.throttled_periods,
        throttled_ns: usage.cpu.throttled_ns,
    }
}

/// The usage of a task: what its driver measures, and for the rest the sum over its processes.
fn measured(then: &TaskUsage, now: &TaskUsage, sum: Usage, span_secs: f64, mhz: f64) -> Usage {
    let percent = |now: Option<u64>, then: Option<u64>| {
        let (now, then) = now.zip(then)?;
        // A counter that is lower than before is that of a later start.
        let used = now.checked_sub(then).unwrap_or(now) as f64;
        Some(if span_secs > 0.0 { 100.0 * used / NS_PER_SEC / span_secs } else { 0.0 })
    };
    let user_percent = percent(now.cpu.user_ns, then.cpu.user_ns).unwrap_or(sum.user_percent);
    let system_percent = percent(now.cpu.system_ns, then.cpu.system_ns).unwrap_or(sum.system_percent);
    let total = percent(now.cpu.total_ns, then.cpu.total_ns).unwrap_or(user_percent + system_percent);
    Usage {
        rss_bytes: now.memory.rss.unwrap_or(sum.rss_bytes),
        swap_bytes: now.memory.swap.unwrap_or(sum.swap_bytes),
        user_percent,
        system_percent,
        used_mhz: total / 100.0 * mhz,
    }
}

/// The usage of a process. If it is new, all of its usage is counted.
fn usage(then: Option<&ProcessReading>, now: &ProcessReading, span_secs: f64, mhz: f64) -> Usage {
    let then = then.filter(|then| then.started == now.started).copied().unwrap_or_default();
    let percent = |now: u64, then: u64| {
        let ticks = now.saturating_sub(then) as f64;
        if span_secs > 0.0 { 100.0 * ticks / TICKS_PER_SEC / span_secs } else { 0.0 }
    };
    let (user_percent, system_percent) = (percent(now.user, then.user), percent(now.system, then.system));
    Usage {
        rss_bytes: now.rss_bytes,
        swap_bytes: now.swap_bytes,
        user_percent,
        system_percent,
        used_mhz: (user_percent + system_percent) / 100.0 * mhz,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::resources::MemoryUsage;
    use crate::testing::alloc_id;

    fn process(started: u64, user: u64, system: u64) -> ProcessReading {
        ProcessReading { started, user, system, rss_bytes: 1_000, swap_bytes: 10 }
    }

    fn reading(at: Instant, processes: &[(u32, ProcessReading)]) -> Readings {
        measured_by_driver(at, processes, TaskUsage::default())
    }

    fn measured_by_driver(at: Instant, processes: &[(u32, ProcessReading)], usage: TaskUsage) -> Readings {
        let processes = processes.iter().copied().collect();
        [((alloc_id(1), "web".into()), TaskReading { at, usage, processes })].into()
    }

    #[test]
    fn a_tasks_processes_are_measured_and_added_up() {
        let began = clock::monotonic();
        let before = reading(began, &[(7, process(1, 100, 10)), (8, process(1, 500, 500))]);
        let later = began + Duration::from_secs(2);
        // Process 8 ended, and its id belongs to another process now.
        let after = reading(later, &[(7, process(1, 200, 30)), (8, process(9, 40, 0))]);
        let measured = stats(&before, &after, 1_000.0);
        let task = &measured.tasks[0];
        assert_eq!((&*task.task, task.processes.len()), ("web", 2));
        let first = task.processes[0].1;
        assert_eq!((first.user_percent, first.system_percent, first.used_mhz), (50.0, 10.0, 600.0));
        assert_eq!(task.processes[1].1.user_percent, 20.0);
        assert_eq!((task.sum.user_percent, task.sum.rss_bytes, task.sum.swap_bytes), (70.0, 2_000, 20));
    }

    #[test]
    fn the_sum_includes_processes_that_are_not_listed() {
        let began = clock::monotonic();
        let many: Vec<_> = (0..3_000).map(|pid| (pid, process(1, 0, 0))).collect();
        let measured = stats(&reading(began, &[]), &reading(began, &many), 1_000.0);
        assert_eq!(measured.tasks[0].processes.len(), PROCESSES_MAX);
        assert_eq!((measured.tasks[0].sum.rss_bytes, measured.tasks[0].sum.user_percent), (3_000_000, 0.0));
    }

    #[test]
    fn what_the_driver_measures_counts_more_than_the_sum_over_processes() {
        let began = clock::monotonic();
        let usage = |seconds: u64| {
            let cpu = CpuUsage { total_ns: Some(seconds * 1_000_000_000), ..CpuUsage::default() };
            let memory = MemoryUsage { rss: Some(77), ..MemoryUsage::default() };
            TaskUsage { cpu, memory, pids: vec![7] }
        };
        let before = measured_by_driver(began, &[(7, process(1, 0, 0))], usage(10));
        let later = began + Duration::from_secs(2);
        // The sum over the processes lacks what has ended.
        let after = measured_by_driver(later, &[(7, process(1, 20, 0))], usage(12));
        let sum = stats(&before, &after, 1_000.0).tasks[0].sum;
        assert_eq!((sum.used_mhz, sum.user_percent), (1_000.0, 10.0));
        assert_eq!((sum.rss_bytes, sum.swap_bytes), (77, 10));
        let restarted = measured_by_driver(later, &[], usage(1));
        assert_eq!(stats(&before, &restarted, 1_000.0).tasks[0].sum.used_mhz, 500.0);
    }
}
