//! Tests of isolated tasks, with real processes. They need an agent that can isolate, and so root; elsewhere they are
//! skipped and say why, and fail if `DROVER_REQUIRE` has `exec`.

mod attacks;
mod escapes;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::User;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;

use super::*;
use crate::disk::dirs::AllocDirs;
use crate::disk::logs::LogFiles;
use crate::disk::secrets::{Secrets, Storage};
use crate::driver::Exit;
use crate::driver::exec_session::ExecRequest;
use crate::driver::start::{Mount, Progress, Propagation};
use crate::resources::TaskLimits;
use crate::testing::{eventually, executor, task_id};

/// The name of the facility in `DROVER_REQUIRE`.
const FACILITY: &str = "exec";
/// What the program of the tests prints before it becomes a task. The real program prints nothing.
const HEADER: &str = "\nrunning 1 test\n";
/// What it prints after that on a machine with one processor.
const NAME: &str = "test executor::tests::executor_process ... ";

/// Whether this machine can isolate tasks. If not, the test is skipped.
fn is_supported() -> bool {
    let Err(cause) = support::check() else { return true };
    let required = std::env::var("DROVER_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|name| name.trim() == FACILITY),
        "DROVER_REQUIRE has {FACILITY}: {cause}"
    );
    eprintln!("skipped: tasks cannot be isolated here: {cause}");
    false
}

/// A start of the task `web` of an allocation with this directory.
pub(super) fn start_in(alloc: &Path) -> Start {
    Start {
        id: task_id(),
        config: Map::default(),
        env: [("GREETING".to_owned(), "hello".to_owned()), ("PATH".to_owned(), "/usr/bin:/bin".to_owned())]
            .into(),
        user: Text::default(),
        dirs: AllocDirs::new(alloc.to_owned()).task("web"),
        state_dir: alloc.with_extension("state"),
        logs: Some(LogFiles {
            alloc: alloc.to_owned(),
            task: "web".into(),
            files_max: 3,
            file_bytes_max: 1 << 20,
        }),
        resources: TaskLimits::default(),
        cgroup: None,
        mounts: Vec::new(),
        devices: Vec::new(),
        device_env: BTreeMap::new(),
        network: None,
        ports: Vec::new(),
        progress: Progress::default(),
    }
}

/// An allocation with the tasks `web` and `other`, of which the first is run in isolation.
struct Scene {
    dir: TempDir,
    dirs: AllocDirs,
}

impl Scene {
    fn new(user: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let dirs = AllocDirs::new(dir.path().join("alloc-1"));
        dirs.build().unwrap();
        let owner = User::from_name(user).unwrap().unwrap();
        let owner = (owner.uid.as_raw(), owner.gid.as_raw());
        for task in ["web", "other"] {
            dirs.task(task).build(&Secrets { storage: Storage::Disk, owner, size_mb: 0 }).unwrap();
        }
        Self { dir, dirs }
    }

    fn start(&self, config: Value) -> Start {
        let Value::Object(config) = config else { unreachable!() };
        Start { config: config.into_iter().collect(), ..start_in(&self.dirs.root) }
    }

    async fn script(&self, script: &str) -> Arc<dyn Running> {
        let start = self.start(json!({ "command": "sh", "args": ["-c", script] }));
        self.driver().start(start).await.unwrap()
    }

    fn driver(&self) -> Exec {
        let settings = Settings::new(self.dir.path().join("data"));
        Exec::new(Kind::Exec, settings, executor(), true)
    }

    fn output(&self, name: &str) -> String {
        let text = fs::read_to_string(self.dirs.shared.join("logs").join(name)).unwrap_or_default();
        let text = text.strip_prefix(HEADER).unwrap_or(&text);
        text.strip_prefix(NAME).unwrap_or(text).to_owned()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dirs.task("web").task.join(name)
    }
}

#[tokio::test]
async fn a_task_sees_a_machine_of_its_own() {
    if !is_supported() {
        return;
    }
    let scene = Scene::new(DEFAULT_USER);
    let script = "id -u; hostname; echo $GREETING $HOME; pwd; cat /proc/1/comm; \
                  ls -d /proc/[0-9]* | wc -l; ls /; touch /local/a /secrets/b /tmp/c /alloc/data/d /e; \
                  touch /usr/f /alloc/logs/g 2>/dev/null || echo read-only; \
                  grep -E '^(NoNewPrivs|Seccomp|CapEff|CapBnd):' /proc/self/status; ls /dev; echo x > /dev/null";
    let task = scene.script(script).await;
    let exit = task.wait().await;
    let output = scene.output("web.stdout.0");
    assert_eq!(exit, Exit::default(), "{output}{}", scene.output("web.stderr.0"));
    let host_name = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let mut lines = output.lines();
    let uid = User::from_name(DEFAULT_USER).unwrap().unwrap().uid;
    for expected in [uid.to_string().as_str(), host_name.as_str(), "hello", "/", "sh"] {
        assert_eq!(lines.next().unwrap().trim(), expected, "{output}");
    }
    let processes: u32 = lines.next().unwrap().trim().parse().unwrap();
    assert!(processes <= 4, "the shell and what it starts: {output}");
    for line in ["alloc", "local", "secrets", "tmp", "usr", "read-only", "urandom", "pts", "shm"] {
        assert!(output.lines().any(|found| found == line), "{line}: {output}");
    }
    // net_bind_service alone; the bounding set is that of the rules.
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000400", "CapBnd:\t00000000a80405fb"] {
        assert!(output.lines().any(|found| found == line), "{line}: {output}");
    }
    for file in ["local/a", "secrets/b", "tmp/c", "e"] {
        assert!(scene.file(file).exists(), "{file}");
    }
    assert!(scene.dirs.shared.join("data/d").exists() && !scene.dirs.shared.join("logs/g").exists());
    assert_eq!(fs::read_dir(scene.file("usr")).unwrap().count(), 0, "the node sees the mount point only");
    task.destroy().await;
}

#[tokio::test]
async fn a_task_ends_with_its_signal_although_it_is_the_first_process() {
    if !is_supported() {
        return;
    }
    let scene = Scene::new(DEFAULT_USER);
    let task = scene.script("trap 'exit 3' TERM; echo > /local/ready; sleep 60 & wait").await;
    eventually("the task handles the signal", || scene.file("local/ready").exists()).await;
    task.stop(Some(Signal::SIGTERM), Duration::from_secs(20)).await.unwrap();
    assert_eq!(task.wait().await.code, 3);
    task.destroy().await;

    let deaf = Scene::new(DEFAULT_USER);
    let task = deaf.script("echo > /local/ready; exec sleep 60").await;
    eventually("the task runs", || deaf.file("local/ready").exists()).await;
    task.stop(Some(Signal::SIGHUP), Duration::from_secs(20)).await.unwrap();
    assert_eq!(task.wait().await, Exit { code: 137, signal: 9, ..Exit::default() });
}

#[tokio::test]
async fn a_command_runs_inside_the_task_also_for_another_agent() {
    if !is_supported() {
        return;
    }
    let scene = Scene::new(DEFAULT_USER);
    let task = scene.script("echo > /local/ready; exec sleep 60").await;
    eventually("the task runs", || scene.file("local/ready").exists()).await;
    let handle = task.handle();
    drop(task);
    let task = scene.driver().recover(&handle).await.unwrap();
    let script = "[ $(readlink /proc/1/ns/mnt) = $(readlink /proc/self/ns/mnt) ] && echo same; id -u; echo $GREETING; \
                  ls /local; grep -E '^(NoNewPrivs|CapEff):' /proc/self/status";
    let command = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let mut session = task.exec(ExecRequest { command, tty: false, size: None }).await.unwrap();
    let (mut stdout, mut stderr) = (String::new(), String::new());
    session.stdout.read_to_string(&mut stdout).await.unwrap();
    session.stderr.take().unwrap().read_to_string(&mut stderr).await.unwrap();
    assert_eq!(session.exit.await.unwrap(), Ok(0), "{stdout}{stderr}");
    let uid = User::from_name(DEFAULT_USER).unwrap().unwrap().uid;
    let expected = format!("same\n{uid}\nhello\nready\nCapEff:\t0000000000000400\nNoNewPrivs:\t1\n");
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<&str> = expected.lines().collect();
    expected.sort_unstable();
    assert_eq!(lines, expected, "{stderr}");
    task.stop(None, Duration::from_secs(20)).await.unwrap();
}

#[tokio::test]
async fn what_a_task_changes_in_its_directory_does_not_lead_mounts_astray() {
    if !is_supported() {
        return;
    }
    let scene = Scene::new(DEFAULT_USER);
    let outside = scene.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    // As an earlier run of the task could have done.
    std::os::unix::fs::symlink(&outside, scene.file("usr")).unwrap();
    let task = scene.script("true").await;
    task.wait().await;
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "nothing is made outside");
    assert!(scene.file(outside.strip_prefix("/").unwrap().to_str().unwrap()).is_dir(), "but in the root");
    task.destroy().await;
    let shared = scene.file("alloc");
    fs::remove_dir(&shared).unwrap();
    fs::write(&shared, "").unwrap();
    let start = scene.start(json!({ "command": "true" }));
    let refused = scene.driver().start(start).await.err().unwrap().to_string();
    assert!(refused.contains("cannot mount /alloc: one is a directory and the other is not"), "{refused}");
}

#[tokio::test]
async fn a_task_that_cannot_be_started_says_why() {
    if !is_supported() {
        return;
    }
    let scene = Scene::new(DEFAULT_USER);
    let mount = Mount {
        source: scene.dir.path().join("none"),
        target: "/data".into(),
        read_only: true,
        propagation: Propagation::Private,
        selinux_label: String::new(),
    };
    let start = |config: Value| scene.start(config);
    let with_mount = Start { mounts: vec![mount], ..start(json!({ "command": "true" })) };
    let stranger = Start { user: "nobody-at-all".into(), ..start(json!({ "command": "true" })) };
    for (start, reason) in [
        (start(json!({ "command": "no-such-thing" })), "executable \"no-such-thing\" was not found"),
        (start(json!({ "command": "true", "work_dir": "/no/such/dir" })), "No such file"),
        (
            start(json!({ "command": "true", "cap_add": ["sys_admin"] })),
            "does not allow the following capabilities",
        ),
        (start(json!({ "command": "true", "image": "x" })), "unknown field `image`"),
        (with_mount, "cannot mount /data: No such file"),
        (stranger, "user \"nobody-at-all\" does not exist"),
    ] {
        let refused = scene.driver().start(start).await.err().unwrap().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
}

#[test]
fn denied_users_are_refused() {
    let ids = |text: &str| crate::driver::raw_exec::IdRanges::read(text).unwrap();
    let settings = Settings { denied_uids: ids("5"), denied_gids: ids("7"), ..Settings::new("/data".into()) };
    let check = |uid, groups: &[u32]| settings.check_user(&Account::for_tests("ada", uid, uid, groups));
    assert_eq!(check(5, &[]).unwrap_err(), "running as uid 5 is disallowed");
    assert_eq!(check(6, &[7]).unwrap_err(), "running as gid 7 is disallowed");
    assert_eq!(check(6, &[8]), Ok(()));
}
