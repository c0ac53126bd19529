//! What a process takes of its machine, looked at when its metrics are.

use std::time::Duration;

use super::catalogue::{
    ACTIVE, BUILD_INFO, PROCESS_CPU, PROCESS_OPEN_FILES, PROCESS_RESIDENT, PROCESS_START, PROCESS_TASKS,
    PROCESS_THREADS, RUNTIME_ALLOC, RUNTIME_SYS, RUNTIME_TASKS,
};
use super::{active, catalogue};
use crate::clock;

/// The services of which one process is active.
const SINGLETONS: [&str; 4] = [catalogue::APPLIER, catalogue::BROKER, catalogue::TRACKER, catalogue::WATCHER];
/// The kernel counts processor time in these (`sysconf(_SC_CLK_TCK)` is 100 on every Linux).
const TICKS_PER_SECOND: f64 = 100.0;
const KIB: f64 = 1024.0;

/// Records how many tasks the runtime has that this is called in: to be that of the process, and not of a thread beside it.
pub fn observe_tasks() {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let tasks = runtime.metrics().num_alive_tasks() as f64;
        PROCESS_TASKS.set(tasks);
        RUNTIME_TASKS.set(tasks);
    }
}

/// Records what this process takes of its machine, and which services it is active for. Called before each snapshot.
pub fn observe(service: &str) {
    BUILD_INFO.set_with(1.0, &[env!("CARGO_PKG_VERSION")]);
    let is_active = active();
    for role in SINGLETONS {
        let is = is_active.iter().any(|(name, _)| *name == role);
        if is || service == role {
            ACTIVE.set_with(f64::from(u8::from(is)), &[role]);
        }
    }
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let bytes = |name: &str| field(&status, name).map(|kib| kib * KIB);
        if let Some(resident) = bytes("VmRSS:") {
            PROCESS_RESIDENT.set(resident);
            RUNTIME_SYS.set(resident);
        }
        if let Some(data) = bytes("RssAnon:") {
            RUNTIME_ALLOC.set(data);
        }
        if let Some(threads) = field(&status, "Threads:") {
            PROCESS_THREADS.set(threads);
        }
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        // One of them is the directory itself.
        PROCESS_OPEN_FILES.set(files.count().saturating_sub(1) as f64);
    }
    if let Some((used, age)) = times() {
        PROCESS_CPU.set(used);
        let now = Duration::from_nanos(clock::now().0.unsigned_abs()).as_secs_f64();
        // Whole seconds: the same each time, although it is computed anew.
        PROCESS_START.set((now - age).round());
    }
}

/// The first number after a name.
fn field(status: &str, name: &str) -> Option<f64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The processor time that this process has used and its age, in seconds.
fn times() -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    // The name in parentheses may hold blanks. What follows begins with the third field.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at - 3)?.parse::<f64>().ok();
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let used = (ticks(14)? + ticks(15)?) / TICKS_PER_SECOND;
    Some((used, uptime - ticks(22)? / TICKS_PER_SECOND))
}
