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
    node_spec(&config, &identity, &machine, &drivers, &Detected::default(), NOW)
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

#[test]
fn the_control_group_is_that_of_the_second_version() {
    assert_eq!(
        cgroup("9:name=systemd:/init\n4:memory:/x\n0::/system.slice/drover.service\n"),
        "/system.slice/drover.service"
    );
    assert_eq!(cgroup("4:memory:/x\n"), "");
}
