//! Does what the first page promises work: `drover dev`, `drover job run`, `drover alloc logs`, and Ctrl-C?

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tests::harness::api::{Api, array, text};
use tests::harness::{processes, until};

use crate::BINARY;

const HELLO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/hello.nomad.hcl");

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_for_one_runs_the_example_and_leaves_nothing() {
    let mut dev = Dev::start();
    let (dir, address) = (dev.dir.path().to_owned(), dev.address.clone());

    let planned = drover(&address, &["job", "plan", HELLO]);
    let page = String::from_utf8_lossy(&planned.stdout);
    assert_eq!(planned.status.code(), Some(1), "allocations would change: {planned:?}");
    assert!(page.contains("Job: \"hello\"") && page.contains("All tasks successfully allocated"), "{page}");

    let output = drover(&address, &["job", "run", HELLO]);
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("Monitoring deployment") && told.trim_end().ends_with("successful"), "{told}");
    assert_eq!(drover(&address, &["job", "plan", HELLO]).status.code(), Some(0), "nothing would change");
    let listed = String::from_utf8_lossy(&drover(&address, &["deployment", "list"]).stdout).into_owned();
    assert!(listed.contains("Deployment completed successfully"), "{listed}");
    let api = Api::new(address.strip_prefix("http://").expect("a URL").to_owned());
    let allocs = api.get("/v1/job/hello/allocations").await;
    assert_eq!(array(&allocs).len(), 2);
    let alloc = &array(&allocs)[0];
    let greeting = format!("Hello from {}", text(alloc, "Name"));
    let logs = async || {
        let output = drover(&address, &["alloc", "logs", text(alloc, "ID")]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).contains(&greeting).then_some(())
    };
    until("the log says hello", logs, String::new).await;

    // At least itself, PostgreSQL, nats-server, and two tasks.
    assert!(processes::all_of(&dir).len() >= 5);
    dev.interrupt();
    let gone = async || processes::all_of(&dir).is_empty().then_some(());
    until("all processes are gone", gone, || format!("{:?}", processes::all_of(&dir))).await;
    let left: Vec<PathBuf> =
        dir.read_dir().expect("it is there").flatten().map(|entry| entry.path()).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
}

/// A running `drover dev`.
struct Dev {
    child: Child,
    /// What it prints; open for as long as it may print.
    _output: ChildStdout,
    /// The API's address, as a URL.
    address: String,
    /// Where all its files are.
    dir: TempDir,
}

impl Dev {
    /// Starts one, and waits until it says where it is.
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("there is room for temporary files");
        let mut command = Command::new(BINARY);
        command.args(["dev", "--ephemeral", "--http-addr", "127.0.0.1:0"]).env("TMPDIR", dir.path());
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
    fn interrupt(&mut self) {
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
        processes::kill_all_of(self.dir.path());
    }
}

fn drover(address: &str, arguments: &[&str]) -> Output {
    let output = Command::new(BINARY).args(arguments).env("NOMAD_ADDR", address).output();
    output.expect("the binary is there")
}
