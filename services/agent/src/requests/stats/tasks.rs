//! Resource usage of tasks, from two readings of their processes.

use std::collections::BTreeMap;
use std::time::Instant;

use model::text::quoted;
use model::{AllocId, Text};
use telemetry::clock;
use wire::stats::{AllocStats, PROCESSES_MAX, TaskStats, Usage};
use wire::{Refusal, RefusalKind};

use super::proc::{self, ProcessReading, TICKS_PER_SEC};
use crate::alloc::runner::spec_file;
use crate::context::Context;
use crate::disk::store;
use crate::task::runner::handle_of;
use crate::work::spec::AllocSpec;

/// The ids of a task's processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Processes(Vec<u32>);

/// A reading of the counters of a task's processes.
#[derive(Debug, Clone)]
pub(super) struct TaskReading {
    pub(super) at: Instant,
    processes: BTreeMap<u32, ProcessReading>,
}

impl Processes {
    /// The processes of an allocation's tasks, or of one task. Tasks without processes are left out.
    pub(super) fn of_alloc(
        context: &Context,
        alloc: AllocId,
        only: Option<&Text>,
    ) -> Result<Vec<(Text, Self)>, Refusal> {
        let spec = store::read::<AllocSpec>(&spec_file(context, alloc)).ok().flatten();
        let spec = spec.ok_or_else(|| Refusal {
            kind: RefusalKind::NotFound,
            message: format!("Unknown allocation {}", quoted(&alloc.to_string())).into(),
        })?;
        let mut running = Vec::new();
        for task in spec.group().into_iter().flat_map(|group| &group.tasks) {
            if only.is_some_and(|only| *only != task.name) {
                continue;
            }
            let handle = handle_of(context, alloc, &task.name);
            if let (Some(handle), Some(driver)) = (handle, context.drivers.get(&task.driver)) {
                let processes = driver.processes(&handle);
                if !processes.is_empty() {
                    running.push((Text::clone(&task.name), Self(processes)));
                }
            }
        }
        Ok(running)
    }

    /// Reads the counters. Processes that have ended are left out.
    pub(super) fn read(&self) -> TaskReading {
        let processes = self.0.iter().filter_map(|pid| Some((*pid, proc::process(*pid)?))).collect();
        TaskReading { at: clock::monotonic(), processes }
    }
}

/// The usage of tasks between two readings, with processors of this speed.
pub(super) fn stats(
    before: &BTreeMap<(AllocId, Text), TaskReading>,
    after: &BTreeMap<(AllocId, Text), TaskReading>,
    mhz: f64,
) -> AllocStats {
    let at = clock::now();
    let mut room = PROCESSES_MAX;
    let tasks = after.iter().filter_map(|(key, now)| {
        let then = before.get(key)?;
        let span_secs = now.at.saturating_duration_since(then.at).as_secs_f64();
        let used =
            |(pid, now): (&u32, &ProcessReading)| (*pid, usage(then.processes.get(pid), now, span_secs, mhz));
        let mut processes: Vec<(u32, Usage)> = now.processes.iter().map(used).collect();
        let sum = processes.iter().fold(Usage::default(), |sum, (_, usage)| sum.and(*usage));
        processes.truncate(room);
        room -= processes.len();
        Some(TaskStats { task: Text::clone(&key.1), at, sum, processes, devices: Vec::new() })
    });
    AllocStats { tasks: tasks.collect() }
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
    use crate::testing::alloc_id;

    fn process(started: u64, user: u64, system: u64) -> ProcessReading {
        ProcessReading { started, user, system, rss_bytes: 1_000, swap_bytes: 10 }
    }

    fn reading(at: Instant, processes: &[(u32, ProcessReading)]) -> BTreeMap<(AllocId, Text), TaskReading> {
        let processes = processes.iter().copied().collect();
        [((alloc_id(1), "web".into()), TaskReading { at, processes })].into()
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
}
