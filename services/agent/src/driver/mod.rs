//! Task drivers: each starts, watches and ends tasks of one kind (A-22.1). Everything around a task, and its restarts, is
//! in `task`.

pub(crate) mod docker;
pub(crate) mod exec;
pub(crate) mod exec_session;
pub(crate) mod mock;
pub(crate) mod process;
mod process_exec;
pub(crate) mod raw_exec;
pub(crate) mod running;
pub(crate) mod start;
pub(crate) mod terminal;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use model::job::driver_config_in_one_form;
use model::{AllocId, Map, Text};
use nix::sys::signal::Signal;
use serde_json::Value;

use self::docker::Docker;
use self::docker::create::NodeNames;
use self::exec::{EXEC, Exec, JAVA, Kind};
use self::exec_session::{ExecError, ExecRequest, ExecSession};
use self::mock::Mock;
use self::process::ExecutorCommand;
use self::raw_exec::RawExec;
use self::start::{Prepare, Start};
pub(crate) use crate::executor::Exit;
use crate::resources::TaskUsage;

/// The search path of tasks that set none.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A driver.
#[async_trait]
pub(crate) trait Driver: Send + Sync {
    /// What the driver can do with its tasks.
    fn capabilities(&self) -> Capabilities;

    /// Whether its tasks run in the control groups that the agent makes.
    fn uses_cgroups(&self) -> bool {
        true
    }

    /// The user of tasks that name none; empty is the agent's own.
    fn default_user(&self) -> &'static str {
        ""
    }

    /// Detects the driver and its health. It may block.
    fn fingerprint(&self) -> Fingerprint;

    /// Fetches what a start needs, such as an image: while the task waits for others, and again before the start. It may be
    /// cancelled.
    async fn prepare(&self, _: &Prepare) -> Result<(), StartError> {
        Ok(())
    }

    /// Makes the network namespace of an allocation, as a file, if the driver's tasks cannot join one that the agent makes
    /// (A-18.1). It finds the one that it has made before.
    async fn make_namespace(&self, _: AllocId, _: Option<&str>) -> Result<Option<PathBuf>, StartError> {
        Ok(None)
    }

    /// Removes the network namespace of an allocation, if the driver has made one.
    async fn remove_namespace(&self, _: AllocId) -> Result<(), StartError> {
        Ok(())
    }

    /// Starts a task.
    async fn start(&self, start: Start) -> Result<Arc<dyn Running>, StartError>;

    /// Recovers a task that a previous run of the agent started.
    async fn recover(&self, handle: &Handle) -> Result<Arc<dyn Running>, NotRecovered>;

    /// Ends what is left of a task that cannot be recovered, as far as possible.
    async fn discard(&self, handle: &Handle);
}

/// What a driver can do with its tasks (A-22.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// It can send signals to them.
    pub(crate) signals: bool,
    /// It can run commands inside them.
    pub(crate) exec: bool,
    /// How their files are separated from the node's, which decides about the paths that they see (A-15).
    pub(crate) isolation: Isolation,
    /// The networks that it can start them in.
    pub(crate) networks: &'static [NetworkMode],
    /// It can mount files and directories into them.
    pub(crate) mounts: bool,
    /// It can give them devices.
    pub(crate) devices: bool,
}

/// How the files of tasks are separated from the node's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// They are not.
    None,
    /// A task's own directory is its root.
    Chroot,
    /// A task has the root of its image.
    Image,
}

/// A network that a driver can start tasks in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkMode {
    /// The network of the node.
    Host,
    /// The network of the allocation, in a namespace that the agent holds.
    Group,
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
    async fn signal(&self, signal: Signal) -> io::Result<()>;

    /// Removes what the driver keeps of the task, after its end.
    async fn destroy(&self);

    /// What the task uses at the moment; `None` if the driver does not measure.
    async fn usage(&self) -> io::Result<Option<TaskUsage>>;

    /// Runs a command inside the task.
    async fn exec(&self, request: ExecRequest) -> Result<ExecSession, ExecError>;

    /// The network that the driver itself gave the task.
    fn network(&self) -> Option<DriverNetwork> {
        None
    }
}

/// A network that a driver gave its task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DriverNetwork {
    /// The task's address in it.
    pub(crate) ip: String,
    /// Ports of the task by label.
    pub(crate) ports: BTreeMap<Text, u16>,
    /// Whether services are advertised with this address.
    pub(crate) advertise: bool,
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

/// The settings of the drivers.
#[derive(Debug, Clone)]
pub(crate) struct DriverSettings {
    /// The executor beside each task that is a process.
    pub(crate) executor: ExecutorCommand,
    /// The settings of `raw_exec`, if it is enabled.
    pub(crate) raw_exec: Option<raw_exec::Settings>,
    /// The settings of `exec`, which is always there: its fingerprint says whether this node can isolate tasks.
    pub(crate) exec: exec::config::Settings,
    /// The settings of `java`, which is there in the same way.
    pub(crate) java: exec::config::Settings,
    /// Whether `mock_driver` is enabled.
    pub(crate) mock: bool,
    /// The settings of `docker`, and its engine's socket; `None` if there is no engine.
    pub(crate) docker: Option<(PathBuf, docker::settings::Settings)>,
}

/// The drivers that the settings enable, on this node. Some need an agent that can make control groups.
pub(crate) fn all(settings: &DriverSettings, node: NodeNames, has_cgroups: bool) -> Drivers {
    let isolating = |kind, own: &exec::config::Settings| {
        Exec::new(kind, own.clone(), settings.executor.clone(), has_cgroups)
    };
    let mut drivers = Drivers::default()
        .with(EXEC, isolating(Kind::Exec, &settings.exec))
        .with(JAVA, isolating(Kind::Java, &settings.java));
    if let Some((socket, docker)) = &settings.docker {
        let executor = settings.executor.clone();
        drivers = drivers.with(docker::NAME, Docker::new(docker.clone(), socket.clone(), node, executor));
    }
    if let Some(raw_exec) = &settings.raw_exec {
        drivers = drivers.with(raw_exec::NAME, RawExec::new(raw_exec.clone(), settings.executor.clone()));
    }
    if settings.mock {
        drivers = drivers.with(mock::NAME, Mock);
    }
    drivers
}

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

    /// The user that a task of a driver runs as, which names `user`; empty is the agent's own.
    pub(crate) fn user<'a>(&self, driver: &str, user: &'a str) -> &'a str {
        let default = || self.get(driver).map_or("", |driver| driver.default_user());
        if user.is_empty() { default() } else { user }
    }

    /// The fingerprints of all drivers.
    pub(crate) fn fingerprints(&self) -> impl Iterator<Item = (&'static str, Fingerprint)> {
        self.0.iter().map(|(name, driver)| (*name, driver.fingerprint()))
    }
}

/// Deserializes the configuration of a task of a driver, in whichever way the job writes its values.
///
/// # Errors
/// If a value has the wrong type, or if there is an unknown key, which would have no effect.
fn read_config<T: serde::de::DeserializeOwned>(
    driver: &str,
    config: &Map<String, Value>,
) -> Result<T, StartError> {
    let values = config.iter().map(|(key, value)| (key.as_str(), value));
    driver_config_in_one_form(driver, values)
        .and_then(|values| serde_json::from_value(Value::Object(values)).map_err(|error| error.to_string()))
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
    use model::job::keys_of_driver;

    use super::*;

    /// The keys that an error about an unknown one lists.
    fn expected_keys<T: serde::de::DeserializeOwned>(driver: &str) -> Vec<String> {
        let unknown = Map::from([("no such key".to_owned(), Value::Null)]);
        let error = read_config::<T>(driver, &unknown).err().unwrap().message;
        let (_, listed) = error.split_once("expected one of ").unwrap();
        let mut keys: Vec<String> =
            listed.split(", ").map(|key| key.split('`').nth(1).unwrap().to_owned()).collect();
        keys.sort_unstable();
        keys
    }

    // A-22.3 to A-22.5, A-22.8
    #[test]
    fn servers_know_the_same_keys() {
        for (driver, own) in [
            (EXEC, expected_keys::<exec::config::ExecConfig>(EXEC)),
            (JAVA, expected_keys::<exec::config::JavaConfig>(JAVA)),
            (mock::NAME, expected_keys::<mock::Config>(mock::NAME)),
            (raw_exec::NAME, expected_keys::<raw_exec::Config>(raw_exec::NAME)),
        ] {
            assert_eq!(keys_of_driver(driver).unwrap().collect::<Vec<_>>(), own, "{driver}");
        }
    }

    #[test]
    fn signals_are_known_with_and_without_their_prefix() {
        assert_eq!(read_signal(""), Ok(None));
        assert_eq!(read_signal("SIGUSR1"), Ok(Some(Signal::SIGUSR1)));
        assert_eq!(read_signal("term"), Ok(Some(Signal::SIGTERM)));
        assert_eq!(read_signal("SIGWHAT"), Err(r#"unknown signal "SIGWHAT""#.to_owned()));
    }
}
