//! Tests with the machine's own control groups and real tasks. They need root and a hierarchy that can be written; without,
//! they are skipped, or fail if `DROVER_REQUIRE` names `cgroups`.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use model::Text;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::json;

use super::*;
use crate::cgroups::testing::{NODE, Place};
use crate::disk::dirs::AllocDirs;
use crate::driver::raw_exec::{RawExec, Settings};
use crate::driver::start::{Progress, Start};
use crate::driver::{Driver as _, Running};
use crate::testing::{eventually, executor, secrets, task_id};

/// A place in the machine's hierarchies, and a directory for tasks.
struct Scene {
    place: Place,
    dir: TempDir,
}

impl Scene {
    /// `None` if the machine lacks what is needed.
    fn new(test: &str, needs: &[Controller]) -> Option<Self> {
        let place = Place::with(test, needs)?;
        Some(Self { place, dir: tempfile::tempdir().unwrap() })
    }

    /// Starts a shell script as the task of this name, in groups with these limits.
    async fn script(&self, task: &str, script: &str, limits: &TaskLimits) -> (Arc<dyn Running>, TaskCgroup) {
        let cgroup = self.place.cgroups.task(alloc_id(1), task, limits);
        cgroup.create(limits).unwrap();
        let dirs = AllocDirs::new(self.dir.path().join("alloc-1"));
        dirs.build().unwrap();
        dirs.task(task).build(&secrets()).unwrap();
        let config = [("command".to_owned(), json!("sh")), ("args".to_owned(), json!(["-c", script]))];
        let start = Start {
            id: task_id(),
            config: config.into_iter().collect(),
            env: BTreeMap::new(),
            user: Text::default(),
            dirs: dirs.task(task),
            state_dir: self.dir.path().join("state").join(task),
            logs: None,
            resources: limits.clone(),
            cgroup: Some(cgroup.clone()),
            mounts: Vec::new(),
            devices: Vec::new(),
            device_env: BTreeMap::new(),
            network: None,
            ports: Vec::new(),
            progress: Progress::default(),
        };
        let driver = RawExec::new(Settings::default(), executor());
        (driver.start(start).await.unwrap(), cgroup)
    }

    fn file(&self, task: &str, name: &str) -> PathBuf {
        self.dir.path().join("alloc-1").join(task).join(name)
    }

    async fn text(&self, task: &str, name: &str) -> String {
        let file = self.file(task, name);
        let read = || fs::read_to_string(&file).unwrap_or_default();
        eventually("the task has written a file", || read().ends_with('\n')).await;
        read()
    }
}

fn memory(mb: u64) -> TaskLimits {
    TaskLimits { cpu_shares: 100, node_mhz: 10_000, memory_bytes: mb * MB, ..TaskLimits::default() }
}

fn is_alive(pid: &str) -> bool {
    kill(Pid::from_raw(pid.trim().parse().unwrap()), None).is_ok()
}

#[tokio::test]
async fn a_task_is_in_its_groups_from_the_beginning_and_its_executor_is_not() {
    let Some(scene) = Scene::new("a_task_is_in_its_groups", &[Controller::Memory]) else { return };
    let script = "cat /proc/self/cgroup > groups; echo $PPID > executor; cat /proc/$PPID/cgroup > above; \
                  echo $$ > pid; exec sleep 60";
    let (task, cgroup) = scene.script("web", script, &memory(64)).await;
    let pid: i32 = scene.text("web", "pid").await.trim().parse().unwrap();
    let name = format!("{}.web.scope", alloc_id(1));
    assert!(scene.text("web", "groups").await.contains(&name));
    assert!(!scene.text("web", "above").await.contains(&name));
    assert_eq!(cgroup.processes().unwrap(), [Pid::from_raw(pid)]);
    let usage = task.usage().await.unwrap().unwrap();
    assert_eq!(usage.pids, [pid.cast_unsigned()]);
    assert!(usage.memory.usage.is_some_and(|bytes| bytes > 0), "{usage:?}");
    task.stop(None, Duration::from_secs(20)).await.unwrap();
    cgroup.remove().unwrap();
    assert!(cgroup.groups.iter().all(|group| !group.is_own || !group.dir.exists()));
}

#[tokio::test]
async fn a_task_that_takes_too_much_memory_is_killed_and_that_is_said() {
    let Some(scene) = Scene::new("a_task_that_takes_too_much_memory", &[Controller::Memory]) else { return };
    // `tail` keeps all that it has read.
    let hungry = "head -c 200000000 /dev/zero | tail -c 150000000 > /dev/null";
    let (task, cgroup) = scene.script("hungry", hungry, &memory(32)).await;
    let exit = task.wait().await;
    assert!(exit.oom_killed && !exit.successful(), "{exit:?}");
    assert_eq!(exit.message, "OOM Killed");
    assert!(cgroup.oom_kills().unwrap() > 0);

    let enough = TaskLimits { memory_max_bytes: 400 * MB, ..memory(32) };
    let (task, cgroup) = scene.script("fed", hungry, &enough).await;
    let exit = task.wait().await;
    assert!(exit.successful() && !exit.oom_killed, "{exit:?}");
    assert_eq!(cgroup.oom_kills().unwrap(), 0);
}

#[tokio::test]
async fn nothing_survives_a_task_that_starts_processes_all_the_time() {
    let Some(scene) = Scene::new("nothing_survives_a_task", &[]) else { return };
    let script = "(setsid sh -c 'echo $$ > left; while :; do setsid sleep 60 & sleep 0.01; done' &); \
                  exec sleep 60";
    let limits = TaskLimits { pids_max: Some(500), ..memory(256) };
    let (task, cgroup) = scene.script("bomb", script, &limits).await;
    let left = scene.text("bomb", "left").await;
    eventually("it has started some", || cgroup.processes().unwrap().len() > 5).await;
    task.stop(None, Duration::from_secs(20)).await.unwrap();
    assert!(cgroup.processes().unwrap().is_empty());
    assert!(!is_alive(&left));
    cgroup.remove().unwrap();
}

#[tokio::test]
async fn what_an_agent_left_behind_is_ended_with_the_groups_of_its_allocation() {
    let Some(scene) = Scene::new("what_an_agent_left_behind", &[]) else { return };
    let (task, cgroup) = scene.script("web", "echo $$ > pid; exec sleep 60", &memory(64)).await;
    let pid = scene.text("web", "pid").await;
    assert_eq!(scene.place.cgroups.leftovers(NODE).unwrap(), [alloc_id(1)].into());
    scene.place.cgroups.remove_alloc(alloc_id(1)).unwrap();
    assert!(cgroup.processes().unwrap().is_empty());
    assert!(scene.place.cgroups.leftovers(NODE).unwrap().is_empty());
    assert!(!task.wait().await.successful());
    assert!(!is_alive(&pid));
}

#[tokio::test]
async fn a_reserved_core_belongs_to_one_task_alone() {
    let Some(scene) = Scene::new("a_reserved_core", &[Controller::Cpuset]) else { return };
    let cpus = scene.place.cgroups.cpus().unwrap().clone();
    let (Some(first), true) = (cpus.first().copied(), cpus.len() > 1) else { return };
    let script = "while [ ! -e go ]; do sleep 0.01; done; grep Cpus_allowed_list /proc/self/status > cpus; exec sleep 60";
    let (other, _) = scene.script("other", script, &memory(64)).await;
    let limits = TaskLimits { cores: vec![first], ..memory(64) };
    let (own, cgroup) = scene.script("own", script, &limits).await;
    for task in ["own", "other"] {
        fs::write(scene.file(task, "go"), "").unwrap();
    }
    let allowed = async |task: &str| {
        let text = scene.text(task, "cpus").await;
        crate::cpu_list::parse(text.split_once(':').unwrap().1).unwrap()
    };
    assert_eq!(allowed("own").await, [first].into());
    let others: BTreeSet<u16> = cpus.iter().copied().filter(|cpu| *cpu != first).collect();
    assert_eq!(allowed("other").await, others);
    own.stop(None, Duration::from_secs(20)).await.unwrap();
    cgroup.remove().unwrap();
    let (again, _) = scene.script("again", script, &memory(64)).await;
    fs::write(scene.file("again", "go"), "").unwrap();
    assert_eq!(allowed("again").await, cpus, "the core is given back");
    for task in [other, again] {
        task.stop(None, Duration::from_secs(20)).await.unwrap();
    }
}

#[tokio::test]
async fn a_task_of_another_user_enters_its_groups_too() {
    let Some(scene) = Scene::new("a_task_of_another_user", &[]) else { return };
    let limits = memory(64);
    let cgroup = scene.place.cgroups.task(alloc_id(1), "user", &limits);
    cgroup.create(&limits).unwrap();
    let entry = cgroup.open().unwrap();
    let mut command = Command::new("sleep");
    command.arg("60").uid(65_534);
    // SAFETY: the closure only writes to files that are open.
    unsafe { command.pre_exec(move || entry.enter()) };
    let mut child = command.spawn().unwrap();
    assert_eq!(cgroup.processes().unwrap(), [Pid::from_raw(child.id().cast_signed())]);
    cgroup.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    cgroup.remove().unwrap();
}
