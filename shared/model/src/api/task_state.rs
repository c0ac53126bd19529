//! Conversion of task states. Events are only converted to the API: agents report them in the form of the domain.

use std::collections::BTreeMap;

use crate::alloc::{PackedTaskStates, TaskEvent, TaskEventKind, TaskRunState, TaskState};
use crate::invalid::{At, Invalid};
use crate::mirror::{Member, text_members};
use crate::{Nanos, Text};

text_members!(TaskRunState);

impl PackedTaskStates {
    /// Packs the task states of the API. Events are refused.
    pub fn from_api(api: Option<BTreeMap<String, api_types::TaskState>>) -> Result<Self, Invalid> {
        let read = |(task, state): (String, _)| state_from_api(Text::from(&*task), state).at_item(&task);
        let states: Vec<TaskState> =
            api.unwrap_or_default().into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self::pack(&states))
    }

    /// Converts to the task states of the API, by task name.
    ///
    /// States in a format that only newer versions of Drover can read are omitted, so that the rest of the allocation can
    /// still be returned.
    pub fn to_api(&self) -> Option<BTreeMap<String, api_types::TaskState>> {
        let states = self.unpack().unwrap_or_default();
        let write = |state: &TaskState| (state.task.to_string(), state.to_api());
        if states.is_empty() { None } else { Some(states.iter().map(write).collect()) }
    }
}

fn state_from_api(task: Text, api: api_types::TaskState) -> Result<TaskState, Invalid> {
    if api.events.is_some_and(|events| !events.is_empty()) {
        return Err(Invalid::new("task events are not read from the API")).at("Events");
    }
    Ok(TaskState {
        task,
        state: Member::read(api.state).at("State")?,
        failed: Member::read(api.failed).at("Failed")?,
        restarts: Member::read(api.restarts).at("Restarts")?,
        last_restart: api.last_restart.into(),
        started_at: api.started_at.into(),
        finished_at: api.finished_at.into(),
        events: Vec::new(),
        paused: Member::read(api.paused).at("Paused")?,
    })
}

impl TaskState {
    /// Converts to the task state of the API, which does not contain the name of the task.
    pub fn to_api(&self) -> api_types::TaskState {
        let events: Vec<_> = self.events.iter().map(TaskEvent::to_api).collect();
        api_types::TaskState {
            state: self.state.write(),
            failed: self.failed.write(),
            restarts: self.restarts.write(),
            last_restart: self.last_restart.into(),
            started_at: self.started_at.into(),
            finished_at: self.finished_at.into(),
            events: if events.is_empty() { None } else { Some(events) },
            paused: self.paused.write(),
        }
    }
}

impl TaskEvent {
    /// Converts to the event of the API, with its human-readable text and with the legacy fields that older clients read
    /// instead of the details.
    pub fn to_api(&self) -> api_types::TaskEvent {
        let details: BTreeMap<String, String> =
            self.details().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let text = |name: &str| Some(details.get(name).cloned().unwrap_or_default());
        let message = if details.contains_key("exit_message") { "exit_message" } else { "message" };
        let (exit_code, signal) = if let TaskEventKind::Terminated { exit_code, signal, .. } = &self.kind {
            (*exit_code, *signal)
        } else {
            (0, 0)
        };
        let kill_timeout =
            if let TaskEventKind::Killing { timeout, .. } = &self.kind { *timeout } else { Nanos::ZERO };
        let start_delay =
            if let TaskEventKind::Restarting { delay, .. } = &self.kind { *delay } else { Nanos::ZERO };
        api_types::TaskEvent {
            r#type: Some(self.kind.as_str().to_owned()),
            time: self.time.write(),
            message: text(message),
            display_message: Some(self.kind.display()),
            fails_task: self.fails_task.write(),
            restart_reason: text("restart_reason"),
            setup_error: text("setup_error"),
            driver_error: text("driver_error"),
            exit_code: exit_code.write(),
            signal: signal.write(),
            kill_timeout: kill_timeout.write(),
            kill_error: text("kill_error"),
            kill_reason: text("kill_reason"),
            start_delay: start_delay.write(),
            download_error: text("download_error"),
            validation_error: text("validation_error"),
            disk_limit: Some(0),
            failed_sibling: text("failed_sibling"),
            vault_error: Some(String::new()),
            task_signal_reason: text("task_signal_reason"),
            task_signal: text("task_signal"),
            driver_message: text("driver_message"),
            generic_source: Some(String::new()),
            details: Some(details),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    fn shown(kind: TaskEventKind) -> api_types::TaskEvent {
        TaskEvent { time: Timestamp(5), fails_task: false, kind }.to_api()
    }

    #[test]
    fn an_event_shows_its_values_in_old_and_new_form() {
        let exit = shown(TaskEventKind::Terminated {
            exit_code: 137,
            signal: 9,
            message: "OOM".into(),
            oom_killed: true,
        });
        assert_eq!((exit.r#type.as_deref(), exit.time), (Some("Terminated"), Some(5)));
        assert_eq!((exit.exit_code, exit.signal, exit.message.as_deref()), (Some(137), Some(9), Some("OOM")));
        assert_eq!(
            exit.display_message.as_deref(),
            Some(r#"Exit Code: 137, Signal: 9, Exit Message: "OOM""#)
        );
        assert_eq!(exit.details.unwrap()["oom_killed"], "true");

        let killing = shown(TaskEventKind::Killing { timeout: Nanos::from_secs(5), reason: Text::default() });
        assert_eq!(killing.kill_timeout, Some(5_000_000_000));
        assert_eq!(killing.details.unwrap()["kill_timeout"], "5s");

        let restarting =
            shown(TaskEventKind::Restarting { reason: "Restart within policy".into(), delay: Nanos(9) });
        assert_eq!(restarting.start_delay, Some(9));
        assert_eq!(restarting.restart_reason.as_deref(), Some("Restart within policy"));

        let setup = shown(TaskEventKind::TaskSetup { message: Text::default() });
        assert_eq!(setup.message.as_deref(), Some("Building Task Directory"));
        assert_eq!(setup.message, setup.display_message);
    }

    #[test]
    fn an_event_without_values_has_zeros_and_empty_details() {
        let started = shown(TaskEventKind::Started);
        assert_eq!(
            (started.message.as_deref(), started.exit_code, started.kill_timeout),
            (Some(""), Some(0), Some(0))
        );
        assert_eq!(started.details, Some(BTreeMap::new()));
        assert_eq!(started.fails_task, Some(false));
    }

    #[test]
    fn events_are_shown_under_their_task() {
        let event = TaskEvent { time: Timestamp(5), fails_task: true, kind: TaskEventKind::LeaderDead };
        let state = TaskState { events: vec![event.clone()], ..TaskState::pending("web".into()) };
        let shown = PackedTaskStates::pack(&[state]).to_api().unwrap();
        assert_eq!(shown["web"].events, Some(vec![event.to_api()]));
    }
}
