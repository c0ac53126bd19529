//! Task drivers: each starts, watches and ends tasks of one kind (A-22.1). Everything around a task, and its restarts, is
//! in `task`.

pub(crate) mod mock;
pub(crate) mod process;
pub(crate) mod raw_exec;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use model::{Map, Text};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::disk::dirs::TaskDirs;
use crate::disk::logs::LogFiles;
pub(crate) use crate::executor::Exit;

/// The search path of tasks that set none.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A driver.
#[async_trait]
pub(crate) trait Driver: Send + Sync {
    /// Detects the driver and its health.
    fn fingerprint(&self) -> Fingerprint;

    /// Starts a task.
    async fn start(&self, start: Start) -> Result<Arc<dyn Running>, StartError>;

    /// Recovers a task that a previous run of the agent started.
    async fn recover(&self, handle: &Handle) -> Result<Arc<dyn Running>, NotRecovered>;

    /// Ends what is left of a task that cannot be recovered, as far as possible.
    async fn discard(&self, handle: &Handle);

    /// The ids of a task's current processes. Empty if there are none or the driver does not know them.
    fn processes(&self, handle: &Handle) -> Vec<u32>;
}

/// A running task.
#[async_trait]
pub(crate) trait Running: Send + Sync {
    /// The handle to recover the task after a restart of the agent.
    fn handle(&self) -> Handle;

    /// Waits for the task's end. It may be called any number of times, also concurrently.
    async fn wait(&self) -> Exit;

    /// Signals the task to end, kills it after the timeout, and returns when it has ended.
    async fn stop(&self, signal: Option<Signal>, timeout: Duration) -> Result<(), StopError>;

    /// Sends the task a signal.
    fn signal(&self, signal: Signal) -> io::Result<()>;

    /// Removes what the driver keeps of the task, after its end.
    async fn destroy(&self);
}

/// An opaque handle to recover a task, which only its driver can read.
pub(crate) type Handle = Bytes;

/// The state of a driver, as shown on the node (A-3.3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Whether the driver exists.
    pub(crate) detected: bool,
    /// Whether the driver works.
    pub(crate) healthy: bool,
    /// The reason for the health.
    pub(crate) description: String,
    /// The driver's attributes, by full names.
    pub(crate) attributes: BTreeMap<Text, Text>,
}

/// The parameters of a task's start.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    /// The interpolated driver configuration.
    pub(crate) config: Map<String, Value>,
    /// The task's environment.
    pub(crate) env: BTreeMap<String, String>,
    /// The user that the task runs as. If it is empty, the driver decides.
    pub(crate) user: Text,
    /// The task's directories.
    pub(crate) dirs: TaskDirs,
    /// A directory for the driver's data about the task. It does not exist yet.
    pub(crate) state_dir: PathBuf,
    /// Where the task's output goes; `None` discards it.
    pub(crate) logs: Option<LogFiles>,
}

/// Why a task could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct StartError {
    /// The reason.
    pub(crate) message: String,
    /// Whether a retry may help.
    pub(crate) recoverable: bool,
}

impl StartError {
    /// An error that a retry does not help.
    pub(crate) fn unrecoverable(message: impl Into<String>) -> Self {
        Self { message: message.into(), recoverable: false }
    }
}

/// A task could not be recovered.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotRecovered(pub(crate) String);

/// A task did not end.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct StopError(pub(crate) String);

/// The node's drivers by name.
#[derive(Clone, Default)]
pub(crate) struct Drivers(BTreeMap<&'static str, Arc<dyn Driver>>);

impl Drivers {
    /// Adds a driver.
    pub(crate) fn with(mut self, name: &'static str, driver: impl Driver + 'static) -> Self {
        self.0.insert(name, Arc::new(driver));
        self
    }

    /// Returns the driver of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn Driver>> {
        self.0.get(name)
    }

    /// The fingerprints of all drivers.
    pub(crate) fn fingerprints(&self) -> impl Iterator<Item = (&'static str, Fingerprint)> {
        self.0.iter().map(|(name, driver)| (*name, driver.fingerprint()))
    }
}

/// Deserializes a driver's configuration.
///
/// # Errors
/// If a value has the wrong type, or if there is an unknown key, which would have no effect.
fn read_config<T: serde::de::DeserializeOwned>(config: Map<String, Value>) -> Result<T, StartError> {
    serde_json::from_value(Value::Object(config.into_iter().collect()))
        .map_err(|error| StartError::unrecoverable(format!("failed to decode driver config: {error}")))
}

/// Whether a name matches a pattern. A trailing `*` of the pattern matches any suffix.
pub(crate) fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

/// Parses the name of a signal, such as `SIGTERM` or `TERM`. An empty name is `None`.
pub(crate) fn read_signal(name: &str) -> Result<Option<Signal>, String> {
    if name.is_empty() {
        return Ok(None);
    }
    let upper = name.to_ascii_uppercase();
    let full = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    full.parse().map(Some).map_err(|_| format!("unknown signal {}", model::text::quoted(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_known_with_and_without_their_prefix() {
        assert_eq!(read_signal(""), Ok(None));
        assert_eq!(read_signal("SIGUSR1"), Ok(Some(Signal::SIGUSR1)));
        assert_eq!(read_signal("term"), Ok(Some(Signal::SIGTERM)));
        assert_eq!(read_signal("SIGWHAT"), Err(r#"unknown signal "SIGWHAT""#.to_owned()));
    }
}
