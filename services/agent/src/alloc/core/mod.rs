//! The decisions about one allocation: which tasks may start, which must end, and its status and health.
//! Pure; the processes, timers and files are in `runner`.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::alloc::{ClientStatus, NetworkStatus, PackedTaskStates, TaskEventKind, TaskRunState, TaskState};
use model::job::Task;
use model::{Nanos, Text, Timestamp};

use super::class::Class;
use super::health::{HealthWatch, Rule};
use super::phase::Phase;
use super::status::{Member, Tasks, client_status, next_to_end, reason_to_end};
use crate::checks::core::CheckHealth;
use crate::node::limits::KILL_TIMEOUT_MAX;
use crate::reports::core::AllocState;
use crate::task::commands::Kill;
use crate::task::state::{self, TaskChange};
use crate::work::spec::AllocSpec;

/// The description of an allocation that exceeded its maximum run duration.
const MAX_RUN_DURATION_EXCEEDED: &str = "allocation exceeded max_run_duration";

/// The state machine of one allocation.
#[derive(Debug, Clone)]
pub(crate) struct AllocCore {
    spec: Arc<AllocSpec>,
    phase: Phase,
    tasks: Tasks,
    /// Running tasks that must stop before all tasks start again. No task starts until this is empty.
    restarting: BTreeSet<Text>,
    /// Whether the set-up is complete.
    set_up: bool,
    ending: Option<Ending>,
    forced: Option<(ClientStatus, Text)>,
    health: Option<HealthWatch>,
    /// What the checks say of the health.
    checks: CheckHealth,
    verdict: Option<(bool, Timestamp)>,
    /// The allocation's own network, once it is set up.
    network: Option<Arc<NetworkStatus>>,
    /// The maximum kill timeout of a task on this node, for events.
    kill_timeout_max: Nanos,
}

/// The state of an allocation that is ending.
#[derive(Debug, Clone)]
struct Ending {
    /// When the first task is killed. Until then the group's shutdown delay runs.
    at: Timestamp,
    /// Whether that time has been reached.
    begun: bool,
    /// The reason for users, which is usually empty.
    reason: Text,
    skip_delay: bool,
    /// Whether poststop tasks are killed, too, instead of run.
    includes_poststop: bool,
    /// The tasks that have been killed.
    killed: BTreeSet<Text>,
}

/// Tasks to be ended.
pub(crate) type Kills = Vec<(Text, Kill)>;

impl AllocCore {
    /// Creates the state of a new allocation.
    pub(crate) fn new(spec: Arc<AllocSpec>, now: Timestamp) -> Self {
        let names = spec.group().into_iter().flat_map(|group| &group.tasks);
        let states = names.map(|task| state::received(Text::clone(&task.name), now)).collect();
        Self::with_states(spec, states, now)
    }

    /// Restores the state of an allocation after a restart of the agent.
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
            let restored = states.iter().find(|state| state.task == task.name).cloned();
            let state = restored.unwrap_or_else(|| state::received(Text::clone(&task.name), now));
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
            checks: CheckHealth::default(),
            verdict: None,
            network: None,
            kill_timeout_max: KILL_TIMEOUT_MAX,
            spec,
        };
        core.watch_health(now);
        core
    }

    /// Sets the maximum kill timeout of a task on this node.
    pub(crate) fn with_kill_timeout_max(self, kill_timeout_max: Nanos) -> Self {
        Self { kill_timeout_max, ..self }
    }

    /// The allocation's specification.
    pub(crate) fn spec(&self) -> &Arc<AllocSpec> {
        &self.spec
    }

    /// The allocation's tasks.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Whether a task may start now.
    pub(crate) fn may_start(&self, task: &str) -> bool {
        self.set_up
            && self.restarting.is_empty()
            && self.tasks.get(task).is_some_and(|task| self.phase.opens(task.class))
    }

    /// Whether some task has been started, or has ended.
    pub(crate) fn has_begun(&self) -> bool {
        self.tasks.values().any(|task| {
            task.state.state != TaskRunState::Pending || task.state.started_at != Timestamp::UNSET
        })
    }

    /// Whether all tasks have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.tasks.values().all(|task| !task.is_live())
    }

    /// Whether the tasks are being ended.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// The health verdict, once there is one.
    pub(crate) fn verdict(&self) -> Option<(bool, Timestamp)> {
        self.verdict
    }

    /// The allocation's state, as reported to the servers.
    pub(crate) fn report(&self) -> AllocState {
        let (status, description) = match &self.forced {
            Some((status, description)) => (*status, Text::clone(description)),
            None => {
                let (status, description) = client_status(self.tasks.values().map(|task| &task.state));
                (status, description.into())
            }
        };
        let health = match self.verdict {
            // A failed allocation counts as unhealthy for its deployment.
            None if status == ClientStatus::Failed && self.waits_for_verdict() => {
                let ended = self.tasks.values().map(|task| task.state.finished_at).max();
                Some((false, ended.unwrap_or_default()))
            }
            verdict => verdict,
        };
        let network = self.network.clone();
        AllocState { status, description, task_states: self.packed(), health, network }
    }

    /// Sets the allocation's own network, as it is reported.
    pub(crate) fn set_network(&mut self, network: Option<Arc<NetworkStatus>>) {
        self.network = network;
    }

    /// Whether a deployment still waits for a health verdict.
    fn waits_for_verdict(&self) -> bool {
        self.spec.common.deployment_id.is_some() && self.spec.work.healthy.is_none()
    }

    /// The packed states of its tasks.
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

    /// Handles the timers that have expired.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) -> Kills {
        if self.forced.is_none() && self.run_until().is_some_and(|until| until <= now) && !self.is_over() {
            self.forced = Some((ClientStatus::Complete, MAX_RUN_DURATION_EXCEEDED.into()));
            self.end_all(MAX_RUN_DURATION_EXCEEDED.into(), now);
        }
        self.advance(now)
    }

    /// Records that the set-up is complete.
    pub(crate) fn set_up(&mut self, now: Timestamp) -> Kills {
        self.set_up = true;
        self.advance(now)
    }

    /// Records that the set-up failed. All tasks fail.
    pub(crate) fn fail_setup(&mut self, error: &str, now: Timestamp) {
        let event = TaskEventKind::SetupFailure { error: format!("failed to setup alloc: {error}").into() };
        for task in self.tasks.values_mut().filter(|task| task.is_live()) {
            let failure = TaskChange::failure(event.clone()).and(TaskRunState::Dead);
            state::apply(&mut task.state, failure, now);
        }
        self.check_health(now);
    }

    /// Applies a change of a task.
    pub(crate) fn task_changed(&mut self, task: &str, change: TaskChange, now: Timestamp) -> Kills {
        if let Some(member) = self.tasks.get_mut(task) {
            state::apply(&mut member.state, change, now);
            if member.state.state != TaskRunState::Running {
                self.restarting.remove(task);
            }
        }
        self.advance(now)
    }

    /// Records what the checks say of the health.
    pub(crate) fn checks_changed(&mut self, checks: CheckHealth, now: Timestamp) -> Kills {
        self.checks = checks;
        self.advance(now)
    }

    /// Starts all tasks again in lifecycle order. `running` are the tasks that will be stopped for it. Returns the
    /// tasks that had ended and need a new runner, or `None` if the allocation should not run.
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
        Some((ended, self.advance(now)))
    }

    /// Adds an event to all tasks that have not ended.
    pub(crate) fn add_event(&mut self, event: &TaskEventKind, now: Timestamp) {
        for task in self.tasks.values_mut().filter(|task| task.is_live()) {
            state::apply(&mut task.state, TaskChange::event(event.clone()), now);
        }
    }

    /// Applies a new specification from the servers.
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
        self.advance(now)
    }

    /// Ends all tasks except poststop tasks, which run afterwards.
    pub(crate) fn stop(&mut self, now: Timestamp) -> Kills {
        let skip_delay = self.spec.skips_shutdown_delay();
        let Some(ending) = &mut self.ending else {
            self.begin_ending(now);
            return self.advance(now);
        };
        let mut repeated = BTreeSet::new();
        if skip_delay && !ending.skip_delay {
            // Tasks that wait for their shutdown delay learn that it is skipped.
            ending.skip_delay = true;
            ending.at = ending.at.min(now);
            repeated.clone_from(&ending.killed);
        }
        let mut kills = self.advance(now);
        kills.extend(repeated.into_iter().map(|name| (name, Kill { skip_delay })));
        kills
    }

    /// Ends all tasks, including poststop tasks, because the servers have deleted the allocation.
    pub(crate) fn destroy(&mut self, now: Timestamp) -> Kills {
        self.end_all(Text::default(), now);
        self.advance(now)
    }

    fn end_all(&mut self, reason: Text, now: Timestamp) {
        let killed = self.ending.take().map(|ending| ending.killed).unwrap_or_default();
        self.end(Ending {
            at: now,
            begun: false,
            reason,
            skip_delay: false,
            includes_poststop: true,
            killed,
        });
    }

    fn begin_ending(&mut self, now: Timestamp) {
        let skip_delay = self.spec.skips_shutdown_delay();
        let delay = self.spec.group().and_then(|group| group.shutdown_delay).unwrap_or(Nanos::ZERO);
        self.end(Ending {
            at: if skip_delay { now } else { now + delay },
            begun: false,
            reason: Text::default(),
            skip_delay,
            includes_poststop: false,
            killed: BTreeSet::new(),
        });
    }

    fn end(&mut self, ending: Ending) {
        self.health = None;
        self.ending = Some(ending);
    }

    /// Derives the next steps from the states of the tasks and the time.
    fn advance(&mut self, now: Timestamp) -> Kills {
        self.check_health(now);
        if self.set_up && self.restarting.is_empty() {
            self.phase = self.phase.advance(&self.tasks);
        }
        if self.ending.is_none()
            && let Some(event) = reason_to_end(&self.tasks)
        {
            for task in self.tasks.values_mut().filter(|task| task.is_live() && task.class != Class::Poststop)
            {
                state::apply(&mut task.state, TaskChange::event(event.clone()), now);
            }
            self.begin_ending(now);
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
        if ending.includes_poststop {
            let live = self.tasks.iter().filter(|(_, task)| task.is_live());
            next = live.map(|(name, _)| Text::clone(name)).collect();
        }
        let mut kills = Vec::new();
        for name in next.into_iter().filter(|name| ending.killed.insert(Text::clone(name))) {
            let timeout = self.spec.task(&name).map_or(Nanos::ZERO, |task| task.kill_timeout);
            let event = TaskEventKind::Killing {
                timeout: timeout.min(self.kill_timeout_max),
                reason: Text::clone(&ending.reason),
            };
            if let Some(task) = self.tasks.get_mut(&name) {
                state::apply(&mut task.state, TaskChange::event(event), now);
            }
            kills.push((name, Kill { skip_delay: ending.skip_delay }));
        }
        kills
    }

    /// Starts a new health watch, if there is no verdict yet and one is needed.
    fn watch_health(&mut self, now: Timestamp) {
        let decided = self.verdict.is_some() || self.spec.work.healthy.is_some() || self.ending.is_some();
        let rule = Rule::of(&self.spec).filter(|_| !decided);
        self.health = rule.map(|rule| HealthWatch::begin(rule, now));
    }

    fn check_health(&mut self, now: Timestamp) {
        let Some(watch) = &mut self.health else { return };
        let Some(healthy) = watch.check(&self.tasks, &self.checks, now) else { return };
        let rule = watch.rule();
        self.health = None;
        self.verdict = Some((healthy, now));
        let (status, _) = client_status(self.tasks.values().map(|task| &task.state));
        if healthy || status == ClientStatus::Failed {
            return;
        }
        for (name, message) in rule.explain(&self.tasks, &self.checks, now) {
            if let Some(task) = self.tasks.get_mut(&name) {
                let event = TaskEventKind::AllocUnhealthy { message: message.into() };
                state::apply(&mut task.state, TaskChange::event(event), now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
