//! Tests of metrics computed from the state.

use std::sync::Arc;

use model::NodeId;
use model::alloc::GroupSummary;
use model::change::{Change, JobSummary};
use model::job::{Job, JobSpec};
use model::node::{Node, NodeServerSide, NodeSpec, NodeStatus};
use telemetry::metrics::Value;

use super::*;
use crate::testing::state_of;

fn node(number: u8, status: NodeStatus) -> Change {
    let mut spec = NodeSpec {
        name: format!("node-{number}").into(),
        datacenter: "dc1".into(),
        node_pool: "default".into(),
        ..NodeSpec::default()
    };
    spec.resources.cpu.cpu_mhz = 4_000;
    spec.resources.memory_mb = 1_024;
    let server = NodeServerSide { status, ..NodeServerSide::default() };
    Change::Node(Box::new(Node { id: NodeId::from_bytes([number; 16]), spec: Arc::new(spec), server }))
}

fn job(id: &str, status: JobStatus, running: u32) -> [Change; 2] {
    let spec = JobSpec { id: id.into(), namespace: "default".into(), ..JobSpec::default() };
    let job = Job { spec: Arc::new(spec), status, ..Job::default() };
    let group = GroupSummary { running, queued: 1, ..GroupSummary::default() };
    let summary = JobSummary {
        job: job.key(),
        groups: [("app".into(), group)].into_iter().collect(),
        children: None,
        scaling_events: None,
        create_index: job.create_index,
        modify_index: job.modify_index,
    };
    [Change::Job(Arc::new(job)), Change::JobSummary(Arc::new(summary))]
}

fn value(series: &[Series], name: &str, labels: &[&str]) -> f64 {
    let found = series.iter().find(|one| one.meta.name == name && one.labels == labels);
    match found.map(|one| &one.value) {
        Some(Value::Gauge(value)) => *value,
        other => panic!("{name} {labels:?}: {other:?}"),
    }
}

#[test]
fn jobs_and_nodes_are_counted_from_the_state() {
    let mut changes = vec![node(1, NodeStatus::Ready), node(2, NodeStatus::Down)];
    changes.extend(job("web", JobStatus::Running, 3));
    changes.extend(job("db", JobStatus::Pending, 0));
    let series = series(&state_of(changes), PublishedMetrics::default());
    let value = |name: &str, labels: &[&str]| value(&series, name, labels);
    assert_eq!(value("nomad.job_status.running", &[]), 1.0);
    assert_eq!(value("nomad.job_status.pending", &[]), 1.0);
    assert_eq!(value("nomad.job_status.dead", &[]), 0.0);
    assert_eq!(value("nomad.job_summary.running", &["web", "app", "default"]), 3.0);
    assert_eq!(value("nomad.job_summary.queued", &["db", "app", "default"]), 1.0);
    assert_eq!(value("drover.cluster.allocations", &["queued"]), 2.0);
    assert_eq!(value("drover.cluster.allocations", &["running"]), 3.0);
    assert_eq!(value("drover.cluster.nodes", &["ready"]), 1.0);
    assert_eq!(value("drover.cluster.nodes", &["down"]), 1.0);
    assert_eq!(value("drover.cluster.cpu_mhz", &[]), 8_000.0);
    assert_eq!(value("nomad.state.snapshotIndex", &[]), 2.0);
    assert_eq!(value("drover.cluster.series_left_out", &["node"]), 0.0);
    let id = NodeId::from_bytes([1; 16]).to_string();
    let labels = [&*id, "dc1", "", "default", "ready", "eligible"];
    assert_eq!(value("nomad.client.unallocated.cpu", &labels), 4_000.0);
    assert_eq!(value("nomad.client.unallocated.memory", &labels), 1_024.0);
    assert_eq!(value("nomad.client.allocations.running", &labels), 0.0);
}
