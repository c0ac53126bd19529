//! A process of the plan applier: [`Applier`], with messages and database around it as in `plan_applier::active` and
//! `standby`.

use std::collections::BTreeMap;

use model::{Epoch, Nanos, ProcessId, Timestamp};
use plan_applier::applier::{Applier, Ended, Fate, Question, Received, Write};
use plan_applier::{Incoming, Remembered, Reply as Verdict};
use state::State;
use std::time::Duration;

use crate::messages::{Address, Asked, Body, Input, Reply, Row, Statement, Subject, Timer};
use crate::world::{Ctx, Disk, Process};

const LOOK: Nanos = Nanos(250 * Nanos::MILLISECOND.0);
const PROBE: Nanos = Nanos(200 * Nanos::MILLISECOND.0);
const PROBES: u32 = 2;
const BEAT: Nanos = Nanos(330 * Nanos::MILLISECOND.0);
/// How long those who ask wait.
const PATIENCE: Duration = Duration::from_secs(5);
/// What only the active one listens to.
const SUBJECTS: [Subject; 4] = [Subject::Command, Subject::Lease, Subject::AskHead, Subject::Probe];

/// The process.
pub(crate) struct ApplierProcess {
    id: ProcessId,
    unanswered: u32,
    taking: Option<u64>,
    probing: Option<u64>,
    loading: Option<(u64, Epoch)>,
    active: Option<Active>,
}

struct Active {
    epoch: Epoch,
    applier: Applier<Option<Address>>,
    writing: Option<u64>,
    /// Repeats whose answers are read from the log.
    looked_up: BTreeMap<u64, Option<Address>>,
}

impl ApplierProcess {
    pub(crate) fn new(id: ProcessId) -> Self {
        Self { id, unanswered: 0, taking: None, probing: None, loading: None, active: None }
    }

    fn row(&mut self, call: u64, row: Row, ctx: &mut Ctx<'_>) {
        if self.taking == Some(call) {
            self.taking = None;
            match row {
                Row::Taken(head) => {
                    self.loading = Some((ctx.database(Statement::Load), head.epoch));
                }
                Row::Held(by) if by == self.id => self.unanswered = PROBES,
                Row::Held(_) => self.probing = Some(ctx.request(Subject::Probe, Body::Probe, PROBE)),
                _ => {}
            }
        } else if let Some((_, epoch)) = self.loading.filter(|(known, _)| *known == call) {
            self.loading = None;
            if let Row::Loaded(head, state, requests) = row
                && head.epoch == epoch
            {
                let remembered = Remembered::new(Timestamp::UNSET, requests);
                let applier = Applier::new(head, State::clone(&state), remembered, ctx.monotonic());
                self.begin(epoch, applier, ctx);
            }
        } else if let Some(active) = &mut self.active {
            if active.writing == Some(call) {
                active.writing = None;
                self.written(row, ctx);
            } else if let Some(to) = active.looked_up.remove(&call)
                && let Row::Answer(Some(answer)) = row
            {
                ctx.answer(to, Reply::Verdict(Verdict::Answer(answer)));
            }
        }
    }

    fn begin(&mut self, epoch: Epoch, mut applier: Applier<Option<Address>>, ctx: &mut Ctx<'_>) {
        let id = ctx.request_id();
        applier.bootstrap(id, ctx.wall());
        self.active = Some(Active { epoch, applier, writing: None, looked_up: BTreeMap::new() });
        SUBJECTS.into_iter().for_each(|subject| ctx.serve(subject));
        ctx.timer(Nanos::ZERO, Timer::Beat);
    }

    fn written(&mut self, row: Row, ctx: &mut Ctx<'_>) {
        let Some(active) = &mut self.active else { return };
        let fate = match row {
            Row::Done => Fate::Done,
            Row::Deposed => Fate::Deposed,
            Row::Lost => Fate::Unknown,
            _ => Fate::Failed,
        };
        match active.applier.written(fate, ctx.monotonic(), ctx.wall()) {
            Ended::Durable { rows, said, .. } => {
                for row in &rows {
                    let durable = ctx.world.database.set(row.index).map(|set| set.request_id);
                    if durable != Some(row.request_id) {
                        ctx.world
                            .checks
                            .violated(format!("index {} was published and not committed", row.index));
                        return;
                    }
                }
                if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
                    ctx.publish(Subject::Changes, Body::Changes(first.index.0..=last.index.0));
                }
                say(said, ctx);
            }
            Ended::Failed(said) => say(said, ctx),
            Ended::Deposed => self.retire(ctx),
        }
    }

    fn retire(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(mut active) = self.active.take() {
            say(active.applier.send_everybody_away(), ctx);
        }
        SUBJECTS.into_iter().for_each(|subject| ctx.leave(subject));
        self.unanswered = 0;
    }

    fn asked(&mut self, Asked { from, body }: Asked, ctx: &mut Ctx<'_>) {
        let Some(active) = &mut self.active else { return };
        let until = ctx.monotonic() + PATIENCE;
        match body {
            Body::Command(id, command) => {
                match active.applier.receive(Incoming { id, trace: None, command }, 100, from, until) {
                    Received::Waits => {}
                    Received::Committed(to, index) => {
                        active.looked_up.insert(ctx.database(Statement::AnswerAt(index)), to);
                    }
                    Received::Turned(to, reply) => ctx.answer(to, Reply::Verdict(reply)),
                }
            }
            Body::Renew(renew) => active.applier.ask(Question::Renew(renew), from, until),
            Body::AskHead if planted_bugs::is_planted(planted_bugs::Bug::ReadsFromMemory) => {
                let head = active.applier.head(ctx.wall());
                ctx.answer(from, Reply::Verdict(Verdict::Head(head)));
            }
            Body::AskHead => active.applier.ask(Question::Head, from, until),
            Body::Probe => ctx.answer(from, Reply::Probed),
            _ => {}
        }
    }

    /// After anything has happened: judges, and writes.
    fn carry_on(&mut self, ctx: &mut Ctx<'_>) {
        let Some(active) = &mut self.active else { return };
        active.applier.judge(ctx.monotonic(), ctx.wall());
        let epoch = active.epoch;
        if let Some(write) = active.applier.next_write(ctx.monotonic()) {
            let statement = match write {
                Write::Commit(from, rows) => Statement::Commit { epoch, from, rows },
                Write::FindOut(from, rows) => Statement::FindOut { epoch, from, rows },
                Write::Renew => Statement::Renew(epoch),
                Write::Confirm => Statement::Confirm(epoch),
            };
            active.writing = Some(ctx.database(statement));
        } else if let Some(at) = active.applier.poll_timeout() {
            let wait = at.saturating_duration_since(ctx.monotonic());
            ctx.timer(Nanos(i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX)), Timer::Task(0));
        }
    }
}

fn say(said: Vec<(Option<Address>, Verdict)>, ctx: &mut Ctx<'_>) {
    for (to, reply) in said {
        ctx.answer(to, Reply::Verdict(reply));
    }
}

impl Process for ApplierProcess {
    fn handle(&mut self, input: Input, ctx: &mut Ctx<'_>) {
        match input {
            Input::Start => ctx.timer(Nanos::ZERO, Timer::Look),
            Input::Timer(Timer::Look) => {
                ctx.timer(LOOK, Timer::Look);
                if self.active.is_none() && self.taking.is_none() && self.loading.is_none() {
                    let force = self.unanswered >= PROBES;
                    self.taking = Some(ctx.database(Statement::Take { process: self.id, force }));
                }
            }
            Input::Timer(Timer::Beat) => {
                if let Some(active) = &mut self.active {
                    active.applier.renew();
                    let head = active.applier.head(ctx.wall());
                    ctx.publish(Subject::Head, Body::Head(head));
                    ctx.timer(BEAT, Timer::Beat);
                }
            }
            Input::Timer(_) => {}
            Input::Asked(asked) => self.asked(asked, ctx),
            Input::Reply(call, reply) => {
                if self.probing == Some(call) {
                    self.probing = None;
                    let nobody = matches!(reply, Reply::NoResponders);
                    self.unanswered = if nobody { self.unanswered + 1 } else { 0 };
                }
            }
            Input::Row(call, row) => self.row(call, row, ctx),
        }
        self.carry_on(ctx);
    }

    fn into_disk(self: Box<Self>) -> Disk {
        Disk::default()
    }
}
