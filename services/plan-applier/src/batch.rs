//! Commands judged one after the other on the overlay, and what is to be said once they are durable.

use std::sync::Arc;

use model::change::{Cause, Change, ChangeSet};
use model::cluster::Lease;
use model::{Index, RequestId, Timestamp, TraceContext};
use state::{Stamp, State};
use store::LogRow;
use wire::Refusal;
use wire::command::{Answer, Command, Done};
use wire::feed::Head;

use crate::judge::{self, Given, Verdict, judge};
use crate::queue::Room;

/// A command with what came along with it.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// The id of the request, which all repeats of it have.
    pub id: RequestId,
    /// What it is a part of.
    pub trace: Option<TraceContext>,
    /// The command.
    pub command: Command,
}

/// What is said to whoever asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A command's own answer, or that a lease was renewed.
    Answer(Answer),
    /// It was refused.
    Refuse(Refusal),
    /// Where the head is.
    Head(Head),
}

/// What is committed together, or needs a check of the epoch together where nothing is written.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The state that it builds on.
    base: State,
    /// What the log gets.
    pub(crate) rows: Vec<LogRow>,
    /// The same for the replica.
    pub(crate) sets: Vec<Arc<ChangeSet>>,
    /// What is said to whom once it is durable.
    pub(crate) replies: Vec<(RequestId, Reply)>,
    /// Leases that have just changed hands in it.
    pub(crate) leases: Vec<Lease>,
    /// How much more it takes.
    pub(crate) room: Room,
}

impl Batch {
    /// An empty one that builds on `overlay`.
    pub(crate) fn on(overlay: &State) -> Self {
        Self {
            base: overlay.clone(),
            rows: Vec::new(),
            sets: Vec::new(),
            replies: Vec::new(),
            leases: Vec::new(),
            room: Room::ALL,
        }
    }

    /// The index that it builds on.
    pub(crate) fn from(&self) -> Index {
        self.base.index()
    }

    /// Judges a command and notes what comes of it. `wall` is the machine's clock; the cluster's never goes back.
    pub(crate) fn add(
        &mut self,
        overlay: &mut State,
        incoming: Incoming,
        wall: Timestamp,
        is_live: &dyn Fn(&Lease) -> bool,
    ) {
        let Incoming { id, trace, command } = incoming;
        let at = wall.max(overlay.at());
        let given = Given { index: overlay.index().next(), at, request_id: id, trace, live: is_live };
        let as_it_was = || {
            let mut state = self.base.clone();
            self.sets.iter().for_each(|set| state.apply(set).expect("it was applied to this state before"));
            state
        };
        let reply = match judge(overlay, command, &given, as_it_was) {
            Verdict::Changed { cause, changes, done } => {
                let answer = Answer::Done(done);
                let result = wire::encode(&answer);
                self.write(ChangeSet {
                    index: given.index,
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
    }

    /// What a cluster begins with, if it has not begun.
    pub(crate) fn bootstrap(&mut self, overlay: &mut State, id: RequestId, wall: Timestamp) {
        let Some(changes) = judge::bootstrap(overlay) else { return };
        let index = overlay.index().next();
        let at = wall.max(overlay.at());
        let stamp = Stamp { index, at };
        for change in &changes {
            overlay.apply_change(change, stamp).expect("a cluster's beginnings rest on nothing");
        }
        overlay.advance(stamp);
        let result = wire::encode(&Answer::Done(Done { index, written: true, ..Done::default() }));
        let cause = Cause::Settings;
        self.write(ChangeSet { index, at, request_id: id, cause, trace: None, result, changes });
    }

    fn write(&mut self, set: ChangeSet) {
        let leases = set.changes.iter().filter_map(|change| {
            let Change::Lease(lease) = change else { return None };
            Some(*lease)
        });
        self.leases.extend(leases);
        self.rows.push(LogRow::new(&set));
        self.sets.push(Arc::new(set));
    }

    /// Whether nothing is to be said or written.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.replies.is_empty()
    }
}
