//! Tests of the fingerprint of this machine.

use super::*;
use crate::driver::mock::Mock;
use crate::testing::NOW;

fn found() -> NodeSpec {
    let config = Config::for_tests(Path::new("/tmp"));
    let identity = Identity {
        node: model::NodeId::from_bytes([3; 16]),
        secret: model::node::Secret("sesame".into()),
        boot: 1,
    };
    let drivers = Drivers::default().with("mock_driver", Mock);
    let machine = Machine::detect(Path::new("/tmp"));
    node_spec(&config, &identity, &machine, &drivers, &Detected::default(), None, NOW)
}

#[test]
fn a_node_reports_its_attributes_and_resources() {
    let spec = found();
    let capacity = spec.capacity();
    assert!(capacity.cpu_mhz > 0 && capacity.memory_mb > 0 && capacity.disk_mb > 0, "{capacity:?}");
    for name in
        ["cpu.arch", "kernel.name", "os.signals", "unique.hostname", "nomad.version", "driver.mock_driver"]
    {
        assert!(spec.attributes.get(name).is_some_and(|value| !value.is_empty()), "{name}");
    }
    assert!(spec.attributes["os.signals"].contains("SIGTERM,SIGTRAP"));
    assert!(spec.drivers["mock_driver"].healthy);
    assert!(!spec.name.is_empty());
    assert!(spec.computed_class.starts_with("v1:"));
}

#[test]
fn a_second_fingerprint_is_the_same() {
    let (first, mut second) = (found(), found());
    second.drivers.values_mut().for_each(|driver| driver.update_time = Timestamp(1));
    assert!(is_same(&first, &second));
    second.meta.insert("rack".into(), "r7".into());
    assert!(!is_same(&first, &second));
}

/// Four cores of 2,000 MHz, of which two are slower ones of 1,000 MHz.
fn machine() -> Machine {
    let core = |id, base_mhz, grade| Core { id, base_mhz, grade, ..Core::default() };
    let cores =
        vec![core(0, 2_000, true), core(1, 2_000, true), core(2, 1_000, false), core(3, 1_000, false)];
    let topology = Topology { nodes: vec![0], distances: vec![vec![10]], cores, ..Topology::default() };
    Machine { topology, ..Machine::detect(Path::new("/tmp")) }
}

#[test]
fn cores_are_reservable_only_if_other_tasks_can_be_kept_off_them() {
    let mut config = Config::for_tests(Path::new("/tmp"));
    let machine = machine();
    assert!(machine.reservable_cores(&config, None).is_empty());
    let cgroups = Cgroups::for_tests([0, 1, 2]);
    assert_eq!(machine.reservable_cores(&config, Some(&cgroups)), [0, 1, 2]);
    config.reservable_cores = Some([1, 2, 3].into());
    config.reserved.cores = [2].into();
    config.reserved.cpu_mhz = 100;
    assert_eq!(machine.reservable_cores(&config, Some(&cgroups)), [1]);
    assert_eq!(machine.reserved_mhz(&config), 1_100);

    let networks = HostNetworks::detect(Some("lo"), config.preferred_address_family);
    let resources = resources(&config, &machine, 0, &networks, &Detected::default(), vec![1]);
    assert_eq!(resources.cpu.reservable_cores, [1]);
    let disabled: Vec<_> = resources.processors.cores.iter().map(|core| core.disable).collect();
    assert_eq!(disabled, [true, false, true, true]);
    let attributes = attributes(&config, &machine, 0, Some(&cgroups));
    for (name, value) in [
        ("cpu.totalcompute", "6000"),
        ("cpu.usablecompute", "4900"),
        ("cpu.numcores.efficiency", "2"),
        ("cpu.frequency.performance", "2000"),
        ("numa.node0.cores", "0-3"),
        ("os.cgroups.version", "2"),
    ] {
        assert_eq!(attributes.get(name).map(|value| &**value), Some(value), "{name}");
    }
}
