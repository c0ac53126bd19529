//! [`Work`]: a command while it is judged, as a unit of work: the state with its changes so far, and the consequences that
//! still have to be written.
//!
//! Each change is applied immediately, so that the code that computes a consequence sees everything that led to it. Totals
//! over many changes (summaries, job statuses, deployment counters, freed capacity) are collected and written once, at the
//! end. This file does not depend on any particular command.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::change::{Change, DeploymentProgress, JobSummary, Unblocked};
use model::cluster::Singleton;
use model::deployment::DeploymentStatus;
use model::eval::{EvalTrigger, Evaluation};
use model::job::JobType;
use model::{DeploymentId, Epoch, EvalId, Index, JobKey, NodeId, Text, Timestamp, TraceContext};
use planted_bugs::{Bug, is_planted};
use state::{NodeRef, Stamp, State};
use wire::{Refusal, RefusalKind};

use super::{Inputs, services};

/// A refusal with a message for people.
pub(super) fn refusal(kind: RefusalKind, message: impl Into<Text>) -> Refusal {
    Refusal { kind, message: message.into() }
}

/// A refusal that lists several problems, in the form that clients know (http-api §9.5).
pub(super) fn refusal_of(kind: RefusalKind, problems: &[String]) -> Refusal {
    let mut message = match problems.len() {
        1 => "1 error occurred:".to_owned(),
        count => format!("{count} errors occurred:"),
    };
    problems.iter().for_each(|problem| message.push_str(&format!("\n\t* {problem}")));
    refusal(kind, message + "\n\n")
}

/// A job that something changes, with its new summary.
pub(super) struct TouchedJob {
    /// The create index of its current incarnation.
    pub(super) create_index: Index,
    pub(super) summary: JobSummary,
}

/// A deployment that something changes.
#[derive(Default)]
pub(super) struct TouchedDeployment {
    /// Its new status and the description of that, if the status changes.
    pub(super) status: Option<(DeploymentStatus, Text)>,
    /// The progress of the groups that something changes.
    pub(super) groups: BTreeMap<Text, DeploymentProgress>,
}

/// A command while it is judged.
pub(super) struct Work<'a> {
    inputs: &'a Inputs<'a>,
    state: &'a mut State,
    changes: Vec<Change>,
    /// The evaluations created so far, in order.
    evals: Vec<EvalId>,
    pub(super) jobs: BTreeMap<JobKey, TouchedJob>,
    pub(super) deployments: BTreeMap<DeploymentId, TouchedDeployment>,
    /// Parents that may have room for children that are held back.
    pub(super) parents: BTreeSet<JobKey>,
    unblocked_classes: BTreeSet<Text>,
    unblocked_nodes: BTreeSet<NodeId>,
}

impl<'a> Work<'a> {
    /// Begins on a state. If the command is refused after it has changed something, the state has to be discarded.
    pub(super) fn new(state: &'a mut State, inputs: &'a Inputs<'a>) -> Self {
        debug_assert_eq!(
            inputs.index,
            state.index().next(),
            "the index of a command is the one after the overlay's"
        );
        Self {
            inputs,
            state,
            changes: Vec::new(),
            evals: Vec::new(),
            jobs: BTreeMap::new(),
            deployments: BTreeMap::new(),
            parents: BTreeSet::new(),
            unblocked_classes: BTreeSet::new(),
            unblocked_nodes: BTreeSet::new(),
        }
    }

    /// The state with all changes so far. Its own index is still the previous one.
    pub(super) fn state(&self) -> &State {
        self.state
    }

    pub(super) fn inputs(&self) -> &'a Inputs<'a> {
        self.inputs
    }

    pub(super) fn index(&self) -> Index {
        self.inputs.index
    }

    pub(super) fn at(&self) -> Timestamp {
        self.inputs.at
    }

    /// The trace that the command belongs to.
    pub(super) fn trace(&self) -> Option<TraceContext> {
        self.inputs.trace
    }

    /// Applies a change, and deletes the registrations of services that end with it.
    ///
    /// # Errors
    /// If the change does not fit the state, which is possible only for a command that contradicts itself.
    pub(super) fn apply(&mut self, change: Change) -> Result<(), Refusal> {
        let ended = services::ended_by(self.state, &change);
        self.apply_one(change)?;
        ended.into_iter().try_for_each(|key| self.apply_one(Change::ServiceRegistrationDeleted(key)))
    }

    fn apply_one(&mut self, change: Change) -> Result<(), Refusal> {
        let stamp = self.stamp();
        let applied = self.state.apply_change(&change, stamp);
        // Recorded even if it failed, because the state may have been changed in part.
        self.changes.push(change);
        applied.map_err(|error| refusal(RefusalKind::Invalid, error.to_string()))
    }

    /// Refuses a command from a process that is no longer the active one of its service (`docs/architecture/leases.md`).
    pub(super) fn check_epoch(&self, service: Singleton, epoch: Epoch) -> Result<(), Refusal> {
        let current = self.state.lease(service).map(|lease| lease.epoch);
        if current == Some(epoch) || is_planted(Bug::AcceptsOldEpochs) {
            return Ok(());
        }
        let message = format!("epoch {epoch} of the {service} is not the current one");
        Err(refusal(RefusalKind::Deposed, message))
    }

    /// Creates a pending evaluation of a job and returns its id. `detail` sets fields that not every evaluation has.
    pub(super) fn create_eval(
        &mut self,
        job: &JobKey,
        kind: JobType,
        priority: u16,
        trigger: EvalTrigger,
        detail: impl FnOnce(&mut Evaluation),
    ) -> Result<EvalId, Refusal> {
        let number = u32::try_from(self.evals.len()).expect("a command makes fewer than 2³² evaluations");
        let id = EvalId::derived(self.inputs.request_id, number);
        let mut eval = Evaluation::new(id, job.clone(), kind, priority, trigger);
        eval.job_modify_index = self.state.job(job).map_or(Index::ZERO, |job| job.job_modify_index);
        detail(&mut eval);
        self.evals.push(id);
        self.insert_eval(eval)?;
        Ok(id)
    }

    /// Adds an evaluation that another service has made.
    pub(super) fn insert_eval(&mut self, mut eval: Evaluation) -> Result<(), Refusal> {
        (eval.create_index, eval.create_time) = (self.index(), self.at());
        (eval.modify_index, eval.modify_time) = (self.index(), self.at());
        eval.trace = eval.trace.or(self.inputs.trace);
        self.touch_job(&eval.job);
        self.apply(Change::Eval(Arc::new(eval)))
    }

    /// Marks a job for an update of its summary and status at the end. Returns `None` if the job is not registered.
    pub(super) fn touch_job(&mut self, key: &JobKey) -> Option<&mut TouchedJob> {
        if !self.jobs.contains_key(key) {
            let create_index = self.state().job(key)?.create_index;
            let summary = match self.state().job_summary(key) {
                Some(summary) => JobSummary::clone(summary),
                None => JobSummary {
                    job: key.clone(),
                    groups: Default::default(),
                    children: None,
                    scaling_events: None,
                    create_index: self.index(),
                    modify_index: self.index(),
                },
            };
            self.jobs.insert(key.clone(), TouchedJob { create_index, summary });
        }
        self.jobs.get_mut(key)
    }

    /// Records that a node has more capacity, for which evaluations may be blocked.
    pub(super) fn unblock_node(&mut self, node: NodeId) {
        let Some(class) = self.state.node(node).map(class_of) else { return };
        if is_planted(Bug::ForgetsCapacityGained) {
            return;
        }
        self.unblocked_nodes.insert(node);
        self.unblock_class(class);
    }

    /// Records that nodes of a class have more capacity, whichever nodes they are.
    pub(super) fn unblock_class(&mut self, class: Text) {
        if !class.is_empty() {
            self.unblocked_classes.insert(class);
        }
    }

    /// Whether the command has changed anything so far.
    pub(super) fn has_changed(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Sets the state's own index to that of the command. All changes must have been applied.
    pub(super) fn advance(&mut self) {
        self.state.advance(self.stamp());
    }

    fn stamp(&self) -> Stamp {
        let Inputs { index, at, request_id, .. } = *self.inputs;
        Stamp { index, at, request_id: Some(request_id) }
    }

    /// How many evaluations were created so far.
    pub(super) fn eval_count(&self) -> usize {
        self.evals.len()
    }

    /// Takes the evaluations created so far, in order.
    pub(super) fn take_evals(&mut self) -> Vec<EvalId> {
        std::mem::take(&mut self.evals)
    }

    /// The changes so far.
    pub(super) fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// Writes for which classes and nodes evaluations may be unblocked.
    pub(super) fn write_unblocked(&mut self) -> Result<(), Refusal> {
        let classes = std::mem::take(&mut self.unblocked_classes).into_iter().collect();
        let nodes = std::mem::take(&mut self.unblocked_nodes).into_iter().collect();
        let unblocked = Unblocked { classes, nodes, ..Unblocked::default() };
        if unblocked == Unblocked::default() { Ok(()) } else { self.apply(Change::Unblocked(unblocked)) }
    }
}

/// The computed class of a node.
pub(super) fn class_of(node: NodeRef<'_>) -> Text {
    Text::clone(&node.spec().computed_class)
}
