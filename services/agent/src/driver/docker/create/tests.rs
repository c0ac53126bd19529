//! Tasks and the containers that they become.

use model::alloc::PortMapping;

use super::super::config::tests::read;
use super::super::settings::AllowedModes;
use super::*;
use crate::disk::dirs::AllocDirs;
use crate::driver::start::{Device, Mount, Progress, Propagation};
use crate::resources::TaskLimits;
use crate::testing::task_id;

/// A start of the task `web` with two ports.
pub(in super::super) fn start() -> Start {
    let port = |label: &str, value, to| PortMapping {
        label: label.into(),
        value,
        to,
        host_ip: "10.0.0.1".into(),
        ignore_collision: false,
    };
    Start {
        id: task_id(),
        config: model::Map::default(),
        env: [("NOMAD_TASK_NAME".to_owned(), "web".to_owned())].into(),
        user: model::Text::default(),
        dirs: AllocDirs::new(PathBuf::from("/d/1")).task("web"),
        state_dir: PathBuf::from("/s"),
        logs: None,
        resources: TaskLimits {
            cpu_shares: 500,
            node_mhz: 4_000,
            memory_bytes: 64 << 20,
            ..TaskLimits::default()
        },
        cgroup: None,
        mounts: Vec::new(),
        devices: Vec::new(),
        device_env: BTreeMap::new(),
        network: None,
        ports: vec![port("http", 20_001, 80), port("raw", 20_002, 0)],
        progress: Progress::default(),
    }
}

fn node() -> NodeNames {
    NodeNames { id: "n1".into(), name: "node-1".into() }
}

fn created(settings: &Settings, start: &Start, config: Value) -> Result<Creation, String> {
    let runtimes = BTreeMap::from([("nvidia".to_owned(), json!({}))]);
    let facts = Facts {
        settings,
        node: &node(),
        image: "sha256:1",
        processors: 4,
        runtimes: &runtimes,
        is_podman: false,
    };
    creation(facts, &read(config)?, start)
}

/// The host configuration of a task with these keys besides the image.
fn host(settings: &Settings, keys: Value) -> Result<Value, String> {
    let mut config = keys;
    config["image"] = json!("a");
    Ok(created(settings, &start(), config)?.body["HostConfig"].clone())
}

#[test]
fn a_plain_task_gets_what_every_task_gets() {
    let creation = created(&Settings::default(), &start(), json!({ "image": "a" })).unwrap();
    assert_eq!(creation.name, "web-01010101-0101-0101-0101-010101010101");
    let mut body = creation.body;
    let host = body.as_object_mut().unwrap().remove("HostConfig").unwrap();
    assert_eq!(
        body,
        json!({
            "Image": "sha256:1",
            "Env": ["NOMAD_TASK_NAME=web"],
            "Labels": {
                "com.hashicorp.nomad.alloc_id": "01010101-0101-0101-0101-010101010101",
                "com.hashicorp.nomad.node_id": "n1",
            },
        })
    );
    assert_eq!(host["NetworkMode"], "default");
    assert_eq!(
        host["LogConfig"],
        json!({ "Type": "json-file", "Config": { "max-file": "2", "max-size": "2m" } })
    );
    assert_eq!(host["CpuShares"], 500);
    let memory = 64 << 20;
    assert_eq!((&host["Memory"], &host["MemorySwap"]), (&json!(memory), &json!(memory)));
    assert_eq!(host["CapDrop"], json!(["ALL"]));
    assert_eq!(host["CapAdd"].as_array().unwrap().len(), 13);
    assert!(host.get("Privileged").is_none() && host.get("CpuQuota").is_none(), "{host}");
}

#[test]
fn each_key_appears_where_the_engine_reads_it() {
    let all = Settings {
        volumes_enabled: true,
        allow_privileged: true,
        allow_caps: vec!["all".into()],
        allowed_modes: AllowedModes {
            pid: vec!["host".into()],
            ipc: vec!["host".into()],
            userns: vec!["host".into()],
            uts: vec!["host".into()],
        },
        ..Settings::default()
    };
    for (key, value, path, expected) in [
        ("args", json!(["-v"]), "/Cmd", json!(["-v"])),
        ("command", json!("serve"), "/Cmd", json!(["serve"])),
        ("entrypoint", json!(["/e"]), "/Entrypoint", json!(["/e"])),
        ("work_dir", json!("/srv"), "/WorkingDir", json!("/srv")),
        ("hostname", json!("h"), "/Hostname", json!("h")),
        ("tty", json!(true), "/Tty", json!(true)),
        ("interactive", json!(true), "/OpenStdin", json!(true)),
        ("mac_address", json!("02::1"), "/MacAddress", json!("02::1")),
        ("labels", json!({ "a": "b" }), "/Labels/a", json!("b")),
        ("healthchecks", json!({ "disable": true }), "/Healthcheck/Test", json!(["NONE"])),
        ("cap_add", json!(["net_admin"]), "/HostConfig/CapAdd/7", json!("NET_ADMIN")),
        ("cgroupns", json!("private"), "/HostConfig/CgroupnsMode", json!("private")),
        ("cpu_hard_limit", json!(true), "/HostConfig/CpuQuota", json!(50_000)),
        (
            "devices",
            json!({ "host_path": "/dev/a" }),
            "/HostConfig/Devices/0/PathInContainer",
            json!("/dev/a"),
        ),
        ("dns_options", json!(["ndots:1"]), "/HostConfig/DnsOptions", json!(["ndots:1"])),
        ("dns_search_domains", json!(["x"]), "/HostConfig/DnsSearch", json!(["x"])),
        ("dns_servers", json!(["1.1.1.1"]), "/HostConfig/Dns", json!(["1.1.1.1"])),
        ("extra_hosts", json!(["a:1.2.3.4"]), "/HostConfig/ExtraHosts", json!(["a:1.2.3.4"])),
        ("group_add", json!(["video"]), "/HostConfig/GroupAdd", json!(["video"])),
        ("init", json!(true), "/HostConfig/Init", json!(true)),
        ("ipc_mode", json!("host"), "/HostConfig/IpcMode", json!("host")),
        ("memory_hard_limit", json!(128), "/HostConfig/Memory", json!(128 << 20)),
        ("memory_hard_limit", json!(128), "/HostConfig/MemoryReservation", json!(64 << 20)),
        ("network_mode", json!("host"), "/HostConfig/NetworkMode", json!("host")),
        ("oom_score_adj", json!(100), "/HostConfig/OomScoreAdj", json!(100)),
        ("pid_mode", json!("host"), "/HostConfig/PidMode", json!("host")),
        ("pids_limit", json!(100), "/HostConfig/PidsLimit", json!(100)),
        ("port_map", json!({ "raw": 90 }), "/HostConfig/PortBindings/90~1udp/0/HostPort", json!("20002")),
        ("ports", json!(["http"]), "/HostConfig/PortBindings/80~1tcp/0/HostIp", json!("10.0.0.1")),
        ("ports", json!(["raw"]), "/ExposedPorts/20002~1tcp", json!({})),
        ("privileged", json!(true), "/HostConfig/Privileged", json!(true)),
        ("readonly_rootfs", json!(true), "/HostConfig/ReadonlyRootfs", json!(true)),
        ("runtime", json!("runc"), "/HostConfig/Runtime", json!("runc")),
        (
            "security_opt",
            json!(["no-new-privileges"]),
            "/HostConfig/SecurityOpt",
            json!(["no-new-privileges"]),
        ),
        ("shm_size", json!(1_000), "/HostConfig/ShmSize", json!(1_000)),
        ("storage_opt", json!({ "size": "1G" }), "/HostConfig/StorageOpt/size", json!("1G")),
        ("sysctl", json!({ "a.b": 1 }), "/HostConfig/Sysctls", json!({ "a.b": "1" })),
        (
            "ulimit",
            json!({ "nofile": "1:2" }),
            "/HostConfig/Ulimits/0",
            json!({ "Name": "nofile", "Soft": 1, "Hard": 2 }),
        ),
        ("userns_mode", json!("host"), "/HostConfig/UsernsMode", json!("host")),
        ("uts_mode", json!("host"), "/HostConfig/UTSMode", json!("host")),
        ("volume_driver", json!("local"), "/HostConfig/VolumeDriver", json!("local")),
        ("volumes", json!(["/etc:/e"]), "/HostConfig/Binds/4", json!("/etc:/e")),
        ("mount", json!({ "target": "/v" }), "/HostConfig/Mounts/0/Target", json!("/v")),
        ("logging", json!({ "driver": "journald" }), "/HostConfig/LogConfig/Type", json!("journald")),
    ] {
        let creation = created(&all, &start(), json!({ "image": "a", key: value })).unwrap();
        assert_eq!(creation.body.pointer(path), Some(&expected), "{key}: {path} in {}", creation.body);
    }
}

#[test]
fn networks_of_the_engine_get_names_and_addresses() {
    let config = json!({
        "image": "a", "network_mode": "backend", "network_aliases": ["db"], "ipv4_address": "10.9.0.2",
        "ipv6_address": "fd00::2", "mac_address": "02::1",
    });
    let body = created(&Settings::default(), &start(), config).unwrap().body;
    assert_eq!(
        body["NetworkingConfig"],
        json!({ "EndpointsConfig": { "backend": {
            "Aliases": ["db"],
            "MacAddress": "02::1",
            "IPAMConfig": { "IPv4Address": "10.9.0.2", "IPv6Address": "fd00::2" },
        } } })
    );
    let shared =
        json!({ "image": "a", "network_mode": "container:x", "ports": ["http"], "network_aliases": ["db"] });
    let creation = created(&Settings::default(), &start(), shared).unwrap();
    assert!(creation.ports.is_empty() && creation.body.get("NetworkingConfig").is_none());
    let published =
        created(&Settings::default(), &start(), json!({ "image": "a", "ports": ["http"] })).unwrap();
    assert_eq!(published.ports, [("http".to_owned(), 80)].into());
}

#[test]
fn the_network_of_the_group_is_joined_where_the_engine_can() {
    let network = crate::networks::AllocNetwork {
        namespace: "/run/netns/x".into(),
        hostname: None,
        status: None,
        hosts_file: Some("/s/hosts".into()),
        resolv_conf: None,
    };
    let start = Start { network: Some(std::sync::Arc::new(network)), ..start() };
    let settings = Settings::default();
    let config = read(json!({ "image": "a", "ports": ["http"] })).unwrap();
    let (node, runtimes) = (node(), BTreeMap::new());
    let facts = Facts {
        settings: &settings,
        node: &node,
        image: "a",
        processors: 1,
        runtimes: &runtimes,
        is_podman: true,
    };
    let creation = creation(facts, &config, &start).unwrap();
    assert_eq!(creation.body["HostConfig"]["NetworkMode"], "ns:/run/netns/x");
    assert_eq!(creation.body["HostConfig"]["Binds"][4], "/s/hosts:/etc/hosts:ro");
    assert!(creation.ports.is_empty());
    let joined = super::creation(Facts { is_podman: false, ..facts }, &config, &start).unwrap();
    let expected = "container:nomad_init_01010101-0101-0101-0101-010101010101";
    assert_eq!(joined.body["HostConfig"]["NetworkMode"], expected);
    let named = read(json!({ "image": "a", "extra_hosts": ["a:1.2.3.4"] })).unwrap();
    assert!(
        super::creation(facts, &named, &start).unwrap_err().starts_with("extra_hosts: the names of a group")
    );
}

#[test]
fn what_the_operator_does_not_allow_is_refused() {
    let narrow =
        Settings { pids_limit: 50, allow_caps: vec!["chown".into(), "kill".into()], ..Settings::default() };
    for (keys, refusal) in [
        (json!({ "privileged": true }), "Docker privileged mode is disabled on this Nomad agent"),
        (json!({ "runtime": "kata" }), r#"requested runtime "kata" is not allowed"#),
        (json!({ "pids_limit": 51 }), "pids_limit cannot be greater than nomad plugin config pids_limit: 50"),
        (json!({ "cpu_cfs_period": 2_000_000 }), "invalid value for cpu_cfs_period"),
        (json!({ "memory_hard_limit": 10 }), "task memory requirements exceed driver hard limit of 10 MB"),
        (
            json!({ "cap_add": ["CAP_SYS_ADMIN", "kill"] }),
            "driver does not allow the following capabilities: sys_admin",
        ),
        (json!({ "pid_mode": "host" }), r#"pid_mode "host" is not allowed"#),
        (json!({ "ipc_mode": "host" }), r#"ipc_mode "host" is not allowed"#),
        (json!({ "userns_mode": "host" }), r#"userns_mode "host" is not allowed"#),
        (json!({ "uts_mode": "host" }), r#"uts_mode "host" is not allowed"#),
        (json!({ "cgroupns": "other" }), "cgroupns: expected private or host"),
        (json!({ "security_opt": ["seccomp=/etc/shadow"] }), "security_opt: the profile"),
        (json!({ "ports": ["nope"] }), r#"Port "nope" not found, check network block"#),
        (json!({ "ulimit": { "nofile": "many" } }), "ulimit.nofile: expected a number or soft:hard"),
        (json!({ "volumes": ["/etc:/x"] }), "volumes are not enabled; cannot mount host path"),
    ] {
        let error = host(&narrow, keys).unwrap_err();
        assert!(error.starts_with(refusal), "{error}");
    }
    let allowed = host(&narrow, json!({ "cap_drop": ["kill"], "ipc_mode": "private" })).unwrap();
    assert_eq!(allowed["CapAdd"], json!(["CHOWN"]));
    assert_eq!(allowed["PidsLimit"], 50);
}

#[test]
fn more_memory_than_is_reserved_may_be_used_if_the_job_says_so() {
    let with = |memory_max_bytes| {
        let mut start = start();
        start.resources.memory_max_bytes = memory_max_bytes;
        created(&Settings::default(), &start, json!({ "image": "a" })).unwrap().body["HostConfig"].clone()
    };
    let (more, any) = (with(256 << 20), with(u64::MAX));
    assert_eq!((&more["Memory"], &more["MemoryReservation"]), (&json!(256 << 20), &json!(64 << 20)));
    assert_eq!((any.get("Memory"), &any["MemoryReservation"]), (None, &json!(64 << 20)));
}

#[test]
fn volumes_devices_and_cores_of_the_group_are_passed_on() {
    let mut start = start();
    start.resources.cores = vec![2, 3];
    start.mounts = vec![Mount {
        source: "/data".into(),
        target: "/d".into(),
        read_only: true,
        propagation: Propagation::HostToTask,
        selinux_label: "z".into(),
    }];
    start.devices =
        vec![Device { source: "/dev/x".into(), target: "/dev/y".into(), permissions: "r".into() }];
    let host =
        created(&Settings::default(), &start, json!({ "image": "a" })).unwrap().body["HostConfig"].clone();
    assert_eq!(host["CpusetCpus"], "2,3");
    assert_eq!(host["Binds"][4], "/data:/d:ro,rslave,z");
    let device = json!({ "PathOnHost": "/dev/x", "PathInContainer": "/dev/y", "CgroupPermissions": "r" });
    assert_eq!(host["Devices"], json!([device]));
}

/// A-23.2: reserved GPUs need their runtime; a variable that the job has set itself reserves nothing.
#[test]
fn reserved_gpus_choose_the_runtime() {
    let with = |device_env: &[(&str, &str)], settings: Settings, keys: Value| {
        let mut start = start();
        start.env.insert("NVIDIA_VISIBLE_DEVICES".to_owned(), "all".to_owned());
        start.device_env =
            device_env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut config = keys;
        config["image"] = json!("a");
        created(&settings, &start, config).map(|creation| creation.body["HostConfig"]["Runtime"].clone())
    };
    let reserved = [("NVIDIA_VISIBLE_DEVICES", "GPU-1")];
    assert_eq!(with(&reserved, Settings::default(), json!({})), Ok(json!("nvidia")));
    assert_eq!(with(&[], Settings::default(), json!({})), Ok(Value::Null));
    let absent = Settings { nvidia_runtime: "gpus".into(), ..Settings::default() };
    let error = with(&reserved, absent, json!({})).unwrap_err();
    assert_eq!(error, r#"requested docker runtime "gpus" was not found"#);
    with(&reserved, Settings::default(), json!({ "runtime": "runc" })).unwrap_err();
}

#[test]
fn labels_are_added_as_the_operator_asks() {
    let settings = Settings { extra_labels: vec!["task*".into(), "node_name".into()], ..Settings::default() };
    let body = created(&settings, &start(), json!({ "image": "a" })).unwrap().body;
    let labels: Vec<&str> = body["Labels"].as_object().unwrap().keys().map(String::as_str).collect();
    let names = ["alloc_id", "node_id", "node_name", "task_group_name", "task_name"];
    assert_eq!(labels, names.map(|name| format!("com.hashicorp.nomad.{name}")));
}

#[test]
fn names_of_containers_have_only_what_engines_accept() {
    let id = TaskId { task: "a b/ä".into(), ..task_id() };
    assert!(container_name(&id).starts_with("a_b__-"));
    let id = TaskId { task: "-x".into(), ..task_id() };
    assert!(container_name(&id).starts_with("task-x-"));
}
