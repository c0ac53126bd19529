//! Tests of task environments.

use std::path::PathBuf;
use std::sync::Arc;

use model::job::{JobType, ParameterizedJobConfig, Port};

use super::*;
use crate::disk::dirs::AllocDirs;
use crate::testing::{task, with_group};

fn node() -> NodeFacts {
    NodeFacts {
        datacenter: "dc1".into(),
        region: "global".into(),
        cgroup_parent: "nomad.slice".into(),
        attributes: [("kernel.name".into(), "linux".into())].into(),
        ..NodeFacts::default()
    }
}

fn env_of(group: TaskGroup, change: impl FnOnce(&mut AllocSpec)) -> Env {
    built(group, change).unwrap()
}

/// The environment of the only task of a group.
fn built(group: TaskGroup, change: impl FnOnce(&mut AllocSpec)) -> Result<Env, String> {
    built_in_network(group, None, change)
}

/// The same for an allocation with a network of its own.
fn built_in_network(
    group: TaskGroup,
    network: Option<&NetworkStatus>,
    change: impl FnOnce(&mut AllocSpec),
) -> Result<Env, String> {
    let mut spec = with_group(JobType::Service, TaskGroup { name: "app".into(), ..group });
    change(&mut spec);
    let group = spec.group().unwrap();
    let dirs = AllocDirs::new(PathBuf::from("/a")).task("web");
    let host = [("HOME".to_owned(), "/root".to_owned()), ("NOMAD_DC".to_owned(), "no".to_owned())].into();
    build(&spec, group, &group.tasks[0], &node(), &dirs, &host, network)
}

fn group_of(task: Task) -> TaskGroup {
    TaskGroup { tasks: vec![task], ..TaskGroup::default() }
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<model::Text, model::Text> {
    pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

#[test]
fn a_task_knows_who_and_where_it_is() {
    let env = env_of(group_of(task("web")), |spec| {
        let share = TaskResources {
            name: "web".into(),
            cpu_mhz: 100,
            memory_mb: 64,
            cores: vec![4, 1, 2],
            ..Default::default()
        };
        Arc::make_mut(&mut spec.common).resources.tasks = vec![share];
    });
    for (name, value) in [
        ("NOMAD_ALLOC_ID", "01010101-0101-0101-0101-010101010101"),
        ("NOMAD_SHORT_ALLOC_ID", "01010101"),
        ("NOMAD_ALLOC_NAME", "site.app[0]"),
        ("NOMAD_ALLOC_INDEX", "0"),
        ("NOMAD_ALLOC_DIR", "/a/alloc"),
        ("NOMAD_TASK_DIR", "/a/web/local"),
        ("NOMAD_SECRETS_DIR", "/a/web/secrets"),
        ("NOMAD_TASK_NAME", "web"),
        ("NOMAD_GROUP_NAME", "app"),
        ("NOMAD_JOB_ID", "site"),
        ("NOMAD_NAMESPACE", "default"),
        ("NOMAD_DC", "dc1"),
        ("NOMAD_REGION", "global"),
        ("NOMAD_CPU_LIMIT", "100"),
        ("NOMAD_MEMORY_LIMIT", "64"),
        ("NOMAD_CPU_CORES", "1-2,4"),
        ("NOMAD_PARENT_CGROUP", "nomad.slice"),
        ("HOME", "/root"),
    ] {
        assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(!env.contains_key("NOMAD_MEMORY_MAX_LIMIT"));
    assert!(!env.contains_key("NOMAD_JOB_PARENT_ID"));
}

#[test]
fn specific_variables_take_precedence_and_refer_to_general_ones() {
    let task = Task {
        meta: pairs([("a-b", "task")]),
        env: pairs([("HOME", "/home"), ("WHERE", "${NOMAD_META_A_B} ${HOME} ${attr.kernel.name}")]),
        ..task("web")
    };
    let group = TaskGroup { meta: pairs([("a-b", "group"), ("deep", "${NOMAD_DC}")]), ..group_of(task) };
    let env = env_of(group, |_| {});
    assert_eq!(env["NOMAD_META_a_b"], "task");
    assert_eq!(env["NOMAD_META_A_B"], "task");
    assert_eq!(env["NOMAD_META_deep"], "dc1");
    assert_eq!(env["HOME"], "/home");
    assert_eq!(env["WHERE"], "task /root linux", "values of `env` do not refer to each other");
}

#[test]
fn metadata_has_names_with_dots() {
    let task = Task {
        meta: pairs([("a.b", "dotted")]),
        env: pairs([("WHERE", "${NOMAD_META_a.b} ${NOMAD_META_A.B}")]),
        ..task("web")
    };
    let env = env_of(group_of(task), |_| {});
    assert_eq!(env["NOMAD_META_a.b"], "dotted");
    assert_eq!(env["WHERE"], "dotted dotted");
}

#[test]
fn metadata_that_doubles_again_and_again_is_refused() {
    let doubled: BTreeMap<model::Text, model::Text> = (10..60)
        .map(|level| {
            let before = format!("${{NOMAD_META_m{}}}", level - 1);
            (format!("m{level}").into(), format!("{before}{before}").into())
        })
        .chain([("m09".into(), "x".repeat(100).into())])
        .collect();
    let first = [("m10".into(), "${NOMAD_META_m09}${NOMAD_META_m09}".into())];
    let meta = doubled.into_iter().chain(first).collect();
    let error = built(group_of(Task { meta, ..task("web") }), |_| {}).unwrap_err();
    assert!(error.starts_with("meta m2") && error.contains("grow to more than"), "{error}");
}

#[test]
fn optional_keys_of_a_dispatch_are_there() {
    let env = env_of(group_of(task("web")), |spec| {
        let job = Arc::make_mut(&mut Arc::make_mut(&mut spec.job).spec);
        job.dispatched = true;
        job.parameterized_job =
            Some(ParameterizedJobConfig { meta_optional: vec!["input".into()], ..Default::default() });
    });
    assert_eq!(env["NOMAD_META_input"], "");
}

#[test]
fn ports_are_found_by_their_labels() {
    let port = |label: &str, value, to, ip: &str| PortMapping {
        label: label.into(),
        value,
        to,
        host_ip: ip.into(),
        ignore_collision: false,
    };
    let own = NetworkResource {
        ip: "10.0.0.2".into(),
        dynamic_ports: vec![Port { label: "admin".into(), value: 22_001, ..Port::default() }],
        ..NetworkResource::default()
    };
    let env = env_of(group_of(task("web")), |spec| {
        let resources = &mut Arc::make_mut(&mut spec.common).resources;
        resources.ports = vec![port("http-in", 21_000, 8_080, "10.0.0.1"), port("v6", 21_001, 0, "fe80::1")];
        resources.tasks = vec![
            TaskResources { name: "web".into(), ..Default::default() },
            TaskResources { name: "db.1".into(), networks: vec![own], ..Default::default() },
        ];
    });
    for (name, value) in [
        ("NOMAD_IP_http_in", "10.0.0.1"),
        ("NOMAD_PORT_http_in", "8080"),
        ("NOMAD_ALLOC_PORT_http-in", "8080"),
        ("NOMAD_HOST_PORT_http_in", "21000"),
        ("NOMAD_ADDR_http_in", "10.0.0.1:21000"),
        ("NOMAD_PORT_v6", "21001"),
        ("NOMAD_ADDR_v6", "[fe80::1]:21001"),
        ("NOMAD_ADDR_db_1_admin", "10.0.0.2:22001"),
        ("NOMAD_PORT_db_1_admin", "22001"),
    ] {
        assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(!env.contains_key("NOMAD_PORT_admin"), "the port belongs to another task");
}

#[test]
fn ports_are_also_found_in_the_network_of_the_allocation() {
    let mut network =
        NetworkStatus { interface: "eth0".into(), address: "172.26.64.2".into(), ..NetworkStatus::default() };
    let env = |network: &NetworkStatus| {
        built_in_network(group_of(task("web")), Some(network), |spec| {
            let port = |label: &str, value, to| PortMapping {
                label: label.into(),
                value,
                to,
                host_ip: "10.0.0.1".into(),
                ignore_collision: false,
            };
            let ports = vec![port("http-in", 21_000, 80), port("admin", 21_001, 0)];
            Arc::make_mut(&mut spec.common).resources.ports = ports;
        })
        .unwrap()
    };
    let found = env(&network);
    for (name, value) in [
        ("NOMAD_ALLOC_INTERFACE_http-in", "eth0"),
        ("NOMAD_ALLOC_IP_http-in", "172.26.64.2"),
        ("NOMAD_ALLOC_ADDR_http-in", "172.26.64.2:80"),
        ("NOMAD_ALLOC_ADDR_admin", "172.26.64.2:21001"),
        ("NOMAD_HOST_ADDR_admin", "10.0.0.1:21001"),
    ] {
        assert_eq!(found.get(name).map(String::as_str), Some(value), "{name}");
    }
    (network.address, network.address_ipv6) = ("".into(), "fd00::2".into());
    assert_eq!(env(&network)["NOMAD_ALLOC_ADDR_admin"], "[fd00::2]:21001");
    network.address_ipv6 = "".into();
    assert!(!env(&network).contains_key("NOMAD_ALLOC_IP_admin"), "there is only a loopback interface");
}
