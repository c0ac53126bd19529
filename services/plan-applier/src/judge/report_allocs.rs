//! Nodes report how their allocations fare (N-7).
//!
//! Loss, doubling and reordering of reports cost only time: what is older than what is known is passed over (design §6).

use std::collections::{BTreeMap, BTreeSet};

use model::alloc::{AllocState, ClientStatus, ReportNumber};
use model::change::{AllocsChanged, Change, EvalsChanged, NodesChanged};
use model::cluster::Singleton;
use model::eval::{EvalStatus, EvalTrigger};
use model::job::{JobType, ReschedulePolicy};
use model::node::NodeStatus;
use model::{AllocId, EvalId, JobKey, NodeId, Text, Timestamp};
use planted_bugs::{Bug, is_planted};
use state::{AllocRef, State};
use wire::Refusal;
use wire::command::{Done, NodeReport, ReportAllocs};
use wire::node::AllocReport;

use super::work::Work;

/// What reports must agree in to become one change.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    status: ClientStatus,
    description: Text,
    /// Whether the allocation was away and need not be looked at later any more (N-7.11).
    is_back: bool,
    /// Whether there is news of its tasks.
    of_tasks: bool,
}

/// What reports entail beside the allocations themselves.
#[derive(Default)]
struct Entailed {
    /// One evaluation for each job: its trigger, and type and priority of the job (N-7.5, N-7.6).
    evals: BTreeMap<JobKey, (EvalTrigger, JobType, u16)>,
    /// Evaluations that allocations waited for while they were away, each with its job.
    followups: BTreeSet<(JobKey, EvalId)>,
    /// Nodes on which some allocation ended (N-7.13).
    nodes: BTreeSet<NodeId>,
}

pub(super) fn report_allocs(work: &mut Work<'_>, command: ReportAllocs) -> Result<Done, Refusal> {
    work.check_epoch(Singleton::NodeTracker, command.epoch)?;
    let mut refused_nodes = Vec::new();
    let mut reported_all = Vec::new();
    let mut reports = Vec::new();
    for report in command.reports {
        match admit(work.state(), &report) {
            Admitted::Refused => refused_nodes.push(report.node),
            Admitted::OfAnotherBoot => {}
            Admitted::Taken { says_all } => {
                if says_all {
                    reported_all.push(report.node);
                }
                reports.extend(report.allocs.into_iter().map(|alloc| ((report.node, report.boot), alloc)));
            }
        }
    }
    // Nodes speak in any order; allocations of one plan are found together. Those of one allocation stay in theirs.
    reports.sort_by_key(|(_, alloc)| alloc.id.plan_order());
    let mut round = Round::default();
    let mut entailed = Entailed::default();
    for (from, alloc) in reports {
        if round.has(alloc.id) {
            // The later of two reports is judged on what the earlier one made.
            std::mem::take(&mut round).write(work)?;
        }
        round.take(work.state(), from, alloc, &mut entailed);
    }
    round.write(work)?;
    if !reported_all.is_empty() {
        let last_alloc_update_index = Some(work.index());
        let change = NodesChanged { ids: reported_all, last_alloc_update_index, ..NodesChanged::default() };
        work.apply(Change::NodesChanged(Box::new(change)))?;
    }
    entailed.write(work)?;
    Ok(Done { refused_nodes, ..Done::default() })
}

/// Whether a node's report is looked at.
enum Admitted {
    /// It must register, or be heard of, first (N-7.3).
    Refused,
    /// It was made by a process of the agent that is gone.
    OfAnotherBoot,
    /// Yes; and whether it says how all allocations fare, as the node was asked to.
    Taken { says_all: bool },
}

fn admit(state: &State, report: &NodeReport) -> Admitted {
    let Some(node) = state.node(report.node) else { return Admitted::Refused };
    let (boot, server) = (node.spec().boot, node.server());
    if server.status.is_unresponsive() || report.boot > boot {
        return Admitted::Refused;
    }
    if report.boot < boot {
        return Admitted::OfAnotherBoot;
    }
    let missed = server.last_missed_heartbeat_index;
    let is_asked = server.status == NodeStatus::Initializing && server.last_alloc_update_index <= missed;
    Admitted::Taken { says_all: is_asked && report.all_since == Some(missed) }
}

/// Reports that are written together, at most one for each allocation.
#[derive(Default)]
struct Round {
    /// The last allocation that was taken; reports of one come one after the other.
    last: Option<AllocId>,
    changes: BTreeMap<Alike, AllocsChanged>,
}

impl Round {
    fn has(&self, id: AllocId) -> bool {
        self.last == Some(id)
    }

    /// Takes one report, unless it is older than what is known, or of no concern to the node.
    fn take(
        &mut self,
        state: &State,
        (node, boot): (NodeId, u32),
        report: AllocReport,
        entailed: &mut Entailed,
    ) {
        let number = ReportNumber::new(boot, report.count);
        let Some(alloc) = state.alloc(report.id).filter(|alloc| is_new(*alloc, node, number, &report)) else {
            return;
        };
        entailed.add(state, alloc, &report);
        self.last = Some(report.id);
        let is_back = is_back(alloc, report.status);
        let of_tasks = *alloc.task_states() != report.task_states;
        let alike = Alike { status: report.status, description: report.description, is_back, of_tasks };
        let change = self.changes.entry(alike).or_default();
        let had = alloc.health().and_then(|health| Some((health.healthy?, health.timestamp)));
        change.ids.0.push(report.id);
        change.reports.push(number);
        if of_tasks {
            change.task_states.push(report.task_states);
        }
        change.verdicts.push(report.health.filter(|verdict| had != Some(*verdict)));
        change.network.push(report.network.or_else(|| alloc.extra().network.clone()));
    }

    fn write(self, work: &mut Work<'_>) -> Result<(), Refusal> {
        for (Alike { status, description, is_back, .. }, mut change) in self.changes {
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

/// Whether a report says something of an allocation of its node that may be so. Nothing that has ended begins again, and
/// what is lost or unknown only the servers can say.
fn is_new(alloc: AllocRef<'_>, node: NodeId, number: ReportNumber, report: &AllocReport) -> bool {
    if is_planted(Bug::HeedsOldReports) {
        return alloc.node_id() == node;
    }
    let from_agent = match report.status {
        ClientStatus::Pending | ClientStatus::Running => !alloc.client_status().is_terminal(),
        ClientStatus::Complete | ClientStatus::Failed => true,
        ClientStatus::Lost | ClientStatus::Unknown => false,
    };
    from_agent && alloc.node_id() == node && number > alloc.report()
}

/// Whether an allocation that was away, and is to be looked at later for that, is there again.
fn is_back(alloc: AllocRef<'_>, status: ClientStatus) -> bool {
    let is_unknown = |state: &AllocState| state.client_status == Some(ClientStatus::Unknown);
    alloc.extra().followup_eval.is_some()
        && alloc.extra().states.last().is_some_and(is_unknown)
        && matches!(status, ClientStatus::Running | ClientStatus::Complete | ClientStatus::Failed)
}

impl Entailed {
    /// Takes note of what one report entails, before it is written.
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
        self.nodes.into_iter().for_each(|node| work.gain_room(node));
        let mut needless = Vec::new();
        for (job, eval) in self.followups {
            if is_needless(work.state(), &job, eval) {
                work.touch_job(&job);
                needless.push(eval);
            }
        }
        if !needless.is_empty() {
            let status = Some((EvalStatus::Canceled, "allocations reconnected".into()));
            work.apply(Change::EvalsChanged(EvalsChanged { ids: needless, status, next_eval: None }))?;
        }
        for (job, (trigger, kind, priority)) in self.evals {
            work.make_eval(&job, kind, priority, trigger, |_| {})?;
        }
        Ok(())
    }
}

/// Whether nobody waits any more for an evaluation that has not been done yet.
fn is_needless(state: &State, job: &JobKey, id: EvalId) -> bool {
    let waits = |alloc: AllocRef<'_>| !alloc.is_terminal() && alloc.extra().followup_eval == Some(id);
    state.eval(id).is_some_and(|eval| !eval.status.is_terminal()) && !state.allocs_of_job(job).any(waits)
}

/// The evaluation that a report calls for (N-7.5): its trigger, and type and priority of the job. What had ended before
/// has had its evaluation.
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
    if was_unknown {
        trigger = Some(EvalTrigger::Reconnect);
    }
    trigger.map(|trigger| (trigger, job.spec.kind, job.spec.priority))
}

/// Whether attempts are left; when, the scheduler works out.
fn may_reschedule(alloc: AllocRef<'_>, policy: &ReschedulePolicy, failed_at: Timestamp) -> bool {
    policy.has_attempts_left(alloc.extra().reschedule.as_deref(), failed_at)
}

/// When the last task ended; `now` where none says so.
fn failed_at(report: &AllocReport, now: Timestamp) -> Timestamp {
    let states = report.task_states.unpack().unwrap_or_default();
    let ended = states.iter().map(|state| state.finished_at).max().filter(|ended| ended.is_set());
    ended.unwrap_or(now)
}
