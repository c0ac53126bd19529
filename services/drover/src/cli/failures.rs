//! What is told about allocations that fail while they are followed: which, when, why, and the command that shows more.
//! Pure.

use std::collections::BTreeSet;

use api_types::{AllocListStub, TaskEvent, TaskState};

use super::format;
use super::lines::Line;

/// Events that every task has, which are not printed.
const ORDINARY_EVENTS: [&str; 9] = [
    "Received",
    "Task Setup",
    "Building Task Directory",
    "Downloading Artifacts",
    "Driver",
    "Started",
    "Running",
    "Task hook message",
    "Reconnected",
];

/// Whether an event is printed: whether it is not one that every task has.
pub(crate) fn is_notable(event: &TaskEvent) -> bool {
    !ORDINARY_EVENTS.contains(&event.r#type.as_deref().unwrap_or_default())
}

pub(crate) fn event_text(event: &TaskEvent) -> String {
    let kind = format::text(event.r#type.as_ref());
    match event.display_message.as_deref() {
        None | Some("") => kind,
        Some(text) => format!("{kind}: {text}"),
    }
}

/// The command that shows what the failed task of an allocation wrote. `None` if no task has begun.
pub(crate) fn logs_command(alloc: &AllocListStub, verbose: bool) -> Option<String> {
    let states = alloc.task_states.as_ref()?;
    let has_failed = |state: &&TaskState| state.failed == Some(true);
    let failed = states.iter().find(|(_, state)| has_failed(state)).or_else(|| states.iter().next());
    let (task, _) = failed?;
    // An allocation with one task needs no name of a task.
    let task = if states.len() > 1 { format!(" {task}") } else { String::new() };
    let id = format::id(alloc.id.as_ref(), verbose);
    Some(format!("To see what the task wrote: drover alloc logs -stderr {id}{task}"))
}

/// The allocations of a deployment whose failure was told.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    verbose: bool,
    told: BTreeSet<String>,
}

impl Failures {
    pub(crate) fn new(verbose: bool) -> Self {
        Self { verbose, told: BTreeSet::new() }
    }

    /// Lines about allocations that have failed, or were found unhealthy, since the last snapshot.
    pub(crate) fn update(&mut self, allocs: &[AllocListStub]) -> Vec<Line> {
        let mut lines = Vec::new();
        for alloc in allocs {
            let Some(what) = failure(alloc) else { continue };
            if !self.told.insert(format::text(alloc.id.as_ref())) {
                continue;
            }
            let id = format::id(alloc.id.as_ref(), self.verbose);
            let group = format::text(alloc.task_group.as_ref());
            let at = failed_at(alloc);
            lines.push(Line::Progress(format!("Allocation \"{id}\" of group \"{group}\" {what}{at}")));
            for (task, state) in alloc.task_states.iter().flatten() {
                let mut events = state.events.iter().flatten();
                if let Some(event) = events.rfind(|event| is_notable(event)) {
                    lines.push(Line::Detail(format!("Task \"{task}\": {}", event_text(event))));
                }
            }
            lines.extend(logs_command(alloc, self.verbose).map(Line::Detail));
        }
        lines
    }
}

/// What has gone wrong with an allocation.
fn failure(alloc: &AllocListStub) -> Option<&'static str> {
    let health = alloc.deployment_status.as_ref().and_then(|status| status.healthy);
    match (alloc.client_status.as_deref(), health) {
        (Some("failed"), _) => Some("failed"),
        (Some("lost"), _) => Some("was lost"),
        (_, Some(false)) => Some("is unhealthy"),
        _ => None,
    }
}

/// The time of an allocation's last change, in words.
fn failed_at(alloc: &AllocListStub) -> String {
    match format::moment(alloc.modify_time.unwrap_or_default()) {
        time if time.is_empty() => time,
        time => format!(" at {time}"),
    }
}

#[cfg(test)]
mod tests {
    use api_types::AllocDeploymentStatus;

    use super::*;

    fn alloc(status: &str, tasks: &[(&str, bool)]) -> AllocListStub {
        let event = TaskEvent {
            r#type: Some("Driver Failure".to_owned()),
            display_message: Some("no such program".to_owned()),
            ..TaskEvent::default()
        };
        let state = |(name, failed): &(&str, bool)| {
            let events = failed.then(|| vec![event.clone()]);
            ((*name).to_owned(), TaskState { failed: Some(*failed), events, ..TaskState::default() })
        };
        AllocListStub {
            id: Some("0a1b2c3d-0000-4000-8000-000000000000".to_owned()),
            task_group: Some("web".to_owned()),
            client_status: Some(status.to_owned()),
            modify_time: Some(1_136_214_245_000_000_000),
            task_states: Some(tasks.iter().map(state).collect()),
            ..AllocListStub::default()
        }
    }

    #[test]
    fn a_failure_is_told_once_with_the_next_command() {
        let mut failures = Failures::new(false);
        let failed = alloc("failed", &[("app", false), ("side", true)]);
        assert!(failures.update(&[alloc("running", &[("app", false)])]).is_empty());
        assert_eq!(
            failures.update(std::slice::from_ref(&failed)),
            [
                Line::Progress(
                    "Allocation \"0a1b2c3d\" of group \"web\" failed at 2006-01-02T15:04:05Z".to_owned()
                ),
                Line::Detail("Task \"side\": Driver Failure: no such program".to_owned()),
                Line::Detail(
                    "To see what the task wrote: drover alloc logs -stderr 0a1b2c3d side".to_owned()
                ),
            ]
        );
        assert!(failures.update(&[failed]).is_empty(), "once");
    }

    #[test]
    fn unhealthy_allocations_count_as_failed() {
        let health = AllocDeploymentStatus { healthy: Some(false), ..AllocDeploymentStatus::default() };
        let unhealthy = AllocListStub {
            deployment_status: Some(health),
            modify_time: None,
            ..alloc("running", &[("app", false)])
        };
        assert_eq!(
            Failures::new(false).update(&[unhealthy]),
            [
                Line::Progress("Allocation \"0a1b2c3d\" of group \"web\" is unhealthy".to_owned()),
                Line::Detail("To see what the task wrote: drover alloc logs -stderr 0a1b2c3d".to_owned()),
            ]
        );
    }
}
