//! Metrics of hosts and tasks, which only agents can measure. Agents are polled only if a setting enables it, and only
//! while somebody reads metrics, because each response makes the agent measure its machine.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bus::Bus;
use model::alloc::ClientStatus;
use model::node::NodeStatus;
use model::{AllocId, NodeId};
use state::{AllocRef, NodeRef, Replica};
use telemetry::clock;
use telemetry::metrics::Series;
use telemetry::metrics::catalogue::{
    ALLOCS_CPU_ALLOCATED, ALLOCS_CPU_SYSTEM, ALLOCS_CPU_THROTTLED_PERIODS, ALLOCS_CPU_THROTTLED_TIME,
    ALLOCS_CPU_TICKS, ALLOCS_CPU_TOTAL, ALLOCS_CPU_USER, ALLOCS_MEMORY_ALLOCATED, ALLOCS_MEMORY_CACHE,
    ALLOCS_MEMORY_KERNEL_USAGE, ALLOCS_MEMORY_MAX_USAGE, ALLOCS_MEMORY_RSS, ALLOCS_MEMORY_SWAP,
    ALLOCS_MEMORY_USAGE, CLIENT_UPTIME, HOST_CPU_IDLE, HOST_CPU_SYSTEM, HOST_CPU_TICKS, HOST_CPU_TOTAL,
    HOST_CPU_USER, HOST_DISK_AVAILABLE, HOST_DISK_INODES, HOST_DISK_PERCENT, HOST_DISK_SIZE, HOST_DISK_USED,
    HOST_MEMORY_AVAILABLE, HOST_MEMORY_FREE, HOST_MEMORY_TOTAL, HOST_MEMORY_USED,
};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use wire::Subject;
use wire::stats::{AllocStats, GetAllocStats, GetHostStats, HostStats, TaskStats};

use super::PublishedMetrics;
use super::computed::node_labels;

/// Interval between two polls of an agent.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Time for which polling continues after metrics were last read.
const POLL_AFTER_READ_FOR: Duration = Duration::from_secs(90);
/// Maximum number of nodes whose host metrics are polled.
const NODES_MAX: usize = 200;
/// Maximum number of allocations whose task metrics are polled.
const ALLOCS_MAX: usize = 500;
/// Maximum number of concurrent requests.
const CONCURRENT_REQUESTS_MAX: usize = 32;
/// Timeout of a request to an agent.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Polls agents, and keeps their last metrics.
#[derive(Debug, Default)]
pub(super) struct AgentPoller {
    last_read_at: Mutex<Option<Instant>>,
    series: Mutex<Arc<Vec<Series>>>,
}

impl AgentPoller {
    /// The metrics of the last poll. Reading them keeps polling active for a while.
    pub(super) fn series(&self) -> Arc<Vec<Series>> {
        *lock(&self.last_read_at) = Some(clock::monotonic());
        Arc::clone(&lock(&self.series))
    }

    /// Polls agents periodically, for as long as the future is polled.
    pub(super) async fn poll(&self, bus: &Bus, replica: &Replica, published: PublishedMetrics) {
        if !published.nodes && !published.allocs {
            return;
        }
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let is_read = lock(&self.last_read_at).is_some_and(|at| at.elapsed() < POLL_AFTER_READ_FOR);
            let series = if is_read { poll_once(bus, replica, published).await } else { Vec::new() };
            *lock(&self.series) = Arc::new(series);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Polls every agent once. An agent that does not answer is left out.
async fn poll_once(bus: &Bus, replica: &Replica, published: PublishedMetrics) -> Vec<Series> {
    let snapshot = replica.snapshot();
    let permits = Arc::new(Semaphore::new(CONCURRENT_REQUESTS_MAX));
    let mut requests = JoinSet::new();
    if published.nodes {
        let is_ready = |node: &NodeRef<'_>| node.server().status == NodeStatus::Ready;
        for node in snapshot.nodes().filter(is_ready).take(NODES_MAX) {
            requests.spawn(poll_host(bus.clone(), Arc::clone(&permits), node.id(), node_labels(node)));
        }
    }
    if published.allocs {
        let is_running = |alloc: &AllocRef<'_>| alloc.client_status() == ClientStatus::Running;
        for alloc in snapshot.allocs().filter(is_running).take(ALLOCS_MAX) {
            let allocated = Allocated::of(alloc);
            requests.spawn(poll_tasks(
                bus.clone(),
                Arc::clone(&permits),
                alloc.node_id(),
                alloc.id(),
                allocated,
            ));
        }
    }
    let mut series = Vec::new();
    while let Some(polled) = requests.join_next().await {
        series.extend(polled.unwrap_or_default());
    }
    series
}

async fn poll_host(bus: Bus, permits: Arc<Semaphore>, node: NodeId, labels: Vec<String>) -> Vec<Series> {
    let _permit = permits.acquire_owned().await;
    let response = bus.request(Subject::AgentStats(node), &GetHostStats {}, RESPONSE_TIMEOUT).await;
    response.map(|stats| host_series(&stats, &labels)).unwrap_or_default()
}

/// Series of a host. `labels` are those of its node.
fn host_series(stats: &HostStats, labels: &[String]) -> Vec<Series> {
    let with = |more: &str| labels.iter().cloned().chain([more.to_owned()]).collect::<Vec<_>>();
    let mut series = vec![
        HOST_MEMORY_TOTAL.computed(labels.to_vec(), stats.memory.total as f64),
        HOST_MEMORY_AVAILABLE.computed(labels.to_vec(), stats.memory.available as f64),
        HOST_MEMORY_USED.computed(labels.to_vec(), stats.memory.used as f64),
        HOST_MEMORY_FREE.computed(labels.to_vec(), stats.memory.free as f64),
        CLIENT_UPTIME.computed(labels.to_vec(), stats.uptime_secs as f64),
    ];
    for cpu in &stats.cpus {
        for (gauge, value) in [
            (&HOST_CPU_USER, cpu.user_percent),
            (&HOST_CPU_SYSTEM, cpu.system_percent),
            (&HOST_CPU_IDLE, cpu.idle_percent),
            (&HOST_CPU_TOTAL, cpu.busy_percent),
            (&HOST_CPU_TICKS, cpu.used_mhz),
        ] {
            series.push(gauge.computed(with(&cpu.name), value));
        }
    }
    let mut devices = std::collections::BTreeSet::new();
    // A device that is mounted in several places is reported once.
    for disk in stats.disks.iter().filter(|disk| devices.insert(&disk.device)) {
        for (gauge, value) in [
            (&HOST_DISK_SIZE, disk.size_bytes as f64),
            (&HOST_DISK_USED, disk.used_bytes as f64),
            (&HOST_DISK_AVAILABLE, disk.available_bytes as f64),
            (&HOST_DISK_PERCENT, disk.used_percent),
            (&HOST_DISK_INODES, disk.inodes_percent),
        ] {
            series.push(gauge.computed(with(&disk.device), value));
        }
    }
    series
}

/// Resources that the tasks of an allocation have, and the labels of its series.
struct Allocated {
    job: String,
    group: String,
    namespace: String,
    alloc: String,
    /// Name, CPU in MHz and memory in MB of each task.
    tasks: Vec<(String, u32, u32)>,
}

impl Allocated {
    fn of(alloc: AllocRef<'_>) -> Self {
        let tasks = alloc.resources().tasks;
        Self {
            job: alloc.job_key().id.to_string(),
            group: alloc.group_name().to_string(),
            namespace: alloc.job_key().namespace.to_string(),
            alloc: alloc.id().to_string(),
            tasks: tasks.iter().map(|task| (task.name.to_string(), task.cpu_mhz, task.memory_mb)).collect(),
        }
    }

    fn labels(&self, task: &str) -> Vec<String> {
        vec![
            self.job.clone(),
            self.group.clone(),
            task.to_owned(),
            self.alloc.clone(),
            self.namespace.clone(),
        ]
    }
}

async fn poll_tasks(
    bus: Bus,
    permits: Arc<Semaphore>,
    node: NodeId,
    alloc: AllocId,
    allocated: Allocated,
) -> Vec<Series> {
    let _permit = permits.acquire_owned().await;
    let message = GetAllocStats { alloc, task: None };
    let response = bus.request::<_, AllocStats>(Subject::AgentStats(node), &message, RESPONSE_TIMEOUT).await;
    let stats = response.map(|stats| stats.tasks).unwrap_or_default();
    stats.iter().flat_map(|stats| task_series(stats, &allocated)).collect()
}

fn task_series(stats: &TaskStats, allocated: &Allocated) -> Vec<Series> {
    const MB: f64 = 1_048_576.0;
    let TaskStats { task, sum, counted, .. } = stats;
    let allocated_task = allocated.tasks.iter().find(|(name, ..)| **name == **task);
    let (cpu_mhz, memory_mb) =
        allocated_task.map_or((0, 0), |(_, cpu_mhz, memory_mb)| (*cpu_mhz, *memory_mb));
    let always = [
        (&ALLOCS_MEMORY_USAGE, counted.usage_bytes.unwrap_or(sum.rss_bytes) as f64),
        (&ALLOCS_MEMORY_RSS, sum.rss_bytes as f64),
        (&ALLOCS_MEMORY_SWAP, sum.swap_bytes as f64),
        (&ALLOCS_MEMORY_ALLOCATED, f64::from(memory_mb) * MB),
        (&ALLOCS_CPU_TOTAL, sum.user_percent + sum.system_percent),
        (&ALLOCS_CPU_TICKS, sum.used_mhz),
        (&ALLOCS_CPU_SYSTEM, sum.system_percent),
        (&ALLOCS_CPU_USER, sum.user_percent),
        (&ALLOCS_CPU_ALLOCATED, f64::from(cpu_mhz)),
    ];
    let if_counted = [
        (&ALLOCS_MEMORY_CACHE, counted.cache_bytes),
        (&ALLOCS_MEMORY_MAX_USAGE, counted.usage_max_bytes),
        (&ALLOCS_MEMORY_KERNEL_USAGE, counted.kernel_bytes),
        (&ALLOCS_CPU_THROTTLED_PERIODS, counted.throttled_periods),
        (&ALLOCS_CPU_THROTTLED_TIME, counted.throttled_ns),
    ];
    let if_counted = if_counted.into_iter().filter_map(|(gauge, value)| Some((gauge, value? as f64)));
    let series = always.into_iter().chain(if_counted);
    series.map(|(gauge, value)| gauge.computed(allocated.labels(task), value)).collect()
}

#[cfg(test)]
mod tests {
    use telemetry::metrics::Value;
    use wire::stats::{Counted, CpuStats, DiskStats, MemoryStats, Usage};

    use super::*;

    fn value(series: &[Series], name: &str, last: &str) -> f64 {
        let found = series.iter().find(|one| {
            one.meta.name == name && (last.is_empty() || one.labels.iter().any(|label| label == last))
        });
        match found.map(|one| &one.value) {
            Some(Value::Gauge(value)) => *value,
            other => panic!("{name} {last}: {other:?}"),
        }
    }

    #[test]
    fn a_machines_figures_become_series_of_its_node() {
        let disk = |mountpoint: &str| DiskStats {
            device: "/dev/sda1".into(),
            mountpoint: mountpoint.into(),
            size_bytes: 1_000,
            used_bytes: 250,
            used_percent: 25.0,
            ..DiskStats::default()
        };
        let stats = HostStats {
            uptime_secs: 7,
            memory: MemoryStats { total: 100, available: 60, used: 40, free: 50 },
            cpus: vec![CpuStats {
                name: "cpu1".into(),
                idle_percent: 75.0,
                busy_percent: 25.0,
                ..CpuStats::default()
            }],
            disks: vec![disk("/"), disk("/mnt")],
            ..HostStats::default()
        };
        let labels = ["id", "dc1", "", "default", "ready", "eligible"].map(str::to_owned);
        let series = host_series(&stats, &labels);
        assert_eq!(value(&series, "nomad.client.host.memory.used", ""), 40.0);
        assert_eq!(value(&series, "nomad.client.host.cpu.total_percent", "cpu1"), 25.0);
        assert_eq!(value(&series, "nomad.client.host.disk.used_percent", "/dev/sda1"), 25.0);
        assert_eq!(value(&series, "nomad.client.uptime", "id"), 7.0);
        let disks = series.iter().filter(|one| one.meta.name == "nomad.client.host.disk.size").count();
        assert_eq!(disks, 1, "one series for each device");
        assert!(series.iter().all(|one| one.labels.len() == one.meta.labels.len()));
    }

    #[test]
    fn a_tasks_figures_stand_beside_what_it_was_given() {
        let allocated = Allocated {
            job: "web".into(),
            group: "app".into(),
            namespace: "default".into(),
            alloc: "a".into(),
            tasks: vec![("main".into(), 500, 2)],
        };
        let sum =
            Usage { rss_bytes: 10, swap_bytes: 1, user_percent: 20.0, system_percent: 5.0, used_mhz: 250.0 };
        let counted = Counted { usage_max_bytes: Some(12), ..Counted::default() };
        let stats = TaskStats { task: "main".into(), sum, counted, ..TaskStats::default() };
        let series = task_series(&stats, &allocated);
        assert_eq!(value(&series, "nomad.client.allocs.memory.usage", "main"), 10.0);
        assert_eq!(value(&series, "nomad.client.allocs.memory.allocated", "a"), 2_097_152.0);
        assert_eq!(value(&series, "nomad.client.allocs.memory.max_usage", "main"), 12.0);
        assert!(series.iter().all(|one| one.meta.name != "nomad.client.allocs.memory.cache"));
        assert_eq!(value(&series, "nomad.client.allocs.cpu.total_percent", "web"), 25.0);
        assert_eq!(value(&series, "nomad.client.allocs.cpu.allocated", "app"), 500.0);
    }
}
