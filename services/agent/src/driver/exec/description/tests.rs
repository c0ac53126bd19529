//! Descriptions of tasks, as texts.

use std::fmt::Write as _;
use std::sync::Arc;

use super::*;
use crate::cgroups::Cgroups;
use crate::driver::exec::tests::start_in;
use crate::isolation::capabilities::CapabilitySet;
use crate::networks::AllocNetwork;
use crate::resources::TaskLimits;

fn settings() -> Settings {
    Settings::new("/usr/share/drover".into())
}

fn wanted() -> Wanted {
    Wanted {
        pid_mode: Mode::Private,
        ipc_mode: Mode::Private,
        cap_add: Vec::new(),
        cap_drop: Vec::new(),
        work_dir: "/".into(),
    }
}

fn nobody() -> Account {
    Account::for_tests("nobody", 65_534, 65_534, &[])
}

fn start() -> Start {
    start_in(Path::new("/data/alloc/1"))
}

/// The description of a root, a line for each mount.
fn text(root: &Root) -> String {
    let mut text = format!("root {} in {}\n", root.dir.display(), root.alloc.display());
    for bind in &root.binds {
        let source = match &bind.source {
            Source::Node(path) => path.display().to_string(),
            Source::Alloc(path) => format!("<alloc>/{}", path.display()),
        };
        let access = if bind.read_only { "ro" } else { "rw" };
        let optional = if bind.optional { " if present" } else { "" };
        let device = if bind.device { " device" } else { "" };
        let sharing = if bind.sharing == Sharing::Private { "" } else { " shared" };
        writeln!(text, "{access} {} = {source}{optional}{device}{sharing}", bind.target.display()).unwrap();
    }
    for path in &root.masked {
        writeln!(text, "masked {}", path.display()).unwrap();
    }
    text
}

#[test]
fn a_task_sees_its_own_directories_and_parts_of_the_node() {
    let isolation = describe(&settings(), &wanted(), &start(), &nobody()).unwrap();
    let expected = "\
root web in /data/alloc/1
ro /bin = /bin if present
ro /etc = /etc if present
ro /lib = /lib if present
ro /lib32 = /lib32 if present
ro /lib64 = /lib64 if present
ro /run/resolvconf = /run/resolvconf if present
ro /run/systemd/resolve = /run/systemd/resolve if present
ro /sbin = /sbin if present
ro /usr = /usr if present
rw /alloc = <alloc>/alloc
ro /alloc/logs = <alloc>/alloc/logs
masked /private
masked /etc/drover
masked /etc/gshadow
masked /etc/gshadow-
masked /etc/shadow
masked /etc/shadow-
masked /etc/ssh/ssh_host_dsa_key
masked /etc/ssh/ssh_host_ecdsa_key
masked /etc/ssh/ssh_host_ed25519_key
masked /etc/ssh/ssh_host_rsa_key
masked /etc/ssl/private
masked /usr/share/drover
";
    assert_eq!(text(&isolation.root), expected);
    assert!(isolation.root.pivot);
    let namespaces = Namespaces { pid: true, ipc: true, network: None, cgroup: false };
    assert_eq!((isolation.namespaces, isolation.hostname), (namespaces, None));
    let confinement = isolation.confinement;
    assert_eq!(confinement.user, User { uid: 65_534, gid: 65_534, groups: vec![65_534] });
    assert_eq!(confinement.capabilities.held, CapabilitySet::NET_BIND_SERVICE);
    assert!(confinement.may_trace);
}

#[test]
fn the_operator_chooses_what_tasks_see_of_the_node() {
    let paths =
        [("/srv/etc", "/etc"), ("/opt/tools/bin", "/tools/bin"), ("/opt", "/tools"), ("/usr", "/node")];
    let settings = Settings {
        paths: paths.map(|(source, target)| (PathBuf::from(source), PathBuf::from(target))).into(),
        no_pivot_root: true,
        ..settings()
    };
    let root = describe(&settings, &wanted(), &start(), &nobody()).unwrap().root;
    let text = text(&root);
    let node: Vec<&str> = text.lines().filter(|line| line.ends_with("if present")).collect();
    assert_eq!(
        node,
        [
            "ro /etc = /srv/etc if present",
            "ro /node = /usr if present",
            "ro /tools = /opt if present",
            "ro /tools/bin = /opt/tools/bin if present"
        ],
        "a directory comes before what is in it"
    );
    assert!(text.contains("masked /node/share/drover\n"));
    assert!(!text.contains("masked /etc/"), "only secrets of the node are covered: {text}");
    assert!(!root.pivot);
}

#[test]
fn networks_mounts_and_devices_are_those_of_the_start() {
    let network = AllocNetwork {
        namespace: "/run/netns/1".into(),
        hostname: Some("web-1".into()),
        status: None,
        hosts_file: Some("/data/net/hosts".into()),
        resolv_conf: None,
    };
    let device = |permissions: &str| Device {
        source: "/dev/fuse".into(),
        target: "/dev/fuse".into(),
        permissions: permissions.into(),
    };
    let mount = |propagation| Mount {
        source: "/srv/data".into(),
        target: "/data".into(),
        read_only: false,
        propagation,
        selinux_label: String::new(),
    };
    let cgroup = Cgroups::for_tests([0]).task(crate::testing::alloc_id(1), "web", &TaskLimits::default());
    let start = Start {
        network: Some(Arc::new(network)),
        mounts: vec![mount(Propagation::Private), mount(Propagation::Bidirectional)],
        devices: vec![device("rwm")],
        cgroup: Some(cgroup),
        ..start()
    };
    let isolation = describe(&settings(), &wanted(), &start, &nobody()).unwrap();
    let text = text(&isolation.root);
    for line in [
        "ro /etc/hosts = /data/net/hosts",
        "rw /data = /srv/data",
        "rw /data = /srv/data shared",
        "rw /dev/fuse = /dev/fuse device",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(!text.contains("/etc/resolv.conf"));
    let expected = Namespaces { pid: true, ipc: true, network: Some("/run/netns/1".into()), cgroup: true };
    assert_eq!((isolation.namespaces, isolation.hostname), (expected, Some("web-1".into())));
    let read_only = Start { devices: vec![device("r")], ..start };
    let refused = describe(&settings(), &wanted(), &read_only, &nobody()).unwrap_err();
    assert!(refused.starts_with("device /dev/fuse: the driver cannot take the right"), "{refused}");
}

#[test]
fn what_a_task_shares_with_the_node_it_cannot_trace() {
    let wanted = Wanted { pid_mode: Mode::Host, ipc_mode: Mode::Host, ..wanted() };
    let root = Account::for_tests("root", 0, 0, &[]);
    let isolation = describe(&settings(), &wanted, &start(), &root).unwrap();
    assert!(!isolation.namespaces.pid && !isolation.namespaces.ipc && !isolation.confinement.may_trace);
    assert_eq!(isolation.confinement.capabilities.held, CapabilitySet::DEFAULT);
    let greedy = Wanted { cap_add: vec!["sys_admin".into()], ..wanted };
    assert_eq!(
        describe(&settings(), &greedy, &start(), &root).unwrap_err(),
        "driver does not allow the following capabilities: sys_admin"
    );
}
