//! Tests of the demand and the ports of allocations, and of splitting and joining their resources.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn task(name: &str, lifecycle: Option<(LifecycleHook, bool)>, mhz: u32, mb: u32) -> TaskResources {
    TaskResources {
        name: name.into(),
        lifecycle: lifecycle.map(|(hook, sidecar)| Lifecycle { hook, sidecar }),
        cpu_mhz: mhz,
        memory_mb: mb,
        ..TaskResources::default()
    }
}

fn demand(tasks: Vec<TaskResources>) -> (u32, u32) {
    let demand = AllocatedResources { tasks, ..AllocatedResources::default() }.demand();
    (demand.cpu_mhz, demand.memory_mb)
}

#[test]
fn tasks_that_never_run_together_do_not_add_up() {
    let main = || vec![task("a", None, 100, 10), task("b", Some((LifecycleHook::Poststart, false)), 50, 5)];
    let with = |more| demand([main(), vec![more]].concat());
    assert_eq!(with(task("p", Some((LifecycleHook::Prestart, false)), 120, 99)), (150, 99));
    assert_eq!(with(task("p", Some((LifecycleHook::Poststop, false)), 400, 1)), (400, 15));
    assert_eq!(with(task("p", Some((LifecycleHook::Prestart, true)), 120, 20)), (270, 35));
}

#[test]
fn a_sidecar_counts_beside_what_starts_before_and_beside_what_runs() {
    let tasks = vec![
        task("setup", Some((LifecycleHook::Prestart, false)), 500, 0),
        task("proxy", Some((LifecycleHook::Prestart, true)), 100, 0),
        task("main", None, 300, 0),
    ];
    assert_eq!(demand(tasks), (600, 0));
}

#[test]
fn cores_count_through_all_phases_and_their_tasks_memory_in_its_own() {
    let own = TaskResources { cores: vec![3], ..task("p", Some((LifecycleHook::Prestart, false)), 2_500, 7) };
    assert_eq!(demand(vec![own, task("main", None, 300, 10)]), (2_800, 10));
}

#[test]
fn a_port_that_is_the_same_inside_is_so_in_every_allocation() {
    let requested = Port { label: "http".into(), to: SAME_AS_ON_NODE, ..Port::default() };
    let network = NetworkResource { dynamic_ports: vec![requested], ..NetworkResource::default() };
    let common = AllocatedResources { networks: vec![network], ..AllocatedResources::default() };
    for value in [20_001, 20_002] {
        let network = AssignedNetwork { ip: "10.0.0.1".into(), ports: vec![value], ..Default::default() };
        let assigned = Assigned { networks: vec![network], ..Assigned::default() };
        let whole = common.with(&assigned);
        let port = &whole.networks[0].dynamic_ports[0];
        assert_eq!((port.value, port.to), (value, i32::from(value)));
        assert_eq!(whole.split(), (common.clone(), assigned));
    }
}

#[test]
fn only_the_first_network_of_group_and_tasks_holds_ports_and_only_without_group_ports() {
    let network = |ip: &str, value, ignore_collision| NetworkResource {
        ip: ip.into(),
        reserved_ports: vec![Port { value, ignore_collision, ..Port::default() }],
        ..NetworkResource::default()
    };
    let mut whole = AllocatedResources {
        tasks: vec![TaskResources {
            networks: vec![network("10.0.0.3", 3, false)],
            ..TaskResources::default()
        }],
        networks: vec![network("10.0.0.1", 1, false), network("10.0.0.2", 2, false)],
        ..AllocatedResources::default()
    };
    let host_ports = |whole: &AllocatedResources| {
        let (common, assigned) = whole.clone().split();
        let assigned = PackedAssigned::pack(&assigned);
        let split = common.host_ports(&assigned);
        let split: Vec<_> = split.into_iter().map(|(ip, port)| (ip.to_string(), port)).collect();
        let nothing = PackedAssigned::default();
        let unsplit = whole.host_ports(&nothing);
        assert!(unsplit.into_iter().map(|(ip, port)| (ip.to_string(), port)).eq(split.iter().cloned()));
        split
    };
    assert_eq!(host_ports(&whole), [("10.0.0.1".to_owned(), 1), ("10.0.0.3".to_owned(), 3)]);

    whole.networks[0] = network("10.0.0.1", 1, true);
    assert_eq!(host_ports(&whole), [("10.0.0.3".to_owned(), 3)]);

    let port = |value, ignore_collision| PortMapping {
        value,
        host_ip: "10.0.0.9".into(),
        ignore_collision,
        ..PortMapping::default()
    };
    whole.ports = vec![port(8, true), port(9, false)];
    assert_eq!(host_ports(&whole), [("10.0.0.9".to_owned(), 9)]);
}

/// A port whose inner port is one of `inside`.
fn port(inside: &[i32]) -> impl Strategy<Value = Port> {
    (select(vec![0, 80, 20_001]), select(inside.to_vec()), any::<bool>())
        .prop_map(|(value, to, ignore_collision)| Port { value, to, ignore_collision, ..Port::default() })
}

fn network() -> impl Strategy<Value = NetworkResource> {
    let (reserved, dynamic) = (port(&[-1, 0, 80, 20_001]), port(&[0, 80, 20_001]));
    (text(), text(), vec(reserved, 0..3), vec(dynamic, 0..3)).prop_map(
        |(device, ip, reserved_ports, dynamic_ports)| NetworkResource {
            mode: "host".into(),
            device,
            ip,
            reserved_ports,
            dynamic_ports,
            ..NetworkResource::default()
        },
    )
}

fn text() -> impl Strategy<Value = Text> {
    "[a-c]{0,2}".prop_map(Text::from)
}

fn mapping() -> impl Strategy<Value = PortMapping> {
    (text(), any::<u16>(), any::<i32>(), text(), any::<bool>()).prop_map(
        |(label, value, to, host_ip, ignore_collision)| PortMapping {
            label,
            value,
            to,
            host_ip,
            ignore_collision,
        },
    )
}

fn task_resources() -> impl Strategy<Value = TaskResources> {
    let lifecycle = proptest::option::of((select(LifecycleHook::ALL), any::<bool>()));
    let device = (text(), vec(text(), 0..3)).prop_map(|(vendor, ids)| AllocatedDevice {
        vendor,
        ids,
        ..AllocatedDevice::default()
    });
    let amounts = (amount(), amount(), -1..2_000i64);
    (lifecycle, amounts, vec(any::<u16>(), 0..3), vec(network(), 0..2), vec(device, 0..2)).prop_map(
        |(lifecycle, (cpu_mhz, memory_mb, memory_max_mb), cores, networks, devices)| TaskResources {
            lifecycle: lifecycle.map(|(hook, sidecar)| Lifecycle { hook, sidecar }),
            cpu_mhz,
            memory_mb,
            memory_max_mb,
            cores,
            networks,
            devices,
            ..TaskResources::default()
        },
    )
}

/// Mostly small amounts, and some whose sum overflows.
fn amount() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..5_000u32, 1 => Just(u32::MAX)]
}

fn resources() -> impl Strategy<Value = AllocatedResources> {
    (vec(task_resources(), 0..4), amount(), vec(network(), 0..3), vec(mapping(), 0..3)).prop_map(
        |(mut tasks, disk_mb, networks, ports)| {
            for (number, task) in tasks.iter_mut().enumerate() {
                task.name = format!("task-{number}").into();
            }
            AllocatedResources { tasks, disk_mb, networks, ports }
        },
    )
}

proptest! {
    #[test]
    fn split_resources_are_put_together_again(whole in resources()) {
        let (common, assigned) = whole.clone().split();
        prop_assert_eq!(common.with(&assigned), whole);
        prop_assert_eq!(common.clone().split().0, common, "a second split moves nothing");
    }

    #[test]
    fn the_parts_demand_what_the_whole_does(whole in resources()) {
        let (common, assigned) = whole.clone().split();
        let mut sum = common.demand();
        let own_cores_mhz = PackedAssigned::pack(&assigned).own_cores_mhz();
        sum.cpu_mhz = sum.cpu_mhz.saturating_add(own_cores_mhz);
        prop_assert_eq!(sum, whole.demand());
    }

    #[test]
    fn the_parts_hold_the_ports_that_the_whole_does(whole in resources()) {
        let (common, assigned) = whole.clone().split();
        let (assigned, nothing) = (PackedAssigned::pack(&assigned), PackedAssigned::default());
        prop_assert_eq!(common.host_ports(&assigned), whole.host_ports(&nothing));
    }
}
