//! Resource usage of the process, measured when its metrics are read.

use std::time::Duration;

use super::catalogue::{
    ACTIVE, BUILD_INFO, PROCESS_CPU, PROCESS_OPEN_FILES, PROCESS_RESIDENT, PROCESS_START, PROCESS_TASKS,
    PROCESS_THREADS, RUNTIME_ALLOC, RUNTIME_SYS, RUNTIME_TASKS,
};
use super::{active, catalogue};
use crate::clock;

/// Services with one active process.
const SINGLETONS: [&str; 4] = [catalogue::APPLIER, catalogue::BROKER, catalogue::TRACKER, catalogue::WATCHER];
/// Unit of processor time in the kernel (`sysconf(_SC_CLK_TCK)` is 100 on every Linux).
const TICKS_PER_SECOND: f64 = 100.0;
const KIB: f64 = 1024.0;

/// Records the number of tasks of the current runtime. Call it in the main runtime of the process, not in that of a
/// separate thread.
pub fn observe_tasks() {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let tasks = runtime.metrics().num_alive_tasks() as f64;
        PROCESS_TASKS.set(tasks);
        RUNTIME_TASKS.set(tasks);
    }
}

/// Records the resource usage of this process and the services that it is active for. Call it before each snapshot.
pub fn observe(service: &str) {
    BUILD_INFO.set_with(1.0, &[env!("CARGO_PKG_VERSION")]);
    let active_services = active();
    for role in SINGLETONS {
        let is_active = active_services.iter().any(|(name, _)| *name == role);
        if is_active || service == role {
            ACTIVE.set_with(f64::from(u8::from(is_active)), &[role]);
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
        // One of the entries is the open directory itself.
        PROCESS_OPEN_FILES.set(files.count().saturating_sub(1) as f64);
    }
    if let Some((used, age)) = times() {
        PROCESS_CPU.set(used);
        let now = Duration::from_nanos(clock::now().0.unsigned_abs()).as_secs_f64();
        // Rounded to whole seconds, so that repeated computations give the same value.
        PROCESS_START.set((now - age).round());
    }
}

/// The first number after `name`.
fn field(status: &str, name: &str) -> Option<f64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The used processor time and the age of this process, in seconds.
fn times() -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    // The name in parentheses may contain spaces. The text after it starts with the third field.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let used = (ticks(14)? + ticks(15)?) / TICKS_PER_SECOND;
    Some((used, uptime - ticks(22)? / TICKS_PER_SECOND))
}
