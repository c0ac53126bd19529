//! A command while it is judged: the state with what it has changed so far, and what must still follow from that.
//!
//! Each change is applied as it is made, so that whoever works out a consequence sees all that led to it. What many
//! changes add up to (summaries, job statuses, deployment counters, room gained) is gathered and written once, at the
//! end. Nothing here knows any command.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::change::{Change, Unblocked};
use model::cluster::Singleton;
use model::eval::{EvalTrigger, Evaluation};
use model::job::JobType;
use model::{DeploymentId, Epoch, EvalId, Index, JobKey, NodeId, Text, Timestamp, TraceContext};
use planted_bugs::{Bug, is_planted};
use state::{NodeRef, Stamp, State};
use wire::command::Done;
use wire::{Refusal, RefusalKind};

use super::Given;
use super::deployments::TouchedDeployment;
use super::jobs::TouchedJob;

/// A refusal, with the sentence that people get.
pub(super) fn refusal(kind: RefusalKind, message: impl Into<Text>) -> Refusal {
    Refusal { kind, message: message.into() }
}

/// A command while it is judged.
pub(super) struct Work<'a> {
    given: &'a Given<'a>,
    state: &'a mut State,
    changes: Vec<Change>,
    /// Evaluations made so far, in the order of their numbers.
    evals: Vec<EvalId>,
    pub(super) jobs: BTreeMap<JobKey, TouchedJob>,
    pub(super) deployments: BTreeMap<DeploymentId, TouchedDeployment>,
    classes_with_room: BTreeSet<Text>,
    nodes_with_room: BTreeSet<NodeId>,
}

impl<'a> Work<'a> {
    /// Begins on a state, which is to be thrown away if the command is refused after all and has changed something.
    pub(super) fn new(state: &'a mut State, given: &'a Given<'a>) -> Self {
        debug_assert_eq!(given.index, state.index().next(), "a command gets the index after the overlay's");
        Self {
            given,
            state,
            changes: Vec::new(),
            evals: Vec::new(),
            jobs: BTreeMap::new(),
            deployments: BTreeMap::new(),
            classes_with_room: BTreeSet::new(),
            nodes_with_room: BTreeSet::new(),
        }
    }

    /// The state with all changes so far; its own index is still the one before.
    pub(super) fn state(&self) -> &State {
        self.state
    }

    pub(super) fn given(&self) -> &'a Given<'a> {
        self.given
    }

    pub(super) fn index(&self) -> Index {
        self.given.index
    }

    pub(super) fn at(&self) -> Timestamp {
        self.given.at
    }

    /// The trace that the command belongs to.
    pub(super) fn trace(&self) -> Option<TraceContext> {
        self.given.trace
    }

    /// Makes a change.
    ///
    /// # Errors
    /// If it does not fit the state, which only a command that contradicts itself can bring about.
    pub(super) fn apply(&mut self, change: Change) -> Result<(), Refusal> {
        let stamp = Stamp { index: self.given.index, at: self.given.at };
        let applied = self.state.apply_change(&change, stamp);
        // Also where it failed: the state may be changed in part.
        self.changes.push(change);
        applied.map_err(|error| refusal(RefusalKind::Invalid, error.to_string()))
    }

    /// Refuses a command of a process that is not the active one of its service any more (design §5).
    pub(super) fn check_epoch(&self, service: Singleton, epoch: Epoch) -> Result<(), Refusal> {
        let current = self.state.lease(service).map(|lease| lease.epoch);
        if current == Some(epoch) || is_planted(Bug::HeedsOldEpochs) {
            return Ok(());
        }
        let message = format!("epoch {epoch} of the {service} is not the current one");
        Err(refusal(RefusalKind::Deposed, message))
    }

    /// Makes a pending evaluation of a job, and says which; `detail` adds what not every one has.
    pub(super) fn make_eval(
        &mut self,
        job: &JobKey,
        kind: JobType,
        priority: u16,
        trigger: EvalTrigger,
        detail: impl FnOnce(&mut Evaluation),
    ) -> Result<EvalId, Refusal> {
        let number = u32::try_from(self.evals.len()).expect("a command makes fewer than 2³² evaluations");
        let id = EvalId::derived(self.given.request_id, number);
        let mut eval = Evaluation::new(id, job.clone(), kind, priority, trigger);
        eval.job_modify_index = self.state.job(job).map_or(Index::ZERO, |job| job.job_modify_index);
        detail(&mut eval);
        self.evals.push(id);
        self.insert_eval(eval)?;
        Ok(id)
    }

    /// Adds an evaluation that somebody else made up.
    pub(super) fn insert_eval(&mut self, mut eval: Evaluation) -> Result<(), Refusal> {
        (eval.create_index, eval.create_time) = (self.index(), self.at());
        (eval.modify_index, eval.modify_time) = (self.index(), self.at());
        eval.trace = eval.trace.or(self.given.trace);
        self.touch_job(&eval.job);
        self.apply(Change::Eval(Arc::new(eval)))
    }

    /// A node can take more than before, for which evaluations may have waited.
    pub(super) fn gain_room(&mut self, node: NodeId) {
        let Some(class) = self.state.node(node).map(class_of) else { return };
        if is_planted(Bug::ForgetsRoomGained) {
            return;
        }
        self.nodes_with_room.insert(node);
        self.gain_room_in_class(class);
    }

    /// Nodes of a class can take more than before, whichever they are.
    pub(super) fn gain_room_in_class(&mut self, class: Text) {
        if !class.is_empty() {
            self.classes_with_room.insert(class);
        }
    }

    /// Writes what all changes together add up to. Answers with `done` and the evaluations made.
    pub(super) fn finish(&mut self, done: Done) -> Result<Done, Refusal> {
        if !self.changes.is_empty() {
            self.write_deployments()?;
            self.write_jobs()?;
            self.write_room()?;
            self.state.advance(Stamp { index: self.given.index, at: self.given.at });
        }
        Ok(Done { evals: std::mem::take(&mut self.evals), ..done })
    }

    /// The changes so far.
    pub(super) fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    fn write_room(&mut self) -> Result<(), Refusal> {
        let classes = std::mem::take(&mut self.classes_with_room).into_iter().collect();
        let nodes = std::mem::take(&mut self.nodes_with_room).into_iter().collect();
        let unblocked = Unblocked { classes, nodes, ..Unblocked::default() };
        if unblocked == Unblocked::default() { Ok(()) } else { self.apply(Change::Unblocked(unblocked)) }
    }
}

/// The computed class of a node.
pub(super) fn class_of(node: NodeRef<'_>) -> Text {
    Text::clone(&node.spec().computed_class)
}
