//! Events of tasks: a kind, a time and a few values. The human-readable text is generated when an event is read.

use std::collections::BTreeMap;

use crate::text::quoted;
use crate::{Nanos, Text, Timestamp};

/// An event in the life of a task (`docs/rules/agent.md` A-10.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskEvent {
    /// When it happened.
    pub time: Timestamp,
    /// Whether the event fails the task.
    pub fails_task: bool,
    /// Kind and values of the event.
    pub kind: TaskEventKind,
}

/// Declares the kinds, each with its code in the packed form and its string in the API.
///
/// Codes are never reused; new kinds get new codes.
macro_rules! kinds {
    ($( $(#[$meta:meta])* $kind:ident $({ $($field:ident: $type:ty),+ })? = $code:literal => $word:literal, )+) => {
        /// Kind of an event, with its values. An empty text means that there is no value.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[allow(missing_docs, reason = "A-10.2 and A-10.3 define the fields")]
        pub enum TaskEventKind {
            $( $(#[$meta])* $kind $({ $($field: $type),+ })?, )+
        }

        impl TaskEventKind {
            /// The string that the API uses.
            pub const fn as_str(&self) -> &'static str {
                match self {
                    $( Self::$kind $({ $($field: _),+ })? => $word, )+
                }
            }

            /// One event of each kind, with values that are not empty.
            #[cfg(test)]
            pub(super) fn samples() -> Vec<Self> {
                vec![$( Self::$kind $({ $($field: <$type>::sample()),+ })?, )+]
            }

            pub(super) const fn code(&self) -> u64 {
                match self {
                    $( Self::$kind $({ $($field: _),+ })? => $code, )+
                }
            }

            pub(super) fn write(&self, out: &mut super::packed::Writer) {
                match self {
                    $( Self::$kind $({ $($field),+ })? => { let _ = &out; $($( out.put($field); )+)? } )+
                }
            }

            /// Returns `None` if the kind is unknown or the bytes end too early.
            pub(super) fn read(code: u64, input: &mut super::packed::Reader<'_>) -> Option<Self> {
                match code {
                    $( $code => Some(Self::$kind $({ $($field: input.get::<$type>()?),+ })?), )+
                    _ => { let _ = &input; None }
                }
            }
        }
    };
}

kinds! {
    /// The agent received the allocation.
    Received = 1 => "Received",
    /// The task directory is being built.
    TaskSetup { message: Text } = 2 => "Task Setup",
    /// The setup of the task failed.
    SetupFailure { error: Text } = 3 => "Setup Failure",
    /// The definition of the task is not valid on this node.
    FailedValidation { error: Text } = 4 => "Failed Validation",
    /// The driver failed to start the task.
    DriverFailure { error: Text } = 5 => "Driver Failure",
    /// A message of the driver.
    Driver { message: Text } = 6 => "Driver",
    /// The task was started.
    Started = 7 => "Started",
    /// Artifacts are being downloaded.
    DownloadingArtifacts = 8 => "Downloading Artifacts",
    /// The download of an artifact failed.
    FailedArtifactDownload { error: Text } = 9 => "Failed Artifact Download",
    /// The task ended.
    Terminated { exit_code: i64, signal: i64, message: Text, oom_killed: bool } = 10 => "Terminated",
    /// The task will be restarted.
    Restarting { reason: Text, delay: Nanos } = 11 => "Restarting",
    /// The task will not be restarted.
    NotRestarting { reason: Text } = 12 => "Not Restarting",
    /// A restart was requested.
    RestartSignaled { reason: Text } = 13 => "Restart Signaled",
    /// A signal is being sent to the task.
    Signaling { signal: Text, reason: Text } = 14 => "Signaling",
    /// The task is being stopped.
    Killing { timeout: Nanos, reason: Text } = 15 => "Killing",
    /// The task was stopped.
    Killed { error: Text } = 16 => "Killed",
    /// Another task of the group failed.
    SiblingFailed { sibling: Text } = 17 => "Sibling Task Failed",
    /// The leader task of the group ended.
    LeaderDead = 18 => "Leader Task Dead",
    /// All main tasks ended.
    MainDead = 19 => "Main Tasks Dead",
    /// The agent waits before it stops the task.
    ShutdownDelay { delay: Nanos } = 20 => "Waiting for shutdown delay",
    /// The agent stops the task without waiting.
    ShutdownDelaySkipped { delay: Nanos } = 21 => "Skipping shutdown delay",
    /// The node reconnected.
    Reconnected = 22 => "Reconnected",
    /// The agent failed to restore the task after its own restart.
    FailedRestoring = 23 => "Failed Restoring Task",
    /// A task hook failed.
    HookFailed { hook: Text, error: Text } = 24 => "Task hook failed",
    /// A message of a task hook.
    HookMessage { message: Text } = 25 => "Task hook message",
    /// A template waits for values.
    Template { message: Text } = 26 => "Template",
    /// The allocation did not become healthy.
    AllocUnhealthy { message: Text } = 27 => "Alloc Unhealthy",
    /// A plugin became healthy.
    PluginHealthy { plugin: Text } = 28 => "Plugin became healthy",
    /// A plugin became unhealthy.
    PluginUnhealthy { error: Text } = 29 => "Plugin became unhealthy",
    /// The task is being paused.
    Pausing { reason: Text } = 30 => "Pausing",
    /// The task continues after a pause.
    Resumed { reason: Text } = 31 => "Running",
    /// The task exceeded its disk limit.
    DiskExceeded { message: Text } = 32 => "Disk Resources Exceeded",
}

/// The reason of an ordinary restart. The text of the event does not contain it.
const REASON_WITHIN_POLICY: &str = "Restart within policy";

impl TaskEventKind {
    /// The human-readable text (A-10.2).
    pub fn display(&self) -> String {
        use TaskEventKind as Kind;
        let or =
            |text: &Text, default: &str| if text.is_empty() { default.to_owned() } else { text.to_string() };
        match self {
            Kind::Received => "Task received by client".into(),
            Kind::TaskSetup { message } => or(message, "Building Task Directory"),
            Kind::Driver { message }
            | Kind::HookMessage { message }
            | Kind::Template { message }
            | Kind::AllocUnhealthy { message } => message.to_string(),
            Kind::SetupFailure { error } => or(error, "Task setup failed"),
            Kind::FailedValidation { error } => or(error, "Validation of task failed"),
            Kind::DriverFailure { error } => or(error, "Failed to start task"),
            Kind::Started => "Task started by client".into(),
            Kind::DownloadingArtifacts => "Client is downloading artifacts".into(),
            Kind::FailedArtifactDownload { error } => or(error, "Failed to download artifacts"),
            Kind::Terminated { exit_code, signal, message, oom_killed: _ } => {
                let mut text = format!("Exit Code: {exit_code}");
                if *signal != 0 {
                    text += &format!(", Signal: {signal}");
                }
                if !message.is_empty() {
                    text += &format!(", Exit Message: {}", quoted(message));
                }
                text
            }
            Kind::Restarting { reason, delay } if reason.is_empty() || &**reason == REASON_WITHIN_POLICY => {
                format!("Task restarting in {delay}")
            }
            Kind::Restarting { reason, delay } => format!("{reason} - Task restarting in {delay}"),
            Kind::NotRestarting { reason } => or(reason, "Task exceeded restart policy"),
            Kind::RestartSignaled { reason } => or(reason, "Task signaled to restart"),
            Kind::Signaling { signal, reason } => match (signal.is_empty(), reason.is_empty()) {
                (true, true) => "Task being sent a signal".into(),
                (false, true) => format!("Task being sent signal {signal}"),
                (true, false) => reason.to_string(),
                (false, false) => format!("Task being sent signal {signal}: {reason}"),
            },
            Kind::Killing { reason, .. } if !reason.is_empty() => reason.to_string(),
            Kind::Killing { timeout: Nanos::ZERO, .. } => "Sent interrupt".into(),
            Kind::Killing { timeout, .. } => {
                format!("Sent interrupt. Waiting {timeout} before force killing")
            }
            Kind::Killed { error } => or(error, "Task successfully killed"),
            Kind::SiblingFailed { sibling } if sibling.is_empty() => "Task's sibling failed".into(),
            Kind::SiblingFailed { sibling } => format!("Task's sibling {} failed", quoted(sibling)),
            Kind::LeaderDead => "Leader Task in Group dead".into(),
            Kind::MainDead => "Main tasks in the group died".into(),
            Kind::ShutdownDelay { delay } => {
                format!("Waiting for shutdown_delay of {delay} before killing the task.")
            }
            Kind::ShutdownDelaySkipped { delay } => {
                format!("Skipping shutdown_delay of {delay} before killing the task.")
            }
            Kind::Reconnected => "Client reconnected".into(),
            Kind::FailedRestoring => "failed to restore task; will not run until server is contacted".into(),
            Kind::HookFailed { hook, error } => format!("{hook}: {error}"),
            Kind::PluginHealthy { plugin } => format!("plugin: {plugin}"),
            Kind::PluginUnhealthy { error } => format!("Error: {error}"),
            Kind::Pausing { reason } => format!("Pausing due to {reason}"),
            Kind::Resumed { reason } => format!("Running due to {reason}"),
            Kind::DiskExceeded { message } => or(message, "Disk resources exceeded"),
        }
    }
}

impl TaskEvent {
    /// The values of the event, by the names that clients expect (A-10.3).
    pub fn details(&self) -> BTreeMap<&'static str, String> {
        use TaskEventKind as Kind;
        let mut details = BTreeMap::new();
        let mut text = |name, value: &Text| {
            if !value.is_empty() {
                details.insert(name, value.to_string());
            }
        };
        match &self.kind {
            Kind::HookMessage { message } | Kind::Template { message } | Kind::AllocUnhealthy { message } => {
                text("message", message)
            }
            Kind::SetupFailure { error } => text("setup_error", error),
            Kind::FailedValidation { error } => text("validation_error", error),
            Kind::DriverFailure { error } => text("driver_error", error),
            Kind::Driver { message } => text("driver_message", message),
            Kind::FailedArtifactDownload { error } => text("download_error", error),
            Kind::Terminated { exit_code, signal, message, oom_killed } => {
                text("exit_message", message);
                details.insert("exit_code", exit_code.to_string());
                details.insert("signal", signal.to_string());
                details.insert("oom_killed", oom_killed.to_string());
            }
            Kind::Restarting { reason, delay } => {
                text("restart_reason", reason);
                details.insert("start_delay", delay.0.to_string());
            }
            Kind::NotRestarting { reason } | Kind::RestartSignaled { reason } => {
                text("restart_reason", reason)
            }
            Kind::Signaling { signal, reason } => {
                text("task_signal", signal);
                text("task_signal_reason", reason);
            }
            Kind::Killing { timeout, reason } => {
                text("kill_reason", reason);
                if *timeout != Nanos::ZERO {
                    details.insert("kill_timeout", timeout.to_string());
                }
            }
            Kind::Killed { error } => text("kill_error", error),
            Kind::SiblingFailed { sibling } => text("failed_sibling", sibling),
            Kind::TaskSetup { .. }
            | Kind::HookFailed { .. }
            | Kind::PluginHealthy { .. }
            | Kind::PluginUnhealthy { .. } => {
                details.insert("message", self.kind.display());
            }
            Kind::DiskExceeded { message } => text("disk_limit", message),
            Kind::ShutdownDelay { .. }
            | Kind::ShutdownDelaySkipped { .. }
            | Kind::Pausing { .. }
            | Kind::Resumed { .. }
            | Kind::Received
            | Kind::Started
            | Kind::DownloadingArtifacts
            | Kind::LeaderDead
            | Kind::MainDead
            | Kind::Reconnected
            | Kind::FailedRestoring => {}
        }
        if self.fails_task {
            details.insert("fails_task", "true".into());
        }
        details
    }
}

#[cfg(test)]
trait Sample {
    fn sample() -> Self;
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Sample for Text {
        fn sample() -> Self {
            "x".into()
        }
    }

    impl Sample for Nanos {
        fn sample() -> Self {
            Nanos::SECOND
        }
    }

    impl Sample for i64 {
        fn sample() -> Self {
            9
        }
    }

    impl Sample for bool {
        fn sample() -> Self {
            true
        }
    }

    #[test]
    fn an_exit_says_its_code_and_what_else_there_is() {
        let exit = |signal, message: &str| TaskEventKind::Terminated {
            exit_code: 137,
            signal,
            message: message.into(),
            oom_killed: false,
        };
        assert_eq!(exit(0, "").display(), "Exit Code: 137");
        assert_eq!(exit(9, "").display(), "Exit Code: 137, Signal: 9");
        assert_eq!(exit(9, "OOM").display(), r#"Exit Code: 137, Signal: 9, Exit Message: "OOM""#);
    }

    #[test]
    fn a_restart_within_policy_does_not_give_its_reason() {
        let restart =
            |reason: &str| TaskEventKind::Restarting { reason: reason.into(), delay: Nanos(17_200_000_000) };
        assert_eq!(restart(REASON_WITHIN_POLICY).display(), "Task restarting in 17.2s");
        assert_eq!(restart("User asked").display(), "User asked - Task restarting in 17.2s");
    }

    #[test]
    fn a_kill_says_how_long_it_waits() {
        let kill = |secs, reason: &str| TaskEventKind::Killing {
            timeout: Nanos::from_secs(secs),
            reason: reason.into(),
        };
        assert_eq!(kill(0, "").display(), "Sent interrupt");
        assert_eq!(kill(5, "").display(), "Sent interrupt. Waiting 5s before force killing");
        assert_eq!(kill(5, "drained").display(), "drained");
    }

    #[test]
    fn details_have_the_names_that_clients_know() {
        const KNOWN: [&str; 21] = [
            "fails_task",
            "restart_reason",
            "setup_error",
            "driver_error",
            "exit_code",
            "signal",
            "exit_message",
            "oom_killed",
            "kill_timeout",
            "kill_error",
            "kill_reason",
            "start_delay",
            "download_error",
            "validation_error",
            "disk_limit",
            "failed_sibling",
            "vault_renewal_error",
            "task_signal_reason",
            "task_signal",
            "driver_message",
            "message",
        ];
        for kind in TaskEventKind::samples() {
            let event = TaskEvent { time: Timestamp(1), fails_task: true, kind };
            for name in event.details().keys() {
                assert!(KNOWN.contains(name), "{name} of {:?}", event.kind);
            }
        }
    }

    #[test]
    fn an_event_that_fails_the_task_says_so_in_its_details() {
        let event = TaskEvent {
            time: Timestamp(1),
            fails_task: true,
            kind: TaskEventKind::SiblingFailed { sibling: "web".into() },
        };
        let details = event.details();
        assert_eq!(details["fails_task"], "true");
        assert_eq!(details["failed_sibling"], "web");
    }
}
