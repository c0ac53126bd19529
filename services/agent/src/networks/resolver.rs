//! The files `hosts` and `resolv.conf` that tasks with a mount namespace see. Pure.

use std::net::IpAddr;

use api_types::DnsConfig;
use model::alloc::NetworkStatus;

/// The lines that every hosts file begins with.
const LOCAL_HOSTS: &str = "127.0.0.1 localhost\n\
    ::1 localhost ip6-localhost ip6-loopback\n\
    fe00::0 ip6-localnet\n\
    ff00::0 ip6-mcastprefix\n\
    ff02::1 ip6-allnodes\n\
    ff02::2 ip6-allrouters\n";
/// The first line of both files.
const MADE_BY: &str = "# Made by Drover for the allocation.\n";

/// The hosts file of an allocation: its host name stands for its addresses.
pub(crate) fn hosts(hostname: Option<&str>, status: Option<&NetworkStatus>) -> String {
    let mut text = [MADE_BY, LOCAL_HOSTS].concat();
    let addresses = status.map(|status| [&*status.address, &*status.address_ipv6]);
    let mut addresses: Vec<_> =
        addresses.into_iter().flatten().filter(|address| !address.is_empty()).collect();
    let Some(hostname) = hostname else { return text };
    if addresses.is_empty() {
        // The namespace has a loopback interface only.
        addresses.push("127.0.0.1");
    }
    for address in addresses {
        let short = hostname.split('.').next().filter(|short| *short != hostname);
        let names: Vec<_> = [Some(hostname), short].into_iter().flatten().collect();
        text.push_str(&format!("{address} {}\n", names.join(" ")));
    }
    text
}

/// The resolver's configuration of an allocation. What `dns` leaves out is taken from `host`, the node's own, but for the
/// name server if the agent offers one.
pub(crate) fn resolv_conf(dns: Option<&DnsConfig>, offered: Option<IpAddr>, host: &str) -> String {
    let of_host = |keyword: &str| -> Vec<String> {
        let lines = host.lines().filter_map(|line| line.trim().strip_prefix(keyword));
        let values = lines.filter(|rest| rest.starts_with([' ', '\t'])).flat_map(str::split_whitespace);
        values.map(str::to_owned).collect()
    };
    let given = |list: Option<&Option<Vec<String>>>| {
        list.and_then(Option::as_ref).filter(|list| !list.is_empty()).cloned()
    };
    let part = |list: Option<&Option<Vec<String>>>, keyword| given(list).unwrap_or_else(|| of_host(keyword));
    // Only the offered one: some resolvers ask all servers at once, and the others do not know the names of services.
    let default = || offered.map_or_else(|| of_host("nameserver"), |offered| vec![offered.to_string()]);
    let servers = given(dns.map(|dns| &dns.servers)).unwrap_or_else(default);
    let searches = part(dns.map(|dns| &dns.searches), "search");
    let options = part(dns.map(|dns| &dns.options), "options");
    let mut text = MADE_BY.to_owned();
    for server in servers {
        text.push_str(&format!("nameserver {server}\n"));
    }
    for (keyword, list) in [("search", searches), ("options", options)] {
        if !list.is_empty() {
            text.push_str(&format!("{keyword} {}\n", list.join(" ")));
        }
    }
    text
}

/// The addresses of the name servers of a resolver's configuration.
pub(crate) fn name_servers(host: &str) -> Vec<IpAddr> {
    let lines = host.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    lines.filter_map(|rest| rest.trim().parse().ok()).collect()
}

/// Whether all name servers of a resolver's configuration are on a loopback interface, which only the node itself reaches.
pub(crate) fn is_local_only(host: &str) -> bool {
    let mut servers = host.lines().filter_map(|line| line.trim().strip_prefix("nameserver ")).peekable();
    servers.peek().is_some()
        && servers.all(|server| server.trim().parse::<IpAddr>().is_ok_and(|server| server.is_loopback()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str =
        "# comment\nnameserver 10.0.0.2\nnameserver 10.0.0.3\nsearch corp example\noptions edns0\n";

    #[test]
    fn the_host_name_stands_for_the_addresses() {
        let status = NetworkStatus {
            address: "172.26.64.2".into(),
            address_ipv6: "fd00::2".into(),
            ..Default::default()
        };
        let text = hosts(Some("web.example"), Some(&status));
        assert!(text.starts_with("# Made by Drover"), "{text}");
        assert!(text.ends_with("172.26.64.2 web.example web\nfd00::2 web.example web\n"), "{text}");
        assert!(hosts(Some("web"), None).ends_with("127.0.0.1 web\n"));
        assert!(hosts(None, Some(&status)).ends_with("ff02::2 ip6-allrouters\n"));
    }

    #[test]
    fn what_the_job_leaves_out_is_as_on_the_node() {
        let expected = "nameserver 10.0.0.2\nnameserver 10.0.0.3\nsearch corp example\noptions edns0\n";
        assert_eq!(resolv_conf(None, None, HOST), [MADE_BY, expected].concat());
        let dns = DnsConfig {
            servers: Some(vec!["1.1.1.1".into()]),
            searches: Some(Vec::new()),
            options: Some(vec!["ndots:2".into(), "rotate".into()]),
        };
        let expected = "nameserver 1.1.1.1\nsearch corp example\noptions ndots:2 rotate\n";
        assert_eq!(
            resolv_conf(Some(&dns), Some("172.26.64.1".parse().unwrap()), HOST),
            [MADE_BY, expected].concat()
        );
    }

    #[test]
    fn a_server_that_the_agent_offers_is_the_only_one() {
        let text = resolv_conf(None, Some("172.26.64.1".parse().unwrap()), HOST);
        let expected = "nameserver 172.26.64.1\nsearch corp example\noptions edns0\n";
        assert_eq!(text, [MADE_BY, expected].concat());
        let servers =
            name_servers("nameserver 10.0.0.2\n#nameserver 10.0.0.9\nnameserver\tfd00::1\nnameserver x\n");
        let expected: [IpAddr; 2] = ["10.0.0.2".parse().unwrap(), "fd00::1".parse().unwrap()];
        assert_eq!(servers, expected);
    }

    #[test]
    fn a_resolver_on_a_loopback_interface_is_noticed() {
        assert!(is_local_only("nameserver 127.0.0.53\n"));
        assert!(!is_local_only("nameserver 127.0.0.53\nnameserver 10.0.0.1\n"));
        assert!(!is_local_only("search x\n"));
    }
}
