//! A process's replica, as `bus::feed` keeps it: it follows the feed, reads the log where change sets are missing, and
//! reports a database that lacks what it has. Its decisions are those of [`Continuity`]. Change sets produce the same
//! state everywhere, so replicas share the states that the database has made.

use std::sync::Arc;

use bus::continuity::{Continues, Continuity};
use model::{Index, Nanos, RequestId, Timestamp};
use planted_bugs::{Bug, is_planted};
use state::{State, Step};
use wire::feed::{Committer, Head, LostWrites};

use crate::messages::{Body, DbReply, Run, Statement, Subject};
use crate::world::Ctx;

/// How long an announcement keeps those of older epochs from being believed.
const NEWER_EPOCH_HOLDS: Nanos = Nanos::from_secs(3);

/// A replica.
pub(crate) struct Replica {
    /// `None` until the replica is loaded.
    state: Option<Arc<State>>,
    continuity: Continuity,
    reading: Option<(u64, Reading)>,
    /// The last announcement that was believed, and when it was received.
    heard: Option<(Head, Nanos)>,
    /// Whether the applier's database lacks what the replica has.
    has_lost: bool,
    /// Whether the process tells the applier of that.
    reports_losses: bool,
    /// Whether [`Update::Loaded`] was returned.
    is_ready: bool,
}

/// What is being read from the database.
#[derive(Debug, Clone, Copy)]
enum Reading {
    /// The state. The replica is at this index when the read begins.
    State(Index),
    /// The change sets after an index, at which the replica has this request.
    After(Index, Option<RequestId>),
}

/// How a message changed the replica.
pub(crate) enum Update {
    Nothing,
    /// The replica is loaded, and the cluster's time is known.
    Loaded,
    Step(Step),
    /// The state was replaced with that of another history.
    Reset,
}

impl Replica {
    pub(crate) fn new(reports_losses: bool) -> Self {
        Self {
            state: None,
            continuity: Continuity::default(),
            reading: None,
            heard: None,
            has_lost: false,
            reports_losses,
            is_ready: false,
        }
    }

    pub(crate) fn start(&mut self, ctx: &mut Ctx<'_>) {
        ctx.subscribe(Subject::Changes);
        ctx.subscribe(Subject::Head);
        self.load(ctx);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether the applier's database lacks what the replica has.
    pub(crate) fn has_lost(&self) -> bool {
        self.has_lost
    }

    pub(crate) fn index(&self) -> Option<Index> {
        self.state().map(|state| state.index())
    }

    /// The state, once it is loaded.
    pub(crate) fn state(&self) -> Option<&Arc<State>> {
        self.state.as_ref()
    }

    /// The cluster's time: that of the last announcement, and the time since.
    pub(crate) fn cluster_now(&self, ctx: &Ctx<'_>) -> Timestamp {
        let advanced = |(head, at): (Head, Nanos)| head.at + Nanos(ctx.world.now.0 - at.0);
        self.heard.map_or_else(|| ctx.wall(), advanced)
    }

    /// Handles a message of the feed.
    pub(crate) fn handle_message(&mut self, body: &Body, ctx: &mut Ctx<'_>) -> Update {
        match body {
            Body::Changes(by, run) => self.receive(*by, run, ctx),
            Body::Head(head) => self.compare(*head, ctx),
            _ => Update::Nothing,
        }
    }

    fn receive(&mut self, by: Option<Committer>, run: &Run, ctx: &mut Ctx<'_>) -> Update {
        let Some(state) = self.state.clone() else { return Update::Nothing };
        if state.history() != run.history {
            self.load(ctx);
            return Update::Nothing;
        }
        if self.check(by, ctx) != Continues::Yes || self.has_lost {
            return Update::Nothing;
        }
        if run.first > state.index().next() {
            if !is_planted(Bug::SkipsMissedChangeSets) {
                self.read_on(ctx);
            }
            return Update::Nothing;
        }
        if run.first == state.index().next()
            && let Some(by) = by
        {
            let (index, last) = (state.index(), state.last_request());
            match self.continuity.check_next(run.history, by, index, last, run.previous) {
                Continues::Yes => {}
                Continues::Stale | Continues::Unknown => {
                    self.load(ctx);
                    return Update::Nothing;
                }
                Continues::Lacks(lost) => {
                    self.report(lost, ctx);
                    return Update::Nothing;
                }
            }
        }
        let last = Index(run.first.0 + run.sets.len() as u64 - 1);
        let update = self.apply(run, ctx);
        if let Some(by) = by {
            self.continuity.holds(run.history, last, by);
        }
        update
    }

    /// Compares the replica with an announced head.
    fn compare(&mut self, head: Head, ctx: &mut Ctx<'_>) -> Update {
        let now = ctx.world.now;
        let is_deposed = self.heard.is_some_and(|(known, at)| {
            known.history == head.history && known.epoch > head.epoch && now.0 - at.0 < NEWER_EPOCH_HOLDS.0
        });
        if is_deposed {
            return Update::Nothing;
        }
        self.heard = Some((head, now));
        let Some(state) = self.state.clone() else { return Update::Nothing };
        if state.history() != head.history {
            self.load(ctx);
            return self.ready();
        }
        match self.check(head.committer(), ctx) {
            Continues::Yes if self.has_lost => self.read_on(ctx),
            Continues::Yes => {
                if let Some(by) = head.committer() {
                    self.continuity.announced(by);
                }
                if state.index() < head.index && !is_planted(Bug::SkipsMissedChangeSets) {
                    self.read_on(ctx);
                }
            }
            Continues::Unknown => self.read_on(ctx),
            Continues::Stale | Continues::Lacks(_) => {}
        }
        self.ready()
    }

    /// How what an applier commits to the replica's history relates to the replica. Reports it if it lacks something.
    fn check(&mut self, by: Option<Committer>, ctx: &mut Ctx<'_>) -> Continues {
        let Some(state) = &self.state else { return Continues::Yes };
        let history = state.history();
        let newest = self.heard.filter(|(head, _)| head.history == history).map(|(head, _)| head.epoch);
        let continues = self.continuity.check(history, by, newest);
        if let Continues::Lacks(lost) = continues {
            self.report(lost, ctx);
        }
        continues
    }

    fn report(&mut self, lost: LostWrites, ctx: &mut Ctx<'_>) {
        self.has_lost = true;
        if let Some(state) = self.state.as_ref().filter(|_| self.reports_losses) {
            let lost = LostWrites { index: state.index(), request: state.last_request(), ..lost };
            ctx.publish(Subject::LostWrites, Body::LostWrites(lost));
        }
    }

    /// Handles a reply of the database to a read of this replica.
    pub(crate) fn handle_db_reply(&mut self, call: u64, reply: &DbReply, ctx: &mut Ctx<'_>) -> Update {
        let Some((_, reading)) = self.reading.filter(|(known, _)| *known == call) else {
            return Update::Nothing;
        };
        self.reading = None;
        match (reading, reply) {
            (Reading::State(before), DbReply::Loaded(head, state, _)) => {
                self.loaded(head, before, state, ctx)
            }
            (Reading::After(index, last), DbReply::Run(head, run)) => {
                self.read_run(head, index, last, run, ctx)
            }
            (Reading::After(..), DbReply::NotReached) if self.has_lost => Update::Nothing,
            (Reading::After(..), DbReply::NotReached) => {
                self.load(ctx);
                Update::Nothing
            }
            (Reading::State(_), _) => {
                self.load(ctx);
                Update::Nothing
            }
            (Reading::After(..), _) => {
                self.read_on(ctx);
                Update::Nothing
            }
        }
    }

    fn loaded(&mut self, head: &Head, before: Index, loaded: &Arc<State>, ctx: &mut Ctx<'_>) -> Update {
        let Some(state) = self.state.clone() else {
            self.state = Some(Arc::clone(loaded));
            self.continuity.read(loaded.index(), head);
            return self.ready();
        };
        let continues = self.continuity.check_loaded(head, state.history(), before);
        if let Continues::Lacks(lost) = continues {
            self.report(lost, ctx);
            return Update::Nothing;
        }
        let is_another_history = loaded.history() != state.history();
        if !is_another_history && (self.has_lost || loaded.index() <= state.index()) {
            return Update::Nothing;
        }
        self.has_lost = false;
        self.state = Some(Arc::clone(loaded));
        self.continuity.read(loaded.index(), head);
        Update::Reset
    }

    fn read_run(
        &mut self,
        head: &Head,
        index: Index,
        last: Option<RequestId>,
        run: &Run,
        ctx: &mut Ctx<'_>,
    ) -> Update {
        if self.state.as_ref().is_some_and(|state| state.history() != run.history) {
            self.load(ctx);
            return Update::Nothing;
        }
        if self.state.as_ref().is_some_and(|state| (state.index(), state.last_request()) != (index, last)) {
            // The feed was faster. Only a page that begins where the replica is shows whether the log continues it.
            self.read_on(ctx);
            return Update::Nothing;
        }
        match self.continuity.check_page(head, index, last, run.previous) {
            Continues::Yes => {
                self.has_lost = false;
                let update = self.apply(run, ctx);
                self.continuity.read(Index(index.0 + run.sets.len() as u64), head);
                update
            }
            Continues::Lacks(lost) => {
                self.report(lost, ctx);
                Update::Nothing
            }
            Continues::Stale | Continues::Unknown => {
                if !self.has_lost {
                    self.load(ctx);
                }
                Update::Nothing
            }
        }
    }

    /// Applies those change sets that the replica does not have. They must continue it.
    fn apply(&mut self, run: &Run, ctx: &mut Ctx<'_>) -> Update {
        let Some(state) = self.state.clone() else { return Update::Nothing };
        let skipped = (state.index().0 + 1).checked_sub(run.first.0).map(|skipped| skipped as usize);
        let Some((skipped, new)) = skipped.and_then(|skipped| Some((skipped, run.sets.get(skipped..)?)))
        else {
            return Update::Nothing;
        };
        let Some((_, after)) = new.last() else { return Update::Nothing };
        let previous = match skipped.checked_sub(1) {
            Some(before) => Some(run.sets[before].0.request_id),
            None => run.previous,
        };
        if state.index().is_set() && state.last_request() != previous {
            let index = state.index();
            ctx.world.checks.record_violation(format!("a replica mixed two histories after index {index}"));
            return Update::Nothing;
        }
        let after = Arc::clone(after);
        self.state = Some(Arc::clone(&after));
        Update::Step(Step::new(state, new.iter().map(|(set, _)| Arc::clone(set)).collect(), after))
    }

    /// Loads the state of the database.
    fn load(&mut self, ctx: &mut Ctx<'_>) {
        self.read(Reading::State(self.index().unwrap_or_default()), ctx);
    }

    /// Reads what follows the replica's last change set.
    fn read_on(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(state) = &self.state {
            self.read(Reading::After(state.index(), state.last_request()), ctx);
        }
    }

    fn read(&mut self, reading: Reading, ctx: &mut Ctx<'_>) {
        if self.reading.is_none() {
            let statement = match reading {
                Reading::State(_) => Statement::Load,
                Reading::After(index, _) => Statement::ReadAfter(index),
            };
            self.reading = Some((ctx.database(statement), reading));
        }
    }

    /// Whether the replica can be used from now on.
    fn ready(&mut self) -> Update {
        let is_new = !self.is_ready && self.state.is_some() && self.heard.is_some();
        self.is_ready |= is_new;
        if is_new { Update::Loaded } else { Update::Nothing }
    }
}
