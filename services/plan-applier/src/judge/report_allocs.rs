//! Applies nodes' reports about the status of their allocations (N-7).
//!
//! Lost, repeated and reordered reports cost only time: a report that is older than the known state is ignored (`docs/architecture/agents.md`).

use std::collections::{BTreeMap, BTreeSet};

use model::alloc::{AllocState, ClientStatus, DesiredStatus, ReportNumber};
use model::change::{AllocsChanged, Change, EvalsChanged, NodesChanged};
use model::cluster::Singleton;
use model::eval::{EvalStatus, EvalTrigger};
use model::job::{JobType, ReschedulePolicy};
use model::node::NodeStatus;
use model::{AllocId, EvalId, JobKey, NodeId, Text, Timestamp};
use planted_bugs::{Bug, is_planted};
use state::{AllocRef, State};
use wire::Refusal;
use wire::command::{Done, Handler, NodeReport, ReportAllocs};
use wire::node::AllocReport;

use super::work::Work;

/// The properties that reports must have in common to become one change.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ChangeKey {
    status: ClientStatus,
    description: Text,
    /// Whether the allocation was unknown and its follow-up evaluation is no longer needed (N-7.11).
    is_back: bool,
    /// Whether the states of its tasks have changed.
    has_task_states: bool,
}

/// Consequences of reports, besides the changes of the allocations themselves.
#[derive(Default)]
struct Consequences {
    /// One evaluation for each job: its trigger, and type and priority of the job (N-7.5, N-7.6).
    evals: BTreeMap<JobKey, (EvalTrigger, JobType, u16)>,
    /// Follow-up evaluations of allocations that were unknown, each with its job.
    followups: BTreeSet<(JobKey, EvalId)>,
    /// Nodes on which an allocation ended (N-7.13).
    nodes: BTreeSet<NodeId>,
}

impl Handler<ReportAllocs> for Work<'_> {
    fn handle(&mut self, command: ReportAllocs) -> Result<Done, Refusal> {
        self.check_epoch(Singleton::NodeTracker, command.epoch)?;
        let mut refused_nodes = Vec::new();
        let mut complete_nodes = Vec::new();
        let mut reports = Vec::new();
        for report in command.reports {
            match admit(self.state(), &report) {
                Admission::Refused => refused_nodes.push(report.node),
                Admission::OtherBoot => {}
                Admission::Accepted { is_complete } => {
                    if is_complete {
                        complete_nodes.push(report.node);
                    }
                    reports
                        .extend(report.allocs.into_iter().map(|alloc| ((report.node, report.boot), alloc)));
                }
            }
        }
        // Nodes report in any order; ordered by id, the allocations of one plan are looked up next to each other. The sort is
        // stable, so reports of one allocation keep their order.
        reports.sort_by_key(|(_, alloc)| alloc.id.plan_order());
        let mut batch = ReportBatch::default();
        let mut consequences = Consequences::default();
        for (from, alloc) in reports {
            if batch.has(alloc.id) {
                // The later of two reports on an allocation is judged on the state after the earlier one.
                std::mem::take(&mut batch).write(self)?;
            }
            batch.add(self.state(), from, alloc, &mut consequences);
        }
        batch.write(self)?;
        if !complete_nodes.is_empty() {
            let last_alloc_update_index = Some(self.index());
            let change =
                NodesChanged { ids: complete_nodes, last_alloc_update_index, ..NodesChanged::default() };
            self.apply(Change::NodesChanged(Box::new(change)))?;
        }
        consequences.write(self)?;
        Ok(Done { refused_nodes, ..Done::default() })
    }
}

/// Whether a node's report is accepted.
enum Admission {
    /// The node must register, or send a heartbeat, first (N-7.3).
    Refused,
    /// It was sent by an earlier boot of the agent.
    OtherBoot,
    /// It is accepted. `is_complete` means that it reports all allocations, as the node was asked to.
    Accepted { is_complete: bool },
}

fn admit(state: &State, report: &NodeReport) -> Admission {
    let Some(node) = state.node(report.node) else { return Admission::Refused };
    let (boot, server) = (node.spec().boot, node.server());
    if server.status.is_unresponsive() || report.boot > boot {
        return Admission::Refused;
    }
    if report.boot < boot {
        return Admission::OtherBoot;
    }
    let missed = server.last_missed_heartbeat_index;
    let is_asked = server.status == NodeStatus::Initializing && server.last_alloc_update_index <= missed;
    Admission::Accepted { is_complete: is_asked && report.all_since == Some(missed) }
}

/// Reports that are written together, at most one for each allocation.
#[derive(Default)]
struct ReportBatch {
    /// The allocation of the last report. Reports of one allocation are adjacent.
    last: Option<AllocId>,
    changes: BTreeMap<ChangeKey, AllocsChanged>,
}

impl ReportBatch {
    fn has(&self, id: AllocId) -> bool {
        self.last == Some(id)
    }

    /// Adds a report, unless it is older than the known state or about an allocation of another node.
    fn add(
        &mut self,
        state: &State,
        (node, boot): (NodeId, u32),
        report: AllocReport,
        consequences: &mut Consequences,
    ) {
        let number = ReportNumber::new(boot, report.count);
        let Some(alloc) = state.alloc(report.id).filter(|alloc| is_applicable(*alloc, node, number, &report))
        else {
            return;
        };
        consequences.add(state, alloc, &report);
        self.last = Some(report.id);
        let is_back = is_back(alloc, report.status);
        let has_task_states = *alloc.task_states() != report.task_states;
        let key =
            ChangeKey { status: report.status, description: report.description, is_back, has_task_states };
        let change = self.changes.entry(key).or_default();
        let known_verdict = alloc.health().and_then(|health| Some((health.healthy?, health.timestamp)));
        change.ids.0.push(report.id);
        change.reports.push(number);
        if has_task_states {
            change.task_states.push(report.task_states);
        }
        change.verdicts.push(report.health.filter(|verdict| known_verdict != Some(*verdict)));
        change.network.push(report.network.or_else(|| alloc.extra().network.clone()));
    }

    fn write(self, work: &mut Work<'_>) -> Result<(), Refusal> {
        for (ChangeKey { status, description, is_back, .. }, mut change) in self.changes {
            change.client = Some((status, description));
            change.followup_eval = is_back.then_some(None);
            if change.verdicts.iter().all(Option::is_none) {
                change.verdicts.clear();
            }
            if change.network.iter().all(Option::is_none) {
                change.network.clear();
            }
            work.change_allocs(change)?;
        }
        Ok(())
    }
}

/// Whether a report may change an allocation of its node. An ended allocation does not start again, and only the servers
/// can say that an allocation is lost or unknown.
fn is_applicable(alloc: AllocRef<'_>, node: NodeId, number: ReportNumber, report: &AllocReport) -> bool {
    if is_planted(Bug::AcceptsOldReports) {
        return alloc.node_id() == node;
    }
    let from_agent = match report.status {
        ClientStatus::Pending | ClientStatus::Running => !alloc.client_status().is_terminal(),
        ClientStatus::Complete | ClientStatus::Failed => true,
        ClientStatus::Lost | ClientStatus::Unknown => false,
    };
    from_agent && alloc.node_id() == node && number > alloc.report()
}

/// Whether an allocation with a follow-up evaluation for its time as unknown is back.
fn is_back(alloc: AllocRef<'_>, status: ClientStatus) -> bool {
    let is_unknown = |state: &AllocState| state.client_status == Some(ClientStatus::Unknown);
    alloc.extra().followup_eval.is_some()
        && alloc.extra().states.last().is_some_and(is_unknown)
        && matches!(status, ClientStatus::Running | ClientStatus::Complete | ClientStatus::Failed)
}

impl Consequences {
    /// Records the consequences of one report, before it is written.
    fn add(&mut self, state: &State, alloc: AllocRef<'_>, report: &AllocReport) {
        if report.status.is_terminal() {
            self.nodes.insert(alloc.node_id());
        }
        if let Some(followup) = alloc.extra().followup_eval
            && is_back(alloc, report.status)
        {
            self.followups.insert((alloc.job_key().clone(), followup));
        }
        let key = alloc.job_key();
        if !self.evals.contains_key(key)
            && let Some(eval) = eval_for(state, alloc, report)
        {
            self.evals.insert(key.clone(), eval);
        }
    }

    fn write(self, work: &mut Work<'_>) -> Result<(), Refusal> {
        self.nodes.into_iter().for_each(|node| work.unblock_node(node));
        let mut unneeded = Vec::new();
        for (job, eval) in self.followups {
            if is_unneeded(work.state(), &job, eval) {
                work.touch_job(&job);
                unneeded.push(eval);
            }
        }
        if !unneeded.is_empty() {
            let status = Some((EvalStatus::Canceled, "allocations reconnected".into()));
            work.apply(Change::EvalsChanged(EvalsChanged { ids: unneeded, status, next_eval: None }))?;
        }
        for (job, (trigger, kind, priority)) in self.evals {
            work.create_eval(&job, kind, priority, trigger, |_| {})?;
        }
        Ok(())
    }
}

/// Whether an evaluation is not terminal and no allocation waits for it any more.
fn is_unneeded(state: &State, job: &JobKey, id: EvalId) -> bool {
    let waits = |alloc: AllocRef<'_>| !alloc.is_terminal() && alloc.extra().followup_eval == Some(id);
    state.eval(id).is_some_and(|eval| !eval.status.is_terminal()) && !state.allocs_of_job(job).any(waits)
}

/// The evaluation that a report requires (N-7.5): its trigger, and type and priority of the job. An allocation that had
/// ended before already had its evaluation.
fn eval_for(state: &State, alloc: AllocRef<'_>, report: &AllocReport) -> Option<(EvalTrigger, JobType, u16)> {
    let was_unknown = alloc.client_status() == ClientStatus::Unknown;
    let has_ended = report.status.is_terminal() && !alloc.client_status().is_terminal();
    if !has_ended && !was_unknown {
        return None;
    }
    let Some(job) = state.job(alloc.job_key()) else {
        let spec = &alloc.job().spec;
        return Some((EvalTrigger::JobDeregister, spec.kind, spec.priority));
    };
    let mut trigger = None;
    if report.status == ClientStatus::Failed && alloc.extra().followup_eval.is_none() {
        let (_, group) = job.spec.group(alloc.group_name())?;
        let policy = group.reschedule_policy.as_ref();
        if policy.is_some_and(|policy| may_reschedule(alloc, policy, failed_at(report, state.at()))) {
            trigger = Some(EvalTrigger::AllocFailure);
        }
    }
    if report.status == ClientStatus::Complete && is_ended_early(alloc) {
        trigger = Some(EvalTrigger::AllocStop);
    }
    if was_unknown {
        trigger = Some(EvalTrigger::Reconnect);
    }
    trigger.map(|trigger| (trigger, job.spec.kind, job.spec.priority))
}

/// Whether an allocation that is complete should still run. Main tasks of services and system jobs run until they are stopped
/// but the servers have not stopped them. So the agent has, either because it had no contact, or as
/// told by a change set that the database has lost (`docs/architecture/log.md`).
fn is_ended_early(alloc: AllocRef<'_>) -> bool {
    let spec = &alloc.job().spec;
    let runs_until_stopped = match spec.kind {
        JobType::Service | JobType::System => true,
        JobType::Batch | JobType::SysBatch => false,
    };
    let group = spec.group(alloc.group_name());
    let has_main_task =
        group.is_some_and(|(_, group)| group.tasks.iter().any(|task| task.lifecycle.is_none()));
    runs_until_stopped && has_main_task && alloc.desired_status() == DesiredStatus::Run
}

/// Whether attempts are left. The scheduler computes when the next one may begin.
fn may_reschedule(alloc: AllocRef<'_>, policy: &ReschedulePolicy, failed_at: Timestamp) -> bool {
    policy.has_attempts_left(alloc.extra().reschedule.as_deref(), failed_at)
}

/// When the last task ended; `now` if no task has an end.
fn failed_at(report: &AllocReport, now: Timestamp) -> Timestamp {
    let states = report.task_states.unpack().unwrap_or_default();
    let ended = states.iter().map(|state| state.finished_at).max().filter(|ended| ended.is_set());
    ended.unwrap_or(now)
}
