//! What kind of node one is: all that a scheduler may ask of it, what is its alone apart.
//!
//! The computed class is not enough, for it says nothing of the health of drivers and of the networks
//! (`spec/scheduling.md` ). So two nodes of one class may differ, and which of them is looked at first must
//! not decide for the other.

use std::fmt::Write as _;

use model::Text;
use model::node::NodeSpec;

/// Between the parts, and between the parts of a part: no name has them.
const PART: char = '\u{1e}';
const ITEM: char = '\u{1f}';

/// A name that two nodes share exactly if they are of one kind: the same class, datacenter and pool, the same drivers in
/// the same health, the same networks, as many healthy devices of each make.
pub(super) fn kind_of(spec: &NodeSpec) -> Text {
    let mut kind = String::with_capacity(128);
    for part in [&spec.computed_class, &spec.datacenter, &spec.node_pool, &spec.node_class] {
        kind.push_str(part);
        kind.push(PART);
    }
    for (name, driver) in &spec.drivers {
        let works = u8::from(driver.detected && driver.healthy);
        write!(kind, "{name}{ITEM}{works}{ITEM}").expect("a string takes all text");
    }
    kind.push(PART);
    for network in &spec.resources.networks {
        write!(kind, "{}{ITEM}", network.mode).expect("a string takes all text");
    }
    kind.push(PART);
    for network in &spec.resources.node_networks {
        write!(kind, "{}{ITEM}", network.mode).expect("a string takes all text");
        for address in &network.addresses {
            write!(kind, "{}{ITEM}", address.alias).expect("a string takes all text");
        }
        kind.push(PART);
    }
    kind.push(PART);
    for group in &spec.resources.devices {
        let healthy = group.instances.iter().filter(|instance| instance.healthy).count();
        write!(kind, "{healthy}{ITEM}").expect("a string takes all text");
    }
    kind.into()
}

#[cfg(test)]
mod tests {
    use model::node::{Driver, NodeAddress, NodeNetwork};

    use super::*;

    fn spec(healthy: bool, alias: &str) -> NodeSpec {
        let driver = Driver { detected: true, healthy, ..Driver::default() };
        let address =
            NodeAddress { alias: alias.into(), address: "10.0.0.1".into(), ..NodeAddress::default() };
        let mut spec = NodeSpec {
            computed_class: "v1:1".into(),
            drivers: [("exec".into(), driver)].into(),
            ..NodeSpec::default()
        };
        spec.resources.node_networks =
            vec![NodeNetwork { mode: "host".into(), addresses: vec![address], ..NodeNetwork::default() }];
        spec
    }

    #[test]
    fn a_sick_driver_and_another_network_make_another_kind() {
        let kind = kind_of(&spec(true, "default"));
        assert_ne!(kind_of(&spec(false, "default")), kind);
        assert_ne!(kind_of(&spec(true, "public")), kind);
    }

    #[test]
    fn what_is_a_nodes_alone_makes_no_difference() {
        let mut other = spec(true, "default");
        other.name = "another".into();
        other.resources.node_networks[0].addresses[0].address = "10.0.0.2".into();
        assert_eq!(kind_of(&other), kind_of(&spec(true, "default")));
    }
}
