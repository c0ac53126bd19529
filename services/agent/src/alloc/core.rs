//! What an allocation does next: which tasks may start, which must end, how it fares. Pure; the
//! processes, timers and files around it are `runner`'s.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::alloc::{ClientStatus, PackedTaskStates, TaskEventKind, TaskRunState, TaskState};
use model::job::Task;
use model::{Nanos, Text, Timestamp};

use super::class::{Class, Phase};
use super::health::{HealthWatch, Rule};
use super::spec::AllocSpec;
use super::status::{Member, Tasks, client_status, next_to_end, reason_to_end};
use crate::reports::AllocState;
use crate::task::state::{self, Happening};

/// The longest that a task may take to end, whatever its job says, unless the owner says otherwise.
pub(crate) const KILL_TIMEOUT_MAX: Nanos = Nanos::from_secs(30);

/// Said of an allocation that ran for as long as it may.
const RAN_TOO_LONG: &str = "allocation exceeded max_run_duration";

/// One allocation's rules.
#[derive(Debug, Clone)]
pub(crate) struct AllocCore {
    spec: Arc<AllocSpec>,
    phase: Phase,
    tasks: Tasks,
    /// Tasks that are to end so that all begin anew; until they have, none begins.
    restarting: BTreeSet<Text>,
    /// Whether everything that tasks need is there.
    set_up: bool,
    ending: Option<Ending>,
    forced: Option<(ClientStatus, Text)>,
    health: Option<HealthWatch>,
    verdict: Option<(bool, Timestamp)>,
}

/// An allocation that is to end.
#[derive(Debug, Clone)]
struct Ending {
    /// When the first task is asked to; until then the group's shutdown delay runs.
    at: Timestamp,
    /// Whether that moment has come.
    begun: bool,
    /// Why, for people; mostly empty.
    reason: Text,
    skip_delay: bool,
    /// Whether poststop tasks end, too, instead of running.
    everything: bool,
    /// The tasks that were asked to.
    asked: BTreeSet<Text>,
}

/// An order to end a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kill {
    /// Whether it ends without its shutdown delay.
    pub(crate) skip_delay: bool,
}

/// A task to be ended.
pub(crate) type Kills = Vec<(Text, Kill)>;

impl AllocCore {
    /// An allocation that the agent has just heard of.
    pub(crate) fn new(spec: Arc<AllocSpec>, now: Timestamp) -> Self {
        let names = spec.group().into_iter().flat_map(|group| &group.tasks);
        let states = names.map(|task| state::received(Text::clone(&task.name), now)).collect();
        Self::with_states(spec, states, now)
    }

    /// An allocation as it was when the agent stopped.
    pub(crate) fn restore(
        spec: Arc<AllocSpec>,
        states: Vec<TaskState>,
        verdict: Option<(bool, Timestamp)>,
        now: Timestamp,
    ) -> Self {
        let mut core = Self::with_states(spec, states, now);
        core.verdict = core.verdict.or(verdict);
        core.health = core.health.filter(|_| core.verdict.is_none());
        core
    }

    fn with_states(spec: Arc<AllocSpec>, states: Vec<TaskState>, now: Timestamp) -> Self {
        let member = |task: &Task| {
            let known = states.iter().find(|state| state.task == task.name).cloned();
            let state = known.unwrap_or_else(|| state::received(Text::clone(&task.name), now));
            (Text::clone(&task.name), Member { class: Class::of(task.lifecycle), leader: task.leader, state })
        };
        let tasks = spec.group().into_iter().flat_map(|group| &group.tasks).map(member).collect();
        let mut core = Self {
            phase: Phase::Prestart,
            tasks,
            restarting: BTreeSet::new(),
            set_up: false,
            ending: None,
            forced: None,
            health: None,
            verdict: None,
            spec,
        };
        core.watch_health(now);
        core
    }

    /// What the servers want.
    pub(crate) fn spec(&self) -> &Arc<AllocSpec> {
        &self.spec
    }

    /// The names of its tasks.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Whether a task may start now.
    pub(crate) fn may_start(&self, task: &str) -> bool {
        self.set_up
            && self.restarting.is_empty()
            && self.tasks.get(task).is_some_and(|task| self.phase.opens(task.class))
    }

    /// Whether all is over.
    pub(crate) fn is_over(&self) -> bool {
        self.tasks.values().all(|task| !task.is_live())
    }

    /// The verdict on its health, once there is one.
    pub(crate) fn verdict(&self) -> Option<(bool, Timestamp)> {
        self.verdict
    }

    /// How it fares, as the servers are told.
    pub(crate) fn report(&self) -> AllocState {
        let (status, description) = match &self.forced {
            Some((status, description)) => (*status, Text::clone(description)),
            None => {
                let (status, words) = client_status(self.tasks.values().map(|task| &task.state));
                (status, words.into())
            }
        };
        let health = match self.verdict {
            // A failed one is of no use to its deployment.
            None if status == ClientStatus::Failed && self.waits_for_verdict() => {
                let ended = self.tasks.values().map(|task| task.state.finished_at).max();
                Some((false, ended.unwrap_or_default()))
            }
            verdict => verdict,
        };
        AllocState { status, description, task_states: self.packed(), health }
    }

    /// Whether a deployment waits for word of it that nobody has given.
    fn waits_for_verdict(&self) -> bool {
        self.spec.common.deployment_id.is_some() && self.spec.work.healthy.is_none()
    }

    /// Its tasks' states, packed.
    pub(crate) fn packed(&self) -> PackedTaskStates {
        let states: Vec<_> = self.tasks.values().map(|task| task.state.clone()).collect();
        PackedTaskStates::pack(&states)
    }

    /// When [`Self::handle_timeout`] next has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        let group_delay = self.ending.as_ref().filter(|ending| !ending.begun).map(|ending| ending.at);
        let health = self.health.as_ref().map(HealthWatch::poll_timeout);
        let run_until = self.run_until().filter(|_| self.forced.is_none());
        let timers = [group_delay, health, run_until];
        timers.into_iter().flatten().min().filter(|_| !self.is_over())
    }

    fn run_until(&self) -> Option<Timestamp> {
        let duration = self.spec.group()?.max_run_duration?;
        Some(self.spec.work.create_time + duration)
    }

    /// Does what was due by now.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) -> Kills {
        if self.forced.is_none() && self.run_until().is_some_and(|until| until <= now) && !self.is_over() {
            self.forced = Some((ClientStatus::Complete, RAN_TOO_LONG.into()));
            self.end_everything(RAN_TOO_LONG.into(), now);
        }
        self.go_on(now)
    }

    /// Everything that tasks need is there.
    pub(crate) fn set_up(&mut self, now: Timestamp) -> Kills {
        self.set_up = true;
        self.go_on(now)
    }

    /// What tasks need could not be made: all of them fail.
    pub(crate) fn fail_setup(&mut self, error: &str, now: Timestamp) {
        let event = TaskEventKind::SetupFailure { error: format!("failed to setup alloc: {error}").into() };
        for task in self.tasks.values_mut().filter(|task| task.is_live()) {
            let failure = Happening::failure(event.clone()).and(TaskRunState::Dead);
            state::apply(&mut task.state, failure, now);
        }
        self.look_at_health(now);
    }

    /// Something happened to a task.
    pub(crate) fn happened(&mut self, task: &str, happening: Happening, now: Timestamp) -> Kills {
        if let Some(member) = self.tasks.get_mut(task) {
            state::apply(&mut member.state, happening, now);
            if member.state.state != TaskRunState::Running {
                self.restarting.remove(task);
            }
        }
        self.go_on(now)
    }

    /// All tasks are to begin anew, in their order: `running` are those that are about to be told to end for it.
    /// Says which begin anew because they had ended; `None` if the allocation is not to run.
    pub(crate) fn restart_all(
        &mut self,
        reason: &'static str,
        running: impl Iterator<Item = Text>,
        now: Timestamp,
    ) -> Option<(Vec<Text>, Kills)> {
        let is_to_run = self.spec.should_run() && self.ending.is_none() && self.forced.is_none();
        if !is_to_run || self.is_over() {
            return None;
        }
        self.phase = Phase::Prestart;
        self.restarting.extend(running);
        let mut ended = Vec::new();
        for (name, task) in self.tasks.iter_mut().filter(|(_, task)| !task.is_live()) {
            state::revive(&mut task.state, reason, now);
            ended.push(Text::clone(name));
        }
        Some((ended, self.go_on(now)))
    }

    /// Something happened to all tasks that have not ended.
    pub(crate) fn note(&mut self, event: &TaskEventKind, now: Timestamp) {
        for task in self.tasks.values_mut().filter(|task| task.is_live()) {
            state::apply(&mut task.state, Happening::event(event.clone()), now);
        }
    }

    /// The servers changed what they want.
    pub(crate) fn update(&mut self, spec: Arc<AllocSpec>, now: Timestamp) -> Kills {
        let other_deployment = spec.common.deployment_id != self.spec.common.deployment_id;
        self.spec = spec;
        if other_deployment {
            self.verdict = None;
        }
        self.watch_health(now);
        if self.spec.work.desired_status.is_terminal() {
            return self.stop(now);
        }
        self.go_on(now)
    }

    /// Its tasks end; poststop tasks run.
    pub(crate) fn stop(&mut self, now: Timestamp) -> Kills {
        let skip_delay = self.spec.skips_shutdown_delay();
        let Some(ending) = &mut self.ending else {
            self.begin_to_end(now);
            return self.go_on(now);
        };
        let mut again = BTreeSet::new();
        if skip_delay && !ending.skip_delay {
            // Whoever waits already hears that it need not.
            ending.skip_delay = true;
            ending.at = ending.at.min(now);
            again.clone_from(&ending.asked);
        }
        let mut kills = self.go_on(now);
        kills.extend(again.into_iter().map(|name| (name, Kill { skip_delay })));
        kills
    }

    /// All of its tasks end, and nothing runs after them: the servers have forgotten it.
    pub(crate) fn destroy(&mut self, now: Timestamp) -> Kills {
        self.end_everything(Text::default(), now);
        self.go_on(now)
    }

    fn end_everything(&mut self, reason: Text, now: Timestamp) {
        let asked = self.ending.take().map(|ending| ending.asked).unwrap_or_default();
        self.end(Ending { at: now, begun: false, reason, skip_delay: false, everything: true, asked });
    }

    fn begin_to_end(&mut self, now: Timestamp) {
        let skip_delay = self.spec.skips_shutdown_delay();
        let delay = self.spec.group().and_then(|group| group.shutdown_delay).unwrap_or(Nanos::ZERO);
        self.end(Ending {
            at: if skip_delay { now } else { now + delay },
            begun: false,
            reason: Text::default(),
            skip_delay,
            everything: false,
            asked: BTreeSet::new(),
        });
    }

    fn end(&mut self, ending: Ending) {
        self.health = None;
        self.ending = Some(ending);
    }

    /// What follows from how the tasks fare and what time it is.
    fn go_on(&mut self, now: Timestamp) -> Kills {
        self.look_at_health(now);
        if self.set_up && self.restarting.is_empty() {
            self.phase = self.phase.advance(&self.tasks);
        }
        if self.ending.is_none()
            && let Some(event) = reason_to_end(&self.tasks)
        {
            for task in self.tasks.values_mut().filter(|task| task.is_live() && task.class != Class::Poststop)
            {
                state::apply(&mut task.state, Happening::event(event.clone()), now);
            }
            self.begin_to_end(now);
        }
        self.kills(now)
    }

    fn kills(&mut self, now: Timestamp) -> Kills {
        let Some(ending) = &mut self.ending else { return Vec::new() };
        if now < ending.at {
            return Vec::new();
        }
        ending.begun = true;
        let mut next = next_to_end(&self.tasks);
        if ending.everything {
            let live = self.tasks.iter().filter(|(_, task)| task.is_live());
            next = live.map(|(name, _)| Text::clone(name)).collect();
        }
        let mut kills = Vec::new();
        for name in next.into_iter().filter(|name| ending.asked.insert(Text::clone(name))) {
            let timeout = self.spec.task(&name).map_or(Nanos::ZERO, |task| task.kill_timeout);
            let event = TaskEventKind::Killing {
                timeout: timeout.min(KILL_TIMEOUT_MAX),
                reason: Text::clone(&ending.reason),
            };
            if let Some(task) = self.tasks.get_mut(&name) {
                state::apply(&mut task.state, Happening::event(event), now);
            }
            kills.push((name, Kill { skip_delay: ending.skip_delay }));
        }
        kills
    }

    /// Begins to wait for a verdict anew, if there is none and one is asked for.
    fn watch_health(&mut self, now: Timestamp) {
        let decided = self.verdict.is_some() || self.spec.work.healthy.is_some() || self.ending.is_some();
        let rule = Rule::of(&self.spec).filter(|_| !decided);
        self.health = rule.map(|rule| HealthWatch::begin(rule, now));
    }

    fn look_at_health(&mut self, now: Timestamp) {
        let Some(watch) = &mut self.health else { return };
        let Some(healthy) = watch.look(&self.tasks, now) else { return };
        let rule = watch.rule();
        self.health = None;
        self.verdict = Some((healthy, now));
        let (status, _) = client_status(self.tasks.values().map(|task| &task.state));
        if healthy || status == ClientStatus::Failed {
            return;
        }
        for (name, message) in rule.explain(&self.tasks) {
            if let Some(task) = self.tasks.get_mut(&name) {
                let event = TaskEventKind::AllocUnhealthy { message: message.into() };
                state::apply(&mut task.state, Happening::event(event), now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
