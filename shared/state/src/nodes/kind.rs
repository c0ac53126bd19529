//! The kind of a node: everything that affects feasibility, except what is unique to the node.
//!
//! The computed class is not sufficient, because it does not include the health of drivers and the networks
//! (`docs/rules/scheduling.md` ). Two nodes of one class may differ in these, so that the result for one of them must
//! not be used for the other.

use std::fmt::Write as _;

use model::Text;
use model::node::NodeSpec;

/// Separator between parts. Names do not contain it.
const PART: char = '\u{1e}';
/// Separator between the items of a part. Names do not contain it.
const ITEM: char = '\u{1f}';

/// The kind of a node as text. Two nodes have the same kind exactly if they have the same class, datacenter and pool, the
/// same drivers with the same health, the same networks, and the same number of healthy devices of each device group.
pub(super) fn kind_of(spec: &NodeSpec) -> Text {
    let mut kind = String::with_capacity(128);
    for part in [&spec.computed_class, &spec.datacenter, &spec.node_pool, &spec.node_class] {
        kind.push_str(part);
        kind.push(PART);
    }
    for (name, driver) in &spec.drivers {
        let is_healthy = u8::from(driver.detected && driver.healthy);
        write!(kind, "{name}{ITEM}{is_healthy}{ITEM}").expect("writing to a string cannot fail");
    }
    kind.push(PART);
    for network in &spec.resources.networks {
        write!(kind, "{}{ITEM}", network.mode).expect("writing to a string cannot fail");
    }
    kind.push(PART);
    for network in &spec.resources.node_networks {
        write!(kind, "{}{ITEM}", network.mode).expect("writing to a string cannot fail");
        for address in &network.addresses {
            write!(kind, "{}{ITEM}", address.alias).expect("writing to a string cannot fail");
        }
        kind.push(PART);
    }
    kind.push(PART);
    for group in &spec.resources.devices {
        let healthy = group.instances.iter().filter(|instance| instance.healthy).count();
        write!(kind, "{healthy}{ITEM}").expect("writing to a string cannot fail");
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
    fn an_unhealthy_driver_or_another_network_makes_another_kind() {
        let kind = kind_of(&spec(true, "default"));
        assert_ne!(kind_of(&spec(false, "default")), kind);
        assert_ne!(kind_of(&spec(true, "public")), kind);
    }

    #[test]
    fn unique_fields_do_not_change_the_kind() {
        let mut other = spec(true, "default");
        other.name = "another".into();
        other.resources.node_networks[0].addresses[0].address = "10.0.0.2".into();
        assert_eq!(kind_of(&other), kind_of(&spec(true, "default")));
    }
}
