//! A whole cluster in one process, as one person has it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tests::harness::processes;

use crate::BINARY;

/// A running `drover dev` or `drover agent -dev`.
pub(crate) struct Dev {
    child: Child,
    /// What it prints; open for as long as it may print.
    _output: ChildStdout,
    /// The API's address, as a URL.
    pub(crate) address: String,
    /// Where all its files are.
    pub(crate) dir: TempDir,
}

impl Dev {
    /// Starts one, and waits until it says where it is.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("there is room for temporary files");
        let mut command = Command::new(BINARY);
        command.args(arguments).env("DROVER_HTTP_ADDR", "127.0.0.1:0");
        command.env("TMPDIR", dir.path()).current_dir(dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary is there");
        let mut output = child.stdout.take().expect("it is a pipe");
        let mut lines = BufReader::new(&mut output).lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let (_, rest) = line.split_once("Drover is up at ")?;
            rest.split(';').next().map(str::to_owned)
        });
        drop(lines);
        let address = address.expect("it says where it is before it ends");
        Self { child, _output: output, address, dir }
    }

    /// Does what Ctrl-C does, and waits for its end.
    pub(crate) fn interrupt(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("process ids are small"));
        kill(pid, Signal::SIGINT).expect("one's own children can be interrupted");
        let ended = self.child.wait().expect("and waited for");
        assert!(ended.success(), "{ended:?}");
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Most often it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        processes::kill_processes_of(self.dir.path());
    }
}
