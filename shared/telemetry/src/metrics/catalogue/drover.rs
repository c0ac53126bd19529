//! Metrics that are specific to Drover.

use super::super::Merge::{Api, PerProcess, PerProcessActive};
use super::super::{Counter, Gauge, Histogram, Kind, Meta, Metric};
use super::{APPLIER, BROKER, TRACKER, WATCHER, metrics};

metrics! {
    // Processes.
    "Always 1; the label is the version of the process."
    Gauge BUILD_INFO = "drover.build.info" ["version"] PerProcess;
    "1 if the process is the active one of the service, 0 if it is a standby."
    Gauge ACTIVE = "drover.active" ["role"] PerProcess;
    "Unix time of the start of the process."
    Gauge PROCESS_START = "drover.process.start_time.seconds" [] PerProcess;
    "Processor time that the process has used."
    Gauge PROCESS_CPU = "drover.process.cpu_time.seconds" [] PerProcess;
    "Resident memory of the process."
    Gauge PROCESS_RESIDENT = "drover.process.resident.bytes" [] PerProcess;
    "Threads of the process."
    Gauge PROCESS_THREADS = "drover.process.threads" [] PerProcess;
    "Live asynchronous tasks of the process."
    Gauge PROCESS_TASKS = "drover.process.tasks" [] PerProcess;
    "Open files, sockets and pipes of the process."
    Gauge PROCESS_OPEN_FILES = "drover.process.open_files" [] PerProcess;
    "Values that were not recorded because their metric has too many series."
    Counter SERIES_REFUSED = "drover.metrics.series_refused" [] PerProcess;

    // Leases.
    "Leases of singletons that the process acquired."
    Counter LEASES_TAKEN = "drover.leases.taken" ["role"] PerProcess;
    "Leases of singletons that the process lost."
    Counter LEASES_LOST = "drover.leases.lost" ["role"] PerProcess;

    // The NATS client.
    "Connections to NATS that were made, including the first one."
    Counter BUS_CONNECTIONS_MADE = "drover.bus.connections_made" [] PerProcess;
    "Connections to NATS that were lost."
    Counter BUS_CONNECTIONS_LOST = "drover.bus.connections_lost" [] PerProcess;
    "Number of times that the NATS client dropped messages because a subscription was not read fast enough."
    Counter BUS_SLOW_CONSUMER = "drover.bus.slow_consumer" [] PerProcess;
    "Messages that were dropped because their queue was full."
    Counter BUS_DROPPED = "drover.bus.dropped" ["subject"] PerProcess;
    "Requests that were not handled because their senders no longer waited."
    Counter BUS_EXPIRED = "drover.bus.expired" ["subject"] PerProcess;
    "Messages that could not be decoded."
    Counter BUS_UNREADABLE = "drover.bus.unreadable" ["subject"] PerProcess;
    "Requests that got no response because their reply subject does not belong to the sender."
    Counter BUS_FOREIGN_REPLIES = "drover.bus.foreign_replies" ["subject"] PerProcess;
    "Messages that were refused because the sender's role or node is not permitted to send them."
    Counter BUS_FORBIDDEN = "drover.bus.forbidden" ["subject"] PerProcess;
    "Number of times that NATS refused a publication or a subscription for lack of permission."
    Counter BUS_PERMISSION_VIOLATIONS = "drover.bus.permission_violations" ["action"] PerProcess;
    "Time that senders waited for the outcome of a command, including retries."
    Histogram BUS_COMMAND = "drover.bus.command.seconds" ["outcome"] PerProcess;
    "Commands that were repeated because no response arrived."
    Counter BUS_COMMANDS_REPEATED = "drover.bus.commands_repeated" [] PerProcess;

    // The feed.
    "Number of change sets by which the replica is behind the last announced head."
    Gauge FEED_LAG = "drover.feed.lag.change_sets" [] PerProcess;
    "Index of the process's replica."
    Gauge FEED_INDEX = "drover.feed.index" [] PerProcess;
    "Gaps in the feed that were filled from the log."
    Counter FEED_GAPS = "drover.feed.gaps" [] PerProcess;
    "Change sets that were read from the log instead of the feed."
    Counter FEED_READ_FROM_LOG = "drover.feed.read_from_log" [] PerProcess;
    "Number of times that the state was loaded from the tables."
    Counter FEED_LOADS = "drover.feed.loads" [] PerProcess;

    // The plan applier.
    "Commands that wait to be batched."
    Gauge APPLIER_WAITING = "drover.applier.commands.waiting" [] PerProcessActive(APPLIER);
    "Change sets in a commit."
    Histogram APPLIER_BATCH = "drover.applier.batch.change_sets" [] PerProcess;
    "Size of a commit, in bytes."
    Histogram APPLIER_BATCH_BYTES = "drover.applier.batch.bytes" [] PerProcess;
    "Duration of a commit, from sending it to the database to the response."
    Histogram APPLIER_COMMIT = "drover.applier.commit.seconds" [] PerProcess;
    "Time to execute a batch of commands."
    Histogram APPLIER_JUDGE = "drover.applier.judge.seconds" [] PerProcess;
    "Writes that failed or have an unknown outcome, by outcome."
    Counter APPLIER_WRITES_FAILED = "drover.applier.writes_failed" ["outcome"] PerProcess;
    "Refused commands, by kind of refusal."
    Counter APPLIER_REFUSED = "drover.applier.refused" ["kind"] PerProcess;
    "Repeated commands whose response was read from the log."
    Counter APPLIER_REPEATED = "drover.applier.repeated" [] PerProcess;
    "Plans that the applier executed, by verdict."
    Counter APPLIER_PLANS = "drover.applier.plans" ["verdict"] PerProcess;
    "Nodes that were rejected in plans because they no longer had enough free resources."
    Counter APPLIER_NODES_REJECTED = "drover.applier.plans_rejected_nodes" [] PerProcess;
    "Index of the last commit."
    Gauge APPLIER_INDEX = "drover.applier.index" [] PerProcessActive(APPLIER);
    "Index up to which the projection has updated the tables."
    Gauge APPLIER_PROJECTED = "drover.applier.projection.index" [] PerProcessActive(APPLIER);
    "Time from a commit to its rows in the tables."
    Histogram APPLIER_PROJECTION_LAG = "drover.applier.projection.lag.seconds" [] PerProcess;
    "Size of the log, in bytes."
    Gauge APPLIER_LOG_BYTES = "drover.applier.log.bytes" [] PerProcessActive(APPLIER);
    "Parts of the log."
    Gauge APPLIER_LOG_PARTS = "drover.applier.log.parts" [] PerProcessActive(APPLIER);
    "Parts of the log that cannot be dropped because of an open transaction."
    Gauge APPLIER_LOG_BLOCKED = "drover.applier.log.parts.blocked" [] PerProcessActive(APPLIER);
    "Unix time of the oldest change set in the log; 0 if there is none."
    Gauge APPLIER_LOG_OLDEST = "drover.applier.log.oldest_timestamp.seconds" [] PerProcessActive(APPLIER);
    "1 while commands are refused because the log has reached its maximum size."
    Gauge APPLIER_LOG_FULL = "drover.applier.log.full" [] PerProcessActive(APPLIER);

    // The evaluation broker.
    "Ready evaluations, which wait for a worker, by type of scheduler."
    Gauge BROKER_READY = "drover.broker.ready" ["scheduler"] PerProcessActive(BROKER);
    "Unacked evaluations, which workers have leased, by type of scheduler."
    Gauge BROKER_UNACKED = "drover.broker.unacked" ["scheduler"] PerProcessActive(BROKER);
    "Pending evaluations, which wait for another evaluation of their job."
    Gauge BROKER_PENDING = "drover.broker.pending" [] PerProcessActive(BROKER);
    "Delayed evaluations, which wait for a time."
    Gauge BROKER_WAITING = "drover.broker.waiting" [] PerProcessActive(BROKER);
    "Evaluations that exceeded the delivery limit."
    Gauge BROKER_FAILED = "drover.broker.failed" [] PerProcessActive(BROKER);
    "Evaluations that are superseded by a newer one of their job, and wait to be cancelled."
    Gauge BROKER_CANCELABLE = "drover.broker.cancelable" [] PerProcessActive(BROKER);
    "Blocked evaluations, which wait for capacity."
    Gauge BROKER_BLOCKED = "drover.broker.blocked" [] PerProcessActive(BROKER);
    "Time from an evaluation's arrival to the delivery that completed it."
    Histogram BROKER_WAIT = "drover.broker.wait.seconds" ["eval_type", "triggered_by"] PerProcess;
    "Time from the last delivery of an evaluation to its completion."
    Histogram BROKER_PROCESS = "drover.broker.process.seconds" ["eval_type", "triggered_by"] PerProcess;
    "Time from an evaluation's arrival to its completion."
    Histogram BROKER_RESPONSE = "drover.broker.response.seconds" ["eval_type", "triggered_by"] PerProcess;
    "Leases of evaluations that expired because the worker did not renew them."
    Counter BROKER_EXPIRED = "drover.broker.leases_expired" [] PerProcess;

    // Schedulers.
    "Evaluations that a scheduler process finished, by type of scheduler."
    Counter SCHEDULER_EVALS = "drover.scheduler.evals_processed" ["scheduler"] PerProcess;
    "Evaluations that a scheduler process returned to the broker unfinished, by reason."
    Counter SCHEDULER_RETURNED = "drover.scheduler.evals_returned" ["reason"] PerProcess;
    "Plans that a scheduler process submitted, by verdict."
    Counter SCHEDULER_PLANS = "drover.scheduler.plans_submitted" ["verdict"] PerProcess;
    "Placements in the plans that a scheduler process submitted, whether accepted or not."
    Counter SCHEDULER_PLACEMENTS = "drover.scheduler.placements_proposed" [] PerProcess;
    "Time that workers waited for evaluations."
    Histogram SCHEDULER_DEQUEUE = "drover.scheduler.dequeue.seconds" [] PerProcess;
    "Time that workers waited for their replica to reach an index."
    Histogram SCHEDULER_INDEX_WAIT = "drover.scheduler.index_wait.seconds" [] PerProcess;
    "Duration of one run of a scheduler, including the wait for a thread."
    Histogram SCHEDULER_RUN = "drover.scheduler.run.seconds" ["scheduler"] PerProcess;
    "Time from submitting a plan to the applier's response."
    Histogram SCHEDULER_SUBMIT = "drover.scheduler.plan.seconds" [] PerProcess;

    // The node-tracker.
    "Nodes with a heartbeat timer."
    Gauge TRACKER_TIMERS = "drover.tracker.heartbeat.timers" [] PerProcessActive(TRACKER);
    "Length of the current period from which heartbeats may not have been received and handled yet."
    Gauge TRACKER_RECEIVE_LAG = "drover.tracker.receive_lag.seconds" [] PerProcessActive(TRACKER);
    "Heartbeats that the tracker responded to."
    Counter TRACKER_HEARTBEATS = "drover.tracker.heartbeats" [] PerProcess;
    "Heartbeats that the process received while it was a standby."
    Counter TRACKER_STANDBY_HEARTBEATS = "drover.tracker.heartbeats_standby" [] PerProcess;
    "Nodes that missed their heartbeats."
    Counter TRACKER_MISSED = "drover.tracker.nodes_missed" [] PerProcess;
    "Refused requests of nodes, by reason."
    Counter TRACKER_REFUSED = "drover.tracker.refused" ["reason"] PerProcess;
    "Reports of nodes in one command."
    Histogram TRACKER_REPORTS = "drover.tracker.reports_per_command" [] PerProcess;
    "Wakes sent to agents because their work changed."
    Counter TRACKER_WAKES = "drover.tracker.wakes" [] PerProcess;

    // The deployment watcher.
    "Watched deployments."
    Gauge WATCHER_WATCHED = "drover.watcher.deployments.watched" [] PerProcessActive(WATCHER);
    "Steps of deployments that were found to be due."
    Counter WATCHER_FOUND = "drover.watcher.steps_found" ["step"] PerProcess;
    "Commands about deployments and drains that failed or have an unknown outcome."
    Counter WATCHER_COMMANDS_FAILED = "drover.watcher.commands_failed" [] PerProcess;
    "Draining nodes."
    Gauge WATCHER_DRAINING = "drover.watcher.drains.nodes" [] PerProcessActive(WATCHER);
    "Allocations that were marked to migrate, before the end of their node's drain."
    Counter WATCHER_MARKED = "drover.watcher.drains.allocs_marked" [] PerProcess;
    "Drains that are over, by why: nothing is left, or the deadline has passed."
    Counter WATCHER_DRAINED = "drover.watcher.drains.completed" ["reason"] PerProcess;

    // Launches of periodic jobs, in the deployment watcher.
    "Periodic jobs that are launched at times."
    Gauge LAUNCHER_TRACKED = "drover.launcher.jobs.tracked" [] PerProcessActive(WATCHER);
    "Time from the first moment that a launch is for until it was sent."
    Histogram LAUNCHER_LATENESS = "drover.launcher.lateness.seconds" [] PerProcess;
    "Commands with launches that failed or have an unknown outcome."
    Counter LAUNCHER_COMMANDS_FAILED = "drover.launcher.commands_failed" [] PerProcess;

    // The API.
    "Completed requests, by route, method and status class."
    Counter API_REQUESTS = "drover.api.requests" ["route", "method", "status"] PerProcess;
    "Time to handle a request that does not wait for changes."
    Histogram API_REQUEST = "drover.api.request.seconds" ["route", "method"] PerProcess;
    "Open connections."
    Gauge API_CONNECTIONS = "drover.api.connections" [] PerProcess;
    "Processes whose metrics this API process has recently received, including itself."
    Gauge API_PROCESSES_SEEN = "drover.api.processes_seen" [] PerProcess;
    "Snapshots of other processes' metrics that could not be used."
    Counter API_SNAPSHOTS_REFUSED = "drover.api.metric_snapshots_refused" ["reason"] PerProcess;
    "Time to compute the metrics that are derived from the state."
    Histogram API_METRICS_COMPUTE = "drover.api.metrics_compute.seconds" [] PerProcess;

    // The cluster, computed from the state.
    "Nodes, by status."
    Gauge CLUSTER_NODES = "drover.cluster.nodes" ["status"] Api;
    "Allocations of existing jobs, by the status that job summaries count."
    Gauge CLUSTER_ALLOCS = "drover.cluster.allocations" ["status"] Api;
    "CPU that nodes offer to allocations, in MHz."
    Gauge CLUSTER_CPU = "drover.cluster.cpu_mhz" [] Api;
    "CPU that allocations hold, in MHz."
    Gauge CLUSTER_CPU_HELD = "drover.cluster.cpu_mhz.held" [] Api;
    "Memory that nodes offer to allocations, in bytes."
    Gauge CLUSTER_MEMORY = "drover.cluster.memory.bytes" [] Api;
    "Memory that allocations hold, in bytes."
    Gauge CLUSTER_MEMORY_HELD = "drover.cluster.memory_held.bytes" [] Api;
    "Task groups and nodes that have no separate series because there are too many."
    Gauge CLUSTER_SERIES_LEFT_OUT = "drover.cluster.series_left_out" ["kind"] Api;

    // Agents.
    "Allocations that the agent manages."
    Gauge AGENT_ALLOCS = "drover.agent.allocs" [] PerProcess;
    "Failed reports to the servers."
    Counter AGENT_REPORTS_FAILED = "drover.agent.reports_failed" [] PerProcess;
    "Tasks that ended because the kernel killed processes of theirs for lack of memory."
    Counter AGENT_OOM_KILLED = "drover.agent.tasks_oom_killed" [] PerProcess;
    "Checks of services that the agent runs."
    Gauge AGENT_CHECKS = "drover.agent.checks" [] PerProcess;
    "Runs of checks."
    Counter AGENT_CHECKS_RUN = "drover.agent.checks_run" [] PerProcess;
    "Runs of checks that failed."
    Counter AGENT_CHECKS_FAILED = "drover.agent.checks_failed" [] PerProcess;
    "Runs of checks that began more than a second after their time."
    Counter AGENT_CHECKS_LATE = "drover.agent.checks_late" [] PerProcess;
    "Allocations whose services the servers have not confirmed yet."
    Gauge AGENT_SERVICES_PENDING = "drover.agent.services_pending" [] PerProcess;
    "Requests to register services in the cluster that failed, and services that were refused."
    Counter AGENT_SERVICES_FAILED = "drover.agent.services_failed" [] PerProcess;
    "Allocations whose services Consul does not have yet."
    Gauge AGENT_CONSUL_PENDING = "drover.agent.consul_pending" [] PerProcess;
    "Failed attempts to register services in Consul."
    Counter AGENT_CONSUL_FAILED = "drover.agent.consul_failed" [] PerProcess;
    "Requests by DNS, by what they ask about and what became of them."
    Counter AGENT_DNS_QUESTIONS = "drover.agent.dns_questions" ["kind", "outcome"] PerProcess;
    "Requests and connections by DNS that were dropped because too many were in progress."
    Counter AGENT_DNS_DROPPED = "drover.agent.dns_dropped" [] PerProcess;
}
