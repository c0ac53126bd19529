//! A whole cluster in one process, as on a developer's machine.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tests::harness::{mounts, processes};

use crate::BINARY;

/// A running `drover dev` or `drover agent -dev`.
pub(crate) struct Dev {
    child: Child,
    /// Its standard output, which must stay open as long as it may print.
    _output: ChildStdout,
    /// The URL of the API.
    pub(crate) address: String,
    /// The directory with all its files.
    pub(crate) dir: TempDir,
}

impl Dev {
    /// Starts a process, and waits until it prints its address.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be created");
        let mut command = Command::new(BINARY);
        command.args(arguments).env("DROVER_HTTP_ADDR", "127.0.0.1:0");
        // Tests read what the log says, and its level.
        command.env_remove("DROVER_LOG_LEVEL");
        command.env("TMPDIR", dir.path()).current_dir(dir.path());
        // A full disk of the machine does not remove what has ended.
        command.env("DROVER_GC_DISK_PERCENT_MAX", "100");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary can be started");
        let mut output = child.stdout.take().expect("the standard output is piped");
        let mut lines = BufReader::new(&mut output).lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let (_, rest) = line.split_once("Drover is up at ")?;
            rest.split(';').next().map(str::to_owned)
        });
        drop(lines);
        let address = address.expect("the process prints its address before it exits");
        Self { child, _output: output, address, dir }
    }

    /// Sends SIGINT as Ctrl-C does, and waits until the process exits.
    pub(crate) fn interrupt(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id fits into an i32"));
        kill(pid, Signal::SIGINT).expect("a child process can be signalled");
        let status = self.child.wait().expect("a child process can be waited for");
        assert!(status.success(), "{status:?}");
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // It has usually exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        processes::kill_processes_of(self.dir.path());
        mounts::unmount_below(self.dir.path());
    }
}
