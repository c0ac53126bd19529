//! A guard process for one running server. It ends shortly after this process, when it has stopped the server and
//! deleted temporary files.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, User},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::error::Error;

/// The guard is a shell script: every host has a shell, and forking this process would not be safe.
const SCRIPT: &str = include_str!("guard.sh");

/// Longer than the ten seconds after which the guard kills a server that does not stop.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// The server that the guard runs, and its settings.
pub(crate) struct Launch<'a> {
    /// Name of the server, for errors and logs.
    pub(crate) server: &'static str,
    pub(crate) program: &'a Path,
    pub(crate) arguments: Vec<String>,
    /// The environment of the server, in addition to a path and a locale.
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// The user that runs guard and server, if it is not the user of this process.
    pub(crate) user: Option<&'a User>,
    /// The signal for an orderly stop.
    pub(crate) stop: Signal,
    /// The log file, for both outputs of the server.
    pub(crate) log: PathBuf,
    /// A directory that is removed when this process has ended or does not need the server any more.
    pub(crate) remove: Option<PathBuf>,
}

/// The stage of a guarded server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Starting,
    Running(Pid),
    /// The server ended with this status, as the shell reports it. The guard still guards its files.
    Ended(i32),
    /// The guard has cleaned up and ended. Contains the server's status, if it was reported.
    Gone(Option<i32>),
}

/// The pipe to a guard. Dropping it stops the server.
pub(crate) struct Guard {
    server: &'static str,
    pipe: ChildStdin,
    stage: watch::Receiver<Stage>,
}

impl Guard {
    /// Starts a server with a new guard. Returns as soon as the server's process exists.
    pub(crate) async fn launch(launch: Launch<'_>) -> Result<Guard, Error> {
        let server = launch.server;
        let mut child = command(launch).spawn().map_err(|source| Error::Run { program: "sh", source })?;
        let pipe = child.stdin.take().expect("the guard's standard input is piped");
        let (stage_sender, stage) = watch::channel(Stage::Starting);
        thread::Builder::new()
            .name(format!("{server} guard"))
            .spawn(move || follow_guard(child, &stage_sender))
            .map_err(|source| Error::Run { program: "sh", source })?;
        let guard = Guard { server, pipe, stage };
        guard.wait_for(|stage| *stage != Stage::Starting).await?;
        Ok(guard)
    }

    /// Starts a guard without a server, which removes `directory` when this process has ended or drops the guard.
    pub(crate) async fn for_directory(directory: &Path, user: Option<&User>) -> Result<Guard, Error> {
        Guard::launch(Launch {
            server: "files",
            program: Path::new("true"),
            arguments: Vec::new(),
            environment: &[],
            user,
            stop: Signal::SIGTERM,
            log: PathBuf::from("/dev/null"),
            remove: Some(directory.to_owned()),
        })
        .await
    }

    /// Process id of the server while it runs.
    pub(crate) fn pid(&self) -> Option<Pid> {
        match *self.stage.borrow() {
            Stage::Running(pid) => Some(pid),
            Stage::Starting | Stage::Ended(_) | Stage::Gone(_) => None,
        }
    }

    /// Waits until `ready` completes. Fails after `timeout`, and if the server ends before.
    pub(crate) async fn until(
        &self,
        ready: impl Future<Output = ()>,
        timeout: Duration,
    ) -> Result<(), String> {
        let mut stage = self.stage.clone();
        let ended = stage.wait_for(|stage| matches!(stage, Stage::Ended(_) | Stage::Gone(_)));
        tokio::select! {
            () = ready => Ok(()),
            stage = ended => match stage.as_deref() {
                Ok(Stage::Ended(status) | Stage::Gone(Some(status))) => Err(format!("it ended with status {status}")),
                _ => Err("its guard process has ended".to_owned()),
            },
            () = sleep(timeout) => Err(format!("not ready after {timeout:?}")),
        }
    }

    /// Sends a signal to the server, and waits until the server has ended.
    pub(crate) async fn end_with(&self, signal: Signal) -> Result<(), Error> {
        if let Some(pid) = self.pid() {
            // The server may have ended already, which is just as well.
            let _ = kill(pid, signal);
        }
        self.wait_for(|stage| matches!(stage, Stage::Ended(_))).await
    }

    /// Stops the server, and waits until the guard has removed the files and ended.
    pub(crate) async fn stop(self) -> Result<(), Error> {
        let Guard { server, pipe, stage } = self;
        drop(pipe);
        wait_for(server, stage, |_| false).await
    }

    /// Leaves the files to another guard. The server must have ended.
    pub(crate) fn keep_files(mut self) {
        // If the guard has ended, it does not remove the files either.
        let _ = self.pipe.write_all(b"keep\n");
    }

    async fn wait_for(&self, is_reached: impl FnMut(&Stage) -> bool) -> Result<(), Error> {
        wait_for(self.server, self.stage.clone(), is_reached).await
    }
}

/// Waits for a stage, or for the end of the guard. Fails after [`STOP_TIMEOUT`], which only happens on a stuck system.
async fn wait_for(
    server: &'static str,
    mut stage: watch::Receiver<Stage>,
    mut is_reached: impl FnMut(&Stage) -> bool,
) -> Result<(), Error> {
    let reached = stage.wait_for(|stage| matches!(stage, Stage::Gone(_)) || is_reached(stage));
    match timeout(STOP_TIMEOUT, reached).await {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::NotStopped { server }),
    }
}

fn command(launch: Launch<'_>) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", SCRIPT, "drover-guard"])
        .arg(launch.stop.as_str().trim_start_matches("SIG"))
        .arg(launch.remove.unwrap_or_default())
        .arg(launch.log)
        .arg(launch.program)
        .args(launch.arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    isolate(&mut command, launch.user);
    command.envs(launch.environment.iter().copied());
    // The guard gets its own process group, so that a terminal's Ctrl-C does not reach it. This process handles Ctrl-C.
    command.process_group(0);
    command
}

/// Prepares a command to run as `user`, in a directory that every user may enter, without this process's environment.
pub(crate) fn isolate(command: &mut Command, user: Option<&User>) {
    command.current_dir("/").env_clear().env("LC_ALL", "C");
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    if let Some(user) = user {
        command.gid(user.gid.as_raw()).uid(user.uid.as_raw());
    }
}

/// Follows a guard to its end. This runs on a separate thread, so that it does not depend on a runtime.
fn follow_guard(mut guard: Child, stage_sender: &watch::Sender<Stage>) {
    let mut status = None;
    let output = guard.stdout.take().expect("the guard's standard output is piped");
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let number = |text: &str| text.parse::<i32>().ok();
        match line.split_once(' ') {
            Some(("started", pid)) => {
                stage_sender.send_replace(
                    number(pid).map_or(Stage::Starting, |pid| Stage::Running(Pid::from_raw(pid))),
                );
            }
            Some(("ended", code)) => {
                status = number(code);
                stage_sender.send_replace(Stage::Ended(status.unwrap_or(-1)));
            }
            _ => {}
        }
    }
    // The exit status is that of the shell, and not needed.
    let _ = guard.wait();
    stage_sender.send_replace(Stage::Gone(status));
}
