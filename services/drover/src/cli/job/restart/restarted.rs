//! Decides whether an allocation has restarted. Pure: takes successive snapshots.

use std::collections::BTreeMap;

use anyhow::bail;
use api_types::{Allocation, TaskEvent, TaskState};

/// The tasks that are expected to restart, each with the time of its last event before the restart.
#[derive(Debug)]
pub(super) struct ExpectedRestart(BTreeMap<String, i64>);

impl ExpectedRestart {
    /// Expects the running tasks; with `wanted`, only these.
    pub(super) fn new(before: &Allocation, wanted: &[String]) -> Self {
        let is_expected = |name: &String, state: &TaskState| {
            state.state.as_deref() == Some("running") && (wanted.is_empty() || wanted.contains(name))
        };
        let states = before.task_states.iter().flatten();
        let expected = states.filter(|(name, state)| is_expected(name, state)).map(|(name, state)| {
            let times = state.events.iter().flatten().filter_map(|event| event.time);
            (name.clone(), times.max().unwrap_or(i64::MIN))
        });
        Self(expected.collect())
    }

    /// Whether all of them have started again, and run or are complete. Fails if the allocation has ended otherwise.
    pub(super) fn has_restarted(&self, alloc: &Allocation) -> anyhow::Result<bool> {
        let state = |name: &str| alloc.task_states.as_ref().and_then(|states| states.get(name));
        let has_started =
            self.0.iter().all(|(name, before)| state(name).is_some_and(|state| has_started(state, *before)));
        let runs = self
            .0
            .keys()
            .all(|name| state(name).is_some_and(|state| state.state.as_deref() == Some("running")));
        match alloc.client_status.as_deref().unwrap_or_default() {
            "complete" if has_started => Ok(true),
            status @ ("complete" | "failed" | "lost" | "unknown") => bail!("it is {status}"),
            _ => Ok(has_started && runs),
        }
    }
}

fn has_started(state: &TaskState, since: i64) -> bool {
    let is_start = |event: &TaskEvent| {
        event.r#type.as_deref() == Some("Started") && event.time.is_some_and(|time| time > since)
    };
    state.events.iter().flatten().any(is_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task's name, its state, and its events.
    type Scene<'a> = (&'a str, &'a str, &'a [(&'a str, i64)]);

    fn alloc(status: &str, tasks: &[Scene<'_>]) -> Allocation {
        let state = |state: &str, events: &[(&str, i64)]| TaskState {
            state: Some(state.to_owned()),
            events: Some(
                events
                    .iter()
                    .map(|(kind, time)| TaskEvent {
                        r#type: Some((*kind).to_owned()),
                        time: Some(*time),
                        ..TaskEvent::default()
                    })
                    .collect(),
            ),
            ..TaskState::default()
        };
        let tasks = tasks.iter().map(|(name, now, events)| ((*name).to_owned(), state(now, events)));
        Allocation {
            client_status: Some(status.to_owned()),
            task_states: Some(tasks.collect()),
            ..Allocation::default()
        }
    }

    #[test]
    fn it_is_back_when_all_that_ran_has_started_again() {
        let before = alloc(
            "running",
            &[("a", "running", &[("Started", 5)]), ("b", "running", &[("Started", 6)]), ("c", "dead", &[])],
        );
        let has_restarted = |wanted: &[String], status, tasks: &[_]| {
            ExpectedRestart::new(&before, wanted)
                .has_restarted(&alloc(status, tasks))
                .map_err(|error| error.to_string())
        };
        let again: &[(&str, i64)] = &[("Started", 5), ("Restart Signaled", 8), ("Started", 9)];
        let signaled: &[(&str, i64)] = &[("Started", 6), ("Restart Signaled", 8)];
        let one = [("a", "running", again), ("b", "running", signaled)];
        assert_eq!(has_restarted(&[], "running", &one), Ok(false), "one has not");
        assert_eq!(has_restarted(&["a".to_owned()], "running", &one), Ok(true), "only one was asked for");
        let down = [("a", "running", again), ("b", "pending", again)];
        assert_eq!(has_restarted(&[], "pending", &down), Ok(false), "one is down again");
        let both = [("a", "running", again), ("b", "running", again)];
        assert_eq!(has_restarted(&[], "running", &both), Ok(true));
        assert_eq!(has_restarted(&[], "complete", &both), Ok(true), "it did not take long");
        assert_eq!(has_restarted(&[], "complete", &one), Err("it is complete".to_owned()));
        assert_eq!(has_restarted(&[], "failed", &both), Err("it is failed".to_owned()));
    }
}
