//! The records that answer a question about a name of the agent's domain. Pure: the order of instances comes from the
//! caller.

use std::collections::BTreeSet;
use std::net::IpAddr;

use hickory_proto::op::{Query, ResponseCode};
use hickory_proto::rr::rdata::{SOA, SRV};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::names::name_of;

/// The maximum number of instances in an answer. They are chosen at random.
pub(crate) const ANSWERS_MAX: usize = 256;
/// The times of the `SOA` record, in seconds: nobody copies the domain, so they only have to be plausible.
const REFRESH_SECS: i32 = 3_600;
const RETRY_SECS: i32 = 600;
const EXPIRE_SECS: i32 = 86_400;
/// Priority and weight of all instances in `SRV` records.
const PRIORITY: u16 = 1;
const WEIGHT: u16 = 1;

/// The agent's domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Zone {
    /// Its name.
    pub(crate) domain: Name,
    /// The time to live of records, in seconds.
    pub(crate) ttl_secs: u32,
}

/// Where an instance of a service is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// An IP address or a host name.
    pub(crate) host: String,
    /// The port; 0 without a port.
    pub(crate) port: u16,
}

/// What there is at a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// There is no such name.
    Nothing,
    /// There are only names below it.
    Parent,
    /// An address.
    Address(IpAddr),
    /// The instances of a service.
    Instances(Vec<Target>),
}

/// The parts of a response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// Whether the name exists.
    pub(crate) code: ResponseCode,
    /// The records that were asked for.
    pub(crate) answers: Vec<Record>,
    /// The domain's `SOA` record, if there are no answers.
    pub(crate) authorities: Vec<Record>,
    /// The addresses of names in the answers.
    pub(crate) additionals: Vec<Record>,
}

/// Answers a question. `pick` returns a random number below its argument, which is at least 1.
pub(crate) fn answer(
    zone: &Zone,
    query: &Query,
    content: Content,
    pick: &mut dyn FnMut(usize) -> usize,
) -> Answer {
    let kind = query.query_type();
    let record = |data: RData| Record::from_rdata(query.name().clone(), zone.ttl_secs, data);
    let (mut answers, mut additionals) = (Vec::new(), Vec::new());
    let mut code = ResponseCode::NoError;
    match content {
        Content::Nothing => code = ResponseCode::NXDomain,
        Content::Parent => {
            if kind == RecordType::SOA && *query.name() == zone.domain {
                answers.extend(soa(zone));
            }
        }
        Content::Address(address) => {
            let data = RData::from(address);
            if data.record_type() == kind {
                answers.push(record(data));
            }
        }
        Content::Instances(mut targets) => {
            shuffle(&mut targets, pick);
            targets.truncate(ANSWERS_MAX);
            if kind == RecordType::SRV {
                (answers, additionals) = services(zone, query.name(), &targets);
            } else {
                let mut seen = BTreeSet::new();
                let addresses = targets.iter().filter_map(|target| target.host.parse::<IpAddr>().ok());
                let data = addresses.filter(|address| seen.insert(*address)).map(RData::from);
                answers.extend(data.filter(|data| data.record_type() == kind).map(record));
            }
        }
    }
    let authorities = if answers.is_empty() { soa(zone).into_iter().collect() } else { Vec::new() };
    Answer { code, answers, authorities, additionals }
}

/// The `SRV` records of instances that have a port, and the addresses of their targets.
fn services(zone: &Zone, name: &Name, targets: &[Target]) -> (Vec<Record>, Vec<Record>) {
    let (mut answers, mut additionals, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for Target { host, port } in targets.iter().filter(|target| target.port != 0) {
        let address = host.parse::<IpAddr>().ok();
        let target = match address {
            Some(address) => name_of(address, &zone.domain),
            None => host_name(host),
        };
        let Some(target) = target else { continue };
        if let Some(address) = address.filter(|address| seen.insert(*address)) {
            additionals.push(Record::from_rdata(target.clone(), zone.ttl_secs, RData::from(address)));
        }
        let data = RData::SRV(SRV::new(PRIORITY, WEIGHT, *port, target));
        answers.push(Record::from_rdata(name.clone(), zone.ttl_secs, data));
    }
    (answers, additionals)
}

/// A host name that a service has instead of an address. `None` if it cannot be one.
fn host_name(host: &str) -> Option<Name> {
    let mut name = Name::from_ascii(host).ok().filter(|name| !name.is_root())?;
    name.set_fqdn(true);
    Some(name)
}

/// The domain's `SOA` record. Its last number is how long others may keep that something does not exist.
fn soa(zone: &Zone) -> Option<Record> {
    let below = |label: &str| Name::from_labels([label]).ok()?.append_domain(&zone.domain).ok();
    let (server, mailbox) = (below("ns")?, below("hostmaster")?);
    let data = SOA::new(server, mailbox, 1, REFRESH_SECS, RETRY_SECS, EXPIRE_SECS, zone.ttl_secs);
    Some(Record::from_rdata(zone.domain.clone(), zone.ttl_secs, RData::SOA(data)))
}

/// Puts items into a random order.
fn shuffle<T>(items: &mut [T], pick: &mut dyn FnMut(usize) -> usize) {
    for last in (1..items.len()).rev() {
        items.swap(last, pick(last.saturating_add(1)).min(last));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn zone() -> Zone {
        Zone { domain: Name::from_ascii("drover.").unwrap(), ttl_secs: 0 }
    }

    fn query(name: &str, kind: RecordType) -> Query {
        Query::query(Name::from_ascii(name).unwrap(), kind)
    }

    fn target(host: &str, port: u16) -> Target {
        Target { host: host.into(), port }
    }

    /// The answer in the given order.
    fn in_order(name: &str, kind: RecordType, content: Content) -> Answer {
        answer(&zone(), &query(name, kind), content, &mut |count| count - 1)
    }

    fn web() -> Content {
        Content::Instances(vec![
            target("10.0.0.1", 80),
            target("10.0.0.1", 81),
            target("fd00::1", 82),
            target("host.example", 83),
            target("10.0.0.2", 0),
        ])
    }

    fn data(records: &[Record]) -> Vec<String> {
        records.iter().map(|record| record.data.to_string()).collect()
    }

    #[test]
    fn addresses_of_a_service_are_of_the_family_that_was_asked_for() {
        let ipv4 = in_order("Web.service.drover.", RecordType::A, web());
        assert_eq!(data(&ipv4.answers), ["10.0.0.1", "10.0.0.2"]);
        assert!(ipv4.answers[0].name.eq_case(&Name::from_ascii("Web.service.drover.").unwrap()));
        assert_eq!((ipv4.code, ipv4.answers[0].ttl), (ResponseCode::NoError, 0));
        assert!(ipv4.authorities.is_empty());
        let ipv6 = in_order("web.service.drover.", RecordType::AAAA, web());
        assert_eq!(data(&ipv6.answers), ["fd00::1"]);
    }

    #[test]
    fn instances_with_a_port_have_srv_records_whose_targets_resolve() {
        let found = in_order("web.service.drover.", RecordType::SRV, web());
        let targets: Vec<(u16, String)> = found
            .answers
            .iter()
            .map(|record| {
                let RData::SRV(srv) = &record.data else { panic!("{record} is no SRV record") };
                (srv.port, srv.target.to_ascii())
            })
            .collect();
        let ipv6 = format!("{:032x}.addr.drover.", 0xfd00_0000_0000_0000_0000_0000_0000_0001_u128);
        let expected = [
            (80, "0a000001.addr.drover.".to_owned()),
            (81, "0a000001.addr.drover.".to_owned()),
            (82, ipv6),
            (83, "host.example.".to_owned()),
        ];
        assert_eq!(targets, expected);
        assert_eq!(data(&found.additionals), ["10.0.0.1", "fd00::1"]);
        let address = Content::Address("10.0.0.1".parse().unwrap());
        assert_eq!(data(&in_order("0a000001.addr.drover.", RecordType::A, address).answers), ["10.0.0.1"]);
    }

    #[test]
    fn an_answer_without_records_says_how_long_that_holds() {
        for (content, kind, code) in [
            (Content::Nothing, RecordType::A, ResponseCode::NXDomain),
            (Content::Parent, RecordType::A, ResponseCode::NoError),
            (web(), RecordType::TXT, ResponseCode::NoError),
            (Content::Address("10.0.0.1".parse().unwrap()), RecordType::AAAA, ResponseCode::NoError),
        ] {
            let found = in_order("x.drover.", kind, content);
            assert_eq!(found.code, code);
            assert!(found.answers.is_empty());
            assert_eq!(found.authorities.len(), 1);
            assert_eq!(found.authorities[0].record_type(), RecordType::SOA);
        }
        let apex = in_order("drover.", RecordType::SOA, Content::Parent);
        assert_eq!((apex.answers.len(), apex.authorities.len()), (1, 0));
    }

    proptest! {
        #[test]
        fn every_order_has_each_address_once(count in 0_u8..100, seed: u64) {
            let targets: Vec<Target> = (0..count).map(|last| target(&format!("10.0.0.{last}"), 1)).collect();
            let mut state = seed;
            let mut pick = |below: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                usize::try_from(state >> 33).unwrap() % below
            };
            let query = query("web.service.drover.", RecordType::A);
            let found = answer(&zone(), &query, Content::Instances(targets), &mut pick);
            let different: BTreeSet<String> = data(&found.answers).into_iter().collect();
            prop_assert_eq!(found.answers.len(), usize::from(count));
            prop_assert_eq!(different.len(), usize::from(count));
        }

        #[test]
        fn a_service_with_many_instances_has_a_limited_answer(count in 257_u16..1_000) {
            let targets = (0..count).map(|number| target("10.0.0.1", number.saturating_add(1))).collect();
            let found = in_order("web.service.drover.", RecordType::SRV, Content::Instances(targets));
            prop_assert_eq!(found.answers.len(), ANSWERS_MAX);
        }
    }
}
