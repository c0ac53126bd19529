//! `mock_driver`: simulated tasks for tests. They live in the agent's process. A recovered task runs for the rest
//! of its time. Commands in a task are in `command`.

mod command;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::features::Feature;
use model::text::quoted;
use model::{Nanos, Timestamp};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use telemetry::{chain, clock};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::files::LogStream;

use self::command::{Simulated, Written};
use super::exec_session::{ExecError, ExecRequest, ExecSession};
use super::start::Start;
use super::{
    Capabilities, Driver, Exit, Fingerprint, Handle, Isolation, NetworkMode, NotRecovered, Running,
    StartError, StopError, read_config,
};
use crate::disk::logs::{LogFiles, Rotator};
use crate::resources::TaskUsage;
use crate::wait::{to_std, until};

/// The driver's name.
pub(crate) const NAME: &str = "mock_driver";

/// The driver.
#[derive(Debug)]
pub(crate) struct Mock;

/// The configuration of a task. Durations are strings such as `1m30s`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Config {
    run_for: String,
    exit_code: i64,
    exit_signal: i64,
    exit_err_msg: String,
    start_error: String,
    start_error_recoverable: bool,
    start_block_for: String,
    kill_after: String,
    plugin_exit_after: String,
    driver_ip: String,
    driver_advertise: bool,
    driver_port_map: String,
    signal_error: String,
    stdout_string: String,
    stdout_repeat: u32,
    stdout_repeat_duration: String,
    stderr_string: String,
    stderr_repeat: u32,
    stderr_repeat_duration: String,
    exec_command: Option<command::Config>,
}

/// The behaviour of a task, which is fixed at its start; also the handle to recover it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Behaviour {
    started: Timestamp,
    run_for: Nanos,
    kill_after: Nanos,
    exit: Exit,
    /// What commands in the task do; `None` if none are configured.
    #[serde(default)]
    commands: Option<Simulated>,
}

/// The output of a task on one stream.
#[derive(Debug)]
struct Lines {
    text: String,
    repeat: u32,
    every: Duration,
}

#[async_trait]
impl Driver for Mock {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            signals: true,
            exec: true,
            isolation: Isolation::None,
            // Simulated tasks have no use for a network, and so run in any.
            networks: &[NetworkMode::Host, NetworkMode::Group],
            mounts: false,
            devices: false,
        }
    }

    fn uses_cgroups(&self) -> bool {
        // There is no process that could enter one.
        false
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            detected: true,
            healthy: true,
            description: "Healthy".into(),
            attributes: BTreeMap::from([("driver.mock_driver".into(), "true".into())]),
        }
    }

    async fn start(&self, start: Start) -> Result<Arc<dyn Running>, StartError> {
        let config: Config = read_config(NAME, &start.config)?;
        let duration = |name: &str, text: &str| read_duration(name, text).map_err(StartError::unrecoverable);
        check_port_map(&config.driver_port_map)?;
        let commands = config.exec_command;
        let given = [
            ("plugin_exit_after", !config.plugin_exit_after.is_empty()),
            ("driver_ip", !config.driver_ip.is_empty()),
            ("signal_error", !config.signal_error.is_empty()),
            ("driver_advertise", config.driver_advertise),
            ("driver_port_map", !config.driver_port_map.is_empty()),
            ("exec_command.exit_signal", commands.as_ref().is_some_and(|commands| commands.exit_signal != 0)),
            (
                "exec_command.signal_error",
                commands.as_ref().is_some_and(|commands| !commands.signal_error.is_empty()),
            ),
        ];
        let missing = given.into_iter().find(|(_, is_given)| *is_given && !Feature::MockOptions.is_built());
        if let Some((name, _)) = missing {
            return Err(StartError::unrecoverable(format!("mock_driver: {name} is not built")));
        }
        let behaviour = Behaviour {
            started: clock::now(),
            run_for: duration("run_for", &config.run_for)?,
            kill_after: duration("kill_after", &config.kill_after)?,
            exit: Exit {
                code: config.exit_code,
                signal: config.exit_signal,
                message: config.exit_err_msg,
                oom_killed: false,
            },
            commands: commands.map(read_commands).transpose().map_err(StartError::unrecoverable)?,
        };
        let streams = [
            (
                LogStream::Stdout,
                Lines {
                    text: config.stdout_string,
                    repeat: config.stdout_repeat,
                    every: to_std(duration("stdout_repeat_duration", &config.stdout_repeat_duration)?),
                },
            ),
            (
                LogStream::Stderr,
                Lines {
                    text: config.stderr_string,
                    repeat: config.stderr_repeat,
                    every: to_std(duration("stderr_repeat_duration", &config.stderr_repeat_duration)?),
                },
            ),
        ];
        sleep(to_std(duration("start_block_for", &config.start_block_for)?)).await;
        if !config.start_error.is_empty() {
            return Err(StartError {
                message: config.start_error,
                recoverable: config.start_error_recoverable,
            });
        }
        let task = MockTask::begin(behaviour);
        if let Some(logs) = start.logs {
            for (stream, lines) in streams.into_iter().filter(|(_, lines)| !lines.text.is_empty()) {
                tokio::spawn(write_lines(logs.clone(), stream, lines, task.exit.clone()));
            }
        }
        Ok(Arc::new(task))
    }

    async fn recover(&self, handle: &Handle) -> Result<Arc<dyn Running>, NotRecovered> {
        let behaviour = rmp_serde::from_slice(handle)
            .map_err(|error| NotRecovered(format!("unreadable handle: {error}")))?;
        Ok(Arc::new(MockTask::begin(behaviour)))
    }

    async fn discard(&self, _: &Handle) {}
}

/// A simulated task. It ends with the agent.
#[derive(Debug)]
struct MockTask {
    behaviour: Behaviour,
    stop: CancellationToken,
    exit: watch::Receiver<Option<Exit>>,
    _drop_guard: DropGuard,
}

impl MockTask {
    fn begin(behaviour: Behaviour) -> Self {
        let (exit_sender, exit) = watch::channel(None);
        let (stop, dropped) = (CancellationToken::new(), CancellationToken::new());
        let ends_at = behaviour.started + behaviour.run_for;
        let (stop_requested, gone, simulated) = (stop.clone(), dropped.clone(), behaviour.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = sleep(to_std(ends_at - clock::now())) => {}
                () = stop_requested.cancelled() => sleep(to_std(simulated.kill_after)).await,
                () = gone.cancelled() => return,
            }
            exit_sender.send_replace(Some(simulated.exit));
        });
        Self { behaviour, stop, exit, _drop_guard: dropped.drop_guard() }
    }
}

#[async_trait]
impl Running for MockTask {
    fn handle(&self) -> Handle {
        rmp_serde::to_vec_named(&self.behaviour)
            .expect("encoding plain data to MessagePack cannot fail")
            .into()
    }

    async fn wait(&self) -> Exit {
        until(&self.exit, Option::is_some).await.unwrap_or_default()
    }

    async fn stop(&self, _: Option<Signal>, _: Duration) -> Result<(), StopError> {
        self.stop.cancel();
        self.wait().await;
        Ok(())
    }

    async fn signal(&self, _: Signal) -> std::io::Result<()> {
        Ok(())
    }

    async fn destroy(&self) {}

    async fn usage(&self) -> std::io::Result<Option<TaskUsage>> {
        Ok(None)
    }

    async fn exec(&self, request: ExecRequest) -> Result<ExecSession, ExecError> {
        command::run(self.behaviour.commands.clone(), &request)
    }
}

/// Writes a text once and then repeatedly, as configured, while the task runs.
async fn write_lines(logs: LogFiles, stream: LogStream, lines: Lines, exit: watch::Receiver<Option<Exit>>) {
    let written = async {
        let mut log = Rotator::open(logs, stream)?;
        log.write(lines.text.as_bytes())?;
        for _ in 0..lines.repeat {
            tokio::select! {
                () = sleep(lines.every) => log.write(lines.text.as_bytes())?,
                _ = until(&exit, Option::is_some) => break,
            }
        }
        Ok::<_, std::io::Error>(())
    };
    if let Err(error) = written.await {
        tracing::warn!(error = chain(&error), "cannot write a mock task's output");
    }
}

fn check_port_map(map: &str) -> Result<(), StartError> {
    match map.split_once(':') {
        _ if map.is_empty() => Ok(()),
        Some((label, port)) if !label.is_empty() && port.parse::<u16>().is_ok() => Ok(()),
        Some(_) | None => Err(StartError::unrecoverable(format!("malformed port map: {}", quoted(map)))),
    }
}

/// Reads what commands in a task do.
fn read_commands(config: command::Config) -> Result<Simulated, String> {
    let duration = |name: &str, text: &str| read_duration(&format!("exec_command.{name}"), text);
    Ok(Simulated {
        run_for: duration("run_for", &config.run_for)?,
        exit_code: config.exit_code,
        failure: config.exit_err_msg,
        stdout: Written {
            text: config.stdout_string,
            repeat: config.stdout_repeat,
            every: duration("stdout_repeat_duration", &config.stdout_repeat_duration)?,
        },
        stderr: Written {
            text: config.stderr_string,
            repeat: config.stderr_repeat,
            every: duration("stderr_repeat_duration", &config.stderr_repeat_duration)?,
        },
    })
}

fn read_duration(name: &str, text: &str) -> Result<Nanos, String> {
    if text.is_empty() {
        return Ok(Nanos::ZERO);
    }
    api_types::duration::parse(text)
        .map(Nanos)
        .map_err(|error| format!("{name} {text} not a valid duration: {error}"))
}

#[cfg(test)]
mod tests;
