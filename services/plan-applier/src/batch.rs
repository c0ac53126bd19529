//! [`Batch`]: commands that were judged one after the other on the overlay, with their change sets, and the replies to send
//! once these are durable.

use std::sync::Arc;

use model::change::{Cause, Change, ChangeSet};
use model::cluster::Lease;
use model::{Index, RequestId, Timestamp, TraceContext};
use state::{Stamp, State};
use wire::LogRow;
use wire::Refusal;
use wire::command::{Answer, Command, Done};
use wire::feed::Head;

use crate::judge::{self, Inputs, Settings, Verdict, judge};
use crate::queue::Budget;

/// A command with its metadata.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// The id of the request, which all repeats of it share.
    pub id: RequestId,
    /// The trace that the request belongs to.
    pub trace: Option<TraceContext>,
    /// The command.
    pub command: Command,
}

/// The reply to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A command's result, or the confirmation that a lease was renewed.
    Answer(Answer),
    /// The request was refused.
    Refuse(Refusal),
    /// The head.
    Head(Head),
}

/// Results that are committed together. A batch without change sets only needs a check of the epoch.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The state that the batch builds on.
    base: State,
    /// The rows to append to the log.
    pub(crate) rows: Vec<LogRow>,
    /// The same change sets, decoded, for the replica.
    pub(crate) sets: Vec<Arc<ChangeSet>>,
    /// The replies to send once the batch is durable, by request id.
    pub(crate) replies: Vec<(RequestId, Reply)>,
    /// Leases that the batch has just granted.
    pub(crate) leases: Vec<Lease>,
    /// How many more commands and bytes the batch may take.
    pub(crate) budget: Budget,
}

impl Batch {
    /// An empty batch that builds on `overlay`.
    pub(crate) fn on(overlay: &State) -> Self {
        Self {
            base: overlay.clone(),
            rows: Vec::new(),
            sets: Vec::new(),
            replies: Vec::new(),
            leases: Vec::new(),
            budget: Budget::FULL,
        }
    }

    /// The index that the batch builds on.
    pub(crate) fn from(&self) -> Index {
        self.base.index()
    }

    /// Judges a command and adds its result. Returns the size of the change set, 0 if there is none. `time` is the
    /// cluster's time, which never goes back.
    pub(crate) fn add(
        &mut self,
        overlay: &mut State,
        incoming: Incoming,
        time: Timestamp,
        is_live: &dyn Fn(&Lease) -> bool,
        settings: Settings,
    ) -> usize {
        let Incoming { id, trace, command } = incoming;
        let at = time.max(overlay.at());
        let inputs = Inputs { index: overlay.index().next(), at, request_id: id, trace, is_live, settings };
        let rebuild_overlay = || {
            let mut state = self.base.clone();
            self.sets.iter().for_each(|set| {
                state.apply(set).expect("the change set was applied to the same state before")
            });
            state
        };
        let mut written = 0;
        let reply = match judge(overlay, command, &inputs, rebuild_overlay) {
            Verdict::Changed { cause, changes, done } => {
                let answer = Answer::Done(done);
                let result = wire::encode(&answer);
                written = self.write(ChangeSet {
                    index: inputs.index,
                    at,
                    request_id: id,
                    cause,
                    trace,
                    result,
                    changes,
                });
                Reply::Answer(answer)
            }
            Verdict::Unchanged(done) => Reply::Answer(Answer::Done(done)),
            Verdict::Refused(refusal) => Reply::Refuse(refusal),
        };
        self.replies.push((id, reply));
        written
    }

    /// Adds the objects that every cluster begins with, unless they exist.
    pub(crate) fn bootstrap(&mut self, overlay: &mut State, id: RequestId, time: Timestamp) {
        let Some(changes) = judge::bootstrap(overlay) else { return };
        let index = overlay.index().next();
        let at = time.max(overlay.at());
        let stamp = Stamp { index, at, request_id: Some(id) };
        for change in &changes {
            overlay.apply_change(change, stamp).expect("the bootstrap changes depend on no other objects");
        }
        overlay.advance(stamp);
        let result = wire::encode(&Answer::Done(Done { index, written: true, ..Done::default() }));
        let cause = Cause::Settings;
        self.write(ChangeSet { index, at, request_id: id, cause, trace: None, result, changes });
    }

    /// Adds a change set. Returns its size.
    fn write(&mut self, set: ChangeSet) -> usize {
        let leases = set.changes.iter().filter_map(|change| {
            let Change::Lease(lease) = change else { return None };
            Some(*lease)
        });
        self.leases.extend(leases);
        let row = LogRow::new(&set);
        let bytes = row.bytes.len();
        self.rows.push(row);
        self.sets.push(Arc::new(set));
        bytes
    }

    /// Whether there is nothing to write and nothing to reply.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.replies.is_empty()
    }
}
