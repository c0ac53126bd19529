//! Tests of the checks that are made of an allocation's services.

use std::sync::Arc;

use model::alloc::{AllocatedResources, NetworkStatus, PortMapping};
use model::job::{CheckRestart, JobType, NetworkResource};

use super::*;
use crate::testing::{task, with_group};

fn service(checks: Vec<ServiceCheck>) -> Service {
    Service {
        name: "web".into(),
        port_label: "http".into(),
        provider: Some(ServiceProvider::Nomad),
        checks,
        ..Service::default()
    }
}

fn check(kind: CheckKind) -> ServiceCheck {
    ServiceCheck {
        name: "alive".into(),
        kind: Some(kind),
        interval: Nanos::from_secs(10),
        timeout: Nanos::from_secs(2),
        ..ServiceCheck::default()
    }
}

/// An allocation whose group and task have these services. Port `http` is 21000 on the node, and 8080 inside.
fn spec(of_group: Vec<Service>, of_task: Vec<Service>) -> AllocSpec {
    let task = Task { services: of_task, ..task("server") };
    let group =
        TaskGroup { name: "app".into(), services: of_group, tasks: vec![task], ..TaskGroup::default() };
    let mut spec = with_group(JobType::Service, group);
    let port = PortMapping {
        label: "http".into(),
        value: 21_000,
        to: 8_080,
        host_ip: "10.0.0.1".into(),
        ignore_collision: false,
    };
    Arc::make_mut(&mut spec.common).resources = AllocatedResources {
        networks: vec![NetworkResource { ip: "10.0.0.1".into(), ..NetworkResource::default() }],
        ports: vec![port],
        ..AllocatedResources::default()
    };
    spec
}

fn network() -> AllocNetwork {
    AllocNetwork {
        namespace: "/networks/a".into(),
        hostname: None,
        status: Some(NetworkStatus {
            interface: "eth0".into(),
            address: "172.26.64.2".into(),
            address_ipv6: "".into(),
            dns: None,
        }),
        hosts_file: None,
        resolv_conf: None,
    }
}

/// The checks of an allocation on a node with this address and nothing else.
fn made(spec: &AllocSpec, network: Option<&AllocNetwork>) -> Vec<Check> {
    let attributes = [(NODE_ADDRESS.into(), "10.0.0.9".into())].into();
    let node = NodeFacts { attributes, ..NodeFacts::default() };
    checks(spec, &node, &AllocDirs::new("/allocs/a".into()), network)
}

/// The only check of a service of the group.
fn only(check: ServiceCheck) -> Check {
    let spec = spec(vec![service(vec![check])], Vec::new());
    let mut made = made(&spec, Some(&network()));
    assert_eq!(made.len(), 1);
    made.remove(0)
}

/// What the agent does in a run.
fn agent(check: Check) -> Result<Probe, Text> {
    match check.runner {
        Runner::Agent(probe) => probe,
        Runner::Consul(_) | Runner::Script(_) => panic!("no probe"),
    }
}

//
#[test]
fn checks_in_consul_are_known_by_their_service_and_name() {
    let named = ServiceCheck {
        on_update: Some(OnUpdate::IgnoreWarnings),
        check_restart: Some(CheckRestart { limit: 1, grace: Nanos::SECOND, ignore_warnings: true }),
        ..check(CheckKind::Grpc)
    };
    let unnamed = ServiceCheck { name: "".into(), ..check(CheckKind::Tcp) };
    let consul = |checks| Service { provider: None, ..service(checks) };
    let spec = spec(vec![consul(vec![named])], vec![consul(vec![unnamed])]);
    let of = |check: &Check| match &check.runner {
        Runner::Consul(in_consul) => in_consul.clone(),
        Runner::Agent(_) | Runner::Script(_) => panic!("the agent runs the check"),
    };
    let made = made(&spec, None);
    let (group, task) = (of(&made[0]), of(&made[1]));
    let id = spec.id();
    assert_eq!(*group.service_id, *format!("_nomad-task-{id}-group-app-web-http"));
    assert_eq!((&*group.name, group.on_update), ("alive", Some(OnUpdate::IgnoreWarnings)));
    assert!(group.ignores_warnings && !task.ignores_warnings);
    assert_eq!(*task.service_id, *format!("_nomad-task-{id}-server-web-http"));
    assert_eq!(&*task.name, "service: \"web\" check");
}

//
#[test]
fn a_check_of_a_service_in_consul_may_run_a_program_in_a_task() {
    let script = ServiceCheck {
        command: "/bin/check".into(),
        args: vec!["-x".into(), "${NOMAD_GROUP_NAME}".into()],
        ..check(CheckKind::Script)
    };
    let named = ServiceCheck { task_name: "server".into(), ..script.clone() };
    let consul = |check| Service { provider: Some(ServiceProvider::Consul), ..service(vec![check]) };
    let spec = spec(vec![consul(named)], vec![consul(script.clone())]);
    let made = made(&spec, None);
    let scripts: Vec<_> = made
        .iter()
        .map(|check| match &check.runner {
            Runner::Script(script) => script,
            Runner::Agent(_) | Runner::Consul(_) => panic!("the check runs no program"),
        })
        .collect();
    for script in &scripts {
        assert_eq!((&*script.task, script.command.join(" ")), ("server", "/bin/check -x app".to_owned()));
        assert_eq!(&*script.in_consul.name, "alive");
    }
    assert_ne!(scripts[0].check_id, scripts[1].check_id);
    assert_ne!(made[0].id, made[1].id);
}

//
#[test]
fn services_of_the_group_and_of_tasks_have_checks() {
    let consul = Service { provider: Some(ServiceProvider::Consul), ..service(vec![check(CheckKind::Grpc)]) };
    let of_group = vec![service(vec![check(CheckKind::Tcp)]), consul];
    let of_task = vec![Service { name: "db".into(), ..service(vec![check(CheckKind::Tcp); 2]) }];
    let spec = spec(of_group, of_task);
    let made = made(&spec, None);
    let owners: Vec<_> = made.iter().map(|check| (&*check.task, &*check.service)).collect();
    assert_eq!(owners, [("", "web"), ("", "web"), ("server", "db"), ("server", "db")]);
    assert_eq!(count(&spec), 4);
    let in_consul: Vec<_> = made.iter().map(|check| matches!(check.runner, Runner::Consul(_))).collect();
    assert_eq!(in_consul, [false, true, false, false]);
    assert_eq!(made[0].group, spec.name());
    assert!(
        made.iter()
            .all(|check| check.id.len() == 64 && check.id.bytes().all(|byte| byte.is_ascii_hexdigit()))
    );
    assert!(made[0].id != made[1].id && made[2].id != made[3].id);
}

//
#[test]
fn a_check_goes_to_the_node_unless_its_mode_is_the_network_of_the_allocation() {
    let probe = |mode, port: &str| {
        let check = ServiceCheck { address_mode: mode, port_label: port.into(), ..check(CheckKind::Tcp) };
        agent(only(check)).unwrap()
    };
    let on_node = probe(None, "");
    assert_eq!((on_node.address.to_string(), on_node.namespace), ("10.0.0.1:21000".to_owned(), None));
    let numbered = probe(Some(AddressMode::Host), "9090");
    assert_eq!(numbered.address.to_string(), "10.0.0.1:9090");
    let inside = probe(Some(AddressMode::Alloc), "");
    assert_eq!(inside.address.to_string(), "172.26.64.2:8080");
    assert_eq!(inside.namespace, Some("/networks/a".into()));
}

//
#[test]
fn http_checks_have_the_request_of_the_job() {
    let http = ServiceCheck {
        path: "status?full=1".into(),
        protocol: "https".into(),
        header: [("Accept".into(), vec!["a".into(), "b".into()])].into(),
        tls_skip_verify: true,
        body: "x".into(),
        ..check(CheckKind::Http)
    };
    let request = agent(only(http)).unwrap().request.unwrap();
    assert_eq!(
        request,
        HttpRequest {
            tls: Some(Tls { verify: false, server_name: "".into() }),
            method: "GET".into(),
            target: "/status?full=1".into(),
            headers: vec![("Accept".into(), "a".into()), ("Accept".into(), "b".into())],
            body: "x".into(),
        }
    );
    let plain = ServiceCheck { path: "/".into(), ..check(CheckKind::Http) };
    assert_eq!(agent(only(plain)).unwrap().request.unwrap().tls, None);
    assert_eq!(agent(only(check(CheckKind::Tcp))).unwrap().request, None);
}

//
#[test]
fn names_in_the_texts_of_checks_are_replaced() {
    let named = ServiceCheck { path: "/${NOMAD_GROUP_NAME}".into(), ..check(CheckKind::Http) };
    assert_eq!(&*agent(only(named)).unwrap().request.unwrap().target, "/app");
    let of_task = ServiceCheck { path: "/${NOMAD_TASK_NAME}".into(), ..check(CheckKind::Http) };
    let spec = spec(Vec::new(), vec![service(vec![of_task])]);
    let request = agent(made(&spec, None).remove(0)).unwrap().request.unwrap();
    assert_eq!(&*request.target, "/server");
}

#[test]
fn a_check_without_an_address_fails_with_the_reason() {
    let reason = |check| agent(only(check)).unwrap_err().to_string();
    let unknown = reason(ServiceCheck { port_label: "htpp".into(), ..check(CheckKind::Tcp) });
    assert!(unknown.contains("\"htpp\""), "{unknown}");
    assert_eq!(reason(check(CheckKind::Script)), "checks of type script need the provider consul");
    assert_eq!(reason(ServiceCheck { kind: None, ..check(CheckKind::Tcp) }), "the check has no type");
    let inside = ServiceCheck { address_mode: Some(AddressMode::Alloc), ..check(CheckKind::Tcp) };
    let spec = spec(vec![service(vec![inside])], Vec::new());
    let reason = agent(made(&spec, None).remove(0)).unwrap_err();
    assert!(reason.contains("alloc"), "{reason}");
}

//
#[test]
fn times_and_rules_are_within_their_limits() {
    let extreme = ServiceCheck {
        interval: Nanos::ZERO,
        timeout: Nanos(i64::MAX),
        check_restart: Some(CheckRestart { limit: 3, grace: Nanos::from_secs(90), ignore_warnings: false }),
        on_update: Some(OnUpdate::Ignore),
        ..check(CheckKind::Tcp)
    };
    let found = only(extreme);
    assert_eq!((found.interval, found.timeout), (Nanos::SECOND, Nanos::from_mins(1)));
    assert_eq!(found.restart, Some(RestartRule { limit: 3, grace: Nanos::from_secs(90) }));
    assert_eq!(found.mode, Mode::Readiness);
    let off = CheckRestart { limit: 0, ..CheckRestart::default() };
    let plain = only(ServiceCheck { check_restart: Some(off), ..check(CheckKind::Tcp) });
    assert_eq!((plain.restart, plain.mode), (None, Mode::Healthiness));
}

//
#[test]
fn the_id_changes_with_what_the_check_does() {
    let base = ServiceCheck { path: "/".into(), ..check(CheckKind::Http) };
    let id = only(base.clone()).id;
    assert_eq!(only(base.clone()).id, id);
    for changed in [
        ServiceCheck { name: "other".into(), ..base.clone() },
        ServiceCheck { path: "/x".into(), ..base.clone() },
        ServiceCheck { method: "HEAD".into(), ..base.clone() },
        ServiceCheck { interval: Nanos::from_secs(11), ..base.clone() },
        ServiceCheck { timeout: Nanos::from_secs(3), ..base.clone() },
        ServiceCheck { port_label: "9090".into(), ..base.clone() },
        ServiceCheck { on_update: Some(OnUpdate::Ignore), ..base.clone() },
        ServiceCheck { address_mode: Some(AddressMode::Alloc), ..base.clone() },
        ServiceCheck { tls_skip_verify: true, ..base.clone() },
        ServiceCheck { protocol: "https".into(), ..base.clone() },
        ServiceCheck { kind: Some(CheckKind::Tcp), ..base.clone() },
    ] {
        assert_ne!(only(changed.clone()).id, id, "{changed:?}");
    }
    let restarting = ServiceCheck { check_restart: Some(CheckRestart::default()), ..base };
    assert_eq!(only(restarting).id, id, "its result stays");
}
