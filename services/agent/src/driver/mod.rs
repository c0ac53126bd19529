//! Task drivers: what starts a task, watches it and ends it (A-22.1). What happens around a task, and whether it is
//! started again, is `task`'s business.

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

pub(crate) use crate::executor::Exit;
use crate::logs::LogFiles;
use crate::task::dirs::TaskDirs;

/// A kind of task.
#[async_trait]
pub(crate) trait Driver: Send + Sync {
    /// Whether it is there and works.
    fn fingerprint(&self) -> Fingerprint;

    /// Starts a task.
    async fn start(&self, start: Start) -> Result<Arc<dyn Running>, StartError>;

    /// Finds a task again that an earlier run of the agent started.
    async fn recover(&self, handle: &Handle) -> Result<Arc<dyn Running>, NotRecovered>;

    /// Ends what is left of a task that was not found again, as far as that can be done.
    async fn discard(&self, handle: &Handle);

    /// The numbers of the processes that a task consists of now; none if there are none, or the driver cannot tell.
    fn processes(&self, handle: &Handle) -> Vec<u32>;
}

/// A task that was started.
#[async_trait]
pub(crate) trait Running: Send + Sync {
    /// What finds it again after a restart of the agent.
    fn handle(&self) -> Handle;

    /// Waits for its end. Any number may wait, and it may be asked again.
    async fn wait(&self) -> Exit;

    /// Asks it to end, and ends it if it does not in time; returns when it has ended.
    async fn stop(&self, signal: Option<Signal>, timeout: Duration) -> Result<(), StopError>;

    /// Sends it a signal.
    fn signal(&self, signal: Signal) -> io::Result<()>;

    /// Forgets it after its end.
    async fn destroy(&self);
}

/// What finds a task again; means something only to its driver.
pub(crate) type Handle = Bytes;

/// What a driver says of itself; shown on the node (A-3.3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Whether it is there.
    pub(crate) detected: bool,
    /// Whether it works.
    pub(crate) healthy: bool,
    /// Why, or why not.
    pub(crate) description: String,
    /// What it found out about itself, by whole names.
    pub(crate) attributes: BTreeMap<Text, Text>,
}

/// What a driver is told when it starts a task.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    /// The driver's configuration, with names filled in.
    pub(crate) config: Map<String, Value>,
    /// The task's environment.
    pub(crate) env: BTreeMap<String, String>,
    /// The user that it runs as; empty is the driver's choice.
    pub(crate) user: Text,
    /// Its directories.
    pub(crate) dirs: TaskDirs,
    /// A directory for what the driver keeps of it; there is none yet.
    pub(crate) state_dir: PathBuf,
    /// Where its output goes; `None` is nowhere.
    pub(crate) logs: Option<LogFiles>,
}

/// Why a task could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct StartError {
    /// What went wrong.
    pub(crate) message: String,
    /// Whether trying again may help.
    pub(crate) recoverable: bool,
}

impl StartError {
    /// One that trying again does not help.
    pub(crate) fn for_good(message: impl Into<String>) -> Self {
        Self { message: message.into(), recoverable: false }
    }
}

/// A task is not found again.
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
    /// Adds one.
    pub(crate) fn with(mut self, name: &'static str, driver: impl Driver + 'static) -> Self {
        self.0.insert(name, Arc::new(driver));
        self
    }

    /// The driver of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn Driver>> {
        self.0.get(name)
    }

    /// What all of them say of themselves.
    pub(crate) fn fingerprints(&self) -> impl Iterator<Item = (&'static str, Fingerprint)> {
        self.0.iter().map(|(name, driver)| (*name, driver.fingerprint()))
    }
}

/// Reads a driver's configuration into its type.
///
/// # Errors
/// If a value does not fit, or there is a key that the driver does not have: it would be without effect.
fn read_config<T: serde::de::DeserializeOwned>(config: Map<String, Value>) -> Result<T, StartError> {
    serde_json::from_value(Value::Object(config.into_iter().collect()))
        .map_err(|error| StartError::for_good(format!("failed to decode driver config: {error}")))
}

/// Reads a signal by its name, `SIGTERM` or `TERM`; `None` for the empty name.
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
