//! What plugins answer: the addresses of an allocation, and errors (A-18.3). Pure.

use std::net::IpAddr;

use api_types::DnsConfig;
use model::Text;
use model::alloc::NetworkStatus;
use serde::Deserialize;
use serde_json::Value;

use super::attachment::INTERFACE;

/// The result of a list of plugins, in any version of the specification.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    interfaces: Vec<Interface>,
    ips: Vec<Address>,
    dns: Resolver,
    ip4: Option<OldAddress>,
    ip6: Option<OldAddress>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Interface {
    name: String,
    sandbox: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Address {
    address: String,
    interface: Option<usize>,
}

/// An address in versions before 0.3.0.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OldAddress {
    ip: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resolver {
    nameservers: Vec<String>,
    domain: String,
    search: Vec<String>,
    options: Vec<String>,
}

/// An error of a plugin.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Failure {
    msg: String,
    details: String,
}

/// The status of an allocation's network, by the result of its plugins.
///
/// # Errors
/// If the result has another form than the specification says, or no address.
pub(crate) fn status(result: &Value) -> Result<NetworkStatus, String> {
    let answer: Answer = serde_json::from_value(result.clone())
        .map_err(|error| format!("the result of the plugins is not as specified: {error}"))?;
    let inside = |interface: &&Interface| !interface.sandbox.is_empty() && interface.name != "lo";
    let named = answer.interfaces.iter().filter(inside).find(|interface| interface.name == INTERFACE);
    let interface = named.or_else(|| answer.interfaces.iter().find(inside));
    // An address without an interface is one of the namespace.
    let is_inside = |address: &&Address| match address.interface.and_then(|at| answer.interfaces.get(at)) {
        Some(of) => {
            interface.is_none_or(|interface| interface.name == of.name && interface.sandbox == of.sandbox)
        }
        None => true,
    };
    let new = answer.ips.iter().filter(is_inside).map(|address| address.address.as_str());
    let old = [&answer.ip4, &answer.ip6].into_iter().flatten().map(|address| address.ip.as_str());
    let addresses: Vec<IpAddr> =
        new.chain(old).filter_map(|text| text.split('/').next()?.parse().ok()).collect();
    let first = |is_wanted: fn(&IpAddr) -> bool| {
        let found = addresses.iter().find(|ip| is_wanted(ip));
        found.map_or_else(Text::default, |ip| ip.to_string().into())
    };
    if addresses.is_empty() {
        return Err("the plugins gave the allocation no address".to_owned());
    }
    Ok(NetworkStatus {
        interface: interface.map_or(INTERFACE, |interface| &*interface.name).into(),
        address: first(IpAddr::is_ipv4),
        address_ipv6: first(IpAddr::is_ipv6),
        dns: dns(answer.dns),
    })
}

fn dns(Resolver { nameservers, domain, mut search, options }: Resolver) -> Option<DnsConfig> {
    if nameservers.is_empty() {
        return None;
    }
    if !domain.is_empty() && !search.contains(&domain) {
        search.insert(0, domain);
    }
    Some(DnsConfig { servers: Some(nameservers), searches: Some(search), options: Some(options) })
}

/// What a plugin that failed wrote about it, by its standard output and standard error.
pub(crate) fn failure(stdout: &[u8], stderr: &[u8]) -> String {
    let Failure { msg, details } = serde_json::from_slice(stdout).unwrap_or_default();
    let parts: Vec<_> = [msg, details].into_iter().filter(|part| !part.is_empty()).collect();
    if !parts.is_empty() {
        return parts.join(": ");
    }
    let written = [stderr, stdout].map(|text| String::from_utf8_lossy(text).trim().to_owned());
    written.into_iter().find(|text| !text.is_empty()).unwrap_or_else(|| "it says nothing".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(result: Value) -> (String, String, String) {
        let NetworkStatus { interface, address, address_ipv6, .. } = status(&result).unwrap();
        (interface.to_string(), address.to_string(), address_ipv6.to_string())
    }

    fn texts(interface: &str, address: &str, address_ipv6: &str) -> (String, String, String) {
        (interface.to_owned(), address.to_owned(), address_ipv6.to_owned())
    }

    #[test]
    fn the_address_is_that_of_the_interface_in_the_namespace() {
        let result = json!({
            "cniVersion": "0.4.0",
            "interfaces": [
                { "name": "nomad", "mac": "e2:01:fa:da:61:22" },
                { "name": "veth5f008c5c" },
                { "name": "eth0", "sandbox": "/netns/a" },
            ],
            "ips": [
                { "version": "4", "interface": 0, "address": "172.26.64.1/20" },
                { "version": "4", "interface": 2, "address": "172.26.64.2/20", "gateway": "172.26.64.1" },
                { "version": "6", "interface": 2, "address": "fd00::2/112" },
            ],
            "dns": {},
        });
        assert_eq!(found(result.clone()), texts("eth0", "172.26.64.2", "fd00::2"));
        assert_eq!(status(&result).unwrap().dns, None);
    }

    #[test]
    fn other_forms_of_results_are_read() {
        let result = json!({ "ip4": { "ip": "10.0.0.7/24" }, "dns": { "nameservers": ["10.0.0.1"], "domain": "lan" } });
        assert_eq!(found(result.clone()), texts("eth0", "10.0.0.7", ""));
        let dns = status(&result).unwrap().dns.unwrap();
        assert_eq!((dns.servers, dns.searches), (Some(vec!["10.0.0.1".into()]), Some(vec!["lan".into()])));
        let result = json!({ "interfaces": [{ "name": "net1", "sandbox": "/a" }], "ips": [{ "address": "fd00::7/64" }] });
        assert_eq!(found(result), texts("net1", "", "fd00::7"));
    }

    #[test]
    fn a_result_without_an_address_is_refused() {
        assert_eq!(status(&json!({})).unwrap_err(), "the plugins gave the allocation no address");
        assert!(status(&json!({ "ips": 7 })).unwrap_err().starts_with("the result of the plugins is not as"));
    }

    #[test]
    fn errors_are_found_wherever_plugins_write_them() {
        assert_eq!(failure(br#"{"code":6,"msg":"no range","details":"full"}"#, b"noise"), "no range: full");
        assert_eq!(failure(b"", b" panic: x\n"), "panic: x");
        assert_eq!(failure(b"plain", b""), "plain");
        assert_eq!(failure(b"", b""), "it says nothing");
    }
}
