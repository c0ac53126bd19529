//! Applies changes to a task's state. Pure.

use model::alloc::{TaskEvent, TaskEventKind, TaskRunState, TaskState};
use model::{Nanos, Text, Timestamp};

/// The maximum number of events of a task that are kept.
pub(crate) const EVENTS_MAX: usize = 10;

/// A change of a task: events and a new run state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TaskChange {
    /// The events in order, each with whether the task fails by it.
    pub(crate) events: Vec<(TaskEventKind, bool)>,
    /// The new run state, if it changed.
    pub(crate) state: Option<TaskRunState>,
}

impl TaskChange {
    /// A change with one event.
    pub(crate) fn event(kind: TaskEventKind) -> Self {
        Self { events: vec![(kind, false)], state: None }
    }

    /// A change with one event by which the task fails.
    pub(crate) fn failure(kind: TaskEventKind) -> Self {
        Self { events: vec![(kind, true)], state: None }
    }

    /// A change of the run state alone.
    pub(crate) fn state(state: TaskRunState) -> Self {
        Self { events: Vec::new(), state: Some(state) }
    }

    /// Adds a new run state to the change.
    #[must_use]
    pub(crate) fn and(mut self, state: TaskRunState) -> Self {
        self.state = Some(state);
        self
    }
}

/// The state of a new task.
pub(crate) fn received(task: Text, now: Timestamp) -> TaskState {
    let mut state = TaskState::pending(task);
    apply(&mut state, TaskChange::event(TaskEventKind::Received), now);
    state
}

/// Prepares a dead task for a restart.
pub(crate) fn revive(state: &mut TaskState, reason: &'static str, now: Timestamp) {
    state.failed = false;
    state.finished_at = Timestamp::UNSET;
    let signaled = TaskEventKind::RestartSignaled { reason: reason.into() };
    let restarting = TaskEventKind::Restarting { reason: Text::default(), delay: Nanos::ZERO };
    let events = vec![(signaled, false), (restarting, false)];
    apply(state, TaskChange { events, state: Some(TaskRunState::Pending) }, now);
}

/// Applies a change to a task's state.
pub(crate) fn apply(state: &mut TaskState, change: TaskChange, now: Timestamp) {
    for (kind, fails_task) in change.events {
        if matches!(kind, TaskEventKind::Restarting { .. }) {
            state.restarts += 1;
            state.last_restart = now;
        }
        state.failed |= fails_task;
        state.events.push(TaskEvent { time: now, fails_task, kind });
        let excess = state.events.len().saturating_sub(EVENTS_MAX);
        state.events.drain(..excess);
    }
    let Some(next) = change.state else { return };
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
    fn the_times_of_a_task_follow_its_events() {
        let mut state = received("web".into(), at(1));
        apply(&mut state, TaskChange::event(TaskEventKind::Started).and(TaskRunState::Running), at(2));
        apply(&mut state, TaskChange::state(TaskRunState::Running), at(3));
        assert_eq!(state.started_at, at(2));
        let restarting = TaskEventKind::Restarting { reason: "".into(), delay: Nanos::SECOND };
        apply(&mut state, TaskChange::event(restarting).and(TaskRunState::Pending), at(4));
        apply(&mut state, TaskChange::state(TaskRunState::Running), at(5));
        assert_eq!((state.restarts, state.last_restart, state.started_at), (1, at(4), at(5)));
        let over = TaskEventKind::NotRestarting { reason: "".into() };
        apply(&mut state, TaskChange::failure(over).and(TaskRunState::Dead), at(6));
        apply(&mut state, TaskChange::state(TaskRunState::Dead), at(7));
        assert_eq!((state.failed, state.finished_at), (true, at(6)));
    }

    #[test]
    fn a_restarted_task_has_no_end_time() {
        let mut state = received("web".into(), at(1));
        apply(&mut state, TaskChange::failure(TaskEventKind::LeaderDead).and(TaskRunState::Dead), at(2));
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
            apply(&mut state, TaskChange::event(TaskEventKind::Started), at(secs));
        }
        assert_eq!(state.events.len(), EVENTS_MAX);
        assert_eq!(state.events[0].time, at(3));
    }
}
