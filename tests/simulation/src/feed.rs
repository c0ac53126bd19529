//! A process's replica: follows what is published, and reads the log where something is missing. Since a change set makes
//! the same state everywhere, replicas share the states that the database has.

use std::sync::Arc;

use model::Index;
use state::{State, Step};

use crate::messages::{Body, Row, Statement, Subject};
use crate::world::{Ctx, World};

/// A replica.
pub(crate) struct Feed {
    /// `None` before it is loaded.
    at: Option<Index>,
    reading: Option<u64>,
    /// The head that was heard of last.
    head: Index,
}

/// What the replica learned.
pub(crate) enum Learned {
    Nothing,
    /// It is loaded.
    Loaded,
    Step(Step),
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self { at: None, reading: None, head: Index::ZERO }
    }

    pub(crate) fn start(&mut self, ctx: &mut Ctx<'_>) {
        ctx.serve(Subject::Changes);
        ctx.serve(Subject::Head);
        self.read(ctx);
    }

    pub(crate) fn index(&self) -> Option<Index> {
        self.at
    }

    /// The state, once it is loaded.
    pub(crate) fn state<'w>(&self, world: &'w World) -> Option<&'w Arc<State>> {
        self.at.map(|at| world.database.state(at))
    }

    /// Takes in what was published.
    pub(crate) fn hear(&mut self, body: &Body, ctx: &mut Ctx<'_>) -> Learned {
        match body {
            Body::Changes(range) => {
                let Some(at) = self.at else { return Learned::Nothing };
                let is_gap = *range.start() > at.0 + 1;
                if is_gap && !planted_bugs::is_planted(planted_bugs::Bug::PassesOverGaps) {
                    self.read(ctx);
                    return Learned::Nothing;
                }
                if is_gap {
                    // What is missing stays missing.
                    self.head = Index(*range.end());
                    return Learned::Nothing;
                }
                self.go_to(Index(*range.end()), ctx.world)
            }
            Body::Head(head) => {
                self.head = self.head.max(head.index);
                let is_behind = self.at.is_none_or(|at| at < head.index);
                if is_behind && !planted_bugs::is_planted(planted_bugs::Bug::PassesOverGaps) {
                    self.read(ctx);
                }
                Learned::Nothing
            }
            _ => Learned::Nothing,
        }
    }

    /// Takes in what the database says, if the replica asked for it.
    pub(crate) fn read_row(&mut self, call: u64, row: &Row, ctx: &mut Ctx<'_>) -> Learned {
        if self.reading != Some(call) {
            return Learned::Nothing;
        }
        self.reading = None;
        match row {
            Row::Head(head) => match self.at {
                Some(_) => self.go_to(head.index, ctx.world),
                None => {
                    self.at = Some(head.index);
                    Learned::Loaded
                }
            },
            _ => {
                self.read(ctx);
                Learned::Nothing
            }
        }
    }

    fn read(&mut self, ctx: &mut Ctx<'_>) {
        if self.reading.is_none() {
            self.reading = Some(ctx.database(Statement::Log));
        }
    }

    fn go_to(&mut self, index: Index, world: &World) -> Learned {
        let from = self.at.unwrap_or_default();
        if index <= from {
            return Learned::Nothing;
        }
        self.at = Some(index);
        let state = |index| Arc::clone(world.database.state(index));
        let set = |number| {
            let set = world.database.set(Index(number)).expect("only what is committed is published");
            Arc::clone(set)
        };
        let sets = (from.0 + 1..=index.0).map(set).collect();
        Learned::Step(Step::new(state(from), sets, state(index)))
    }
}
