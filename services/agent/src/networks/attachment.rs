//! What an allocation asks of its network, and what plugins are told about it: arguments and mapped ports (A-18.4,
//! Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use model::alloc::PortMapping;
use model::job::NetworkResource;
use model::{AllocId, Text};
use serde_json::{Map, Value, json};

/// The interface of an allocation in its namespace.
pub(crate) const INTERFACE: &str = "eth0";
/// The prefix of modes that name a configuration of the operator.
const CNI: &str = "cni/";

/// The kind of a network that has a namespace of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A namespace with a loopback interface only.
    None,
    /// An interface on the agent's bridge.
    Bridge,
    /// What the operator's configuration of this name makes.
    Cni(String),
}

impl Mode {
    /// The mode of a group's network; `None` if its tasks use the network of the node.
    ///
    /// # Errors
    /// If there is no such mode.
    pub(crate) fn of(network: Option<&NetworkResource>) -> Result<Option<Self>, String> {
        let mode = network.map_or("", |network| &*network.mode);
        match mode {
            "" | "host" => Ok(None),
            "none" => Ok(Some(Self::None)),
            "bridge" => Ok(Some(Self::Bridge)),
            _ => match mode.strip_prefix(CNI).filter(|name| !name.is_empty()) {
                Some(name) => Ok(Some(Self::Cni(name.to_owned()))),
                None => Err(format!(
                    "unknown network mode {}: it must be host, none, bridge or cni/NAME",
                    model::text::quoted(mode)
                )),
            },
        }
    }
}

/// What an allocation asks of its network.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attachment {
    /// The allocation.
    pub(crate) alloc: AllocId,
    /// The job.
    pub(crate) job: Text,
    /// The task group.
    pub(crate) group: Text,
    /// The namespace of the job.
    pub(crate) namespace: Text,
    /// The region of the node.
    pub(crate) region: Text,
    /// The kind of network.
    pub(crate) mode: Mode,
    /// The network namespace, as a file, that a driver's engine has made; `None` if the agent makes it.
    pub(crate) made: Option<PathBuf>,
    /// The host name of its tasks, if the job names one.
    pub(crate) hostname: Option<String>,
    /// The name servers of its tasks, if the job names any.
    pub(crate) dns: Option<api_types::DnsConfig>,
    /// Arguments of the job for the plugins.
    pub(crate) args: BTreeMap<String, String>,
    /// Its ports.
    pub(crate) ports: Vec<PortMapping>,
}

impl Attachment {
    /// The text in `CNI_ARGS`, and the names of the job's arguments that it leaves out because their values have a
    /// semicolon.
    pub(crate) fn cni_args(&self) -> (String, Vec<&str>) {
        let own = [
            ("NOMAD_ALLOC_ID", self.alloc.to_string()),
            ("NOMAD_GROUP_NAME", self.group.to_string()),
            ("NOMAD_JOB_ID", self.job.to_string()),
            ("NOMAD_NAMESPACE", self.namespace.to_string()),
            ("NOMAD_REGION", self.region.to_string()),
        ];
        let (mut text, mut left_out) = (String::from("IgnoreUnknown=true"), Vec::new());
        let of_job = self.args.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let of_job = of_job.filter(|(name, _)| own.iter().all(|(own, _)| own != name));
        for (name, value) in of_job.chain(own.iter().map(|(name, value)| (*name, value.clone()))) {
            if name.contains([';', '=']) || value.contains(';') {
                left_out.push(name);
                continue;
            }
            text.push_str(&format!(";{name}={value}"));
        }
        (text, left_out)
    }

    /// The values of capabilities that plugins may declare.
    pub(crate) fn abilities(&self) -> Map<String, Value> {
        let mut abilities = Map::new();
        let ports: Vec<_> = self.ports.iter().filter(|port| port.value > 0).flat_map(mappings).collect();
        if !ports.is_empty() {
            abilities.insert("portMappings".into(), ports.into());
        }
        if let Some(dns) = &self.dns {
            let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
            let value = json!({
                "servers": list(&dns.servers), "searches": list(&dns.searches), "options": list(&dns.options),
            });
            abilities.insert("dns".into(), value);
        }
        abilities
    }
}

/// The mappings of a port, for both protocols.
fn mappings(port: &PortMapping) -> [Value; 2] {
    let inside = u16::try_from(port.to).ok().filter(|to| *to > 0).unwrap_or(port.value);
    ["tcp", "udp"].map(|protocol| {
        json!({
            "hostPort": port.value,
            "containerPort": inside,
            "protocol": protocol,
            "hostIP": &*port.host_ip,
        })
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn attachment(mode: Mode) -> Attachment {
        Attachment {
            alloc: AllocId::from_bytes([1; 16]),
            job: "site".into(),
            group: "app".into(),
            namespace: "default".into(),
            region: "global".into(),
            mode,
            made: None,
            hostname: None,
            dns: None,
            args: BTreeMap::new(),
            ports: Vec::new(),
        }
    }

    fn mode(name: &str) -> Result<Option<Mode>, String> {
        Mode::of(Some(&NetworkResource { mode: name.into(), ..NetworkResource::default() }))
    }

    #[test]
    fn modes_are_those_of_job_files() {
        assert_eq!(Mode::of(None), Ok(None));
        for host in ["", "host"] {
            assert_eq!(mode(host), Ok(None));
        }
        assert_eq!(mode("none"), Ok(Some(Mode::None)));
        assert_eq!(mode("bridge"), Ok(Some(Mode::Bridge)));
        assert_eq!(mode("cni/lan"), Ok(Some(Mode::Cni("lan".into()))));
        for unknown in ["cni/", "Bridge", "container"] {
            assert!(mode(unknown).unwrap_err().starts_with("unknown network mode"), "{unknown}");
        }
    }

    #[test]
    fn plugins_learn_about_the_allocation_and_not_from_the_job() {
        let mut attachment = attachment(Mode::Bridge);
        attachment.args = [("NOMAD_REGION", "x"), ("VLAN", "7"), ("TAGS", "a;b")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let (text, left_out) = attachment.cni_args();
        assert_eq!(
            text,
            "IgnoreUnknown=true;VLAN=7;NOMAD_ALLOC_ID=01010101-0101-0101-0101-010101010101;\
             NOMAD_GROUP_NAME=app;NOMAD_JOB_ID=site;NOMAD_NAMESPACE=default;NOMAD_REGION=global"
        );
        assert_eq!(left_out, ["TAGS"]);
    }

    #[test]
    fn ports_are_mapped_for_both_protocols() {
        let port = |value, to| PortMapping {
            label: "http".into(),
            value,
            to,
            host_ip: "10.0.0.1".into(),
            ignore_collision: false,
        };
        let ports = vec![port(21_000, 80), port(21_001, 0), port(21_002, -1)];
        let abilities = Attachment { ports, ..attachment(Mode::Bridge) }.abilities();
        let mapped: Vec<_> = abilities["portMappings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|port| format!("{}:{}/{}", port["hostPort"], port["containerPort"], port["protocol"]))
            .collect();
        assert_eq!(
            mapped,
            [
                "21000:80/\"tcp\"",
                "21000:80/\"udp\"",
                "21001:21001/\"tcp\"",
                "21001:21001/\"udp\"",
                "21002:21002/\"tcp\"",
                "21002:21002/\"udp\"",
            ]
        );
        assert_eq!(abilities["portMappings"][0]["hostIP"], "10.0.0.1");
        assert!(!abilities.contains_key("dns"));
    }
}
