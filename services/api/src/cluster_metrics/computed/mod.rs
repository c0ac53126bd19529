//! Metrics computed from the state alone: status of jobs, and capacity and usage of nodes.
//!
//! Most values come from job summaries and node columns. Only the allocations of each node are counted by iteration, and
//! only if there are not too many nodes.

use model::alloc::{ClientStatus, TaskRunState};
use model::job::JobStatus;
use state::{AllocRef, NodeRef, State, View};
use telemetry::metrics::catalogue::{
    ALLOCS_COMPLETE, ALLOCS_FAILED, ALLOCS_RESTART, ALLOCS_RUNNING, CLIENT_ALLOCATED_CPU,
    CLIENT_ALLOCATED_DISK, CLIENT_ALLOCATED_MEMORY, CLIENT_PENDING, CLIENT_RUNNING, CLIENT_TASKS_DEAD,
    CLIENT_TASKS_PENDING, CLIENT_TASKS_RUNNING, CLIENT_TERMINAL, CLIENT_UNALLOCATED_CPU,
    CLIENT_UNALLOCATED_DISK, CLIENT_UNALLOCATED_MEMORY, CLUSTER_ALLOCS, CLUSTER_CPU, CLUSTER_CPU_HELD,
    CLUSTER_MEMORY, CLUSTER_MEMORY_HELD, CLUSTER_NODES, CLUSTER_SERIES_LEFT_OUT, JOB_COMPLETE, JOB_FAILED,
    JOB_LOST, JOB_QUEUED, JOB_RUNNING, JOB_STARTING, JOB_UNKNOWN, JOBS_DEAD, JOBS_PENDING, JOBS_RUNNING,
    STATE_SNAPSHOT_INDEX,
};
use telemetry::metrics::{Gauge, Series};

use super::PublishedMetrics;

/// Maximum number of task groups with series of their own. Further groups count only in the sums.
const GROUPS_MAX: usize = 10_000;
/// Maximum number of nodes with series of their own. If there are more, no node has them.
const NODES_MAX: usize = 2_000;
/// Maximum number of allocations up to which tasks are counted. Each allocation's task states must be unpacked for that.
const TASKS_COUNTED_MAX: usize = 100_000;
/// Maximum number of allocations with series of their own.
const ALLOCS_MAX: usize = 500;
/// Resources are counted in MiB.
const MIB_BYTES: f64 = 1_048_576.0;

/// All computed series.
pub(super) fn series(state: &State, published: PublishedMetrics) -> Vec<Series> {
    let mut series = vec![STATE_SNAPSHOT_INDEX.computed(Vec::new(), state.index().0 as f64)];
    let left_out = jobs(state, &mut series);
    nodes(state, &mut series);
    if published.allocs {
        state
            .allocs()
            .filter(|alloc| alloc.client_status() == ClientStatus::Running)
            .take(ALLOCS_MAX)
            .for_each(|alloc| alloc_series(alloc, &mut series));
    }
    series.push(CLUSTER_SERIES_LEFT_OUT.computed(vec!["task group".to_owned()], left_out as f64));
    let nodes = state.node_count();
    let left_out = if nodes > NODES_MAX { nodes } else { 0 };
    series.push(CLUSTER_SERIES_LEFT_OUT.computed(vec!["node".to_owned()], left_out as f64));
    series
}

/// Number of jobs in each status, and number of allocations of each task group in each status. Returns the number of groups
/// without series.
fn jobs(state: &State, series: &mut Vec<Series>) -> usize {
    let gauges: [(&'static Gauge, &str); 7] = [
        (&JOB_QUEUED, "queued"),
        (&JOB_COMPLETE, "complete"),
        (&JOB_FAILED, "failed"),
        (&JOB_RUNNING, "running"),
        (&JOB_STARTING, "starting"),
        (&JOB_LOST, "lost"),
        (&JOB_UNKNOWN, "unknown"),
    ];
    let (mut pending, mut running, mut dead) = (0_u64, 0_u64, 0_u64);
    let mut sums = [0_u64; 7];
    let (mut shown, mut left_out) = (0, 0);
    for job in state.jobs() {
        match job.status {
            JobStatus::Pending => pending += 1,
            JobStatus::Running => running += 1,
            JobStatus::Dead => dead += 1,
        }
        let Some(summary) = state.job_summary(&job.key()) else { continue };
        for (group, counts) in &summary.groups {
            let counts = [
                counts.queued,
                counts.complete,
                counts.failed,
                counts.running,
                counts.starting,
                counts.lost,
                counts.unknown,
            ];
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += u64::from(count));
            if shown >= GROUPS_MAX {
                left_out += 1;
                continue;
            }
            shown += 1;
            for ((gauge, _), count) in gauges.iter().zip(counts) {
                let labels = vec![job.spec.id.to_string(), group.to_string(), job.spec.namespace.to_string()];
                series.push(gauge.computed(labels, f64::from(count)));
            }
        }
    }
    for (gauge, count) in [(&JOBS_PENDING, pending), (&JOBS_RUNNING, running), (&JOBS_DEAD, dead)] {
        series.push(gauge.computed(Vec::new(), count as f64));
    }
    for ((_, status), sum) in gauges.iter().zip(sums) {
        series.push(CLUSTER_ALLOCS.computed(vec![(*status).to_owned()], sum as f64));
    }
    left_out
}

/// Number of nodes in each status, their total capacity and usage, and the series of each node if there are not too many.
fn nodes(state: &State, series: &mut Vec<Series>) {
    let [mut ready, mut down, mut disconnected, mut draining, mut ineligible] = [0_u32; 5];
    let [mut cpu, mut cpu_held, mut memory, mut memory_held] = [0.0; 4];
    for page in state.node_pages() {
        ready += page.ready.count_ones();
        down += page.down.count_ones();
        disconnected += page.disconnected.count_ones();
        draining += page.draining.count_ones();
        ineligible +=
            (page.known & !page.ready & !page.down & !page.disconnected & !page.draining).count_ones();
        let sum = |column: &[u32]| column.iter().copied().map(f64::from).sum::<f64>();
        cpu += sum(&page.cpu_mhz);
        memory += sum(&page.memory_mb);
        cpu_held += sum(&page.held.cpu_mhz);
        memory_held += sum(&page.held.memory_mb);
    }
    for (status, count) in [
        ("ready", ready),
        ("down", down),
        ("disconnected", disconnected),
        ("draining", draining),
        ("not eligible", ineligible),
    ] {
        series.push(CLUSTER_NODES.computed(vec![status.to_owned()], f64::from(count)));
    }
    for (gauge, sum) in [
        (&CLUSTER_CPU, cpu),
        (&CLUSTER_CPU_HELD, cpu_held),
        (&CLUSTER_MEMORY, memory * MIB_BYTES),
        (&CLUSTER_MEMORY_HELD, memory_held * MIB_BYTES),
    ] {
        series.push(gauge.computed(Vec::new(), sum));
    }
    if state.node_count() <= NODES_MAX {
        let count_tasks = state.alloc_count() <= TASKS_COUNTED_MAX;
        state.nodes().for_each(|node| node_series(node, count_tasks, series));
    }
}

/// Label values of a node's series.
pub(super) fn node_labels(node: NodeRef<'_>) -> Vec<String> {
    let (spec, server) = (node.spec(), node.server());
    vec![
        node.id().to_string(),
        spec.datacenter.to_string(),
        spec.node_class.to_string(),
        spec.node_pool.to_string(),
        server.status.as_str().to_owned(),
        server.eligibility.as_str().to_owned(),
    ]
}

fn node_series(node: NodeRef<'_>, count_tasks: bool, series: &mut Vec<Series>) {
    let labels = node_labels(node);
    let mut tasks = [0_u32; 3];
    let [mut running, mut pending, mut terminal] = [0_u32; 3];
    for alloc in node.allocs() {
        let states = if count_tasks { alloc.task_states().unpack().unwrap_or_default() } else { Vec::new() };
        for task in states {
            match task.state {
                TaskRunState::Running => tasks[0] += 1,
                TaskRunState::Pending => tasks[1] += 1,
                TaskRunState::Dead => tasks[2] += 1,
            }
        }
        match alloc.client_status() {
            ClientStatus::Running => running += 1,
            ClientStatus::Pending => pending += 1,
            ClientStatus::Complete | ClientStatus::Failed | ClientStatus::Lost | ClientStatus::Unknown => {
                terminal += 1;
            }
        }
    }
    let (has, holds) = (node.capacity(), node.usage(View::Held));
    let left = |has: u32, holds: u32| f64::from(has.saturating_sub(holds));
    for (gauge, value) in [
        (&CLIENT_RUNNING, f64::from(running)),
        (&CLIENT_PENDING, f64::from(pending)),
        (&CLIENT_TERMINAL, f64::from(terminal)),
        (&CLIENT_ALLOCATED_CPU, f64::from(holds.cpu_mhz)),
        (&CLIENT_ALLOCATED_MEMORY, f64::from(holds.memory_mb)),
        (&CLIENT_ALLOCATED_DISK, f64::from(holds.disk_mb)),
        (&CLIENT_UNALLOCATED_CPU, left(has.cpu_mhz, holds.cpu_mhz)),
        (&CLIENT_UNALLOCATED_MEMORY, left(has.memory_mb, holds.memory_mb)),
        (&CLIENT_UNALLOCATED_DISK, left(has.disk_mb, holds.disk_mb)),
    ] {
        series.push(gauge.computed(labels.clone(), value));
    }
    if count_tasks {
        for (gauge, count) in
            [&CLIENT_TASKS_RUNNING, &CLIENT_TASKS_PENDING, &CLIENT_TASKS_DEAD].into_iter().zip(tasks)
        {
            series.push(gauge.computed(labels.clone(), f64::from(count)));
        }
    }
}

/// Series of an allocation's tasks.
fn alloc_series(alloc: AllocRef<'_>, series: &mut Vec<Series>) {
    let key = alloc.job_key();
    for task in alloc.task_states().unpack().unwrap_or_default() {
        let labels = vec![
            key.id.to_string(),
            alloc.group_name().to_string(),
            task.task.to_string(),
            alloc.id().to_string(),
            key.namespace.to_string(),
        ];
        let is_dead = task.state == TaskRunState::Dead;
        let one = |is: bool| f64::from(u8::from(is));
        for (gauge, value) in [
            (&ALLOCS_RUNNING, one(task.state == TaskRunState::Running)),
            (&ALLOCS_RESTART, task.restarts as f64),
            (&ALLOCS_COMPLETE, one(is_dead && !task.failed)),
            (&ALLOCS_FAILED, one(is_dead && task.failed)),
        ] {
            series.push(gauge.computed(labels.clone(), value));
        }
    }
}

#[cfg(test)]
mod tests;
