//! The client status of an allocation, and the reasons to end its tasks, from the states of the tasks. Pure.

use std::collections::BTreeMap;

use model::Text;
use model::alloc::{ClientStatus, TaskEventKind, TaskRunState, TaskState};

use super::class::Class;

/// The tasks of an allocation by name.
pub(crate) type Tasks = BTreeMap<Text, Member>;

/// One task of an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// The lifecycle class.
    pub(crate) class: Class,
    /// Whether the other tasks end with this one.
    pub(crate) leader: bool,
    /// The task's state.
    pub(crate) state: TaskState,
}

impl Member {
    /// Whether the task has not ended for good.
    pub(crate) fn is_live(&self) -> bool {
        self.state.state != TaskRunState::Dead
    }

    fn failed(&self) -> bool {
        !self.is_live() && self.state.failed
    }
}

/// The allocation's client status and its description.
pub(crate) fn client_status<'a>(
    states: impl Iterator<Item = &'a TaskState> + Clone,
) -> (ClientStatus, &'static str) {
    let any = |condition: fn(&TaskState) -> bool| states.clone().any(condition);
    if any(|task| task.state == TaskRunState::Dead && task.failed) {
        (ClientStatus::Failed, "Failed tasks")
    } else if any(|task| task.state == TaskRunState::Running) {
        (ClientStatus::Running, "Tasks are running")
    } else if any(|task| task.state == TaskRunState::Pending) {
        (ClientStatus::Pending, "No tasks have started")
    } else if any(|task| task.state == TaskRunState::Dead) {
        (ClientStatus::Complete, "All tasks have completed")
    } else {
        (ClientStatus::Pending, "No tasks have started")
    }
}

/// The reason to end the remaining tasks, if there is one, as the event that each of them gets.
pub(crate) fn reason_to_end(tasks: &Tasks) -> Option<TaskEventKind> {
    let counting = || tasks.iter().filter(|(_, task)| task.class != Class::Poststop);
    if !counting().any(|(_, task)| task.is_live()) {
        return None;
    }
    if let Some((name, _)) = counting().find(|(_, task)| task.failed()) {
        return Some(TaskEventKind::SiblingFailed { sibling: Text::clone(name) });
    }
    if counting().any(|(_, task)| task.leader && !task.is_live()) {
        return Some(TaskEventKind::LeaderDead);
    }
    let only_sidecars = counting().all(|(_, task)| task.class.is_sidecar() || !task.is_live());
    let has_others = counting().any(|(_, task)| !task.class.is_sidecar());
    (only_sidecars && has_others).then_some(TaskEventKind::MainDead)
}

/// The tasks to end next in an allocation that is ending: first the leader, then all tasks but sidecars, then
/// sidecars. Poststop tasks are not included, because they run.
pub(crate) fn next_to_end(tasks: &Tasks) -> Vec<Text> {
    let live = |condition: fn(&Member) -> bool| -> Vec<Text> {
        let live = tasks.iter().filter(|(_, task)| task.is_live() && task.class != Class::Poststop);
        live.filter(|(_, task)| condition(task)).map(|(name, _)| Text::clone(name)).collect()
    };
    let order: [fn(&Member) -> bool; 3] = [|task| task.leader, |task| !task.class.is_sidecar(), |_| true];
    order.into_iter().map(live).find(|names| !names.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
