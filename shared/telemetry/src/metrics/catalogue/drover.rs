//! Metrics of Drover's own, of each process.

use super::super::Merge::{Api, Each, EachActive};
use super::super::{Counter, Gauge, Histogram, Kind, Meta, Metric};
use super::{APPLIER, BROKER, TRACKER, WATCHER, metrics};

metrics! {
    // Processes.
    "1 for each process, with the version that it runs."
    Gauge BUILD_INFO = "drover.build.info" ["version"] Each;
    "1 where the process is the active one of a service, 0 where it stands by."
    Gauge ACTIVE = "drover.active" ["role"] Each;
    "Unix time at which the process began."
    Gauge PROCESS_START = "drover.process.start_time.seconds" [] Each;
    "Processor time that the process has used."
    Gauge PROCESS_CPU = "drover.process.cpu_time.seconds" [] Each;
    "Memory that the process has in use and that is resident."
    Gauge PROCESS_RESIDENT = "drover.process.resident.bytes" [] Each;
    "Threads of the process."
    Gauge PROCESS_THREADS = "drover.process.threads" [] Each;
    "Asynchronous tasks of the process that have not ended."
    Gauge PROCESS_TASKS = "drover.process.tasks" [] Each;
    "Files, sockets and pipes that the process has open."
    Gauge PROCESS_OPEN_FILES = "drover.process.open_files" [] Each;
    "Values that were not recorded because the metric has too many series."
    Counter SERIES_REFUSED = "drover.metrics.series_refused" [] Each;

    // Leases.
    "Leases of singletons that the process took."
    Counter LEASES_TAKEN = "drover.leases.taken" ["role"] Each;
    "Leases of singletons that the process lost."
    Counter LEASES_LOST = "drover.leases.lost" ["role"] Each;

    // NATS, as seen by us.
    "Connections to NATS that were made, the first one included."
    Counter BUS_CONNECTIONS_MADE = "drover.bus.connections_made" [] Each;
    "Connections to NATS that were lost."
    Counter BUS_CONNECTIONS_LOST = "drover.bus.connections_lost" [] Each;
    "Times that the NATS client dropped messages because a subscription was not read fast enough."
    Counter BUS_SLOW_CONSUMER = "drover.bus.slow_consumer" [] Each;
    "Messages that were dropped because their queue was full."
    Counter BUS_DROPPED = "drover.bus.dropped" ["subject"] Each;
    "Requests that were not served because their senders had given up."
    Counter BUS_EXPIRED = "drover.bus.expired" ["subject"] Each;
    "Messages that could not be read."
    Counter BUS_UNREADABLE = "drover.bus.unreadable" ["subject"] Each;
    "Requests that were not answered because their reply subject is none of their sender's."
    Counter BUS_FOREIGN_REPLIES = "drover.bus.foreign_replies" ["subject"] Each;
    "Messages that were refused because their sender's role or node may not send them."
    Counter BUS_FORBIDDEN = "drover.bus.forbidden" ["subject"] Each;
    "Times that NATS refused to publish or to subscribe for lack of permission."
    Counter BUS_PERMISSION_VIOLATIONS = "drover.bus.permission_violations" ["action"] Each;
    "How long senders waited for the outcome of a command, repetitions included."
    Histogram BUS_COMMAND = "drover.bus.command.seconds" ["outcome"] Each;
    "Commands that were sent again because no answer had come."
    Counter BUS_COMMANDS_REPEATED = "drover.bus.commands_repeated" [] Each;

    // The feed.
    "Change sets that the replica is behind the head that was announced last."
    Gauge FEED_LAG = "drover.feed.lag.change_sets" [] Each;
    "Index of the process's replica."
    Gauge FEED_INDEX = "drover.feed.index" [] Each;
    "Gaps in the feed that were filled from the log."
    Counter FEED_GAPS = "drover.feed.gaps" [] Each;
    "Change sets that were read from the log instead of the feed."
    Counter FEED_READ_FROM_LOG = "drover.feed.read_from_log" [] Each;
    "Times that the state was loaded from the tables."
    Counter FEED_LOADS = "drover.feed.loads" [] Each;

    // The plan applier.
    "Commands that wait for a batch."
    Gauge APPLIER_WAITING = "drover.applier.commands.waiting" [] EachActive(APPLIER);
    "Change sets of a commit."
    Histogram APPLIER_BATCH = "drover.applier.batch.change_sets" [] Each;
    "Bytes of a commit."
    Histogram APPLIER_BATCH_BYTES = "drover.applier.batch.bytes" [] Each;
    "Time of a commit, from handing it to the database to the answer."
    Histogram APPLIER_COMMIT = "drover.applier.commit.seconds" [] Each;
    "Time of judging a batch of commands."
    Histogram APPLIER_JUDGE = "drover.applier.judge.seconds" [] Each;
    "Writes that the database did not carry out, or of which the outcome is unknown."
    Counter APPLIER_WRITES_FAILED = "drover.applier.writes_failed" ["outcome"] Each;
    "Commands that were refused, by kind of refusal."
    Counter APPLIER_REFUSED = "drover.applier.refused" ["kind"] Each;
    "Repeated commands that were answered from the log."
    Counter APPLIER_REPEATED = "drover.applier.repeated" [] Each;
    "Plans that were judged, by what became of them."
    Counter APPLIER_PLANS = "drover.applier.plans" ["verdict"] Each;
    "Nodes of plans that were rejected because they had no room any more."
    Counter APPLIER_NODES_REJECTED = "drover.applier.plans_rejected_nodes" [] Each;
    "Index of the last commit."
    Gauge APPLIER_INDEX = "drover.applier.index" [] EachActive(APPLIER);
    "Index that the tables are at."
    Gauge APPLIER_PROJECTED = "drover.applier.projection.index" [] EachActive(APPLIER);
    "Time from a commit to its rows in the tables."
    Histogram APPLIER_PROJECTION_LAG = "drover.applier.projection.lag.seconds" [] Each;
    "Bytes of the log."
    Gauge APPLIER_LOG_BYTES = "drover.applier.log.bytes" [] EachActive(APPLIER);
    "Parts that the log consists of."
    Gauge APPLIER_LOG_PARTS = "drover.applier.log.parts" [] EachActive(APPLIER);
    "Parts of the log that somebody's transaction keeps from being dropped."
    Gauge APPLIER_LOG_HELD_UP = "drover.applier.log.parts.held_up" [] EachActive(APPLIER);
    "Unix time of the oldest change set in the log; 0 if there is none."
    Gauge APPLIER_LOG_OLDEST = "drover.applier.log.oldest_timestamp.seconds" [] EachActive(APPLIER);
    "1 while commands are turned away because the log takes all the space that it may."
    Gauge APPLIER_LOG_FULL = "drover.applier.log.full" [] EachActive(APPLIER);

    // The evaluation broker.
    "Evaluations that can be handed out, by type of scheduler."
    Gauge BROKER_READY = "drover.broker.ready" ["scheduler"] EachActive(BROKER);
    "Evaluations that workers have, by type of scheduler."
    Gauge BROKER_UNACKED = "drover.broker.unacked" ["scheduler"] EachActive(BROKER);
    "Evaluations that wait behind another one of their job."
    Gauge BROKER_PENDING = "drover.broker.pending" [] EachActive(BROKER);
    "Evaluations that wait for their time."
    Gauge BROKER_WAITING = "drover.broker.waiting" [] EachActive(BROKER);
    "Evaluations that were delivered too often."
    Gauge BROKER_FAILED = "drover.broker.failed" [] EachActive(BROKER);
    "Evaluations that a newer one of their job makes needless."
    Gauge BROKER_CANCELABLE = "drover.broker.cancelable" [] EachActive(BROKER);
    "Evaluations that wait for room."
    Gauge BROKER_BLOCKED = "drover.broker.blocked" [] EachActive(BROKER);
    "Time from an evaluation's arrival to the delivery that finished it."
    Histogram BROKER_WAIT = "drover.broker.wait.seconds" ["eval_type", "triggered_by"] Each;
    "Time from that delivery to the end of the evaluation."
    Histogram BROKER_PROCESS = "drover.broker.process.seconds" ["eval_type", "triggered_by"] Each;
    "Time from an evaluation's arrival to its end."
    Histogram BROKER_RESPONSE = "drover.broker.response.seconds" ["eval_type", "triggered_by"] Each;
    "Hand-outs that ended because their worker was silent."
    Counter BROKER_EXPIRED = "drover.broker.hand_outs_expired" [] Each;

    // Schedulers.
    "Evaluations that a scheduler process has finished, by type of scheduler."
    Counter SCHEDULER_EVALS = "drover.scheduler.evals_processed" ["scheduler"] Each;
    "Evaluations that a scheduler process gave back to the broker unfinished."
    Counter SCHEDULER_GIVEN_BACK = "drover.scheduler.evals_given_back" ["reason"] Each;
    "Plans that a scheduler process submitted, by what became of them."
    Counter SCHEDULER_PLANS = "drover.scheduler.plans_submitted" ["verdict"] Each;
    "Allocations that the plans of a scheduler process place, as proposed."
    Counter SCHEDULER_PLACEMENTS = "drover.scheduler.placements_proposed" [] Each;
    "Time that workers waited for evaluations."
    Histogram SCHEDULER_DEQUEUE = "drover.scheduler.dequeue.seconds" [] Each;
    "Time that workers waited for their replica to reach an index."
    Histogram SCHEDULER_INDEX_WAIT = "drover.scheduler.index_wait.seconds" [] Each;
    "Time of one run of a scheduler, waiting for a thread included."
    Histogram SCHEDULER_RUN = "drover.scheduler.run.seconds" ["scheduler"] Each;
    "Time from submitting a plan to the applier's answer."
    Histogram SCHEDULER_SUBMIT = "drover.scheduler.plan.seconds" [] Each;

    // The node-tracker.
    "Nodes whose heartbeats are timed."
    Gauge TRACKER_TIMERS = "drover.tracker.heartbeat.timers" [] EachActive(TRACKER);
    "Time for which heartbeats may wait that the tracker has not looked at."
    Gauge TRACKER_DEAF = "drover.tracker.deaf.seconds" [] EachActive(TRACKER);
    "Heartbeats that were answered."
    Counter TRACKER_BEATS = "drover.tracker.heartbeats" [] Each;
    "Heartbeats that were overheard while standing by."
    Counter TRACKER_OVERHEARD = "drover.tracker.heartbeats_overheard" [] Each;
    "Nodes that were declared missed."
    Counter TRACKER_MISSED = "drover.tracker.nodes_missed" [] Each;
    "Requests of nodes that were refused, by reason."
    Counter TRACKER_REFUSED = "drover.tracker.refused" ["reason"] Each;
    "Reports of nodes that went into one command."
    Histogram TRACKER_REPORTS = "drover.tracker.reports_per_command" [] Each;
    "Messages to agents that their work has changed."
    Counter TRACKER_WAKES = "drover.tracker.wakes" [] Each;

    // The deployment watcher.
    "Deployments that are watched."
    Gauge WATCHER_WATCHED = "drover.watcher.deployments.watched" [] EachActive(WATCHER);
    "Steps of deployments that were found due."
    Counter WATCHER_FOUND = "drover.watcher.steps_found" ["step"] Each;
    "Commands about deployments that failed, or of which the outcome is unknown."
    Counter WATCHER_NOT_WRITTEN = "drover.watcher.not_written" [] Each;

    // The API.
    "Requests that were answered, by route, method and class of status."
    Counter API_REQUESTS = "drover.api.requests" ["route", "method", "status"] Each;
    "Time to answer a request that does not wait for changes."
    Histogram API_REQUEST = "drover.api.request.seconds" ["route", "method"] Each;
    "Connections that are open."
    Gauge API_CONNECTIONS = "drover.api.connections" [] Each;
    "Processes whose metrics this API process has received lately, itself included."
    Gauge API_PROCESSES_SEEN = "drover.api.processes_seen" [] Each;
    "Snapshots of other processes' metrics that could not be used."
    Counter API_SNAPSHOTS_REFUSED = "drover.api.metric_snapshots_refused" ["reason"] Each;
    "Time to compute the metrics that come from the state."
    Histogram API_METRICS_COMPUTE = "drover.api.metrics_compute.seconds" [] Each;

    // The cluster, from the state.
    "Nodes, by status."
    Gauge CLUSTER_NODES = "drover.cluster.nodes" ["status"] Api;
    "Allocations of jobs that are known, by status as job summaries count them."
    Gauge CLUSTER_ALLOCS = "drover.cluster.allocations" ["status"] Api;
    "CPU in MHz that nodes have for allocations."
    Gauge CLUSTER_CPU = "drover.cluster.cpu_mhz" [] Api;
    "CPU in MHz that allocations hold."
    Gauge CLUSTER_CPU_HELD = "drover.cluster.cpu_mhz.held" [] Api;
    "Bytes of memory that nodes have for allocations."
    Gauge CLUSTER_MEMORY = "drover.cluster.memory.bytes" [] Api;
    "Bytes of memory that allocations hold."
    Gauge CLUSTER_MEMORY_HELD = "drover.cluster.memory_held.bytes" [] Api;
    "Task groups and nodes that have no series of their own because there are too many."
    Gauge CLUSTER_SERIES_LEFT_OUT = "drover.cluster.series_left_out" ["kind"] Api;

    // Agents.
    "Allocations that the agent looks after."
    Gauge AGENT_ALLOCS = "drover.agent.allocs" [] Each;
    "Reports to the servers that failed."
    Counter AGENT_REPORTS_FAILED = "drover.agent.reports_failed" [] Each;
}
