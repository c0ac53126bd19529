//! [`Watcher`]: when to look at which deployment, and what to have written of it.
//!
//! Pure: change sets and moments in, commands out. It reconciles rather than reacts: whatever happened to a deployment, it
//! is looked at anew, so that a watcher that takes over finds what the one before would have found. Nothing is lost with
//! it.

use std::collections::BTreeSet;

use bus::WriteTurn;
use model::alloc::ClientStatus;
use model::change::{AllocsChanged, Change};
use model::{DeploymentId, Epoch, Index, JobKey, Nanos, Timestamp, TraceContext};
use state::{Snapshot, Step};
use wire::command::{DeploymentFinding, UpdateDeployments};

use crate::agenda::Agenda;
use crate::rollout::{Look, look};

/// The most deployments that one command speaks of.
const FINDINGS_MAX: usize = 256;
/// How long something that was found, and passed over by the applier, waits until it is said again.
const REPEAT_AFTER: Nanos = Nanos::SECOND;

/// What a watcher goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    /// How long what happens to a deployment is gathered before it is looked at. N-14.8 gathers for a second, and 250 ms
    /// more.
    pub(crate) gather: Nanos,
}

/// Which deployments go on, and when each is to be looked at.
#[derive(Debug)]
pub(crate) struct Watcher {
    settings: Settings,
    state: Snapshot,
    /// When deployments are to be looked at: something happened to them, or should have by then.
    agenda: Agenda,
    turn: WriteTurn,
}

impl Watcher {
    /// Takes up what `state` holds.
    pub(crate) fn restore(settings: Settings, state: Snapshot, now: Timestamp) -> Self {
        let active = state.deployments().filter(|deployment| !deployment.status.is_terminal());
        let mut agenda = Agenda::default();
        active.for_each(|deployment| agenda.add(deployment.id, now));
        Self { settings, state, agenda, turn: WriteTurn::default() }
    }

    /// Moves along.
    pub(crate) fn step(&mut self, step: &Step, now: Timestamp) {
        self.state = step.after.clone();
        self.turn.saw(self.state.index());
        let due = self.at_least_the_clusters(now) + self.settings.gather;
        let mut touched = BTreeSet::new();
        step.changes().for_each(|change| touch(step, change, &mut touched));
        for id in touched {
            self.look_at(id, due);
        }
    }

    /// Has a deployment looked at no later than `due`; one that is over is let go.
    fn look_at(&mut self, id: DeploymentId, due: Timestamp) {
        if self.state.deployment(id).is_none_or(|deployment| deployment.status.is_terminal()) {
            return self.agenda.remove(id);
        }
        self.agenda.add(id, due);
    }

    /// How many deployments are to be looked at, now or later.
    pub(crate) fn watched(&self) -> usize {
        self.agenda.len()
    }

    /// When [`Self::next_write`] next has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        let (from, due) = (self.turn.from()?, self.agenda.first()?);
        Some(from.max(due))
    }

    /// Looks at what is due: what is to be written down now, if anything. Until [`Self::written`] or
    /// [`Self::not_written`] is called, nothing else is.
    pub(crate) fn next_write(&mut self, epoch: Epoch, now: Timestamp) -> Option<UpdateDeployments> {
        let now = self.at_least_the_clusters(now);
        if self.turn.from().is_none_or(|from| now < from) {
            return None;
        }
        let (mut findings, mut again) = (Vec::new(), Vec::new());
        while findings.len() < FINDINGS_MAX
            && let Some(id) = self.agenda.pop(now)
        {
            let Some(deployment) = self.state.deployment(id) else { continue };
            let Look { step, deadline } = look(&self.state, deployment, now);
            // What was found should change the deployment; if it does not, the applier knew better, and it is looked at
            // again in case it goes on.
            let due = if step.is_some() { Some(now + REPEAT_AFTER) } else { deadline };
            again.extend(due.map(|due| (id, due)));
            findings.extend(step.map(|step| DeploymentFinding { id, step }));
        }
        again.into_iter().for_each(|(id, due)| self.agenda.add(id, due));
        if findings.is_empty() {
            return None;
        }
        self.turn.begin();
        Some(UpdateDeployments { epoch, findings })
    }

    /// The trace in which a deployment began.
    pub(crate) fn trace_of(&self, id: DeploymentId) -> Option<TraceContext> {
        self.state.deployment(id)?.trace
    }

    /// The command was carried out at `index`.
    pub(crate) fn written(&mut self, index: Index) {
        self.turn.written(index, self.state.index());
    }

    /// Whether the command was carried out is not known, or it was not.
    pub(crate) fn not_written(&mut self, now: Timestamp) {
        self.turn.not_written(self.at_least_the_clusters(now));
    }

    /// A watcher whose clock is a little behind must not find something *not yet due* that the cluster knows to be.
    fn at_least_the_clusters(&self, now: Timestamp) -> Timestamp {
        now.max(self.state.at())
    }
}

/// Whether an agent only says of allocations that they run, or will: of that nothing comes yet.
fn says_little(change: &AllocsChanged) -> bool {
    let status = change.client.as_ref().map(|(status, _)| status);
    let is_live = matches!(status, Some(ClientStatus::Pending | ClientStatus::Running));
    is_live && !change.by_servers && change.health.is_none() && change.verdicts.is_empty()
}

/// Adds the deployments that a change has to do with.
fn touch(step: &Step, change: &Change, touched: &mut BTreeSet<DeploymentId>) {
    let (before, state) = (&step.before, &step.after);
    let of_job = |job: &JobKey| {
        let of_job = state.deployments_of_job(job).filter(|deployment| !deployment.status.is_terminal());
        of_job.map(|deployment| deployment.id).collect::<Vec<_>>()
    };
    match change {
        Change::Deployment(deployment) => touched.extend([deployment.id]),
        Change::DeploymentFields(fields) => touched.extend([fields.id]),
        Change::DeploymentsDeleted(ids) => touched.extend(ids),
        Change::AllocsPlaced(placements) => touched.extend(placements.common.deployment_id),
        Change::AllocsChanged(change) if says_little(change) => {}
        Change::AllocsChanged(change) => {
            let ids = change.ids.0.iter();
            let allocs = ids.filter_map(|id| state.alloc(*id).or_else(|| before.alloc(*id)));
            touched.extend(allocs.filter_map(|alloc| alloc.deployment_id()));
        }
        Change::Alloc(alloc) => touched.extend(alloc.common.deployment_id),
        // What a scheduler has seen, or will not see after all.
        Change::EvalOutcome(eval) => touched.extend(of_job(&eval.job)),
        Change::EvalsChanged(change) => {
            let evals = change.ids.iter().filter_map(|id| state.eval(*id).or_else(|| before.eval(*id)));
            touched.extend(evals.flat_map(|eval| of_job(&eval.job)));
        }
        Change::Eval(_)
        | Change::EvalsDeleted(_)
        | Change::PlanApplied { .. }
        | Change::Job(_)
        | Change::JobFields(_)
        | Change::JobDeleted(_)
        | Change::JobVersionsDeleted(_)
        | Change::JobSubmission(_)
        | Change::JobSubmissionCopied { .. }
        | Change::JobSubmissionsDeleted(_)
        | Change::JobSummary(_)
        | Change::Node(_)
        | Change::NodeServerSide { .. }
        | Change::NodesChanged(_)
        | Change::NodesDeleted(_)
        | Change::AllocsDeleted(_)
        | Change::SchedulerConfig(_)
        | Change::NodePool(_)
        | Change::NodePoolDeleted(_)
        | Change::Namespace(_)
        | Change::NamespaceDeleted(_)
        | Change::HostVolume(_)
        | Change::HostVolumeDeleted(_)
        | Change::CsiVolume(_)
        | Change::CsiVolumeDeleted(_)
        | Change::VolumeClaim(_)
        | Change::VolumeClaimDeleted(_)
        | Change::RootKey(_)
        | Change::Lease(_)
        | Change::Unblocked(_)
        | Change::UnblockedForgotten(_) => {}
    }
}
