//! The content of the dashboards, from which `deploy/observability/dashboards/*.json` are generated.

/// A dashboard.
pub(crate) struct Board {
    /// The name of its file. Its id in Grafana is prefixed with `drover-`.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) rows: &'static [Row],
}

/// Panels under a heading.
pub(crate) struct Row {
    pub(crate) title: &'static str,
    pub(crate) panels: &'static [Panel],
}

/// A panel.
pub(crate) struct Panel {
    pub(crate) title: &'static str,
    /// An explanation, if the title needs one.
    pub(crate) description: &'static str,
    /// Grafana's name of the unit.
    pub(crate) unit: &'static str,
    pub(crate) kind: Kind,
    /// Expressions, each with the legend of its series.
    pub(crate) queries: &'static [(&'static str, &'static str)],
}

/// How a panel shows its series.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A single value.
    Stat,
    /// A graph over time.
    Graph,
}

const fn graph(
    title: &'static str,
    unit: &'static str,
    description: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, description, unit, kind: Kind::Graph, queries }
}

const fn stat(
    title: &'static str,
    unit: &'static str,
    description: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, description, unit, kind: Kind::Stat, queries }
}

/// All dashboards.
pub(crate) static BOARDS: &[Board] = &[OVERVIEW, SCHEDULING, CONTROL_PLANE, NODES, API];

const OVERVIEW: Board = Board {
    name: "overview",
    title: "Drover / Cluster overview",
    rows: &[
        Row {
            title: "Now",
            panels: &[
                stat(
                    "Nodes ready",
                    "none",
                    "Nodes that may get new work.",
                    &[("drover_cluster_nodes{status=\"ready\"}", "")],
                ),
                stat(
                    "Nodes down",
                    "none",
                    "Nodes that are down or disconnected.",
                    &[("sum(drover_cluster_nodes{status=~\"down|disconnected\"})", "")],
                ),
                stat("Jobs running", "none", "Jobs of status running.", &[("nomad_job_status_running", "")]),
                stat(
                    "Allocations running",
                    "none",
                    "Allocations of all jobs that run.",
                    &[("drover_cluster_allocations{status=\"running\"}", "")],
                ),
                stat(
                    "Allocations queued",
                    "none",
                    "Allocations that are requested but not placed.",
                    &[("drover_cluster_allocations{status=\"queued\"}", "")],
                ),
                stat(
                    "Blocked evaluations",
                    "none",
                    "Evaluations that wait for capacity.",
                    &[("nomad_blocked_evals_total_blocked", "")],
                ),
            ],
        },
        Row {
            title: "Work",
            panels: &[
                graph(
                    "Allocations by status",
                    "none",
                    "As job summaries count them.",
                    &[("drover_cluster_allocations", "{{status}}")],
                ),
                graph(
                    "Jobs by status",
                    "none",
                    "",
                    &[
                        ("nomad_job_status_pending", "pending"),
                        ("nomad_job_status_running", "running"),
                        ("nomad_job_status_dead", "dead"),
                    ],
                ),
                graph(
                    "Evaluations",
                    "none",
                    "Evaluations in the broker, by state.",
                    &[
                        ("nomad_broker_total_ready", "ready"),
                        ("nomad_broker_total_unacked", "unacked"),
                        ("nomad_broker_total_pending", "pending"),
                        ("nomad_broker_total_waiting", "delayed"),
                        ("nomad_blocked_evals_total_blocked", "blocked"),
                    ],
                ),
                graph(
                    "Resources",
                    "percentunit",
                    "Share of all nodes' resources that allocations hold.",
                    &[
                        ("drover_cluster_cpu_mhz_held / drover_cluster_cpu_mhz", "cpu"),
                        ("drover_cluster_memory_held_bytes / drover_cluster_memory_bytes", "memory"),
                    ],
                ),
            ],
        },
        Row {
            title: "Services",
            panels: &[
                graph(
                    "Processes",
                    "none",
                    "Processes that publish metrics.",
                    &[("count by (service) (drover_build_info)", "{{service}}")],
                ),
                graph(
                    "Active processes",
                    "none",
                    "1 if a process holds the role.",
                    &[("sum by (role) (drover_active)", "{{role}}")],
                ),
                graph(
                    "Memory",
                    "bytes",
                    "Resident memory of each process.",
                    &[("drover_process_resident_bytes", "{{service}} {{process}}")],
                ),
                graph(
                    "Processor time",
                    "percentunit",
                    "Seconds of processor time per second.",
                    &[("rate(drover_process_cpu_time_seconds[$__rate_interval])", "{{service}} {{process}}")],
                ),
                graph(
                    "Versions",
                    "none",
                    "Processes by version.",
                    &[("count by (version) (drover_build_info)", "{{version}}")],
                ),
                graph(
                    "Commits",
                    "ops",
                    "Change sets per second.",
                    &[("rate(nomad_raft_apply[$__rate_interval])", "change sets")],
                ),
            ],
        },
    ],
};

const SCHEDULING: Board = Board {
    name: "scheduling",
    title: "Drover / Scheduling",
    rows: &[
        Row {
            title: "Evaluations",
            panels: &[
                graph(
                    "Ready",
                    "none",
                    "Evaluations that are ready for a worker, by type of scheduler.",
                    &[("drover_broker_ready", "{{scheduler}}")],
                ),
                graph(
                    "Unacked",
                    "none",
                    "Evaluations that are leased to workers.",
                    &[("drover_broker_unacked", "{{scheduler}}")],
                ),
                graph(
                    "Processed by each scheduler",
                    "ops",
                    "Evaluations that each process finishes per second.",
                    &[(
                        "sum by (process) (rate(drover_scheduler_evals_processed_total[$__rate_interval]))",
                        "{{process}}",
                    )],
                ),
                graph(
                    "Returned to the broker",
                    "ops",
                    "Evaluations that workers return per second, by reason.",
                    &[(
                        "sum by (reason) (rate(drover_scheduler_evals_returned_total[$__rate_interval]))",
                        "{{reason}}",
                    )],
                ),
                graph(
                    "Expired leases",
                    "ops",
                    "Evaluation leases that workers did not renew in time.",
                    &[("rate(drover_broker_leases_expired_total[$__rate_interval])", "expired")],
                ),
                graph(
                    "Failed",
                    "none",
                    "Evaluations that reached the delivery limit.",
                    &[("drover_broker_failed", "failed")],
                ),
            ],
        },
        Row {
            title: "Latency",
            panels: &[
                graph(
                    "Total time of an evaluation",
                    "s",
                    "",
                    &[
                        (
                            "histogram_quantile(0.5, sum by (le) (rate(drover_broker_response_seconds_bucket[$__rate_interval])))",
                            "p50",
                        ),
                        (
                            "histogram_quantile(0.99, sum by (le) (rate(drover_broker_response_seconds_bucket[$__rate_interval])))",
                            "p99",
                        ),
                    ],
                ),
                graph(
                    "Waiting for a worker",
                    "s",
                    "",
                    &[(
                        "histogram_quantile(0.99, sum by (le, eval_type) (rate(drover_broker_wait_seconds_bucket[$__rate_interval])))",
                        "p99 {{eval_type}}",
                    )],
                ),
                graph(
                    "Run time of a scheduler",
                    "s",
                    "",
                    &[(
                        "histogram_quantile(0.99, sum by (le, scheduler) (rate(drover_scheduler_run_seconds_bucket[$__rate_interval])))",
                        "p99 {{scheduler}}",
                    )],
                ),
                graph(
                    "Waiting for an index",
                    "s",
                    "How long workers wait for their replica.",
                    &[(
                        "histogram_quantile(0.99, sum by (le) (rate(drover_scheduler_index_wait_seconds_bucket[$__rate_interval])))",
                        "p99",
                    )],
                ),
                graph(
                    "Time from a plan to its answer",
                    "s",
                    "",
                    &[
                        (
                            "histogram_quantile(0.5, sum by (le) (rate(drover_scheduler_plan_seconds_bucket[$__rate_interval])))",
                            "p50",
                        ),
                        (
                            "histogram_quantile(0.99, sum by (le) (rate(drover_scheduler_plan_seconds_bucket[$__rate_interval])))",
                            "p99",
                        ),
                    ],
                ),
            ],
        },
        Row {
            title: "Plans and capacity",
            panels: &[
                graph(
                    "Plans",
                    "ops",
                    "Plans by outcome.",
                    &[(
                        "sum by (verdict) (rate(drover_applier_plans_total[$__rate_interval]))",
                        "{{verdict}}",
                    )],
                ),
                graph(
                    "Rejected nodes",
                    "ops",
                    "Nodes in plans that had no capacity any more.",
                    &[("rate(drover_applier_plans_rejected_nodes_total[$__rate_interval])", "nodes")],
                ),
                graph(
                    "Placements",
                    "ops",
                    "Allocations that plans propose per second.",
                    &[(
                        "sum by (process) (rate(drover_scheduler_placements_proposed_total[$__rate_interval]))",
                        "{{process}}",
                    )],
                ),
                graph(
                    "CPU requested by blocked evaluations",
                    "none",
                    "MHz, by datacenter, node class and node pool.",
                    &[("nomad_blocked_evals_cpu", "{{datacenter}} {{node_class}} {{node_pool}}")],
                ),
                graph(
                    "Memory requested by blocked evaluations",
                    "decmbytes",
                    "",
                    &[("nomad_blocked_evals_memory", "{{datacenter}} {{node_class}} {{node_pool}}")],
                ),
                graph(
                    "Blocked evaluations",
                    "none",
                    "",
                    &[
                        ("nomad_blocked_evals_total_blocked", "all"),
                        ("nomad_blocked_evals_total_escaped", "escaped"),
                        ("nomad_blocked_evals_total_quota_limit", "by a quota"),
                    ],
                ),
            ],
        },
    ],
};

const CONTROL_PLANE: Board = Board {
    name: "control-plane",
    title: "Drover / Control plane",
    rows: &[
        Row {
            title: "Commits to PostgreSQL",
            panels: &[
                graph(
                    "Commit time",
                    "s",
                    "",
                    &[
                        (
                            "histogram_quantile(0.5, sum by (le) (rate(drover_applier_commit_seconds_bucket[$__rate_interval])))",
                            "p50",
                        ),
                        (
                            "histogram_quantile(0.99, sum by (le) (rate(drover_applier_commit_seconds_bucket[$__rate_interval])))",
                            "p99",
                        ),
                    ],
                ),
                graph(
                    "Change sets per commit",
                    "none",
                    "",
                    &[(
                        "sum(rate(drover_applier_batch_change_sets_sum[$__rate_interval])) / sum(rate(drover_applier_batch_change_sets_count[$__rate_interval]))",
                        "mean",
                    )],
                ),
                graph(
                    "Bytes committed",
                    "Bps",
                    "",
                    &[("sum(rate(drover_applier_batch_bytes_sum[$__rate_interval]))", "log")],
                ),
                graph(
                    "Commands waiting",
                    "none",
                    "",
                    &[("drover_applier_commands_waiting", "commands"), ("nomad_plan_queue_depth", "plans")],
                ),
                graph(
                    "Time to judge a batch",
                    "s",
                    "",
                    &[(
                        "histogram_quantile(0.99, sum by (le) (rate(drover_applier_judge_seconds_bucket[$__rate_interval])))",
                        "p99",
                    )],
                ),
                graph(
                    "Refused and failed",
                    "ops",
                    "",
                    &[
                        (
                            "sum by (kind) (rate(drover_applier_refused_total[$__rate_interval]))",
                            "refused: {{kind}}",
                        ),
                        (
                            "sum by (outcome) (rate(drover_applier_writes_failed_total[$__rate_interval]))",
                            "write {{outcome}}",
                        ),
                    ],
                ),
            ],
        },
        Row {
            title: "Tables and log",
            panels: &[
                graph(
                    "Delay from a commit to the tables",
                    "s",
                    "",
                    &[(
                        "histogram_quantile(0.99, sum by (le) (rate(drover_applier_projection_lag_seconds_bucket[$__rate_interval])))",
                        "p99",
                    )],
                ),
                graph(
                    "Change sets not in the tables",
                    "none",
                    "",
                    &[("drover_applier_index - drover_applier_projection_index", "behind")],
                ),
                graph("Log", "bytes", "", &[("drover_applier_log_bytes", "bytes")]),
                graph(
                    "Age of the log",
                    "s",
                    "",
                    &[("time() - (drover_applier_log_oldest_timestamp_seconds > 0)", "oldest change set")],
                ),
                graph(
                    "Parts of the log",
                    "none",
                    "",
                    &[
                        ("drover_applier_log_parts", "parts"),
                        ("drover_applier_log_parts_blocked", "held up by a transaction"),
                        ("drover_applier_log_full", "full"),
                    ],
                ),
            ],
        },
        Row {
            title: "Feed and leases",
            panels: &[
                graph(
                    "Replicas behind",
                    "none",
                    "Change sets behind the head, of each process.",
                    &[("drover_feed_lag_change_sets", "{{service}} {{process}}")],
                ),
                graph(
                    "Gaps in the feed",
                    "ops",
                    "",
                    &[("sum by (service) (rate(drover_feed_gaps_total[$__rate_interval]))", "{{service}}")],
                ),
                graph(
                    "Change sets read from the log",
                    "ops",
                    "",
                    &[(
                        "sum by (service) (rate(drover_feed_read_from_log_total[$__rate_interval]))",
                        "{{service}}",
                    )],
                ),
                graph(
                    "State loaded",
                    "none",
                    "Times in the last hour.",
                    &[("sum by (service) (increase(drover_feed_loads_total[1h]))", "{{service}}")],
                ),
                graph(
                    "Leases taken",
                    "none",
                    "Times in the last hour.",
                    &[("sum by (role) (increase(drover_leases_taken_total[1h]))", "{{role}}")],
                ),
                graph(
                    "Leases lost",
                    "none",
                    "Times in the last hour.",
                    &[("sum by (role) (increase(drover_leases_lost_total[1h]))", "{{role}}")],
                ),
            ],
        },
        Row {
            title: "NATS as services see it",
            panels: &[
                graph(
                    "Connections lost",
                    "none",
                    "Times in the last hour.",
                    &[("sum by (service) (increase(drover_bus_connections_lost_total[1h]))", "{{service}}")],
                ),
                graph(
                    "Requests",
                    "ops",
                    "Requests that servers receive from other processes.",
                    &[
                        ("rate(nomad_nomad_rpc_request[$__rate_interval])", "received"),
                        ("rate(nomad_nomad_rpc_request_error[$__rate_interval])", "unreadable"),
                    ],
                ),
                graph(
                    "Command round trip",
                    "s",
                    "Including retries.",
                    &[(
                        "histogram_quantile(0.99, sum by (le, service) (rate(drover_bus_command_seconds_bucket[$__rate_interval])))",
                        "p99 {{service}}",
                    )],
                ),
                graph(
                    "Command retries",
                    "ops",
                    "",
                    &[(
                        "sum by (service) (rate(drover_bus_commands_repeated_total[$__rate_interval]))",
                        "{{service}}",
                    )],
                ),
                graph(
                    "Dropped",
                    "ops",
                    "Messages dropped by full queues, or expired.",
                    &[
                        (
                            "sum by (subject) (rate(drover_bus_dropped_total[$__rate_interval]))",
                            "dropped {{subject}}",
                        ),
                        (
                            "sum by (subject) (rate(drover_bus_expired_total[$__rate_interval]))",
                            "expired {{subject}}",
                        ),
                        (
                            "sum by (service) (rate(drover_bus_slow_consumer_total[$__rate_interval]))",
                            "slow {{service}}",
                        ),
                    ],
                ),
            ],
        },
    ],
};

const NODES: Board = Board {
    name: "nodes",
    title: "Drover / Nodes and allocations",
    rows: &[
        Row {
            title: "Nodes",
            panels: &[
                graph("Nodes by status", "none", "", &[("drover_cluster_nodes", "{{status}}")]),
                graph(
                    "Heartbeats",
                    "ops",
                    "",
                    &[
                        ("sum(rate(drover_tracker_heartbeats_total[$__rate_interval]))", "answered"),
                        ("nomad_heartbeat_active", "nodes with a timer"),
                    ],
                ),
                graph(
                    "Nodes missed",
                    "none",
                    "Times in the last hour.",
                    &[("increase(drover_tracker_nodes_missed_total[1h])", "missed")],
                ),
                graph(
                    "Heartbeat delay",
                    "s",
                    "How long heartbeats may have waited that the tracker has not read.",
                    &[("drover_tracker_receive_lag_seconds", "")],
                ),
                graph(
                    "Requests refused",
                    "ops",
                    "",
                    &[(
                        "sum by (reason) (rate(drover_tracker_refused_total[$__rate_interval]))",
                        "{{reason}}",
                    )],
                ),
                graph(
                    "Requests of nodes",
                    "ms",
                    "99th percentiles.",
                    &[
                        ("nomad_nomad_client_register{quantile=\"0.99\"}", "register"),
                        ("nomad_nomad_client_get_client_allocs{quantile=\"0.99\"}", "get work"),
                        ("nomad_nomad_client_update_alloc{quantile=\"0.99\"}", "report"),
                        ("nomad_nomad_client_update_status{quantile=\"0.99\"}", "become ready"),
                    ],
                ),
            ],
        },
        Row {
            title: "Allocations",
            panels: &[
                graph(
                    "Running on the busiest nodes",
                    "none",
                    "",
                    &[("topk(10, nomad_client_allocations_running)", "{{node_id}}")],
                ),
                graph(
                    "Pending on nodes",
                    "none",
                    "",
                    &[("topk(10, nomad_client_allocations_pending)", "{{node_id}}")],
                ),
                graph(
                    "CPU held",
                    "percentunit",
                    "On the nodes with the highest share.",
                    &[(
                        "topk(10, nomad_client_allocated_cpu / (nomad_client_allocated_cpu + nomad_client_unallocated_cpu))",
                        "{{node_id}}",
                    )],
                ),
                graph(
                    "Memory held",
                    "percentunit",
                    "On the nodes with the highest share.",
                    &[(
                        "topk(10, nomad_client_allocated_memory / (nomad_client_allocated_memory + nomad_client_unallocated_memory))",
                        "{{node_id}}",
                    )],
                ),
                graph(
                    "Failed and lost by job",
                    "none",
                    "",
                    &[
                        (
                            "topk(10, sum by (namespace, job) (nomad_job_summary_failed))",
                            "failed {{namespace}}/{{job}}",
                        ),
                        (
                            "topk(10, sum by (namespace, job) (nomad_job_summary_lost))",
                            "lost {{namespace}}/{{job}}",
                        ),
                    ],
                ),
                graph(
                    "Queued by job",
                    "none",
                    "",
                    &[(
                        "topk(10, sum by (namespace, job) (nomad_job_summary_queued) > 0)",
                        "{{namespace}}/{{job}}",
                    )],
                ),
            ],
        },
        Row {
            title: "Deployments",
            panels: &[
                graph(
                    "Deployments watched",
                    "none",
                    "",
                    &[("drover_watcher_deployments_watched", "deployments")],
                ),
                graph(
                    "Steps",
                    "ops",
                    "",
                    &[(
                        "sum by (step) (rate(drover_watcher_steps_found_total[$__rate_interval]))",
                        "{{step}}",
                    )],
                ),
                graph(
                    "Commands not committed",
                    "ops",
                    "",
                    &[("rate(drover_watcher_commands_failed_total[$__rate_interval])", "commands")],
                ),
            ],
        },
    ],
};

const API: Board = Board {
    name: "api",
    title: "Drover / API",
    rows: &[
        Row {
            title: "Requests",
            panels: &[
                graph(
                    "Requests by route",
                    "reqps",
                    "",
                    &[(
                        "topk(10, sum by (route, method) (rate(drover_api_requests_total[$__rate_interval])))",
                        "{{method}} {{route}}",
                    )],
                ),
                graph(
                    "By status",
                    "reqps",
                    "",
                    &[("sum by (status) (rate(drover_api_requests_total[$__rate_interval]))", "{{status}}")],
                ),
                graph(
                    "Errors by route",
                    "reqps",
                    "",
                    &[(
                        "topk(10, sum by (route, method) (rate(drover_api_requests_total{status=\"5xx\"}[$__rate_interval])))",
                        "{{method}} {{route}}",
                    )],
                ),
                graph(
                    "Share of errors",
                    "percentunit",
                    "",
                    &[(
                        "sum(rate(drover_api_requests_total{status=\"5xx\"}[$__rate_interval])) / sum(rate(drover_api_requests_total[$__rate_interval]))",
                        "errors",
                    )],
                ),
                graph("Connections", "none", "", &[("drover_api_connections", "{{process}}")]),
                graph(
                    "Requests by process",
                    "reqps",
                    "",
                    &[(
                        "sum by (process) (rate(drover_api_requests_total[$__rate_interval]))",
                        "{{process}}",
                    )],
                ),
            ],
        },
        Row {
            title: "Latency of non-blocking requests",
            panels: &[
                graph(
                    "All",
                    "s",
                    "",
                    &[
                        (
                            "histogram_quantile(0.5, sum by (le) (rate(drover_api_request_seconds_bucket[$__rate_interval])))",
                            "p50",
                        ),
                        (
                            "histogram_quantile(0.99, sum by (le) (rate(drover_api_request_seconds_bucket[$__rate_interval])))",
                            "p99",
                        ),
                    ],
                ),
                graph(
                    "By method",
                    "s",
                    "",
                    &[(
                        "histogram_quantile(0.99, sum by (le, method) (rate(drover_api_request_seconds_bucket[$__rate_interval])))",
                        "p99 {{method}}",
                    )],
                ),
                graph(
                    "Slowest routes",
                    "s",
                    "",
                    &[(
                        "topk(10, histogram_quantile(0.99, sum by (le, route) (rate(drover_api_request_seconds_bucket[$__rate_interval]))))",
                        "p99 {{route}}",
                    )],
                ),
                graph(
                    "Registering a job",
                    "ms",
                    "",
                    &[
                        ("nomad_nomad_job_register{quantile=\"0.5\"}", "p50"),
                        ("nomad_nomad_job_register{quantile=\"0.99\"}", "p99"),
                    ],
                ),
            ],
        },
        Row {
            title: "Metrics pipeline",
            panels: &[
                graph("Processes with metrics", "none", "", &[("drover_api_processes_seen", "{{process}}")]),
                graph(
                    "Snapshots refused",
                    "ops",
                    "",
                    &[(
                        "sum by (reason) (rate(drover_api_metric_snapshots_refused_total[$__rate_interval]))",
                        "{{reason}}",
                    )],
                ),
                graph(
                    "Series left out",
                    "none",
                    "",
                    &[
                        ("drover_cluster_series_left_out", "{{kind}}"),
                        ("sum(drover_metrics_series_refused_total)", "refused by processes"),
                    ],
                ),
                graph(
                    "Time to compute metrics from the state",
                    "s",
                    "",
                    &[(
                        "histogram_quantile(0.99, sum by (le) (rate(drover_api_metrics_compute_seconds_bucket[$__rate_interval])))",
                        "p99",
                    )],
                ),
            ],
        },
    ],
};
