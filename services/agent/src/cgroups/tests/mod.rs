//! Tests of control groups: with trees of ordinary files as the kernel would have them, and in `real` with the machine's
//! own.

mod real;

use std::fs;

use tempfile::TempDir;

use super::*;
use crate::testing::alloc_id;

const MB: u64 = 1 << 20;

/// A hierarchy that consists of ordinary files, which a kernel would make together with each group.
struct Tree {
    dir: TempDir,
}

impl Tree {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, inner: &str) -> PathBuf {
        self.dir.path().join(inner)
    }

    fn put(&self, group: &str, files: &[(&str, &str)]) {
        fs::create_dir_all(self.path(group)).unwrap();
        for (file, text) in files {
            fs::write(self.path(group).join(file), text).unwrap();
        }
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap()
    }

    /// A hierarchy of version 2 with four processors and these controllers.
    fn v2(controllers: &str) -> Self {
        let tree = Self::new();
        for group in ["", "nomad.slice", "nomad.slice/share.slice", "nomad.slice/reserve.slice"] {
            tree.put(
                group,
                &[
                    ("cgroup.controllers", controllers),
                    ("cgroup.subtree_control", controllers),
                    ("cgroup.procs", ""),
                    ("cpuset.cpus", ""),
                    ("cpuset.cpus.effective", "0-3\n"),
                ],
            );
        }
        tree
    }

    /// Hierarchies of version 1 with four processors.
    fn v1() -> Self {
        let tree = Self::new();
        for slice in ["", "/share.slice", "/reserve.slice"] {
            tree.put(&format!("cpuset/nomad.slice{slice}"), &[("cpuset.cpus", "\n"), ("cpuset.mems", "\n")]);
        }
        tree.put("cpuset", &[("cpuset.cpus", "0-3\n"), ("cpuset.mems", "0\n")]);
        tree
    }

    fn mounts_v1(&self) -> Mounts {
        let names = [
            (Controller::Cpu, "cpu,cpuacct"),
            (Controller::Cpuacct, "cpu,cpuacct"),
            (Controller::Cpuset, "cpuset"),
            (Controller::Memory, "memory"),
        ];
        Mounts { unified: None, controllers: names.map(|(name, dir)| (name, self.path(dir))).into() }
    }

    fn found(&self, mounts: &Mounts) -> io::Result<Cgroups> {
        Cgroups::make(mounts, None, Path::new("nomad.slice"), &BTreeSet::new())
    }

    fn found_v2(&self) -> Cgroups {
        self.found(&Mounts { unified: Some(self.dir.path().to_owned()), ..Mounts::default() }).unwrap()
    }
}

fn limits() -> TaskLimits {
    TaskLimits {
        cpu_shares: 500,
        node_mhz: 10_000,
        memory_bytes: 64 * MB,
        memory_max_bytes: 128 * MB,
        pids_max: Some(100),
        ..TaskLimits::default()
    }
}

fn with_cores(cores: &[u16]) -> TaskLimits {
    TaskLimits { cores: cores.to_vec(), ..limits() }
}

fn scope(slice: &str, task: &str) -> String {
    format!("nomad.slice/{slice}/{}.{task}.scope", alloc_id(1))
}

#[test]
fn the_parent_is_a_path_below_the_root() {
    assert_eq!(parent_path("nomad.slice").unwrap(), Path::new("nomad.slice"));
    assert_eq!(parent_path("/a/b/").unwrap(), Path::new("a/b"));
    for name in ["", "/", "../x", "a/../b", "a\nb"] {
        assert!(parent_path(name).is_err(), "{name:?}");
    }
}

#[test]
fn the_limits_of_a_task_are_set_with_version_2() {
    let tree = Tree::v2("cpuset cpu io memory pids");
    let cgroups = tree.found_v2();
    assert_eq!((cgroups.version_number(), cgroups.parent_name()), (2, "nomad.slice".to_owned()));
    let name = scope("share.slice", "web");
    let files = ["cgroup.procs", "cpu.weight", "memory.max", "memory.low", "pids.max"];
    tree.put(&name, &files.map(|file| (file, "")));
    let task = cgroups.task(alloc_id(1), "web", &limits());
    task.create(&limits()).unwrap();
    for (file, value) in
        [("cpu.weight", "500"), ("memory.max", "134217728"), ("memory.low", "67108864"), ("pids.max", "100")]
    {
        assert_eq!(tree.text(&format!("{name}/{file}")), value, "{file}");
    }
    task.open().unwrap().enter().unwrap();
    assert_eq!(tree.text(&format!("{name}/cgroup.procs")), "0");
}

#[test]
fn the_limits_of_a_task_are_set_with_version_1() {
    let tree = Tree::v1();
    let cgroups = tree.found(&tree.mounts_v1()).unwrap();
    assert_eq!(cgroups.version_number(), 1);
    let name = scope("share.slice", "web");
    let file = |dir: &str, files: &[&str]| {
        let files: Vec<_> = files.iter().map(|file| (*file, "")).collect();
        tree.put(&format!("{dir}/{name}"), &files);
    };
    file("cpu,cpuacct", &["tasks", "cpu.shares"]);
    file("memory", &["tasks", "memory.limit_in_bytes", "memory.soft_limit_in_bytes"]);
    tree.put("cpuset/nomad.slice/share.slice", &[("tasks", "")]);
    let task = cgroups.task(alloc_id(1), "web", &limits());
    task.create(&limits()).unwrap();
    assert_eq!(tree.text(&format!("cpu,cpuacct/{name}/cpu.shares")), "500");
    assert_eq!(tree.text(&format!("memory/{name}/memory.limit_in_bytes")), "134217728");
    assert_eq!(tree.text(&format!("memory/{name}/memory.soft_limit_in_bytes")), "67108864");
    task.open().unwrap().enter().unwrap();
    for group in
        [format!("cpu,cpuacct/{name}"), format!("memory/{name}"), "cpuset/nomad.slice/share.slice".into()]
    {
        assert_eq!(tree.text(&format!("{group}/tasks")), "0", "{group}");
    }
    assert!(
        !tree.path(&format!("cpuset/{name}")).exists(),
        "tasks without cores have the processors of their slice"
    );
}

#[test]
fn reserved_cores_are_taken_from_the_others_and_given_back() {
    let tree = Tree::v2("cpuset memory");
    let cgroups = tree.found_v2();
    assert_eq!(cgroups.cpus(), Some(&[0, 1, 2, 3].into()));
    let cpus = |group: &str| tree.text(&format!("{group}/cpuset.cpus"));
    let share = "nomad.slice/share.slice";
    assert_eq!(cpus(share), "0-3");
    let name = scope("reserve.slice", "web");
    let files = ["cgroup.procs", "cpuset.cpus", "memory.max", "memory.low"];
    tree.put(&name, &files.map(|file| (file, "")));
    let limits = with_cores(&[1, 2]);
    let task = cgroups.task(alloc_id(1), "web", &limits);
    task.create(&limits).unwrap();
    assert_eq!((cpus(&name), cpus(share)), ("1-2".into(), "0,3".into()));
    let missing = with_cores(&[2, 7]);
    let refused = cgroups.task(alloc_id(1), "web", &missing).create(&missing).unwrap_err().to_string();
    assert_eq!(refused, "the reserved cores 7 are not among those that tasks can use on this node, 0-3");

    // The kernel removes the files of a group with it.
    for file in fs::read_dir(tree.path(&name)).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    task.remove().unwrap();
    assert_eq!(cpus(share), "0-3");
    assert!(!tree.path(&name).exists());
}

#[test]
fn if_all_cores_are_reserved_the_others_have_all() {
    let tree = Tree::v2("cpuset");
    let cgroups = tree.found_v2();
    let limits = with_cores(&[0, 1, 2, 3]);
    tree.put(&scope("reserve.slice", "web"), &[("cgroup.procs", ""), ("cpuset.cpus", "")]);
    cgroups.task(alloc_id(1), "web", &limits).create(&limits).unwrap();
    assert_eq!(tree.text("nomad.slice/share.slice/cpuset.cpus"), "0-3");
}

#[test]
fn processors_are_divided_with_version_1() {
    let tree = Tree::v1();
    let cgroups = tree.found(&tree.mounts_v1()).unwrap();
    let name = scope("reserve.slice", "web");
    tree.put(
        &format!("cpuset/{name}"),
        &[("cgroup.procs", ""), ("cpuset.cpus", "\n"), ("cpuset.mems", "\n")],
    );
    tree.put(&format!("cpu,cpuacct/{name}"), &[("cgroup.procs", ""), ("cpu.shares", "")]);
    let memory = ["cgroup.procs", "memory.limit_in_bytes", "memory.soft_limit_in_bytes"];
    tree.put(&format!("memory/{name}"), &memory.map(|file| (file, "")));
    let limits = with_cores(&[3]);
    cgroups.task(alloc_id(1), "web", &limits).create(&limits).unwrap();
    let text = |file: &str| tree.text(&format!("cpuset/{file}"));
    assert_eq!(
        (text(&format!("{name}/cpuset.cpus")), text(&format!("{name}/cpuset.mems"))),
        ("3".into(), "0".into())
    );
    assert_eq!(text("nomad.slice/share.slice/cpuset.cpus"), "0-2");
    assert_eq!(text("nomad.slice/reserve.slice/cpuset.cpus"), "0-3");
}

#[test]
fn processors_that_the_settings_exclude_are_for_no_task() {
    let tree = Tree::v2("cpuset");
    let mounts = Mounts { unified: Some(tree.dir.path().to_owned()), ..Mounts::default() };
    let parent = Path::new("nomad.slice");
    let made = Cgroups::make(&mounts, None, parent, &[0, 9].into()).unwrap();
    assert_eq!(made.cpus(), Some(&[1, 2, 3].into()));
    assert_eq!(tree.text("nomad.slice/cpuset.cpus"), "1-3");
    let none = Cgroups::make(&mounts, None, parent, &[0, 1, 2, 3].into()).unwrap();
    assert_eq!(none.cpus(), None, "without any, processors are not divided");
}

#[test]
fn what_a_machine_lacks_is_not_written() {
    let tree = Tree::v2("memory");
    let cgroups = tree.found_v2();
    assert_eq!(cgroups.cpus(), None);
    tree.put(&scope("share.slice", "web"), &[("cgroup.procs", ""), ("memory.max", ""), ("memory.low", "")]);
    cgroups.task(alloc_id(1), "web", &limits()).create(&limits()).unwrap();
    let limits = with_cores(&[1]);
    let refused = cgroups.task(alloc_id(1), "web", &limits).create(&limits).unwrap_err().to_string();
    assert!(refused.starts_with("reserved cores cannot be enforced"), "{refused}");
    let without = tree.found(&Mounts::default()).unwrap_err().to_string();
    assert_eq!(without, "no hierarchy of cgroups with controllers is mounted");
}

#[test]
fn a_hybrid_machine_uses_the_hierarchies_that_have_controllers() {
    let tree = Tree::v1();
    tree.put("unified", &[("cgroup.controllers", "\n")]);
    let mounts = Mounts { unified: Some(tree.path("unified")), ..tree.mounts_v1() };
    assert_eq!(tree.found(&mounts).unwrap().version_number(), 1);
}

#[test]
fn usage_and_kills_are_read() {
    let tree = Tree::v2("cpu memory");
    let task = tree.found_v2().task(alloc_id(1), "web", &limits());
    assert_eq!(task.usage().unwrap(), crate::resources::TaskUsage::default(), "there is no group yet");
    assert_eq!(task.oom_kills().unwrap(), 0);
    let name = scope("share.slice", "web");
    tree.put(
        &name,
        &[
            ("cgroup.procs", "12\n0\n7\n"),
            ("cpu.stat", "usage_usec 5\nuser_usec 3\nsystem_usec 2\n"),
            ("memory.current", "4096\n"),
            ("memory.stat", "anon 4096\n"),
            ("memory.events", "low 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n"),
        ],
    );
    tree.put(&format!("{name}/inner"), &[("cgroup.procs", "9\n")]);
    let usage = task.usage().unwrap();
    assert_eq!(
        (usage.cpu.total_ns, usage.memory.usage, usage.memory.rss),
        (Some(5_000), Some(4_096), Some(4_096))
    );
    assert_eq!((usage.pids, task.oom_kills().unwrap()), (vec![7, 9, 12], 2));
}

#[test]
fn groups_of_allocations_are_found_unless_another_agent_may_own_them() {
    let tree = Tree::v2("memory");
    let cgroups = tree.found_v2();
    let node = NodeId::from_bytes([3; 16]);
    tree.put(&scope("share.slice", "web"), &[]);
    tree.put("nomad.slice/share.slice/somebody.scope", &[]);
    assert_eq!(cgroups.leftovers(node).unwrap(), [alloc_id(1)].into());
    assert!(cgroups.leftovers(NodeId::from_bytes([4; 16])).unwrap().is_empty());
    assert!(cgroups.leftovers(node).unwrap().is_empty(), "now there are two");

    cgroups.remove_alloc(alloc_id(2)).unwrap();
    assert!(tree.path(&scope("share.slice", "web")).exists());
    cgroups.remove_alloc(alloc_id(1)).unwrap();
    assert!(!tree.path(&scope("share.slice", "web")).exists());
}

#[test]
fn a_job_can_name_other_groups() {
    let tree = Tree::v2("memory");
    tree.put("custom.slice/app", &[("cgroup.procs", "")]);
    let task = || tree.found_v2().task(alloc_id(1), "web", &limits());
    let with = |path: &str| {
        let overrides = Overrides { v2: Some(path.to_owned()), v1: [("memory".into(), "x".into())].into() };
        task().with_overrides(&overrides)
    };
    let absolute = tree.path("custom.slice/app").display().to_string();
    for path in ["custom.slice/app", "/custom.slice/app", absolute.as_str()] {
        let other = with(path).unwrap();
        other.create(&limits()).unwrap();
        other.open().unwrap().enter().unwrap();
        other.remove().unwrap();
        assert_eq!(tree.text("custom.slice/app/cgroup.procs"), "0", "{path}");
    }
    assert!(with("none").unwrap_err().starts_with("cgroup_v2_override: there is no cgroup "));
    assert_eq!(with("../x").unwrap_err(), "cgroup_v2_override: \"../x\" is not the path of a cgroup");

    let tree = Tree::v1();
    tree.put("memory/other", &[]);
    let cgroups = tree.found(&tree.mounts_v1()).unwrap();
    let with = |name: &str, path: &str| {
        let overrides = Overrides { v2: None, v1: [(name.to_owned(), path.to_owned())].into() };
        cgroups.task(alloc_id(1), "web", &limits()).with_overrides(&overrides)
    };
    let other = with("memory", "other").unwrap();
    let dirs: Vec<_> = other.groups.iter().map(|group| (group.dir.clone(), group.is_own)).collect();
    let expected = [
        (tree.path(&format!("cpu,cpuacct/{}", scope("share.slice", "web"))), true),
        (tree.path("cpuset/nomad.slice/share.slice"), false),
        (tree.path("memory/other"), false),
    ];
    assert_eq!(dirs, expected);
    assert_eq!(
        with("blkio", "other").unwrap_err(),
        "cgroup_v1_override: the agent uses no controller \"blkio\" here; it can use cpu, cpuacct, cpuset, freezer, \
         memory, pids"
    );
}

#[test]
fn unusual_names_of_tasks_stay_apart() {
    assert_eq!(plain("web-1.a_b"), "web-1.a_b");
    let (one, other) = (plain("a\nb"), plain("a b"));
    assert!(one.starts_with("a_b-") && other.starts_with("a_b-") && one != other);
    assert!(plain(&"x".repeat(500)).len() < 100);
}
