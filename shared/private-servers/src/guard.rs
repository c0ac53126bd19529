//! One running server and the guard process over it, which outlives us just long enough to clean up.
//! What the server is, and when it is ready, is its own file's business.

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

/// The guard itself: a shell is on every machine, and a fork of our own would not be safe.
const SCRIPT: &str = include_str!("guard.sh");

/// Longer than the ten seconds after which the guard kills a server that does not stop.
pub(crate) const STOP_WITHIN: Duration = Duration::from_secs(15);

/// What the guard is to run, and how.
pub(crate) struct Launch<'a> {
    /// Names the server in errors and logs.
    pub(crate) server: &'static str,
    pub(crate) program: &'a Path,
    pub(crate) arguments: Vec<String>,
    /// All that the server finds in its environment besides a path and a locale.
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// Where guard and server run as somebody else than this process does.
    pub(crate) user: Option<&'a User>,
    /// Asks the server for an orderly stop.
    pub(crate) stop: Signal,
    /// Gets both outputs of the server.
    pub(crate) log: PathBuf,
    /// Removed when this process is done with the server, or dead.
    pub(crate) remove: Option<PathBuf>,
}

/// How far a guarded server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Starting,
    Running(Pid),
    /// It ended with this status as the shell counts it; the guard still watches over its files.
    Ended(i32),
    /// The guard has cleaned up and is gone; the server's status, if it said one.
    Gone(Option<i32>),
}

/// The pipe to a guard: dropping it stops the server.
pub(crate) struct Guard {
    server: &'static str,
    pipe: ChildStdin,
    stage: watch::Receiver<Stage>,
}

impl Guard {
    /// Starts a server under a new guard; returns as soon as it has a process.
    pub(crate) async fn launch(launch: Launch<'_>) -> Result<Guard, Error> {
        let server = launch.server;
        let mut child = command(launch).spawn().map_err(|source| Error::Run { program: "sh", source })?;
        let pipe = child.stdin.take().expect("the guard's standard input is piped");
        let (tell, stage) = watch::channel(Stage::Starting);
        thread::Builder::new()
            .name(format!("{server} guard"))
            .spawn(move || listen(child, &tell))
            .map_err(|source| Error::Run { program: "sh", source })?;
        let guard = Guard { server, pipe, stage };
        guard.reached(|stage| *stage != Stage::Starting).await?;
        Ok(guard)
    }

    /// Removes `directory` when this process is done, or dead: a guard over files that have no server yet.
    pub(crate) async fn over_files(directory: &Path, user: Option<&User>) -> Result<Guard, Error> {
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

    /// The server's process, while it runs.
    pub(crate) fn pid(&self) -> Option<Pid> {
        match *self.stage.borrow() {
            Stage::Running(pid) => Some(pid),
            Stage::Starting | Stage::Ended(_) | Stage::Gone(_) => None,
        }
    }

    /// Waits until `ready` is done: not longer than `within`, nor for a server that has ended.
    pub(crate) async fn until(
        &self,
        ready: impl Future<Output = ()>,
        within: Duration,
    ) -> Result<(), String> {
        let mut stage = self.stage.clone();
        let ended = stage.wait_for(|stage| matches!(stage, Stage::Ended(_) | Stage::Gone(_)));
        tokio::select! {
            () = ready => Ok(()),
            stage = ended => match stage.as_deref() {
                Ok(Stage::Ended(status) | Stage::Gone(Some(status))) => Err(format!("it ended with status {status}")),
                _ => Err("its guard is gone".to_owned()),
            },
            () = sleep(within) => Err(format!("not ready after {within:?}")),
        }
    }

    /// Signals the server and waits until it has ended.
    pub(crate) async fn end_with(&self, signal: Signal) -> Result<(), Error> {
        if let Some(pid) = self.pid() {
            // It may have ended by itself meanwhile; what counts is that it is over.
            let _ = kill(pid, signal);
        }
        self.reached(|stage| matches!(stage, Stage::Ended(_))).await
    }

    /// Stops the server, has the guard remove what it is to remove, and waits until both are gone.
    pub(crate) async fn stop(self) -> Result<(), Error> {
        let Guard { server, pipe, stage } = self;
        drop(pipe);
        reached(server, stage, |_| false).await
    }

    /// Leaves the files to another guard. The server must have ended.
    pub(crate) fn keep_files(mut self) {
        // A guard that is gone removes nothing either.
        let _ = self.pipe.write_all(b"keep\n");
    }

    async fn reached(&self, is_there: impl FnMut(&Stage) -> bool) -> Result<(), Error> {
        reached(self.server, self.stage.clone(), is_there).await
    }
}

/// Waits for a stage, or for the guard's end, which only a stuck system does not reach.
async fn reached(
    server: &'static str,
    mut stage: watch::Receiver<Stage>,
    mut is_there: impl FnMut(&Stage) -> bool,
) -> Result<(), Error> {
    let there = stage.wait_for(|stage| matches!(stage, Stage::Gone(_)) || is_there(stage));
    match timeout(STOP_WITHIN, there).await {
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
    run_apart(&mut command, launch.user);
    command.envs(launch.environment.iter().copied());
    // A terminal's Ctrl-C is for us to act on, in our order.
    command.process_group(0);
    command
}

/// Lets a command run as `user`, from a directory that everybody may enter, with none of our environment.
pub(crate) fn run_apart(command: &mut Command, user: Option<&User>) {
    command.current_dir("/").env_clear().env("LC_ALL", "C");
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    if let Some(user) = user {
        command.gid(user.gid.as_raw()).uid(user.uid.as_raw());
    }
}

/// Follows a guard to its end, on a thread of its own so that no runtime needs to outlive another.
fn listen(mut guard: Child, tell: &watch::Sender<Stage>) {
    let mut status = None;
    let said = guard.stdout.take().expect("the guard's standard output is piped");
    for line in BufReader::new(said).lines().map_while(Result::ok) {
        let number = |text: &str| text.parse::<i32>().ok();
        match line.split_once(' ') {
            Some(("started", pid)) => {
                tell.send_replace(
                    number(pid).map_or(Stage::Starting, |pid| Stage::Running(Pid::from_raw(pid))),
                );
            }
            Some(("ended", code)) => {
                status = number(code);
                tell.send_replace(Stage::Ended(status.unwrap_or(-1)));
            }
            _ => {}
        }
    }
    // The outcome says nothing: it is the exit of a shell.
    let _ = guard.wait();
    tell.send_replace(Stage::Gone(status));
}
