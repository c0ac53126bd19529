//! [`Watcher`]: the core of the deployment watcher. It decides when to check which deployment, and which commands to send.
//!
//! Pure: change sets and times go in, commands come out. Any change to a deployment leads to a full check of it, so a
//! watcher that takes over finds the same steps as the one before. The watcher holds no state that a restart would lose.

use std::collections::BTreeSet;

use model::alloc::ClientStatus;
use model::change::{AllocChange, AllocsChanged, Change, Concern, DeploymentChange, EvalChange};
use model::{DeploymentId, Epoch, Index, JobKey, Nanos, Timestamp, TraceContext};
use state::{Snapshot, Step};
use wire::WriteGate;
use wire::command::{DeploymentFinding, UpdateDeployments};

use crate::agenda::Agenda;
use crate::rollout::{Assessment, assess};

/// The maximum number of deployments in one command.
const FINDINGS_MAX: usize = 256;
/// The pause before a finding is sent again, if the applier committed the command without acting on the finding.
const REPEAT_AFTER: Nanos = Nanos::SECOND;

/// Settings of the watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long changes to a deployment are batched before it is checked. N-14.8 batches for one second, plus 250 ms.
    pub batch_delay: Nanos,
}

/// The active deployments, and when each is due for a check.
#[derive(Debug)]
pub(crate) struct Watcher {
    settings: Settings,
    state: Snapshot,
    /// Check times: after a change to a deployment, or at its progress deadline.
    agenda: Agenda<DeploymentId>,
    gate: WriteGate,
}

impl Watcher {
    /// Creates a watcher that checks every active deployment in `state` at once.
    pub(crate) fn restore(settings: Settings, state: Snapshot, now: Timestamp) -> Self {
        let active = state.deployments().filter(|deployment| !deployment.status.is_terminal());
        let mut agenda = Agenda::default();
        active.for_each(|deployment| agenda.add(deployment.id, now));
        Self { settings, state, agenda, gate: WriteGate::default() }
    }

    /// Follows a step of the state.
    pub(crate) fn step(&mut self, step: &Step, now: Timestamp) {
        self.state = step.after.clone();
        self.gate.saw(self.state.index());
        let due = self.at_least_state_time(now) + self.settings.batch_delay;
        let mut affected = BTreeSet::new();
        step.changes().for_each(|change| add_affected(step, change, &mut affected));
        for id in affected {
            self.schedule_check(id, due);
        }
    }

    /// Schedules a check of a deployment no later than `due`, or removes it from the agenda if it is terminal.
    fn schedule_check(&mut self, id: DeploymentId, due: Timestamp) {
        if self.state.deployment(id).is_none_or(|deployment| deployment.status.is_terminal()) {
            return self.agenda.remove(&id);
        }
        self.agenda.add(id, due);
    }

    /// The number of active deployments.
    pub(crate) fn active_count(&self) -> usize {
        self.agenda.len()
    }

    /// When [`Self::next_write`] next has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        let (from, due) = (self.gate.from()?, self.agenda.first()?);
        Some(from.max(due))
    }

    /// Checks the deployments that are due and returns the next command, if there is one. Returns no other command until
    /// [`Self::written`] or [`Self::not_written`] is called.
    pub(crate) fn next_write(&mut self, epoch: Epoch, now: Timestamp) -> Option<UpdateDeployments> {
        let now = self.at_least_state_time(now);
        if self.gate.from().is_none_or(|from| now < from) {
            return None;
        }
        let (mut findings, mut rescheduled) = (Vec::new(), Vec::new());
        while findings.len() < FINDINGS_MAX
            && let Some(id) = self.agenda.pop(now)
        {
            let Some(deployment) = self.state.deployment(id) else { continue };
            let Assessment { step, deadline } = assess(&self.state, deployment, now);
            // The step should change the deployment. If the applier rejects it because its state is newer, the deployment
            // is checked again after the pause, in case it still needs a step.
            let due = if step.is_some() { Some(now + REPEAT_AFTER) } else { deadline };
            rescheduled.extend(due.map(|due| (id, due)));
            findings.extend(step.map(|step| DeploymentFinding { id, step }));
        }
        rescheduled.into_iter().for_each(|(id, due)| self.agenda.add(id, due));
        if findings.is_empty() {
            return None;
        }
        self.gate.begin();
        Some(UpdateDeployments { epoch, findings })
    }

    /// The trace in which a deployment began.
    pub(crate) fn trace_of(&self, id: DeploymentId) -> Option<TraceContext> {
        self.state.deployment(id)?.trace
    }

    /// The command was committed at `index`.
    pub(crate) fn written(&mut self, index: Index) {
        self.gate.written(index, self.state.index());
    }

    /// The command failed, or its outcome is unknown.
    pub(crate) fn not_written(&mut self, now: Timestamp) {
        self.gate.not_written(self.at_least_state_time(now));
    }

    /// The later of `now` and the state's time. Otherwise a watcher whose clock is slightly behind could take a deadline
    /// that has passed in the cluster for one that is still ahead.
    fn at_least_state_time(&self, now: Timestamp) -> Timestamp {
        now.max(self.state.at())
    }
}

/// Whether an agent only reports that allocations are pending or running, without a health verdict. Such a change never
/// leads to a step.
pub(crate) fn is_progress_only(change: &AllocsChanged) -> bool {
    let status = change.client.as_ref().map(|(status, _)| status);
    let is_live = matches!(status, Some(ClientStatus::Pending | ClientStatus::Running));
    is_live && !change.by_servers && change.health.is_none() && change.verdicts.is_empty()
}

/// Adds the deployments that a change may affect.
fn add_affected(step: &Step, change: &Change, affected: &mut BTreeSet<DeploymentId>) {
    let (before, state) = (&step.before, &step.after);
    let of_job = |job: &JobKey| {
        let of_job = state.deployments_of_job(job).filter(|deployment| !deployment.status.is_terminal());
        of_job.map(|deployment| deployment.id).collect::<Vec<_>>()
    };
    match change.concern() {
        Concern::Deployments(change) => match change {
            DeploymentChange::Deployment(deployment) => affected.extend([deployment.id]),
            DeploymentChange::DeploymentFields(fields) => affected.extend([fields.id]),
            DeploymentChange::DeploymentsDeleted(ids) => affected.extend(ids),
        },
        Concern::Allocs(change) => match change {
            AllocChange::AllocsPlaced(placements) => affected.extend(placements.common.deployment_id),
            AllocChange::AllocsChanged(changed) if is_progress_only(changed) => {}
            AllocChange::AllocsChanged(changed) => {
                let ids = changed.ids.0.iter();
                let allocs = ids.filter_map(|id| state.alloc(*id).or_else(|| before.alloc(*id)));
                affected.extend(allocs.filter_map(|alloc| alloc.deployment_id()));
            }
            AllocChange::Alloc(alloc) => affected.extend(alloc.common.deployment_id),
            AllocChange::AllocsDeleted(_) => {}
        },
        Concern::Evals(change) => match change {
            // These change which index the scheduler has seen of a job.
            EvalChange::EvalOutcome(eval) => affected.extend(of_job(&eval.job)),
            EvalChange::EvalsChanged(changed) => {
                let evals = changed.ids.iter().filter_map(|id| state.eval(*id).or_else(|| before.eval(*id)));
                affected.extend(evals.flat_map(|eval| of_job(&eval.job)));
            }
            EvalChange::Eval(_) | EvalChange::EvalsDeleted(_) | EvalChange::PlanApplied { .. } => {}
        },
        Concern::Jobs(_)
        | Concern::JobSubmissions(_)
        | Concern::JobSummaries(_)
        | Concern::Nodes(_)
        | Concern::SchedulerConfig(_)
        | Concern::Leases(_)
        | Concern::Unblocked(_)
        | Concern::Small(_) => {}
    }
}
