//! Settings of the agent's DNS server.

use std::net::{IpAddr, SocketAddr};

use clap::Parser as _;
use hickory_proto::rr::Name;

use crate::networks::subnet::Subnet;

/// Where the server listens, unless a setting says otherwise.
const DEFAULT_ADDRESS: &str = "127.0.0.1:8600";
/// The default domain of the names of services.
const DEFAULT_DOMAIN: &str = "drover";
/// The maximum length of the domain, so that there is room for the names below it.
const DOMAIN_BYTES_MAX: usize = 63;
/// The longest time to live of an answer, in seconds.
const TTL_SECS_MAX: u32 = 86_400;
/// The maximum number of resolvers that are given.
const RESOLVERS_MAX: usize = 8;
/// In place of resolvers: questions about other names are refused.
const NO_RESOLVERS: &str = "none";
/// The port of resolvers that are given without one.
const DNS_PORT: u16 = 53;

/// Settings of the DNS server.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Agent")]
pub struct DnsArgs {
    /// Answer questions about the names of services by DNS.
    #[arg(long = "dns", env = "DROVER_DNS")]
    pub dns_enabled: bool,
    /// Address and port on which the DNS server listens.
    #[arg(long, env = "DROVER_DNS_ADDRESS", default_value = DEFAULT_ADDRESS)]
    pub dns_address: SocketAddr,
    /// Do not offer the DNS server to allocations on the bridge.
    #[arg(long, env = "DROVER_DNS_NO_BRIDGE")]
    pub dns_no_bridge: bool,
    /// Domain of the names of services.
    #[arg(long, env = "DROVER_DNS_DOMAIN", default_value = DEFAULT_DOMAIN)]
    pub dns_domain: String,
    /// How long others may keep an answer about a service, in seconds.
    #[arg(long, env = "DROVER_DNS_TTL_SECS", default_value_t = 0)]
    pub dns_ttl_secs: u32,
    /// Resolvers for all other names, as `address` or `address:port`; those of the machine by default. `none` refuses
    /// other names.
    #[arg(long, env = "DROVER_DNS_FORWARD", value_delimiter = ',')]
    pub dns_forward: Vec<String>,
    /// Ranges of addresses that may ask, besides the machine itself and its bridge.
    #[arg(long, env = "DROVER_DNS_ALLOW", value_delimiter = ',', value_name = "RANGE")]
    pub dns_allow: Vec<Subnet>,
}

impl Default for DnsArgs {
    /// The settings without any flags. Environment variables apply.
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct NoFlags {
            #[command(flatten)]
            args: DnsArgs,
        }
        NoFlags::parse_from(["agent"]).args
    }
}

/// Who is asked about names that are not those of services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resolvers {
    /// The resolvers of the machine.
    Machine,
    /// These.
    Given(Vec<SocketAddr>),
    /// Nobody: such questions are refused.
    Nobody,
}

/// The validated settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DnsSettings {
    /// Where the server listens.
    pub(crate) address: SocketAddr,
    /// Whether it also listens on the bridge, and is offered to the allocations there.
    pub(crate) bridge: bool,
    /// The domain, in lower case.
    pub(crate) domain: Name,
    /// The time to live of answers, in seconds.
    pub(crate) ttl_secs: u32,
    /// Who is asked about other names.
    pub(crate) resolvers: Resolvers,
    /// Who may ask, besides the machine and its bridge.
    pub(crate) allow: Vec<Subnet>,
}

impl DnsSettings {
    /// Validates the settings. `None` is without a DNS server.
    pub(crate) fn new(args: DnsArgs) -> anyhow::Result<Option<Self>> {
        let domain = domain(&args.dns_domain)?;
        let resolvers = resolvers(&args.dns_forward)?;
        let ttl_secs = args.dns_ttl_secs;
        anyhow::ensure!(ttl_secs <= TTL_SECS_MAX, "--dns-ttl-secs: at most {TTL_SECS_MAX}");
        Ok(args.dns_enabled.then_some(Self {
            address: args.dns_address,
            bridge: !args.dns_no_bridge,
            domain,
            ttl_secs,
            resolvers,
            allow: args.dns_allow,
        }))
    }
}

fn domain(text: &str) -> anyhow::Result<Name> {
    let labels: Vec<&str> = text.trim_end_matches('.').split('.').collect();
    let is_label = |label: &&str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_domain = text.len() <= DOMAIN_BYTES_MAX && labels.iter().all(is_label);
    anyhow::ensure!(
        is_domain,
        "--dns-domain: {text:?} is not a domain of at most {DOMAIN_BYTES_MAX} letters, digits, hyphens and dots"
    );
    Ok(Name::from_labels(labels)?.to_lowercase())
}

fn resolvers(texts: &[String]) -> anyhow::Result<Resolvers> {
    let texts: Vec<&str> = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
    if texts.is_empty() {
        return Ok(Resolvers::Machine);
    }
    if texts == [NO_RESOLVERS] {
        return Ok(Resolvers::Nobody);
    }
    anyhow::ensure!(texts.len() <= RESOLVERS_MAX, "--dns-forward: at most {RESOLVERS_MAX} resolvers");
    let resolver = |text: &str| {
        let address = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DNS_PORT));
        address.or_else(|_| text.parse::<SocketAddr>()).map_err(|_| {
            anyhow::anyhow!(
                "--dns-forward: {text:?} is neither an address, address:port nor {NO_RESOLVERS:?}"
            )
        })
    };
    Ok(Resolvers::Given(texts.into_iter().map(resolver).collect::<anyhow::Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(change: impl FnOnce(&mut DnsArgs)) -> anyhow::Result<Option<DnsSettings>> {
        let mut args = DnsArgs { dns_enabled: true, ..DnsArgs::default() };
        change(&mut args);
        DnsSettings::new(args)
    }

    #[test]
    fn the_server_is_off_by_default() {
        assert_eq!(DnsSettings::new(DnsArgs::default()).unwrap(), None);
        let settings = settings(|_| {}).unwrap().unwrap();
        assert_eq!(settings.address.to_string(), "127.0.0.1:8600");
        assert_eq!((settings.domain.to_ascii(), settings.ttl_secs), ("drover.".to_owned(), 0));
        assert_eq!((settings.resolvers, settings.bridge), (Resolvers::Machine, true));
    }

    #[test]
    fn resolvers_are_addresses_with_or_without_a_port() {
        let given = settings(|args| args.dns_forward = vec!["10.0.0.2".into(), "[fd00::1]:5353".into()]);
        let expected = ["10.0.0.2:53".parse().unwrap(), "[fd00::1]:5353".parse().unwrap()];
        assert_eq!(given.unwrap().unwrap().resolvers, Resolvers::Given(expected.to_vec()));
        let nobody = settings(|args| args.dns_forward = vec!["none".into()]);
        assert_eq!(nobody.unwrap().unwrap().resolvers, Resolvers::Nobody);
        assert!(settings(|args| args.dns_forward = vec!["none".into(), "10.0.0.2".into()]).is_err());
        assert!(settings(|args| args.dns_forward = vec!["resolver.example".into()]).is_err());
    }

    #[test]
    fn a_domain_has_labels() {
        let domain = |text: &str| settings(|args| args.dns_domain = text.into());
        assert_eq!(domain("Cluster.Example.").unwrap().unwrap().domain.to_ascii(), "cluster.example.");
        for text in ["", ".", "a..b", "a b", "-a", "_a", &"a".repeat(64)] {
            assert!(domain(text).is_err(), "{text:?}");
        }
    }
}
