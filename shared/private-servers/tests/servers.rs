//! The real servers: how they start, work, die and restart, and that they leave nothing behind.
#![allow(clippy::unwrap_used, reason = "a panic in a helper fails the test")]

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use private_servers::{Error, Nats, NatsAccess, NatsOptions, Postgres, PostgresOptions};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader as AsyncReader},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

/// Far longer than any step takes, even on a busy host.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TIMEOUT, wait).await.unwrap_or_else(|_| panic!("still waiting: {what}"));
}

fn runs(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Runs a statement with `psql`, which selects its version by itself.
fn sql(url: &str, statement: &str) -> Result<String, String> {
    let output = Command::new("psql").args(["-XAtqc", statement, url]).output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

/// The server's response to a login with the password in `url`, up to the pong or the error.
async fn nats_login(url: &str) -> String {
    let (login, address) = url.strip_prefix("nats://").unwrap().split_once('@').unwrap();
    let (user, password) = login.split_once(':').unwrap();
    let mut stream = AsyncReader::new(TcpStream::connect(address).await.unwrap());
    let hello =
        format!("CONNECT {{\"verbose\":false,\"user\":\"{user}\",\"pass\":\"{password}\"}}\r\nPING\r\n");
    stream.write_all(hello.as_bytes()).await.unwrap();
    let mut response = String::new();
    while !response.contains("PONG") && !response.contains("-ERR") {
        assert_ne!(stream.read_line(&mut response).await.unwrap(), 0, "closed after {response}");
    }
    response
}

#[tokio::test]
async fn postgres_keeps_its_data_and_lets_nobody_in_without_the_password() {
    let dir = tempfile::tempdir().unwrap();
    // The servers are stopped before their data is read, so the data need not survive a power loss.
    let options = PostgresOptions { survives_power_loss: false, ..PostgresOptions::default() };
    let postgres = Postgres::start_with(dir.path(), options.clone()).await.unwrap();
    sql(&postgres.url(), "create table kept as select 7 as n").unwrap();
    let stranger = postgres.url().replace("drover:", "drover:not");
    assert!(sql(&stranger, "select 1").unwrap_err().contains("password authentication failed"));
    let second = Postgres::start_with(dir.path(), options.clone()).await.err().unwrap();
    assert!(matches!(second, Error::InUse { .. }), "{second}");

    let pid = postgres.pid().unwrap();
    postgres.stop().await.unwrap();
    assert!(!runs(pid));

    let postgres = Postgres::start_with(dir.path(), options).await.unwrap();
    assert_eq!(sql(&postgres.url(), "select n from kept").unwrap(), "7");
    assert_eq!(sql(&postgres.url(), "show synchronous_commit").unwrap(), "on");
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn postgres_comes_back_after_a_kill_under_the_same_url() {
    let mut postgres = Postgres::temporary().await.unwrap();
    let url = postgres.new_database().await.unwrap();
    sql(&url, "create table kept as select 7 as n").unwrap();
    for _ in 0..2 {
        postgres.kill9().await.unwrap();
        assert!(postgres.pid().is_none());
        sql(&url, "select 1").unwrap_err();
        postgres.restart().await.unwrap();
        assert_eq!(sql(&url, "select n from kept").unwrap(), "7");
    }
    postgres.restart().await.unwrap();
    assert_eq!(sql(&url, "select n from kept").unwrap(), "7");
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn a_stale_lock_file_does_not_keep_postgres_from_starting() {
    let dir = tempfile::tempdir().unwrap();
    let postgres = Postgres::start(dir.path()).await.unwrap();
    let pid_file = dir.path().join("postgres/data/postmaster.pid");
    let lines = fs::read_to_string(&pid_file).unwrap();
    postgres.stop().await.unwrap();
    // The pid of a live process of the user that runs the server.
    let other = Postgres::shared().await.unwrap().pid().unwrap();
    let stale: Vec<String> =
        [other.to_string()].into_iter().chain(lines.lines().skip(1).map(str::to_owned)).collect();
    fs::write(&pid_file, stale.join("\n")).unwrap();
    Postgres::start(dir.path()).await.unwrap().stop().await.unwrap();
}

#[tokio::test]
async fn databases_of_the_shared_server_are_fresh() {
    let shared = Postgres::shared().await.unwrap();
    let (one, other) = tokio::join!(shared.new_database(), shared.new_database());
    let (one, other) = (one.unwrap(), other.unwrap());
    sql(&one, "create table mine ()").unwrap();
    sql(&other, "create table mine ()").unwrap();
    assert_eq!(shared.url(), Postgres::shared().await.unwrap().url());
}

#[tokio::test]
async fn a_directory_out_of_reach_is_replaced_by_a_link() {
    if !nix::unistd::Uid::effective().is_root() {
        return; // A user can always reach their own directories.
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let inner = dir.path().join("a/b");
    let postgres = Postgres::start(&inner).await.unwrap();
    let elsewhere = fs::read_link(inner.join("postgres")).unwrap();
    sql(&postgres.url(), "create table kept ()").unwrap();
    postgres.stop().await.unwrap();
    let postgres = Postgres::start(&inner).await.unwrap();
    sql(&postgres.url(), "select from kept").unwrap();
    postgres.stop().await.unwrap();
    fs::remove_dir_all(elsewhere).unwrap();
}

#[tokio::test]
async fn a_port_of_somebody_else_is_an_error_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let options = PostgresOptions { port: Some(port), ..PostgresOptions::default() };
    let error = Postgres::temporary_with(options).await.err().unwrap();
    assert!(matches!(error, Error::PortTaken { port: named, .. } if named == port), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let error = Nats::start_with(dir.path(), NatsOptions { port: Some(port), ..NatsOptions::default() })
        .await
        .err()
        .unwrap();
    assert!(matches!(error, Error::PortTaken { port: named, .. } if named == port), "{error}");
}

#[tokio::test]
async fn a_server_that_does_not_start_shows_the_end_of_its_log() {
    let dir = tempfile::tempdir().unwrap();
    Postgres::start(dir.path()).await.unwrap().stop().await.unwrap();
    fs::remove_dir_all(dir.path().join("postgres/data/global")).unwrap();
    let error = Postgres::start(dir.path()).await.err().unwrap().to_string();
    assert!(error.contains("it ended with status") && error.contains("pg_control"), "{error}");
}

#[tokio::test]
async fn nats_wants_the_password_and_comes_back_under_the_same_url() {
    let options = NatsOptions { access: NatsAccess::Password, ..NatsOptions::default() };
    let mut nats = Nats::temporary_with(options).await.unwrap();
    assert!(nats_login(&nats.url()).await.contains("\"max_payload\":9437184"));
    let stranger = nats.url().replace("drover:", "drover:not");
    assert!(nats_login(&stranger).await.contains("Authorization Violation"));

    let url = nats.url();
    nats.kill9().await.unwrap();
    nats.restart().await.unwrap();
    assert_eq!(nats.url(), url);
    assert!(nats_login(&url).await.contains("PONG"));
    let pid = nats.pid().unwrap();
    nats.stop().await.unwrap();
    assert!(!runs(pid));
}

#[tokio::test]
async fn dropped_servers_leave_nothing() {
    let (postgres, nats) = (Postgres::temporary().await.unwrap(), Nats::temporary().await.unwrap());
    let traces = Traces::of(&[postgres.pid().unwrap(), nats.pid().unwrap()]);
    drop((postgres, nats));
    traces.vanish().await;
}

#[tokio::test]
async fn a_killed_server_that_is_dropped_leaves_nothing() {
    let postgres = Postgres::temporary().await.unwrap();
    let traces = Traces::of(&[postgres.pid().unwrap()]);
    postgres.kill9().await.unwrap();
    postgres.stop().await.unwrap();
    traces.vanish().await;
}

#[tokio::test]
async fn servers_go_with_a_process_that_is_killed() {
    let mut helper = Command::new(env::current_exe().unwrap())
        .args(["--exact", "helper_that_is_killed", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pids: Vec<u32> = BufReader::new(helper.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .find_map(|line| {
            Some(line.split_once("pids: ")?.1.split(' ').map(|pid| pid.parse().unwrap()).collect())
        })
        .expect("the helper starts its servers");
    let traces = Traces::of(&pids);
    kill(Pid::from_raw(helper.id() as i32), Signal::SIGKILL).unwrap();
    helper.wait().unwrap();
    traces.vanish().await;
}

#[tokio::test]
#[ignore = "a process for another test to kill"]
async fn helper_that_is_killed() {
    let (postgres, nats) = (Postgres::temporary().await.unwrap(), Nats::temporary().await.unwrap());
    println!("pids: {} {}", postgres.pid().unwrap(), nats.pid().unwrap());
    // Reading ends when the parent process dies, so this process ends with it.
    let mut nothing = String::new();
    std::io::stdin().read_line(&mut nothing).unwrap();
}

/// The processes, directories and shared memory of running servers.
struct Traces {
    pids: Vec<u32>,
    directories: Vec<std::path::PathBuf>,
    memory: Vec<String>,
}

impl Traces {
    /// The traces of these servers, and of the guards that are their parents.
    fn of(servers: &[u32]) -> Traces {
        let mut traces = Traces { pids: servers.to_vec(), directories: Vec::new(), memory: Vec::new() };
        for pid in servers {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim();
            traces.pids.push(parent.parse().unwrap());
            let guard = fs::read(format!("/proc/{parent}/cmdline")).unwrap();
            let guard: Vec<_> = guard.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            let directory = Path::new(guard[5].as_ref());
            assert!(directory.is_absolute() && directory.is_dir(), "{guard:?}");
            let lines = fs::read_to_string(directory.join("data/postmaster.pid")).unwrap_or_default();
            traces
                .memory
                .extend(lines.lines().nth(6).and_then(|line| line.split(' ').next_back()).map(str::to_owned));
            traces.directories.push(directory.to_owned());
        }
        traces
    }

    async fn vanish(&self) {
        until("for the processes", || !self.pids.iter().any(|pid| runs(*pid))).await;
        for directory in &self.directories {
            assert!(!directory.exists(), "{}", directory.display());
        }
        let segments = fs::read_to_string("/proc/sysvipc/shm").unwrap();
        let left = |id: &String| segments.lines().any(|line| line.split_whitespace().nth(1) == Some(id));
        assert!(!self.memory.iter().any(left), "{:?} of {segments}", self.memory);
    }
}
