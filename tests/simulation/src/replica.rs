//! A process's replica: it follows the feed, and reads the log where change sets are missing. Change sets produce the
//! same state everywhere, so replicas share the states that the database holds.

use std::sync::Arc;

use model::Index;
use state::{State, Step};

use crate::messages::{Body, DbReply, Statement, Subject};
use crate::world::{Ctx, World};

/// A replica.
pub(crate) struct Replica {
    /// `None` until the replica is loaded.
    at: Option<Index>,
    reading: Option<u64>,
    /// The newest announced head.
    head: Index,
}

/// How a message changed the replica.
pub(crate) enum Update {
    Nothing,
    /// The replica is loaded.
    Loaded,
    Step(Step),
}

impl Replica {
    pub(crate) fn new() -> Self {
        Self { at: None, reading: None, head: Index::ZERO }
    }

    pub(crate) fn start(&mut self, ctx: &mut Ctx<'_>) {
        ctx.subscribe(Subject::Changes);
        ctx.subscribe(Subject::Head);
        self.read(ctx);
    }

    pub(crate) fn index(&self) -> Option<Index> {
        self.at
    }

    /// Returns the state, once it is loaded.
    pub(crate) fn state<'w>(&self, world: &'w World) -> Option<&'w Arc<State>> {
        self.at.map(|at| world.database.state(at))
    }

    /// Handles a message of the feed.
    pub(crate) fn handle_message(&mut self, body: &Body, ctx: &mut Ctx<'_>) -> Update {
        match body {
            Body::Changes(range) => {
                let Some(at) = self.at else { return Update::Nothing };
                let is_gap = *range.start() > at.0 + 1;
                if is_gap && !planted_bugs::is_planted(planted_bugs::Bug::SkipsMissedChangeSets) {
                    self.read(ctx);
                    return Update::Nothing;
                }
                if is_gap {
                    // The planted bug: the missing change sets are skipped.
                    self.head = Index(*range.end());
                    return Update::Nothing;
                }
                self.advance_to(Index(*range.end()), ctx.world)
            }
            Body::Head(head) => {
                self.head = self.head.max(head.index);
                let is_behind = self.at.is_none_or(|at| at < head.index);
                if is_behind && !planted_bugs::is_planted(planted_bugs::Bug::SkipsMissedChangeSets) {
                    self.read(ctx);
                }
                Update::Nothing
            }
            _ => Update::Nothing,
        }
    }

    /// Handles a reply of the database to a read of this replica.
    pub(crate) fn handle_db_reply(&mut self, call: u64, row: &DbReply, ctx: &mut Ctx<'_>) -> Update {
        if self.reading != Some(call) {
            return Update::Nothing;
        }
        self.reading = None;
        match row {
            DbReply::Head(head) => match self.at {
                Some(_) => self.advance_to(head.index, ctx.world),
                None => {
                    self.at = Some(head.index);
                    Update::Loaded
                }
            },
            _ => {
                self.read(ctx);
                Update::Nothing
            }
        }
    }

    fn read(&mut self, ctx: &mut Ctx<'_>) {
        if self.reading.is_none() {
            self.reading = Some(ctx.database(Statement::ReadHead));
        }
    }

    fn advance_to(&mut self, index: Index, world: &World) -> Update {
        let from = self.at.unwrap_or_default();
        if index <= from {
            return Update::Nothing;
        }
        self.at = Some(index);
        let state = |index| Arc::clone(world.database.state(index));
        let set = |number| {
            let set = world.database.set(Index(number)).expect("only committed change sets are published");
            Arc::clone(set)
        };
        let sets = (from.0 + 1..=index.0).map(set).collect();
        Update::Step(Step::new(state(from), sets, state(index)))
    }
}
