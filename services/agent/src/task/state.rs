//! How what happens to a task changes its state. Pure.

use model::alloc::{TaskEvent, TaskEventKind, TaskRunState, TaskState};
use model::{Nanos, Text, Timestamp};

/// How many of a task's events are kept.
pub(crate) const EVENTS_MAX: usize = 10;

/// Something that happened to a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Happening {
    /// What happened, in this order; each with whether the task fails by it.
    pub(crate) events: Vec<(TaskEventKind, bool)>,
    /// Where the task is in its life now, if that changed.
    pub(crate) state: Option<TaskRunState>,
}

impl Happening {
    /// An event and nothing else.
    pub(crate) fn event(kind: TaskEventKind) -> Self {
        Self { events: vec![(kind, false)], state: None }
    }

    /// An event by which the task fails.
    pub(crate) fn failure(kind: TaskEventKind) -> Self {
        Self { events: vec![(kind, true)], state: None }
    }

    /// Another state.
    pub(crate) fn state(state: TaskRunState) -> Self {
        Self { events: Vec::new(), state: Some(state) }
    }

    /// The same, and the task is in this state with it.
    #[must_use]
    pub(crate) fn and(mut self, state: TaskRunState) -> Self {
        self.state = Some(state);
        self
    }
}

/// The state of a task that the agent has only just heard of.
pub(crate) fn received(task: Text, now: Timestamp) -> TaskState {
    let mut state = TaskState::pending(task);
    apply(&mut state, Happening::event(TaskEventKind::Received), now);
    state
}

/// Takes back that a task has ended: it is to begin anew.
pub(crate) fn revive(state: &mut TaskState, reason: &'static str, now: Timestamp) {
    state.failed = false;
    state.finished_at = Timestamp::UNSET;
    let signaled = TaskEventKind::RestartSignaled { reason: reason.into() };
    let restarting = TaskEventKind::Restarting { reason: Text::default(), delay: Nanos::ZERO };
    let events = vec![(signaled, false), (restarting, false)];
    apply(state, Happening { events, state: Some(TaskRunState::Pending) }, now);
}

/// Changes a task's state by what happened.
pub(crate) fn apply(state: &mut TaskState, happening: Happening, now: Timestamp) {
    for (kind, fails_task) in happening.events {
        if matches!(kind, TaskEventKind::Restarting { .. }) {
            state.restarts += 1;
            state.last_restart = now;
        }
        state.failed |= fails_task;
        state.events.push(TaskEvent { time: now, fails_task, kind });
        let too_many = state.events.len().saturating_sub(EVENTS_MAX);
        state.events.drain(..too_many);
    }
    let Some(next) = happening.state else { return };
    match next {
        TaskRunState::Running if state.state != TaskRunState::Running => state.started_at = now,
        TaskRunState::Dead if !state.finished_at.is_set() => state.finished_at = now,
        TaskRunState::Pending | TaskRunState::Running | TaskRunState::Dead => {}
    }
    state.state = next;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn a_life_is_told_by_its_times() {
        let mut state = received("web".into(), at(1));
        apply(&mut state, Happening::event(TaskEventKind::Started).and(TaskRunState::Running), at(2));
        apply(&mut state, Happening::state(TaskRunState::Running), at(3));
        assert_eq!(state.started_at, at(2));
        let restarting = TaskEventKind::Restarting { reason: "".into(), delay: Nanos::SECOND };
        apply(&mut state, Happening::event(restarting).and(TaskRunState::Pending), at(4));
        apply(&mut state, Happening::state(TaskRunState::Running), at(5));
        assert_eq!((state.restarts, state.last_restart, state.started_at), (1, at(4), at(5)));
        let over = TaskEventKind::NotRestarting { reason: "".into() };
        apply(&mut state, Happening::failure(over).and(TaskRunState::Dead), at(6));
        apply(&mut state, Happening::state(TaskRunState::Dead), at(7));
        assert_eq!((state.failed, state.finished_at), (true, at(6)));
    }

    #[test]
    fn a_task_that_begins_anew_has_not_ended() {
        let mut state = received("web".into(), at(1));
        apply(&mut state, Happening::failure(TaskEventKind::LeaderDead).and(TaskRunState::Dead), at(2));
        revive(&mut state, "because", at(3));
        assert_eq!(
            (state.state, state.failed, state.finished_at.is_set()),
            (TaskRunState::Pending, false, false)
        );
        assert_eq!((state.restarts, state.last_restart), (1, at(3)));
    }

    #[test]
    fn the_newest_events_are_kept() {
        let mut state = received("web".into(), at(0));
        for secs in 1..=12 {
            apply(&mut state, Happening::event(TaskEventKind::Started), at(secs));
        }
        assert_eq!(state.events.len(), EVENTS_MAX);
        assert_eq!(state.events[0].time, at(3));
    }
}
