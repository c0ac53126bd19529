//! A task that is a container.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::Text;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use telemetry::chain;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::images::Images;
use super::sweep::Tracked;
use super::{collecting, commands, usage};
use crate::driver::exec_session::{ExecError, ExecRequest, ExecSession};
use crate::driver::process::ExecutorCommand;
use crate::driver::{DriverNetwork, Exit, Handle, NotRecovered, Running, StopError};
use crate::engine::{ContainerState, Engine, EngineError};
use crate::resources::TaskUsage;
use crate::wait::until;

/// The pause before the engine is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// The pause between the end of a container and the question how it ended.
const STATE_PAUSE: Duration = Duration::from_millis(10);
/// How long the output of a container that has ended may take to be collected.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a stopped container may take until its end is noticed.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// What is saved of a container, so that a restarted agent finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ContainerHandle {
    /// Its id.
    pub(super) container: String,
    /// The id of its image.
    pub(super) image: String,
    /// Under which name it uses the image.
    pub(super) user: String,
    /// The directory of the start, which its log collector has in common with the agent.
    pub(super) dir: PathBuf,
    /// Its address in a network of the engine; empty if it has none.
    pub(super) ip: String,
    /// Its published ports by label.
    pub(super) ports: BTreeMap<String, u16>,
    /// Whether others reach it by its address.
    pub(super) advertise: bool,
}

impl ContainerHandle {
    pub(super) fn read(handle: &Handle) -> Result<Self, NotRecovered> {
        rmp_serde::from_slice(handle).map_err(|error| NotRecovered(format!("unreadable handle: {error}")))
    }
}

/// What all containers of the driver share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) engine: Engine,
    pub(super) images: Images,
    pub(super) tracked: Tracked,
    pub(super) executor: ExecutorCommand,
    /// Whether containers that have ended are removed.
    pub(super) gc_container: bool,
}

/// A container that was started.
pub(super) struct RunningContainer {
    handle: ContainerHandle,
    shared: Shared,
    exit: watch::Receiver<Option<Exit>>,
}

impl RunningContainer {
    /// Watches a container for its end, and keeps its output collected.
    pub(super) fn watch(handle: ContainerHandle, shared: Shared) -> Arc<Self> {
        let (exit_sender, exit) = watch::channel(None);
        // Ends at once if the output is not collected.
        let collecting = tokio::spawn(collecting::keep(shared.executor.clone(), handle.dir.clone()));
        let (engine, container) = (shared.engine.clone(), handle.container.clone());
        tokio::spawn(async move {
            let exit = until_ended(&engine, &container, collecting).await;
            exit_sender.send_replace(Some(exit));
        });
        Arc::new(Self { handle, shared, exit })
    }
}

/// Waits for a container's end, and for the rest of its output. While the engine is away, nothing is known about its
/// containers, and so they count as running.
async fn until_ended(engine: &Engine, container: &str, collecting: JoinHandle<()>) -> Exit {
    let mut is_away = false;
    let state = loop {
        match engine.container(container).await {
            Ok(None) => break None,
            Ok(Some(found)) if found.state.has_ended() => break Some(found.state),
            Ok(Some(_)) => is_away = false,
            Err(error) => {
                note(container, &error, &mut is_away);
                sleep(RETRY_PAUSE).await;
                continue;
            }
        }
        // It fails if the engine ends before the container does.
        if let Err(error) = engine.wait(container).await {
            note(container, &error, &mut is_away);
        }
        sleep(STATE_PAUSE).await;
    };
    if timeout(DRAIN_TIMEOUT, collecting).await.is_err() {
        tracing::warn!(container, "the last output of a container has not been collected in time");
    }
    exit(state)
}

fn note(container: &str, error: &EngineError, is_away: &mut bool) {
    if !*is_away {
        tracing::warn!(
            container,
            error = chain(error),
            "cannot ask the engine about a container; asking again"
        );
    }
    *is_away = true;
}

/// The end of a task, from that of its container; `None` if somebody has removed it.
fn exit(state: Option<ContainerState>) -> Exit {
    let Some(state) = state else {
        return Exit { code: -1, message: "the container was removed".into(), ..Exit::default() };
    };
    let message = if state.oom_killed {
        "OOM Killed".to_owned()
    } else if !state.error.is_empty() {
        state.error
    } else if state.exit_code == 0 {
        String::new()
    } else {
        format!("Docker container exited with non-zero exit code: {}", state.exit_code)
    };
    Exit { code: state.exit_code, signal: 0, message, oom_killed: state.oom_killed }
}

/// What it means that a container does not run any more: nothing is left to do.
fn unless_ended(outcome: Result<(), EngineError>) -> Result<(), EngineError> {
    match outcome {
        Err(error) if error.is_absent() || error.is_conflict() => Ok(()),
        other => other,
    }
}

#[async_trait]
impl Running for RunningContainer {
    fn handle(&self) -> Handle {
        rmp_serde::to_vec_named(&self.handle).expect("encoding plain data to MessagePack cannot fail").into()
    }

    async fn wait(&self) -> Exit {
        until(&self.exit, Option::is_some).await.unwrap_or_default()
    }

    async fn stop(&self, signal: Option<Signal>, grace: Duration) -> Result<(), StopError> {
        let failed = |error: EngineError| StopError(chain(&error));
        let (engine, container) = (&self.shared.engine, &self.handle.container);
        let grace = match signal {
            // The image's own stop signal.
            None => grace,
            Some(signal) => {
                unless_ended(engine.kill(container, signal.as_str()).await).map_err(failed)?;
                if timeout(grace, self.wait()).await.is_ok() {
                    return Ok(());
                }
                Duration::ZERO
            }
        };
        unless_ended(engine.stop(container, grace).await).map_err(failed)?;
        match timeout(END_TIMEOUT, self.wait()).await {
            Ok(_) => Ok(()),
            Err(_) => {
                Err(StopError(format!("the container did not end within {} seconds", END_TIMEOUT.as_secs())))
            }
        }
    }

    async fn signal(&self, signal: Signal) -> io::Result<()> {
        let sent = self.shared.engine.kill(&self.handle.container, signal.as_str()).await;
        sent.map_err(io::Error::other)
    }

    async fn destroy(&self) {
        let container = &self.handle.container;
        if self.shared.gc_container {
            if let Err(error) = self.shared.engine.remove(container).await {
                // It is removed as a dangling one.
                tracing::warn!(container, error = chain(&error), "cannot remove a container");
            }
            self.shared.tracked.remove(container);
        }
        self.shared.images.release(&self.handle.image, &self.handle.user).await;
        remove_dir(&self.handle.dir).await;
    }

    async fn usage(&self) -> io::Result<Option<TaskUsage>> {
        let stats = self.shared.engine.stats(&self.handle.container).await.map_err(io::Error::other)?;
        Ok(Some(usage::usage(&stats)))
    }

    async fn exec(&self, request: ExecRequest) -> Result<ExecSession, ExecError> {
        commands::run(&self.shared.engine, &self.handle.container, request).await
    }

    fn network(&self) -> Option<DriverNetwork> {
        let handle = &self.handle;
        if handle.ip.is_empty() && handle.ports.is_empty() {
            return None;
        }
        let ports = handle.ports.iter().map(|(label, port)| (Text::from(label.as_str()), *port));
        Some(DriverNetwork { ip: handle.ip.clone(), ports: ports.collect(), advertise: handle.advertise })
    }
}

/// Removes the directory of a start.
pub(super) async fn remove_dir(dir: &std::path::Path) {
    match tokio::fs::remove_dir_all(dir).await {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(dir = %dir.display(), error = chain(&error), "cannot remove the directory of a container");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_containers_are_told_as_the_api_shows_them() {
        let state = |exit_code, oom_killed| ContainerState {
            status: "exited".into(),
            exit_code,
            oom_killed,
            ..ContainerState::default()
        };
        assert!(exit(Some(state(0, false))).successful());
        let failed = exit(Some(state(3, false)));
        assert_eq!(
            (failed.code, failed.message.as_str()),
            (3, "Docker container exited with non-zero exit code: 3")
        );
        let killed = exit(Some(state(137, true)));
        assert_eq!((killed.code, killed.message.as_str(), killed.oom_killed), (137, "OOM Killed", true));
        assert!(!exit(None).successful());
    }
}
