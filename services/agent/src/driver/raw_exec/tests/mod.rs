//! Tests with real processes and real executors.

mod exec;

use std::os::unix::fs::symlink;
use std::time::Duration;

use model::Text;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::disk::dirs::AllocDirs;
use crate::disk::logs::LogFiles;
use crate::driver::Exit;
use crate::driver::start::Progress;
use crate::executor::parent_of;
use crate::resources::TaskLimits;
use crate::testing::{eventually, executor, secrets, task_id};

/// An allocation's directory with a task that is a shell script.
struct Scene {
    dir: TempDir,
    dirs: AllocDirs,
    starts: std::cell::Cell<u32>,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let dirs = AllocDirs::new(dir.path().join("alloc-1"));
        dirs.build().unwrap();
        dirs.task("web").build(&secrets()).unwrap();
        Self { dir, dirs, starts: std::cell::Cell::new(0) }
    }

    fn start(&self, config: Value) -> Start {
        let Value::Object(config) = config else { unreachable!() };
        self.starts.set(self.starts.get() + 1);
        Start {
            id: task_id(),
            config: config.into_iter().collect(),
            env: [("GREETING".to_owned(), "hello".to_owned()), ("HIDDEN".to_owned(), "x".to_owned())].into(),
            user: Text::default(),
            dirs: self.dirs.task("web"),
            state_dir: self.dir.path().join(format!("state/exec-{}", self.starts.get())),
            logs: Some(LogFiles {
                alloc: self.dirs.root.clone(),
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

    async fn script(&self, script: &str) -> Arc<dyn Running> {
        let start = self.start(json!({ "command": "sh", "args": ["-c", script] }));
        driver().start(start).await.unwrap()
    }

    fn output(&self, name: &str) -> String {
        fs::read_to_string(self.dirs.shared.join("logs").join(name)).unwrap_or_default()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dirs.task("web").task.join(name)
    }

    async fn pid_in(&self, name: &str) -> Pid {
        let file = self.file(name);
        let read = || fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
        eventually("the task has written its process id", || read().is_some()).await;
        Pid::from_raw(read().unwrap())
    }
}

fn driver() -> RawExec {
    RawExec::new(Settings { denied_env: vec!["HID*".into()], ..Settings::default() }, executor())
}

fn is_alive(pid: Pid) -> bool {
    kill(pid, None).is_ok()
}

async fn refusal(start: Start) -> String {
    match driver().start(start).await {
        Ok(_) => panic!("the task started"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_task_runs_writes_and_ends() {
    let scene = Scene::new();
    let task = scene.script("echo $GREETING$HIDDEN; pwd >&2; exit 7").await;
    assert_eq!(task.wait().await, Exit { code: 7, ..Exit::default() });
    assert_eq!(scene.output("web.stdout.0"), "hello\n");
    assert_eq!(scene.output("web.stderr.0").trim(), scene.dirs.task("web").task.to_str().unwrap());
    task.destroy().await;
    assert!(!scene.dir.path().join("state/exec-1").exists());
}

#[tokio::test]
async fn a_task_gets_its_kill_signal_and_is_killed_after_the_timeout() {
    let scene = Scene::new();
    let polite = scene.script("trap 'exit 3' TERM; echo > ready; sleep 60 & wait").await;
    eventually("the task handles the signal", || scene.file("ready").exists()).await;
    polite.stop(Some(Signal::SIGTERM), Duration::from_secs(20)).await.unwrap();
    assert_eq!(polite.wait().await.code, 3);

    let stubborn = scene.script("trap '' TERM; echo > deaf; sleep 60").await;
    eventually("the task ignores the signal", || scene.file("deaf").exists()).await;
    stubborn.stop(Some(Signal::SIGTERM), Duration::from_millis(50)).await.unwrap();
    assert_eq!(stubborn.wait().await, Exit { code: 137, signal: 9, ..Exit::default() });
    stubborn.stop(None, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn processes_that_a_task_leaves_behind_end_with_it() {
    let scene = Scene::new();
    let task = scene
        .script("setsid sh -c 'echo $$ > left; exec sleep 60' & while [ -d local -a ! -s left ]; do sleep 0.01; done")
        .await;
    let left = scene.pid_in("left").await;
    assert_eq!(task.wait().await, Exit::default());
    assert!(!is_alive(left), "processes in other sessions end, too");
}

#[tokio::test]
async fn another_agent_finds_a_task_again() {
    let scene = Scene::new();
    let task =
        scene.script("echo $$ > pid; while [ -d local -a ! -e go ]; do sleep 0.01; done; exit 5").await;
    let (handle, pid) = (task.handle(), scene.pid_in("pid").await);
    drop(task);
    let found = driver().recover(&handle).await.unwrap();
    assert!(is_alive(pid), "the same process is still running");
    fs::write(scene.file("go"), "").unwrap();
    assert_eq!(found.wait().await.code, 5);
    let later = driver().recover(&handle).await.unwrap();
    assert_eq!(later.wait().await.code, 5, "the exit is kept until the task is destroyed");
    later.destroy().await;
    assert!(driver().recover(&handle).await.is_err());
}

#[tokio::test]
async fn a_task_without_its_executor_is_lost_and_ended() {
    let scene = Scene::new();
    let task = scene.script("echo $$ > pid; echo $PPID > executor; exec sleep 60").await;
    let (pid, executor) = (scene.pid_in("pid").await, scene.pid_in("executor").await);
    let handle = task.handle();
    kill(executor, Signal::SIGKILL).unwrap();
    assert_eq!(task.wait().await.message, "the task's executor has died");
    while let Ok(found) = driver().recover(&handle).await {
        // The executor was still ending.
        assert_eq!(found.wait().await.message, "the task's executor has died");
    }
    driver().discard(&handle).await;
    eventually("the process has ended", || !is_alive(pid)).await;
}

/// A task with a descendant in another session, whose parent has ended: the processes of the task, of the descendant and of
/// the executor.
async fn task_with_orphan(scene: &Scene) -> (Arc<dyn Running>, [Pid; 3]) {
    let script = "echo $$ > pid; echo $PPID > executor; (setsid sh -c 'echo $$ > orphan; exec sleep 60' &); \
                  exec sleep 60";
    let task = scene.script(script).await;
    let pids = [scene.pid_in("pid").await, scene.pid_in("orphan").await, scene.pid_in("executor").await];
    (task, pids)
}

#[tokio::test]
async fn nothing_of_a_task_outlives_its_executor() {
    let scene = Scene::new();
    let (task, [pid, orphan, executor]) = task_with_orphan(&scene).await;
    kill(executor, Signal::SIGKILL).unwrap();
    assert_eq!(task.wait().await.message, "the task's executor has died");
    assert!(!is_alive(pid) && !is_alive(orphan));
}

#[tokio::test]
async fn nothing_of_a_task_outlives_the_guard_of_its_executor() {
    let scene = Scene::new();
    let (task, [pid, orphan, executor]) = task_with_orphan(&scene).await;
    kill(parent_of(executor).unwrap(), Signal::SIGKILL).unwrap();
    assert!(!task.wait().await.successful());
    // The process that adopts them reaps them a moment later.
    eventually("all have ended", || [pid, orphan, executor].into_iter().all(|pid| !runs(pid))).await;
}

/// Whether a process exists and is no zombie.
fn runs(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[tokio::test]
async fn unknown_executors_are_found_by_their_directories_and_ended() {
    let scene = Scene::new();
    let (known, lost) =
        (scene.script("exec sleep 60").await, scene.script("echo $$ > pid; exec sleep 60").await);
    let pid = scene.pid_in("pid").await;
    let dir = scene.dir.path().join("state");
    process::end_leftovers(&dir, Some(&dir.join("exec-1"))).await;
    assert!(!is_alive(pid));
    drop(lost);
    assert!(dir.join("exec-1").exists() && !dir.join("exec-2").exists());
    known.stop(None, Duration::from_secs(20)).await.unwrap();

    // An agent was killed before its executor started anything, and the executor is gone.
    fs::create_dir(dir.join("exec-3")).unwrap();
    process::end_leftovers(&dir, None).await;
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    process::end_leftovers(&scene.dir.path().join("none"), None).await;
}

#[test]
fn denied_users_and_groups_are_refused() {
    let ids = |text: &str| IdRanges::read(text).unwrap();
    let root = Account::for_tests("root", 0, 0, &[]);
    let member = Account::for_tests("ada", 1_000, 1_000, &[27, 998]);
    let settings = Settings { denied_uids: ids("0"), denied_gids: ids("998-999"), ..Settings::default() };
    let refusal = |account, is_named| settings.check(account, is_named).unwrap_err().to_string();
    assert_eq!(refusal(&root, true), "running as uid 0 is disallowed");
    assert_eq!(
        refusal(&root, false),
        "running as uid 0 is disallowed; the task names no user, and so would run as the agent's"
    );
    assert_eq!(refusal(&member, true), "running as gid 998 is disallowed");
    let others = Settings { denied_uids: ids("1"), denied_gids: ids("1001"), ..Settings::default() };
    assert!(others.check(&root, false).is_ok() && others.check(&member, true).is_ok());
}

#[tokio::test]
async fn a_task_that_names_no_user_runs_only_if_the_agents_user_may() {
    let scene = Scene::new();
    let denied_uids = IdRanges::read(&geteuid().to_string()).unwrap();
    let driver = RawExec::new(Settings { denied_uids, ..Settings::default() }, executor());
    let refused = driver.start(scene.start(json!({ "command": "sh" }))).await.err().unwrap().to_string();
    assert!(refused.starts_with(&format!("running as uid {} is disallowed", geteuid())), "{refused}");
}

#[tokio::test]
async fn an_executor_does_not_write_where_a_task_leads_it() {
    let scene = Scene::new();
    let outside = scene.dir.path().join("outside");
    fs::write(&outside, "").unwrap();
    symlink(&outside, scene.file("executor.out")).unwrap();
    let refused = refusal(scene.start(json!({ "command": "sh" }))).await;
    assert_eq!(refused, "cannot open executor.out: executor.out is a link, or leads through one");
    fs::remove_file(scene.file("executor.out")).unwrap();
    let logs = scene.dirs.shared.join("logs");
    fs::remove_dir(&logs).unwrap();
    symlink(scene.dir.path(), logs).unwrap();
    let refused = refusal(scene.start(json!({ "command": "sh" }))).await;
    assert!(refused.contains("alloc/logs is a link, or leads through one"), "{refused}");
}

#[test]
fn only_files_of_the_job_are_made_executable() {
    let scene = Scene::new();
    let dirs = scene.dirs.task("web");
    let outside = scene.dir.path().join("outside");
    fs::write(&outside, "").unwrap();
    symlink(&outside, dirs.local.join("link")).unwrap();
    let absolute = outside.display().to_string();
    for command in ["link", "../../../outside", absolute.as_str()] {
        let refused = find_command(command, &dirs, "").unwrap_err().to_string();
        assert!(refused.starts_with("cannot make "), "{command}: {refused}");
        assert!(!is_executable(&outside), "{command}");
    }
    fs::write(dirs.shared.join("data/tool"), "").unwrap();
    symlink("../../alloc/data/tool", dirs.local.join("tool")).unwrap();
    find_command("tool", &dirs, "").unwrap();
    assert!(is_executable(&dirs.shared.join("data/tool")), "a link may stay inside the allocation");
}

#[tokio::test]
async fn a_task_that_cannot_be_started_says_why() {
    let scene = Scene::new();
    assert_eq!(
        refusal(scene.start(json!({ "command": "no-such-thing" }))).await,
        r#"executable "no-such-thing" was not found"#
    );
    assert_eq!(
        refusal(scene.start(json!({ "command": "sh", "work_dir": "here" }))).await,
        r#"failed driver config validation: work_dir "here" is not absolute"#
    );
    let unknown = refusal(scene.start(json!({ "command": "sh", "cgroup": "x" }))).await;
    assert!(unknown.starts_with("failed to decode driver config: unknown field `cgroup`"), "{unknown}");
    let missing = refusal(scene.start(json!({ "command": "sh", "work_dir": "/no/such/dir" }))).await;
    assert!(missing.starts_with("failed to launch command with executor: No such file"), "{missing}");
    let greedy = refusal(scene.start(json!({ "command": "sh", "oom_score_adj": 5_000 }))).await;
    assert!(greedy.starts_with("failed to launch command with executor: Invalid argument"), "{greedy}");
    let stranger = Start { user: "nobody-at-all".into(), ..scene.start(json!({ "command": "sh" })) };
    assert_eq!(refusal(stranger).await, r#"user "nobody-at-all" does not exist"#);
}

#[tokio::test]
async fn groups_that_a_job_names_and_reserved_cores_need_cgroups() {
    let scene = Scene::new();
    for named in [
        json!({ "command": "sh", "cgroup_v2_override": "x" }),
        json!({ "command": "sh", "cgroup_v1_override": { "memory": "x" } }),
        json!({ "command": "sh", "cgroup_v1_override": [{ "memory": "x" }] }),
    ] {
        let refused = refusal(scene.start(named)).await;
        assert!(refused.starts_with("unable to configure cgroups: the task names some"), "{refused}");
    }
    let made = Start {
        cgroup: Some(TaskCgroup::for_tests()),
        ..scene.start(json!({ "command": "sh", "cgroup_v2_override": "no-such-group" }))
    };
    assert_eq!(
        refusal(made).await,
        "unable to configure cgroups: cgroup_v2_override: there is no cgroup /sys/fs/cgroup/no-such-group"
    );
    let cores = Start {
        resources: TaskLimits { cores: vec![1], ..TaskLimits::default() },
        ..scene.start(json!({ "command": "sh" }))
    };
    assert!(refusal(cores).await.starts_with("reserved cores cannot be enforced"));
}

#[test]
fn commands_that_a_job_brought_come_first() {
    let scene = Scene::new();
    let dirs = scene.dirs.task("web");
    let find = |command| find_command(command, &dirs, "/usr/bin:/bin").map_err(|error| error.to_string());
    assert!(["/bin/sh", "/usr/bin/sh"].map(PathBuf::from).contains(&find("sh").unwrap()));
    assert_eq!(find("/bin/sh").unwrap(), Path::new("/bin/sh"));
    fs::write(dirs.task.join("sh"), "").unwrap();
    assert_eq!(find("sh").unwrap(), dirs.task.join("sh"));
    fs::write(dirs.local.join("sh"), "").unwrap();
    assert_eq!(find("sh").unwrap(), dirs.local.join("sh"));
    assert!(is_executable(&dirs.local.join("sh")), "a command of the job is made executable");
    assert!(find("bin/none").is_err() && find("").is_err());
}

#[test]
fn ids_are_denied_in_ranges() {
    let ids = IdRanges::read("0, 1000-1002,").unwrap();
    assert_eq!(
        [0, 1, 999, 1_000, 1_002, 1_003].map(|id| ids.contains(id)),
        [true, false, false, true, true, false]
    );
    assert_eq!(IdRanges::read("5-x").unwrap_err(), r#"invalid range "5-x""#);
}
