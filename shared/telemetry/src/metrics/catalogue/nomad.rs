//! Metrics that the reference documents, under its names (http-api §30).

use super::super::Merge::{Active, Api, Sum};
use super::super::{Counter, Gauge, Kind, Meta, Metric, Timer};
use super::{APPLIER, BROKER, TRACKER, metrics};

metrics! {
    // Jobs, from the state.
    "Allocations of a task group that are to be placed."
    Gauge JOB_QUEUED = "nomad.job_summary.queued" ["job", "task_group", "namespace"] Api;
    "Allocations of a task group that ended well."
    Gauge JOB_COMPLETE = "nomad.job_summary.complete" ["job", "task_group", "namespace"] Api;
    "Allocations of a task group that failed."
    Gauge JOB_FAILED = "nomad.job_summary.failed" ["job", "task_group", "namespace"] Api;
    "Allocations of a task group that run."
    Gauge JOB_RUNNING = "nomad.job_summary.running" ["job", "task_group", "namespace"] Api;
    "Allocations of a task group that are about to run."
    Gauge JOB_STARTING = "nomad.job_summary.starting" ["job", "task_group", "namespace"] Api;
    "Allocations of a task group whose nodes are gone."
    Gauge JOB_LOST = "nomad.job_summary.lost" ["job", "task_group", "namespace"] Api;
    "Allocations of a task group whose nodes are disconnected."
    Gauge JOB_UNKNOWN = "nomad.job_summary.unknown" ["job", "task_group", "namespace"] Api;
    "Jobs of status pending."
    Gauge JOBS_PENDING = "nomad.job_status.pending" [] Api;
    "Jobs of status running."
    Gauge JOBS_RUNNING = "nomad.job_status.running" [] Api;
    "Jobs of status dead."
    Gauge JOBS_DEAD = "nomad.job_status.dead" [] Api;

    // The broker.
    "Evaluations that can be handed out."
    Gauge NOMAD_BROKER_READY = "nomad.broker.total_ready" [] Active(BROKER);
    "Evaluations that workers have."
    Gauge NOMAD_BROKER_UNACKED = "nomad.broker.total_unacked" [] Active(BROKER);
    "Evaluations that wait behind another one of their job."
    Gauge NOMAD_BROKER_PENDING = "nomad.broker.total_pending" [] Active(BROKER);
    "Evaluations that wait for their time."
    Gauge NOMAD_BROKER_WAITING = "nomad.broker.total_waiting" [] Active(BROKER);
    "Evaluations that a newer one of their job makes needless."
    Gauge NOMAD_BROKER_CANCELABLE = "nomad.broker.total_cancelable" [] Active(BROKER);
    "Evaluations of services that can be handed out."
    Gauge BROKER_SERVICE_READY = "nomad.broker.service_ready" [] Active(BROKER);
    "Evaluations of services that workers have."
    Gauge BROKER_SERVICE_UNACKED = "nomad.broker.service_unacked" [] Active(BROKER);
    "Evaluations of batch jobs that can be handed out."
    Gauge BROKER_BATCH_READY = "nomad.broker.batch_ready" [] Active(BROKER);
    "Evaluations of batch jobs that workers have."
    Gauge BROKER_BATCH_UNACKED = "nomad.broker.batch_unacked" [] Active(BROKER);
    "Evaluations of system jobs that can be handed out."
    Gauge BROKER_SYSTEM_READY = "nomad.broker.system_ready" [] Active(BROKER);
    "Evaluations of system jobs that workers have."
    Gauge BROKER_SYSTEM_UNACKED = "nomad.broker.system_unacked" [] Active(BROKER);
    "Evaluations of sysbatch jobs that can be handed out."
    Gauge BROKER_SYSBATCH_READY = "nomad.broker.sysbatch_ready" [] Active(BROKER);
    "Evaluations of sysbatch jobs that workers have."
    Gauge BROKER_SYSBATCH_UNACKED = "nomad.broker.sysbatch_unacked" [] Active(BROKER);
    "Evaluations that were delivered too often."
    Gauge BROKER_FAILED_READY = "nomad.broker._failed_ready" [] Active(BROKER);
    "Seconds until a delayed evaluation of the job is due; of the first one, where there are several."
    Gauge BROKER_EVAL_WAITING = "nomad.broker.eval_waiting" ["job", "namespace"] Active(BROKER);
    "Time from an evaluation's arrival to the delivery that finished it, in milliseconds."
    Timer NOMAD_BROKER_WAIT = "nomad.broker.wait_time" [] Sum;
    "Time from that delivery to the end of the evaluation, in milliseconds."
    Timer NOMAD_BROKER_PROCESS = "nomad.broker.process_time" [] Sum;
    "Time from an evaluation's arrival to its end, in milliseconds."
    Timer NOMAD_BROKER_RESPONSE = "nomad.broker.response_time" [] Sum;

    // Blocked evaluations.
    "Evaluations that wait for room."
    Gauge BLOCKED_TOTAL = "nomad.blocked_evals.total_blocked" [] Active(BROKER);
    "Blocked evaluations whose jobs have constraints that no class of nodes captures."
    Gauge BLOCKED_ESCAPED = "nomad.blocked_evals.total_escaped" [] Active(BROKER);
    "Evaluations that wait because of a quota."
    Gauge BLOCKED_QUOTA = "nomad.blocked_evals.total_quota_limit" [] Active(BROKER);
    "CPU in MHz that blocked evaluations ask for in vain, by where they looked."
    Gauge BLOCKED_CPU = "nomad.blocked_evals.cpu" ["datacenter", "node_class", "node_pool"] Active(BROKER);
    "Memory in MB that blocked evaluations ask for in vain, by where they looked."
    Gauge BLOCKED_MEMORY = "nomad.blocked_evals.memory" ["datacenter", "node_class", "node_pool"] Active(BROKER);
    "CPU in MHz that a job's blocked evaluations ask for in vain."
    Gauge BLOCKED_JOB_CPU = "nomad.blocked_evals.job.cpu" ["job", "namespace"] Active(BROKER);
    "Memory in MB that a job's blocked evaluations ask for in vain."
    Gauge BLOCKED_JOB_MEMORY = "nomad.blocked_evals.job.memory" ["job", "namespace"] Active(BROKER);

    // Plans.
    "Plans that wait for the applier."
    Gauge PLAN_QUEUE_DEPTH = "nomad.plan.queue_depth" [] Active(APPLIER);
    "Time of judging a batch of commands that has plans in it, in milliseconds."
    Timer PLAN_EVALUATE = "nomad.plan.evaluate" [] Sum;
    "Time from a plan's arrival at the applier to its answer, in milliseconds."
    Timer PLAN_SUBMIT = "nomad.plan.submit" [] Sum;
    "Nodes of plans that were rejected because they had no room any more."
    Counter PLAN_NODE_REJECTED = "nomad.plan.node_rejected" ["node_id"] Sum;

    // Workers.
    "Time that workers waited for evaluations, in milliseconds."
    Timer WORKER_DEQUEUE = "nomad.worker.dequeue_eval" [] Sum;
    "Time of one run of the service scheduler, in milliseconds."
    Timer WORKER_INVOKE_SERVICE = "nomad.worker.invoke_scheduler.service" [] Sum;
    "Time of one run of the batch scheduler, in milliseconds."
    Timer WORKER_INVOKE_BATCH = "nomad.worker.invoke_scheduler.batch" [] Sum;
    "Time of one run of the system scheduler, in milliseconds."
    Timer WORKER_INVOKE_SYSTEM = "nomad.worker.invoke_scheduler.system" [] Sum;
    "Time of one run of the sysbatch scheduler, in milliseconds."
    Timer WORKER_INVOKE_SYSBATCH = "nomad.worker.invoke_scheduler.sysbatch" [] Sum;
    "Time from submitting a plan to the applier's answer, in milliseconds."
    Timer WORKER_SUBMIT_PLAN = "nomad.worker.submit_plan" [] Sum;
    "Time that workers waited for their replica to reach an index, in milliseconds."
    Timer WORKER_WAIT_FOR_INDEX = "nomad.worker.wait_for_index" [] Sum;
    "Time of giving an evaluation back to the broker, in milliseconds."
    Timer WORKER_SEND_NACK = "nomad.worker.send_nack" [] Sum;

    // The leader, which is the active applier, and its commits.
    "Time of proving that the applier is still the active one by a round trip to the database, in milliseconds."
    Timer LEADER_BARRIER = "nomad.leader.barrier" [] Sum;
    "Time that a new applier takes to bring its replica to the head of the log, in milliseconds."
    Timer LEADER_RECONCILE = "nomad.leader.reconcile" [] Sum;
    "Change sets that were committed."
    Counter RAFT_APPLY = "nomad.raft.apply" [] Sum;
    "Time of a commit, from handing it to the database to the answer, in milliseconds."
    Timer RAFT_COMMIT_TIME = "nomad.raft.commitTime" [] Sum;
    "Time since the database confirmed that the applier is the active one, in milliseconds, measured at each confirmation."
    Timer RAFT_LAST_CONTACT = "nomad.raft.leader.lastContact" [] Sum;
    "Time of publishing a commit's change sets on the feed, in milliseconds."
    Timer RAFT_DISPATCH_LOG = "nomad.raft.leader.dispatchLog" [] Sum;
    "Times that a plan applier asked for the lease after its holder had gone."
    Counter RAFT_CANDIDATE = "nomad.raft.state.candidate" [] Sum;
    "Times that a plan applier began to stand by."
    Counter RAFT_FOLLOWER = "nomad.raft.state.follower" [] Sum;
    "Times that a plan applier became the active one."
    Counter RAFT_LEADER = "nomad.raft.state.leader" [] Sum;
    "1 while there is an active plan applier, 0 otherwise."
    Gauge AUTOPILOT_HEALTHY = "nomad.autopilot.healthy" [] Api;
    "Plan appliers that may fail before none is left."
    Gauge AUTOPILOT_TOLERANCE = "nomad.autopilot.failure_tolerance" [] Api;

    // Requests between processes.
    "Requests that servers received from other processes."
    Counter RPC_REQUEST = "nomad.nomad.rpc.request" [] Sum;
    "Requests from other processes that were refused because they could not be read."
    Counter RPC_REQUEST_ERROR = "nomad.nomad.rpc.request_error" [] Sum;
    "Reads of the HTTP API that were answered from a replica."
    Counter RPC_QUERY = "nomad.nomad.rpc.query" [] Sum;

    // What nodes ask the servers.
    "Time to register a node, in milliseconds."
    Timer CLIENT_REGISTER = "nomad.nomad.client.register" [] Sum;
    "Time to answer a node that asks for its work, in milliseconds."
    Timer CLIENT_GET_CLIENT_ALLOCS = "nomad.nomad.client.get_client_allocs" [] Sum;
    "Time to answer a node that asks for allocations by id, in milliseconds."
    Timer CLIENT_GET_ALLOCS = "nomad.nomad.client.get_allocs" [] Sum;
    "Time to make a node ready, in milliseconds."
    Timer CLIENT_UPDATE_STATUS = "nomad.nomad.client.update_status" [] Sum;
    "Time to write what a node reports of its allocations, in milliseconds."
    Timer CLIENT_UPDATE_ALLOC = "nomad.nomad.client.update_alloc" [] Sum;

    // What users ask the servers.
    "Time to read a node, in milliseconds."
    Timer CLIENT_GET_NODE = "nomad.nomad.client.get_node" [] Sum;
    "Time to list nodes, in milliseconds."
    Timer CLIENT_LIST = "nomad.nomad.client.list" [] Sum;
    "Time to make evaluations for a node, in milliseconds."
    Timer CLIENT_EVALUATE = "nomad.nomad.client.evaluate" [] Sum;
    "Time to purge a node, in milliseconds."
    Timer CLIENT_BATCH_DEREGISTER = "nomad.nomad.client.batch_deregister" [] Sum;
    "Time to set a node's eligibility, in milliseconds."
    Timer CLIENT_UPDATE_ELIGIBILITY = "nomad.nomad.client.update_eligibility" [] Sum;
    "Time to register a job, in milliseconds."
    Timer JOB_REGISTER = "nomad.nomad.job.register" [] Sum;
    "Time to stop or purge a job, in milliseconds."
    Timer JOB_DEREGISTER = "nomad.nomad.job.deregister" [] Sum;
    "Time to make an evaluation of a job, in milliseconds."
    Timer JOB_EVALUATE = "nomad.nomad.job.evaluate" [] Sum;
    "Time to read a job, in milliseconds."
    Timer JOB_GET_JOB = "nomad.nomad.job.get_job" [] Sum;
    "Time to read a job's versions, in milliseconds."
    Timer JOB_GET_VERSIONS = "nomad.nomad.job.get_job_versions" [] Sum;
    "Time to read what a job was registered from, in milliseconds."
    Timer JOB_GET_SUBMISSION = "nomad.nomad.job.get_job_submission" [] Sum;
    "Time to list jobs, in milliseconds."
    Timer JOB_LIST = "nomad.nomad.job.list" [] Sum;
    "Time to list jobs with how they fare, in milliseconds."
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
    "Time to answer a worker that asks for evaluations, waiting included, in milliseconds."
    Timer EVAL_DEQUEUE = "nomad.nomad.eval.dequeue" [] Sum;
    "Time to list allocations, in milliseconds."
    Timer ALLOC_LIST = "nomad.nomad.alloc.list" [] Sum;
    "Time to read an allocation, in milliseconds."
    Timer ALLOC_GET_ALLOC = "nomad.nomad.alloc.get_alloc" [] Sum;
    "Time to stop an allocation, in milliseconds."
    Timer ALLOC_STOP = "nomad.nomad.alloc.stop" [] Sum;
    "Connections to the HTTP API that are open."
    Gauge AGENT_HTTP_CONNECTIONS = "nomad.agent.http.connections" [] Sum;

    // Heartbeats and the state.
    "Nodes whose heartbeats are timed."
    Gauge HEARTBEAT_ACTIVE = "nomad.heartbeat.active" [] Active(TRACKER);
    "Time to report nodes that were missed, in milliseconds."
    Timer HEARTBEAT_INVALIDATE = "nomad.heartbeat.invalidate" [] Sum;
    "Index of the newest state that the API process has."
    Gauge STATE_SNAPSHOT_INDEX = "nomad.state.snapshotIndex" [] Api;

    // Processes, all servers together.
    "Asynchronous tasks that have not ended."
    Gauge RUNTIME_TASKS = "nomad.runtime.num_goroutines" [] Sum;
    "Bytes of memory that the servers' data takes."
    Gauge RUNTIME_ALLOC = "nomad.runtime.alloc_bytes" [] Sum;
    "Bytes of memory that the servers take, programs and files included."
    Gauge RUNTIME_SYS = "nomad.runtime.sys_bytes" [] Sum;

    // Nodes, from the state.
    "Allocations of a node that run."
    Gauge CLIENT_RUNNING = "nomad.client.allocations.running" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Allocations of a node that have not started."
    Gauge CLIENT_PENDING = "nomad.client.allocations.pending" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Allocations of a node that have ended."
    Gauge CLIENT_TERMINAL = "nomad.client.allocations.terminal" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "CPU in MHz that a node's allocations hold."
    Gauge CLIENT_ALLOCATED_CPU = "nomad.client.allocated.cpu" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Memory in MB that a node's allocations hold."
    Gauge CLIENT_ALLOCATED_MEMORY = "nomad.client.allocated.memory" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Disk in MB that a node's allocations hold."
    Gauge CLIENT_ALLOCATED_DISK = "nomad.client.allocated.disk" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "CPU in MHz that allocations can still have of a node."
    Gauge CLIENT_UNALLOCATED_CPU = "nomad.client.unallocated.cpu" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Memory in MB that allocations can still have of a node."
    Gauge CLIENT_UNALLOCATED_MEMORY = "nomad.client.unallocated.memory" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Disk in MB that allocations can still have of a node."
    Gauge CLIENT_UNALLOCATED_DISK = "nomad.client.unallocated.disk" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;

    // Machines and tasks, as agents know them.
    "Tasks of a node that run."
    Gauge CLIENT_TASKS_RUNNING = "nomad.client.tasks.running" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Tasks of a node that have not started."
    Gauge CLIENT_TASKS_PENDING = "nomad.client.tasks.pending" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Tasks of a node that have ended."
    Gauge CLIENT_TASKS_DEAD = "nomad.client.tasks.dead" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Seconds since a node's machine was started."
    Gauge CLIENT_UPTIME = "nomad.client.uptime" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Bytes of memory of a node's machine."
    Gauge HOST_MEMORY_TOTAL = "nomad.client.host.memory.total" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Bytes of memory that programs on a node's machine could have."
    Gauge HOST_MEMORY_AVAILABLE = "nomad.client.host.memory.available" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Bytes of memory that programs on a node's machine have."
    Gauge HOST_MEMORY_USED = "nomad.client.host.memory.used" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Bytes of memory of a node's machine that hold nothing at all."
    Gauge HOST_MEMORY_FREE = "nomad.client.host.memory.free" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"] Api;
    "Share of a processor's time that programs take, in percent."
    Gauge HOST_CPU_USER = "nomad.client.host.cpu.user" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "cpu"] Api;
    "Share of a processor's time that the kernel takes, in percent."
    Gauge HOST_CPU_SYSTEM = "nomad.client.host.cpu.system" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "cpu"] Api;
    "Share of a processor's time that nothing takes, in percent."
    Gauge HOST_CPU_IDLE = "nomad.client.host.cpu.idle" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "cpu"] Api;
    "Share of a processor's time that is taken, in percent."
    Gauge HOST_CPU_TOTAL = "nomad.client.host.cpu.total_percent" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "cpu"] Api;
    "Compute of a processor that is taken, in MHz."
    Gauge HOST_CPU_TICKS = "nomad.client.host.cpu.total_ticks" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "cpu"] Api;
    "Bytes of a disk."
    Gauge HOST_DISK_SIZE = "nomad.client.host.disk.size" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "disk"] Api;
    "Bytes of a disk that are in use."
    Gauge HOST_DISK_USED = "nomad.client.host.disk.used" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "disk"] Api;
    "Bytes of a disk that could be used."
    Gauge HOST_DISK_AVAILABLE = "nomad.client.host.disk.available" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "disk"] Api;
    "Share of a disk that is in use, in percent."
    Gauge HOST_DISK_PERCENT = "nomad.client.host.disk.used_percent" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "disk"] Api;
    "Share of a disk's inodes that are in use, in percent."
    Gauge HOST_DISK_INODES = "nomad.client.host.disk.inodes_percent" ["node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility", "disk"] Api;
    "1 while a task runs."
    Gauge ALLOCS_RUNNING = "nomad.client.allocs.running" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Times that a task was started again."
    Gauge ALLOCS_RESTART = "nomad.client.allocs.restart" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "1 if a task has ended well."
    Gauge ALLOCS_COMPLETE = "nomad.client.allocs.complete" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "1 if a task has failed."
    Gauge ALLOCS_FAILED = "nomad.client.allocs.failed" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Bytes of memory that a task uses."
    Gauge ALLOCS_MEMORY_USAGE = "nomad.client.allocs.memory.usage" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Bytes of memory of a task that are resident."
    Gauge ALLOCS_MEMORY_RSS = "nomad.client.allocs.memory.rss" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Bytes of memory of a task that were put aside."
    Gauge ALLOCS_MEMORY_SWAP = "nomad.client.allocs.memory.swap" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Bytes of memory that a task was given."
    Gauge ALLOCS_MEMORY_ALLOCATED = "nomad.client.allocs.memory.allocated" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Share of one processor's time that a task takes, in percent."
    Gauge ALLOCS_CPU_TOTAL = "nomad.client.allocs.cpu.total_percent" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Compute that a task takes, in MHz."
    Gauge ALLOCS_CPU_TICKS = "nomad.client.allocs.cpu.total_ticks" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Share of one processor's time that the kernel spends for a task, in percent."
    Gauge ALLOCS_CPU_SYSTEM = "nomad.client.allocs.cpu.system" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "Share of one processor's time that a task spends itself, in percent."
    Gauge ALLOCS_CPU_USER = "nomad.client.allocs.cpu.user" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
    "CPU in MHz that a task was given."
    Gauge ALLOCS_CPU_ALLOCATED = "nomad.client.allocs.cpu.allocated" ["job", "task_group", "task", "alloc_id", "namespace"] Api;
}
