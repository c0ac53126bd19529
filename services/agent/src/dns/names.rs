//! What the names of the agent's domain mean. Pure.
//!
//! | name | meaning |
//! |---|---|
//! | `web.service.drover` | a service of the namespace `default` |
//! | `web.service.prod.ns.drover` | a service of another namespace |
//! | `blue.web.service.drover` | those of its instances that have a tag |
//! | `_web._tcp.service.drover` | the same as `web.service.drover`, for clients that write names so |
//! | `0a000001.addr.drover` | the address 10.0.0.1 |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::rr::Name;

/// The namespace of names that have none.
const DEFAULT_NAMESPACE: &str = "default";
/// The label above names of services.
const SERVICE: &str = "service";
/// The label above names of addresses.
const ADDRESS: &str = "addr";
/// The label above names of namespaces.
const NAMESPACE: &str = "ns";

/// A service, as it is asked for. All is in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceName {
    /// The namespace.
    pub(crate) namespace: String,
    /// The name.
    pub(crate) service: String,
    /// The tag that instances must have, if one is asked for.
    pub(crate) tag: Option<String>,
}

/// What a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It is not within the domain.
    Elsewhere,
    /// It is within the domain, and there is no such name.
    Nothing,
    /// There are names below it, but no records of it.
    Parent,
    /// A service, which may exist.
    Service(ServiceName),
    /// An address.
    Address(IpAddr),
}

/// What a name means. Upper and lower case are the same.
pub(crate) fn meaning(name: &Name, domain: &Name) -> Meaning {
    if !domain.zone_of(name) {
        return Meaning::Elsewhere;
    }
    let own = name.iter().count().saturating_sub(domain.iter().count());
    let labels =
        name.iter().take(own).map(|label| Some(std::str::from_utf8(label).ok()?.to_ascii_lowercase()));
    let Some(labels) = labels.collect::<Option<Vec<String>>>() else { return Meaning::Nothing };
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    match labels.as_slice() {
        [] | [SERVICE | ADDRESS | NAMESPACE] | [_, NAMESPACE] | [SERVICE, _, NAMESPACE] => Meaning::Parent,
        [digits, ADDRESS] => address(digits).map_or(Meaning::Nothing, Meaning::Address),
        [front @ .., SERVICE] => service(DEFAULT_NAMESPACE, front),
        [front @ .., SERVICE, namespace, NAMESPACE] => service(namespace, front),
        _ => Meaning::Nothing,
    }
}

fn service(namespace: &str, front: &[&str]) -> Meaning {
    let (tag, service) = match front {
        [service] => (None, *service),
        [service, "_tcp" | "_udp"] if service.starts_with('_') => (None, service.trim_start_matches('_')),
        [tag, service] => (Some((*tag).to_owned()), *service),
        _ => return Meaning::Nothing,
    };
    let (namespace, service) = (namespace.to_owned(), service.to_owned());
    Meaning::Service(ServiceName { namespace, service, tag })
}

/// The address that a label of hexadecimal digits means.
fn address(digits: &str) -> Option<IpAddr> {
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    match digits.len() {
        8 => Some(Ipv4Addr::from(u32::from_str_radix(digits, 16).ok()?).into()),
        32 => Some(Ipv6Addr::from(u128::from_str_radix(digits, 16).ok()?).into()),
        _ => None,
    }
}

/// The name of an address within the domain. `None` if it would be too long.
pub(crate) fn name_of(address: IpAddr, domain: &Name) -> Option<Name> {
    let digits = match address {
        IpAddr::V4(address) => format!("{:08x}", u32::from(address)),
        IpAddr::V6(address) => format!("{:032x}", u128::from(address)),
    };
    Name::from_labels([digits.as_str(), ADDRESS]).ok()?.append_domain(domain).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    fn of(text: &str) -> Meaning {
        meaning(&name(text), &name("drover."))
    }

    fn asked(namespace: &str, service: &str, tag: Option<&str>) -> Meaning {
        let (namespace, service) = (namespace.to_owned(), service.to_owned());
        Meaning::Service(ServiceName { namespace, service, tag: tag.map(str::to_owned) })
    }

    #[test]
    fn names_of_services_have_a_namespace_and_may_have_a_tag() {
        for (text, expected) in [
            ("web.service.drover.", asked("default", "web", None)),
            ("WeB.Service.DROVER.", asked("default", "web", None)),
            ("Blue.web.service.drover.", asked("default", "web", Some("blue"))),
            ("web.service.prod.ns.drover.", asked("prod", "web", None)),
            ("blue.web.service.prod.ns.drover.", asked("prod", "web", Some("blue"))),
            ("service.service.drover.", asked("default", "service", None)),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
        let labels: [&[u8]; 4] = [b"_web", b"_tcp", b"service", b"drover"];
        let srv = Name::from_labels(labels).unwrap();
        assert_eq!(meaning(&srv, &name("drover.")), asked("default", "web", None));
    }

    #[test]
    fn other_names_are_elsewhere_or_nothing() {
        for (text, expected) in [
            ("drover.", Meaning::Parent),
            ("service.drover.", Meaning::Parent),
            ("prod.ns.drover.", Meaning::Parent),
            ("service.prod.ns.drover.", Meaning::Parent),
            ("web.drover.", Meaning::Nothing),
            ("a.b.c.service.drover.", Meaning::Nothing),
            ("0a00000.addr.drover.", Meaning::Nothing),
            ("zz000001.addr.drover.", Meaning::Nothing),
            ("example.com.", Meaning::Elsewhere),
            ("web.service.notdrover.", Meaning::Elsewhere),
            (".", Meaning::Elsewhere),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_name_of_an_address_means_the_address(is_ipv4: bool, bits: u128) {
            let low = u32::try_from(bits & u128::from(u32::MAX)).unwrap();
            let address: IpAddr =
                if is_ipv4 { Ipv4Addr::from(low).into() } else { Ipv6Addr::from(bits).into() };
            let domain = name("cluster.example.");
            prop_assert_eq!(meaning(&name_of(address, &domain).unwrap(), &domain), Meaning::Address(address));
        }
    }
}
