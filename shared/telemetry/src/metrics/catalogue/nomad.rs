//! Metrics that the reference documents, under the reference's names (http-api §30).

use super::super::Merge::{Active, Api, Sum};
use super::super::{Counter, Gauge, Kind, Meta, Metric, Timer};
use super::{APPLIER, BROKER, TRACKER, metrics};

metrics! {
    // Jobs, computed from the state.
    "Allocations of a task group that are waiting to be placed."
    Gauge JOB_QUEUED = "nomad.job_summary.queued" ["job", "task_group", "namespace"] Api;
    "Allocations of a task group that completed successfully."
    Gauge JOB_COMPLETE = "nomad.job_summary.complete" ["job", "task_group", "namespace"] Api;
    "Failed allocations of a task group."
    Gauge JOB_FAILED = "nomad.job_summary.failed" ["job", "task_group", "namespace"] Api;
    "Running allocations of a task group."
    Gauge JOB_RUNNING = "nomad.job_summary.running" ["job", "task_group", "namespace"] Api;
    "Starting allocations of a task group."
    Gauge JOB_STARTING = "nomad.job_summary.starting" ["job", "task_group", "namespace"] Api;
    "Allocations of a task group that were lost with their nodes."
    Gauge JOB_LOST = "nomad.job_summary.lost" ["job", "task_group", "namespace"] Api;
    "Allocations of a task group on disconnected nodes."
    Gauge JOB_UNKNOWN = "nomad.job_summary.unknown" ["job", "task_group", "namespace"] Api;
    "Jobs with status pending."
    Gauge JOBS_PENDING = "nomad.job_status.pending" [] Api;
    "Jobs with status running."
    Gauge JOBS_RUNNING = "nomad.job_status.running" [] Api;
    "Jobs with status dead."
    Gauge JOBS_DEAD = "nomad.job_status.dead" [] Api;

    // The broker.
    "Ready evaluations, which wait for a worker."
    Gauge NOMAD_BROKER_READY = "nomad.broker.total_ready" [] Active(BROKER);
    "Unacked evaluations, which workers have leased."
    Gauge NOMAD_BROKER_UNACKED = "nomad.broker.total_unacked" [] Active(BROKER);
    "Pending evaluations, which wait for another evaluation of their job."
    Gauge NOMAD_BROKER_PENDING = "nomad.broker.total_pending" [] Active(BROKER);
    "Delayed evaluations, which wait for a time."
    Gauge NOMAD_BROKER_WAITING = "nomad.broker.total_waiting" [] Active(BROKER);
    "Evaluations that are superseded by a newer one of their job, and wait to be cancelled."
    Gauge NOMAD_BROKER_CANCELABLE = "nomad.broker.total_cancelable" [] Active(BROKER);
    "Ready evaluations of service jobs."
    Gauge BROKER_SERVICE_READY = "nomad.broker.service_ready" [] Active(BROKER);
    "Unacked evaluations of service jobs: workers have leased them."
    Gauge BROKER_SERVICE_UNACKED = "nomad.broker.service_unacked" [] Active(BROKER);
    "Ready evaluations of batch jobs."
    Gauge BROKER_BATCH_READY = "nomad.broker.batch_ready" [] Active(BROKER);
    "Unacked evaluations of batch jobs: workers have leased them."
    Gauge BROKER_BATCH_UNACKED = "nomad.broker.batch_unacked" [] Active(BROKER);
    "Ready evaluations of system jobs."
    Gauge BROKER_SYSTEM_READY = "nomad.broker.system_ready" [] Active(BROKER);
    "Unacked evaluations of system jobs: workers have leased them."
    Gauge BROKER_SYSTEM_UNACKED = "nomad.broker.system_unacked" [] Active(BROKER);
    "Ready evaluations of sysbatch jobs."
    Gauge BROKER_SYSBATCH_READY = "nomad.broker.sysbatch_ready" [] Active(BROKER);
    "Unacked evaluations of sysbatch jobs: workers have leased them."
    Gauge BROKER_SYSBATCH_UNACKED = "nomad.broker.sysbatch_unacked" [] Active(BROKER);
    "Evaluations that exceeded the delivery limit."
    Gauge BROKER_FAILED_READY = "nomad.broker._failed_ready" [] Active(BROKER);
    "Seconds until the first delayed evaluation of the job is due."
    Gauge BROKER_EVAL_WAITING = "nomad.broker.eval_waiting" ["job", "namespace"] Active(BROKER);
    "Time from an evaluation's arrival to the delivery that completed it, in milliseconds."
    Timer NOMAD_BROKER_WAIT = "nomad.broker.wait_time" [] Sum;
    "Time from the last delivery of an evaluation to its completion, in milliseconds."
    Timer NOMAD_BROKER_PROCESS = "nomad.broker.process_time" [] Sum;
    "Time from an evaluation's arrival to its completion, in milliseconds."
    Timer NOMAD_BROKER_RESPONSE = "nomad.broker.response_time" [] Sum;

    // Blocked evaluations.
    "Blocked evaluations, which wait for capacity."
    Gauge BLOCKED_TOTAL = "nomad.blocked_evals.total_blocked" [] Active(BROKER);
    "Blocked evaluations whose jobs have constraints that computed node classes do not cover."
    Gauge BLOCKED_ESCAPED = "nomad.blocked_evals.total_escaped" [] Active(BROKER);
    "Evaluations that are blocked by a quota."
    Gauge BLOCKED_QUOTA = "nomad.blocked_evals.total_quota_limit" [] Active(BROKER);
    "CPU that blocked evaluations need, in MHz, by datacenter, node class and node pool."
    Gauge BLOCKED_CPU = "nomad.blocked_evals.cpu" ["datacenter", "node_class", "node_pool"] Active(BROKER);
    "Memory that blocked evaluations need, in MB, by datacenter, node class and node pool."
    Gauge BLOCKED_MEMORY = "nomad.blocked_evals.memory" ["datacenter", "node_class", "node_pool"] Active(BROKER);
    "CPU that a job's blocked evaluations need, in MHz."
    Gauge BLOCKED_JOB_CPU = "nomad.blocked_evals.job.cpu" ["job", "namespace"] Active(BROKER);
    "Memory that a job's blocked evaluations need, in MB."
    Gauge BLOCKED_JOB_MEMORY = "nomad.blocked_evals.job.memory" ["job", "namespace"] Active(BROKER);

    // Plans.
    "Plans in the applier's queue."
    Gauge PLAN_QUEUE_DEPTH = "nomad.plan.queue_depth" [] Active(APPLIER);
    "Time to execute a batch of commands that contains plans, in milliseconds."
    Timer PLAN_EVALUATE = "nomad.plan.evaluate" [] Sum;
    "Time from a plan's arrival at the applier to the response, in milliseconds."
    Timer PLAN_SUBMIT = "nomad.plan.submit" [] Sum;
    "Nodes that were rejected in plans because they no longer had enough free resources."
    Counter PLAN_NODE_REJECTED = "nomad.plan.node_rejected" ["node_id"] Sum;
    "Rejections of a node in plans within the window of the tracker, if rejections are tracked."
    Gauge PLAN_NODE_SCORE = "nomad.plan.rejection_tracker.node_score" ["node_id"] Active(APPLIER);

    // Workers.
    "Time that workers waited for evaluations, in milliseconds."
    Timer WORKER_DEQUEUE = "nomad.worker.dequeue_eval" [] Sum;
    "Duration of one run of the service scheduler, in milliseconds."
    Timer WORKER_INVOKE_SERVICE = "nomad.worker.invoke_scheduler.service" [] Sum;
    "Duration of one run of the batch scheduler, in milliseconds."
    Timer WORKER_INVOKE_BATCH = "nomad.worker.invoke_scheduler.batch" [] Sum;
    "Duration of one run of the system scheduler, in milliseconds."
    Timer WORKER_INVOKE_SYSTEM = "nomad.worker.invoke_scheduler.system" [] Sum;
    "Duration of one run of the sysbatch scheduler, in milliseconds."
    Timer WORKER_INVOKE_SYSBATCH = "nomad.worker.invoke_scheduler.sysbatch" [] Sum;
    "Time from submitting a plan to the applier's response, in milliseconds."
    Timer WORKER_SUBMIT_PLAN = "nomad.worker.submit_plan" [] Sum;
    "Time that workers waited for their replica to reach an index, in milliseconds."
    Timer WORKER_WAIT_FOR_INDEX = "nomad.worker.wait_for_index" [] Sum;
    "Time to return an evaluation to the broker, in milliseconds."
    Timer WORKER_SEND_NACK = "nomad.worker.send_nack" [] Sum;

    // The leader, which is the active applier, and its commits.
    "Time to confirm with the database that the applier is still the active one, in milliseconds."
    Timer LEADER_BARRIER = "nomad.leader.barrier" [] Sum;
    "Time that a new applier needs to bring its replica to the head of the log, in milliseconds."
    Timer LEADER_RECONCILE = "nomad.leader.reconcile" [] Sum;
    "Change sets that were committed."
    Counter RAFT_APPLY = "nomad.raft.apply" [] Sum;
    "Duration of a commit, from sending it to the database to the response, in milliseconds."
    Timer RAFT_COMMIT_TIME = "nomad.raft.commitTime" [] Sum;
    "Time since the database last confirmed that the applier is the active one, in milliseconds, measured at each confirmation."
    Timer RAFT_LAST_CONTACT = "nomad.raft.leader.lastContact" [] Sum;
    "Time to publish a commit's change sets on the feed, in milliseconds."
    Timer RAFT_DISPATCH_LOG = "nomad.raft.leader.dispatchLog" [] Sum;
    "Number of times that a plan applier requested the lease after its holder was gone."
    Counter RAFT_CANDIDATE = "nomad.raft.state.candidate" [] Sum;
    "Number of times that a plan applier became a standby."
    Counter RAFT_FOLLOWER = "nomad.raft.state.follower" [] Sum;
    "Number of times that a plan applier became the active one."
    Counter RAFT_LEADER = "nomad.raft.state.leader" [] Sum;
    "1 if there is an active plan applier, 0 otherwise."
    Gauge AUTOPILOT_HEALTHY = "nomad.autopilot.healthy" [] Api;
    "Plan appliers that may fail before none is left."
    Gauge AUTOPILOT_TOLERANCE = "nomad.autopilot.failure_tolerance" [] Api;

    // Requests between processes.
    "Requests that servers received from other processes."
    Counter RPC_REQUEST = "nomad.nomad.rpc.request" [] Sum;
    "Requests from other processes that were refused because they could not be decoded or were not permitted."
    Counter RPC_REQUEST_ERROR = "nomad.nomad.rpc.request_error" [] Sum;
    "Reads of the HTTP API that were answered from a replica."
    Counter RPC_QUERY = "nomad.nomad.rpc.query" [] Sum;

    // Requests of nodes to the servers.
    "Time to register a node, in milliseconds."
    Timer CLIENT_REGISTER = "nomad.nomad.client.register" [] Sum;
    "Time to handle a node's request for its work, in milliseconds."
    Timer CLIENT_GET_CLIENT_ALLOCS = "nomad.nomad.client.get_client_allocs" [] Sum;
    "Time to handle a node's request for allocations by id, in milliseconds."
    Timer CLIENT_GET_ALLOCS = "nomad.nomad.client.get_allocs" [] Sum;
    "Time to make a node ready, in milliseconds."
    Timer CLIENT_UPDATE_STATUS = "nomad.nomad.client.update_status" [] Sum;
    "Time to commit a node's report of its allocations, in milliseconds."
    Timer CLIENT_UPDATE_ALLOC = "nomad.nomad.client.update_alloc" [] Sum;

    // Requests of users to the servers.
    "Time to read a node, in milliseconds."
    Timer CLIENT_GET_NODE = "nomad.nomad.client.get_node" [] Sum;
    "Time to list nodes, in milliseconds."
    Timer CLIENT_LIST = "nomad.nomad.client.list" [] Sum;
    "Time to create evaluations for a node, in milliseconds."
    Timer CLIENT_EVALUATE = "nomad.nomad.client.evaluate" [] Sum;
    "Time to purge a node, in milliseconds."
    Timer CLIENT_BATCH_DEREGISTER = "nomad.nomad.client.batch_deregister" [] Sum;
    "Time to set a node's eligibility, in milliseconds."
    Timer CLIENT_UPDATE_ELIGIBILITY = "nomad.nomad.client.update_eligibility" [] Sum;
    "Time to set or cancel a node's drain, in milliseconds."
    Timer CLIENT_UPDATE_DRAIN = "nomad.nomad.client.update_drain" [] Sum;
    "Time to register a job, in milliseconds."
    Timer JOB_REGISTER = "nomad.nomad.job.register" [] Sum;
    "Time to stop or purge a job, in milliseconds."
    Timer JOB_DEREGISTER = "nomad.nomad.job.deregister" [] Sum;
    "Time to create an evaluation for a job, in milliseconds."
    Timer JOB_EVALUATE = "nomad.nomad.job.evaluate" [] Sum;
    "Time to read a job, in milliseconds."
    Timer JOB_GET_JOB = "nomad.nomad.job.get_job" [] Sum;
    "Time to read a job's versions, in milliseconds."
    Timer JOB_GET_VERSIONS = "nomad.nomad.job.get_job_versions" [] Sum;
    "Time to read a job's submission, in milliseconds."
    Timer JOB_GET_SUBMISSION = "nomad.nomad.job.get_job_submission" [] Sum;
    "Time to list jobs, in milliseconds."
    Timer JOB_LIST = "nomad.nomad.job.list" [] Sum;
    "Time to list jobs with their statuses, in milliseconds."
    Timer JOB_STATUSES = "nomad.nomad.jobs.statuses" [] Sum;
    "Time to list a job's allocations, in milliseconds."
    Timer JOB_ALLOCATIONS = "nomad.nomad.job.allocations" [] Sum;
    "Time to list a job's evaluations, in milliseconds."
    Timer JOB_EVALUATIONS = "nomad.nomad.job.evaluations" [] Sum;
    "Time to list a job's deployments, in milliseconds."
    Timer JOB_DEPLOYMENTS = "nomad.nomad.job.deployments" [] Sum;
    "Time to read a job's latest deployment, in milliseconds."
    Timer JOB_LATEST_DEPLOYMENT = "nomad.nomad.job.latest_deployment" [] Sum;
    "Time to plan a job without registering it, in milliseconds."
    Timer JOB_PLAN = "nomad.nomad.job.plan" [] Sum;
    "Time to read a job's summary, in milliseconds."
    Timer JOB_GET_SUMMARY = "nomad.nomad.job_summary.get_job_summary" [] Sum;
    "Time to validate a job, in milliseconds."
    Timer JOB_VALIDATE = "nomad.nomad.job.validate" [] Sum;
    "Time to list evaluations, in milliseconds."
    Timer EVAL_LIST = "nomad.nomad.eval.list" [] Sum;
    "Time to count evaluations, in milliseconds."
    Timer EVAL_COUNT = "nomad.nomad.eval.count" [] Sum;
    "Time to read an evaluation, in milliseconds."
    Timer EVAL_GET_EVAL = "nomad.nomad.eval.get_eval" [] Sum;
    "Time to list an evaluation's allocations, in milliseconds."
    Timer EVAL_ALLOCATIONS = "nomad.nomad.eval.allocations" [] Sum;
    "Time to delete evaluations, in milliseconds."
    Timer EVAL_DELETE = "nomad.nomad.eval.delete" [] Sum;
    "Time to handle a worker's request for evaluations, including the wait, in milliseconds."
    Timer EVAL_DEQUEUE = "nomad.nomad.eval.dequeue" [] Sum;
    "Time to list allocations, in milliseconds."
    Timer ALLOC_LIST = "nomad.nomad.alloc.list" [] Sum;
    "Time to read an allocation, in milliseconds."
    Timer ALLOC_GET_ALLOC = "nomad.nomad.alloc.get_alloc" [] Sum;
    "Time to stop an allocation, in milliseconds."
    Timer ALLOC_STOP = "nomad.nomad.alloc.stop" [] Sum;
    "Open connections to the HTTP API."
    Gauge AGENT_HTTP_CONNECTIONS = "nomad.agent.http.connections" [] Sum;

    // Heartbeats and the state.
    "Nodes with a heartbeat timer."
    Gauge HEARTBEAT_ACTIVE = "nomad.heartbeat.active" [] Active(TRACKER);
    "Time to report nodes that missed their heartbeats, in milliseconds."
    Timer HEARTBEAT_INVALIDATE = "nomad.heartbeat.invalidate" [] Sum;
    "Index of the API process's replica."
    Gauge STATE_SNAPSHOT_INDEX = "nomad.state.snapshotIndex" [] Api;

    // Processes: sums over all servers.
    "Live asynchronous tasks."
    Gauge RUNTIME_TASKS = "nomad.runtime.num_goroutines" [] Sum;
    "Memory that the servers have allocated for data, in bytes."
    Gauge RUNTIME_ALLOC = "nomad.runtime.alloc_bytes" [] Sum;
    "Resident memory of the servers, including programs and mapped files, in bytes."
    Gauge RUNTIME_SYS = "nomad.runtime.sys_bytes" [] Sum;

    // Nodes, computed from the state.
    "Running allocations of a node."
    Gauge CLIENT_RUNNING = "nomad.client.allocations.running" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Pending allocations of a node."
    Gauge CLIENT_PENDING = "nomad.client.allocations.pending" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Terminal allocations of a node."
    Gauge CLIENT_TERMINAL = "nomad.client.allocations.terminal" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "CPU allocated on a node, in MHz."
    Gauge CLIENT_ALLOCATED_CPU = "nomad.client.allocated.cpu" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Memory allocated on a node, in MB."
    Gauge CLIENT_ALLOCATED_MEMORY = "nomad.client.allocated.memory" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Disk allocated on a node, in MB."
    Gauge CLIENT_ALLOCATED_DISK = "nomad.client.allocated.disk" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "CPU that is not allocated on a node, in MHz."
    Gauge CLIENT_UNALLOCATED_CPU = "nomad.client.unallocated.cpu" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Memory that is not allocated on a node, in MB."
    Gauge CLIENT_UNALLOCATED_MEMORY = "nomad.client.unallocated.memory" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Disk that is not allocated on a node, in MB."
    Gauge CLIENT_UNALLOCATED_DISK = "nomad.client.unallocated.disk" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;

    // Hosts and tasks, as reported by agents.
    "Running tasks of a node."
    Gauge CLIENT_TASKS_RUNNING = "nomad.client.tasks.running" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Pending tasks of a node."
    Gauge CLIENT_TASKS_PENDING = "nomad.client.tasks.pending" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Dead tasks of a node."
    Gauge CLIENT_TASKS_DEAD = "nomad.client.tasks.dead" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Uptime of a node's host, in seconds."
    Gauge CLIENT_UPTIME = "nomad.client.uptime" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Total memory of a node's host, in bytes."
    Gauge HOST_MEMORY_TOTAL = "nomad.client.host.memory.total" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Available memory of a node's host, in bytes."
    Gauge HOST_MEMORY_AVAILABLE = "nomad.client.host.memory.available" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Used memory of a node's host, in bytes."
    Gauge HOST_MEMORY_USED = "nomad.client.host.memory.used" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Free memory of a node's host, without caches, in bytes."
    Gauge HOST_MEMORY_FREE = "nomad.client.host.memory.free" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Time of a processor in user mode, in percent."
    Gauge HOST_CPU_USER = "nomad.client.host.cpu.user" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "cpu"] Api;
    "Time of a processor in the kernel, in percent."
    Gauge HOST_CPU_SYSTEM = "nomad.client.host.cpu.system" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "cpu"] Api;
    "Idle time of a processor, in percent."
    Gauge HOST_CPU_IDLE = "nomad.client.host.cpu.idle" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "cpu"] Api;
    "Busy time of a processor, in percent."
    Gauge HOST_CPU_TOTAL = "nomad.client.host.cpu.total_percent" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "cpu"] Api;
    "Compute used on a processor, in MHz."
    Gauge HOST_CPU_TICKS = "nomad.client.host.cpu.total_ticks" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "cpu"] Api;
    "Size of a disk, in bytes."
    Gauge HOST_DISK_SIZE = "nomad.client.host.disk.size" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "disk"] Api;
    "Used space of a disk, in bytes."
    Gauge HOST_DISK_USED = "nomad.client.host.disk.used" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "disk"] Api;
    "Available space of a disk, in bytes."
    Gauge HOST_DISK_AVAILABLE = "nomad.client.host.disk.available" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "disk"] Api;
    "Used space of a disk, in percent."
    Gauge HOST_DISK_PERCENT = "nomad.client.host.disk.used_percent" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "disk"] Api;
    "Used inodes of a disk, in percent."
    Gauge HOST_DISK_INODES = "nomad.client.host.disk.inodes_percent" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "disk"] Api;
    "1 while the task runs."
    Gauge ALLOCS_RUNNING = "nomad.client.allocs.running" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Number of times that a task was restarted."
    Gauge ALLOCS_RESTART = "nomad.client.allocs.restart" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "1 if the task has ended successfully."
    Gauge ALLOCS_COMPLETE = "nomad.client.allocs.complete" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "1 if the task has failed."
    Gauge ALLOCS_FAILED = "nomad.client.allocs.failed" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Memory usage of a task, in bytes."
    Gauge ALLOCS_MEMORY_USAGE = "nomad.client.allocs.memory.usage" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Resident memory of a task, in bytes."
    Gauge ALLOCS_MEMORY_RSS = "nomad.client.allocs.memory.rss" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Swapped-out memory of a task, in bytes."
    Gauge ALLOCS_MEMORY_SWAP = "nomad.client.allocs.memory.swap" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Page cache of a task, in bytes."
    Gauge ALLOCS_MEMORY_CACHE = "nomad.client.allocs.memory.cache" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Highest memory usage of a task since it started, in bytes."
    Gauge ALLOCS_MEMORY_MAX_USAGE = "nomad.client.allocs.memory.max_usage" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Memory of the kernel for a task, in bytes."
    Gauge ALLOCS_MEMORY_KERNEL_USAGE = "nomad.client.allocs.memory.kernel_usage" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Memory allocated to a task, in bytes."
    Gauge ALLOCS_MEMORY_ALLOCATED = "nomad.client.allocs.memory.allocated" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "CPU time of a task, in percent of one processor."
    Gauge ALLOCS_CPU_TOTAL = "nomad.client.allocs.cpu.total_percent" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Compute used by a task, in MHz."
    Gauge ALLOCS_CPU_TICKS = "nomad.client.allocs.cpu.total_ticks" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "CPU time of a task in the kernel, in percent of one processor."
    Gauge ALLOCS_CPU_SYSTEM = "nomad.client.allocs.cpu.system" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "CPU time of a task in user mode, in percent of one processor."
    Gauge ALLOCS_CPU_USER = "nomad.client.allocs.cpu.user" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Periods in which a hard limit kept a task from the processors."
    Gauge ALLOCS_CPU_THROTTLED_PERIODS = "nomad.client.allocs.cpu.throttled_periods" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Time for which a hard limit kept a task from the processors, in nanoseconds."
    Gauge ALLOCS_CPU_THROTTLED_TIME = "nomad.client.allocs.cpu.throttled_time" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "CPU allocated to a task, in MHz."
    Gauge ALLOCS_CPU_ALLOCATED = "nomad.client.allocs.cpu.allocated" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
}
