//! `docs/metrics.md` documents exactly the metrics that exist, and explains every metric that the reference documents.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use telemetry::metrics::prometheus::{exposed_name, names};
use telemetry::metrics::{Kind, Merge, Meta, Metric, catalogue};

/// The metrics that the reference documents (http-api §30), without the prefix `nomad.`.
const DOCUMENTED: &[&str] = &[
    "job_summary.queued",
    "job_summary.complete",
    "job_summary.failed",
    "job_summary.running",
    "job_summary.starting",
    "job_summary.lost",
    "job_summary.unknown",
    "job_status.pending",
    "job_status.running",
    "job_status.dead",
    "broker.total_ready",
    "broker.total_unacked",
    "broker.total_pending",
    "broker.total_waiting",
    "broker.total_cancelable",
    "broker.service_ready",
    "broker.service_unacked",
    "broker.batch_ready",
    "broker.batch_unacked",
    "broker.system_ready",
    "broker.system_unacked",
    "broker.sysbatch_ready",
    "broker.sysbatch_unacked",
    "broker.eval_waiting",
    "broker.wait_time",
    "broker.process_time",
    "broker.response_time",
    "blocked_evals.total_blocked",
    "blocked_evals.total_escaped",
    "blocked_evals.total_quota_limit",
    "blocked_evals.cpu",
    "blocked_evals.memory",
    "blocked_evals.job.cpu",
    "blocked_evals.job.memory",
    "plan.queue_depth",
    "plan.evaluate",
    "plan.submit",
    "plan.wait_for_index",
    "plan.node_rejected",
    "plan.rejection_tracker.node_score",
    "worker.dequeue_eval",
    "worker.invoke_scheduler.service",
    "worker.invoke_scheduler.batch",
    "worker.invoke_scheduler.system",
    "worker.invoke_scheduler.sysbatch",
    "worker.submit_plan",
    "worker.wait_for_index",
    "worker.create_eval",
    "worker.send_ack",
    "worker.send_nack",
    "leader.barrier",
    "leader.reconcile",
    "leader.reconcileMember",
    "raft.apply",
    "raft.commitTime",
    "raft.leader.lastContact",
    "raft.leader.dispatchLog",
    "raft.rpc.appendEntries",
    "raft.state.candidate",
    "raft.state.follower",
    "raft.state.leader",
    "raft.fsm.lastSnapshotDuration",
    "raft.thread.main.saturation",
    "raft.boltdb.*",
    "fsm.*",
    "autopilot.healthy",
    "autopilot.failure_tolerance",
    "memberlist.gossip",
    "serf.*",
    "nomad.rpc.request",
    "nomad.rpc.request_error",
    "nomad.rpc.query",
    "nomad.rpc.cross-region",
    "nomad.rpc.raft_handoff",
    "nomad.rpc.accept_conn",
    "nomad.client.register",
    "nomad.client.get_node",
    "nomad.client.get_allocs",
    "nomad.client.get_client_allocs",
    "nomad.client.update_status",
    "nomad.client.update_alloc",
    "nomad.client.batch_deregister",
    "nomad.job.*",
    "nomad.eval.*",
    "nomad.alloc.*",
    "agent.http.connections",
    "agent.http.exceeded",
    "agent.event.*",
    "heartbeat.active",
    "heartbeat.invalidate",
    "state.snapshotIndex",
    "variables.*",
    "vault.distributed_tokens_revoked",
    "periodic.*",
    "drainer.*",
    "runtime.num_goroutines",
    "runtime.alloc_bytes",
    "runtime.sys_bytes",
    "runtime.heap_objects",
    "runtime.malloc_count",
    "runtime.free_count",
    "runtime.total_gc_runs",
    "runtime.total_gc_pause_ns",
    "runtime.gc_pause_ns",
    "client.allocations.running",
    "client.allocations.pending",
    "client.allocations.terminal",
    "client.allocations.blocked",
    "client.allocations.migrating",
    "client.allocations.starting",
    "client.allocated.cpu",
    "client.allocated.memory",
    "client.allocated.disk",
    "client.allocated.network",
    "client.unallocated.cpu",
    "client.unallocated.memory",
    "client.unallocated.disk",
    "client.host.cpu.user",
    "client.host.cpu.system",
    "client.host.cpu.idle",
    "client.host.cpu.total_percent",
    "client.host.cpu.total_ticks",
    "client.host.memory.total",
    "client.host.memory.available",
    "client.host.memory.used",
    "client.host.memory.free",
    "client.host.disk.size",
    "client.host.disk.used",
    "client.host.disk.available",
    "client.host.disk.used_percent",
    "client.host.disk.inodes_percent",
    "client.uptime",
    "client.tasks.running",
    "client.tasks.pending",
    "client.tasks.dead",
    "client.allocs.running",
    "client.allocs.start",
    "client.allocs.restart",
    "client.allocs.complete",
    "client.allocs.failed",
    "client.allocs.destroy",
    "client.allocs.oom_killed",
    "client.allocs.memory.usage",
    "client.allocs.memory.max_usage",
    "client.allocs.memory.rss",
    "client.allocs.memory.cache",
    "client.allocs.memory.swap",
    "client.allocs.memory.kernel_usage",
    "client.allocs.memory.kernel_max_usage",
    "client.allocs.memory.allocated",
    "client.allocs.memory.max_allocated",
    "client.allocs.cpu.total_percent",
    "client.allocs.cpu.total_ticks",
    "client.allocs.cpu.system",
    "client.allocs.cpu.user",
    "client.allocs.cpu.throttled_time",
    "client.allocs.cpu.throttled_periods",
    "client.allocs.cpu.allocated",
];

/// The markers around the generated tables in the document.
const BEGIN: &str = "<!-- Made from the catalogue of metrics: UPDATE_METRICS=1 cargo test -p tests --test observability -->\n";
const END: &str = "<!-- End of what is made. -->\n";

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md")
}

fn metas() -> impl Iterator<Item = &'static Meta> {
    catalogue::all().map(Metric::meta)
}

#[test]
fn the_page_documents_exactly_the_existing_metrics() {
    let stored = fs::read_to_string(path()).unwrap();
    let (before, rest) = stored.split_once(BEGIN).expect("the document has a marker before the tables");
    let (_, after) = rest.split_once(END).expect("the document has a marker after the tables");
    let text = format!("{before}{BEGIN}\n{}\n{END}{after}", tables());
    if std::env::var_os("UPDATE_METRICS").is_some() {
        fs::write(path(), &text).unwrap();
    }
    let stored = fs::read_to_string(path()).unwrap();
    assert!(stored == text, "docs/metrics.md is out of date: run this test with UPDATE_METRICS=1");
}

/// A table for each group of metrics.
fn tables() -> String {
    let mut text = String::new();
    let mut part = String::new();
    for meta in metas() {
        let own = meta.name.split('.').take(2).collect::<Vec<_>>().join(".");
        if own != part {
            let _ = writeln!(text, "{}### {own}\n", if part.is_empty() { "" } else { "\n" });
            text.push_str(
                "| name | in Prometheus | type | labels | of | meaning |\n|---|---|---|---|---|---|\n",
            );
            part = own;
        }
        let exposed = format!("`{}`", exposed_name(meta, meta.name));
        let labels: Vec<String> = meta.labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(
            text,
            "| `{}` | {exposed} | {} | {} | {} | {} |",
            meta.name,
            kind(meta.kind),
            labels.join(", "),
            merge(meta.merge),
            meta.help
        );
    }
    text
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
        Kind::Timer => "timer",
    }
}

fn merge(merge: Merge) -> String {
    match merge {
        Merge::PerProcess => "each process".to_owned(),
        Merge::PerProcessActive(service) => format!("the active {service}, as a process"),
        Merge::Active(service) => format!("the active {service}"),
        Merge::Sum => "all, summed".to_owned(),
        Merge::Api => "the state".to_owned(),
    }
}

#[test]
fn metrics_of_the_reference_are_built_or_explained() {
    let text = fs::read_to_string(path()).unwrap();
    let all: Vec<String> = metas().flat_map(names).collect();
    for name in DOCUMENTED {
        let full = format!("nomad.{name}");
        let is_built = match full.strip_suffix('*') {
            Some(start) => all.iter().any(|one| one.starts_with(start)),
            None => all.contains(&full),
        };
        let explained = text.lines().filter(|line| line.starts_with(&format!("| `{full}` | "))).count();
        // The generated tables also have one line for each metric that is built.
        let in_tables = usize::from(metas().any(|meta| meta.name == full));
        assert_eq!(explained, usize::from(!is_built) + in_tables, "{full}: built: {is_built}");
    }
}
