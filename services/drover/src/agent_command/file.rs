//! What stands in the agent's configuration files (`spec/http-api.md` C.2 to C.5). Pure: text in, settings or everything
//! that is wrong with it out.
//!
//! A key is used, or has no meaning here and is passed over, or is not built yet and says so, or is unknown; the last two
//! are errors, for a setting that is silently not kept is worse than an agent that does not start.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::size;
use super::tree::{self, Entry, Value};

/// What files say; what none of them says is unset.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Settings {
    pub(crate) name: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) datacenter: Option<String>,
    pub(crate) data_dir: Option<String>,
    pub(crate) bind_addr: Option<IpAddr>,
    pub(crate) http_addr: Option<IpAddr>,
    pub(crate) http_port: Option<u16>,
    pub(crate) http_advertised: Option<String>,
    pub(crate) log_level: Option<String>,
    pub(crate) log_json: Option<bool>,
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) raw_exec: RawExec,
    pub(crate) nats_url: Option<String>,
    pub(crate) nats_credentials: Option<String>,
    pub(crate) postgres_url: Option<String>,
}

/// The block `server`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Server {
    pub(crate) enabled: Option<bool>,
    pub(crate) num_schedulers: Option<u16>,
    pub(crate) enabled_schedulers: Option<Vec<String>>,
    pub(crate) min_heartbeat_ttl: Option<Millis>,
    pub(crate) heartbeat_grace: Option<Millis>,
    pub(crate) failover_heartbeat_ttl: Option<Millis>,
    pub(crate) max_heartbeats_per_second: Option<u32>,
    pub(crate) job_default_priority: Option<u16>,
    pub(crate) job_max_priority: Option<u16>,
    pub(crate) job_max_count: Option<u32>,
    pub(crate) job_max_source_size: Option<Bytes>,
    pub(crate) oidc_issuer: Option<String>,
    pub(crate) job_gc_interval: Option<Millis>,
    pub(crate) job_gc_threshold: Option<Millis>,
    pub(crate) eval_gc_threshold: Option<Millis>,
    pub(crate) batch_eval_gc_threshold: Option<Millis>,
    pub(crate) deployment_gc_threshold: Option<Millis>,
    pub(crate) node_gc_threshold: Option<Millis>,
}

/// The block `client`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Client {
    pub(crate) enabled: Option<bool>,
    pub(crate) node_class: Option<String>,
    pub(crate) node_pool: Option<String>,
    pub(crate) meta: BTreeMap<String, String>,
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) network_interface: Option<String>,
    pub(crate) cpu_total_compute: Option<u32>,
    pub(crate) memory_total_mb: Option<u32>,
    pub(crate) disk_free_mb: Option<u32>,
    pub(crate) min_dynamic_port: Option<u16>,
    pub(crate) max_dynamic_port: Option<u16>,
    pub(crate) gc_max_allocs: Option<u32>,
    pub(crate) gc_disk_usage_threshold: Option<f64>,
    pub(crate) gc_inode_usage_threshold: Option<f64>,
    pub(crate) reserved_cpu: Option<u32>,
    pub(crate) reserved_memory: Option<u32>,
    pub(crate) reserved_disk: Option<u32>,
    pub(crate) reserved_ports: Option<String>,
}

/// The block `config` of `plugin "raw_exec"`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RawExec {
    pub(crate) enabled: Option<bool>,
    pub(crate) denied_host_uids: Option<String>,
    pub(crate) denied_host_gids: Option<String>,
    pub(crate) denied_envvars: Option<Vec<String>>,
}

/// A time span that stands as `"10s"` in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Millis(pub(crate) u32);

/// A size that stands as `"1M"` in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) usize);

/// Keys that other programs need and this one does not: there is no consensus and no gossip between servers, metrics are
/// always served, and there is no Consul to speak to (C.2: the block must be accepted).
const NO_MEANING: [&str; 14] = [
    "autopilot",
    "consul",
    "disable_anonymous_signature",
    "disable_update_check",
    "enable_debug",
    "enable_syslog",
    "eventlog",
    "leave_on_interrupt",
    "leave_on_terminate",
    "plugin_dir",
    "reporting",
    "syslog_facility",
    "telemetry",
    "ui",
];
const NOT_BUILT: [&str; 11] = [
    "audit",
    "http_api_response_headers",
    "keyring",
    "limits",
    "log_file",
    "log_include_location",
    "log_rotate_bytes",
    "log_rotate_duration",
    "log_rotate_max_files",
    "sentinel",
    "tls",
];
const SERVER_NO_MEANING: [&str; 26] = [
    "authoritative_region",
    "bootstrap_expect",
    "data_dir",
    "enable_event_broker",
    "encrypt",
    "event_buffer_size",
    "non_voting_server",
    "plan_rejection_tracker",
    "protocol_version",
    "raft_boltdb",
    "raft_logstore",
    "raft_multiplier",
    "raft_protocol",
    "raft_snapshot_interval",
    "raft_snapshot_threshold",
    "raft_trailing_logs",
    "redundancy_zone",
    "rejoin_after_leave",
    "retry_interval",
    "retry_join",
    "retry_max",
    "server_join",
    "start_join",
    "start_timeout",
    "update_service",
    "upgrade_version",
];
const SERVER_NOT_BUILT: [&str; 10] = [
    "acl_token_gc_threshold",
    "csi_plugin_gc_threshold",
    "csi_volume_claim_gc_threshold",
    "default_scheduler_config",
    "deployment_query_rate_limit",
    "job_tracked_versions",
    "license_path",
    "root_key_gc_interval",
    "root_key_rotation_threshold",
    "search",
];
const CLIENT_NO_MEANING: [&str; 12] = [
    "bridge_network_name",
    "bridge_network_subnet",
    "cgroup_parent",
    "cni_config_dir",
    "cni_path",
    "network_speed",
    "no_host_uuid",
    "retry_interval",
    "retry_join",
    "retry_max",
    "server_join",
    "servers",
];
const CLIENT_NOT_BUILT: [&str; 17] = [
    "alloc_dir",
    "alloc_mounts_dir",
    "artifact",
    "chroot_env",
    "disable_remote_exec",
    "drain_on_shutdown",
    "gc_interval",
    "gc_parallel_destroys",
    "host_network",
    "host_volume",
    "host_volume_plugin_dir",
    "host_volumes_dir",
    "max_kill_timeout",
    "memory_oversubscription",
    "reservable_cores",
    "state_dir",
    "template",
];

impl Settings {
    /// Takes over what a file says; what was there before stays where the file says nothing.
    ///
    /// # Errors
    /// All that is wrong with the file, a line each.
    pub(crate) fn read(&mut self, file: &str, text: &str) -> Result<(), String> {
        let entries = tree::read(text).map_err(|fault| format!("{file}:{}: {}", fault.line, fault.text))?;
        let mut reader = Reader { file, faults: Vec::new() };
        self.top(&mut reader, &entries);
        if reader.faults.is_empty() { Ok(()) } else { Err(reader.faults.join("\n")) }
    }

    fn top(&mut self, reader: &mut Reader<'_>, entries: &[Entry]) {
        for entry in entries {
            match entry.key.as_str() {
                "name" => reader.set(&mut self.name, entry),
                "region" => reader.set(&mut self.region, entry),
                "datacenter" => reader.set(&mut self.datacenter, entry),
                "data_dir" => reader.set(&mut self.data_dir, entry),
                "bind_addr" => reader.set(&mut self.bind_addr, entry),
                "log_level" => reader.set(&mut self.log_level, entry),
                "log_json" => reader.set(&mut self.log_json, entry),
                "ports" => reader.each(entry, |reader, entry| match entry.key.as_str() {
                    "http" => reader.set(&mut self.http_port, entry),
                    "rpc" | "serf" => {}
                    _ => reader.unknown(entry),
                }),
                "addresses" => reader.each(entry, |reader, entry| match entry.key.as_str() {
                    "http" => reader.set(&mut self.http_addr, entry),
                    "rpc" | "serf" => {}
                    _ => reader.unknown(entry),
                }),
                "advertise" => reader.each(entry, |reader, entry| match entry.key.as_str() {
                    "http" => reader.set(&mut self.http_advertised, entry),
                    "rpc" | "serf" => {}
                    _ => reader.unknown(entry),
                }),
                "nats" => reader.each(entry, |reader, entry| match entry.key.as_str() {
                    "url" => reader.set(&mut self.nats_url, entry),
                    "credentials" => reader.set(&mut self.nats_credentials, entry),
                    _ => reader.unknown(entry),
                }),
                "postgres" => reader.each(entry, |reader, entry| match entry.key.as_str() {
                    "url" => reader.set(&mut self.postgres_url, entry),
                    _ => reader.unknown(entry),
                }),
                "server" => reader.each(entry, |reader, entry| self.server.take(reader, entry)),
                "client" => reader.each(entry, |reader, entry| self.client.take(reader, entry)),
                "plugin" => reader.each(entry, |reader, entry| match entry.key.as_str() {
                    "raw_exec" => reader.each(entry, |reader, entry| self.raw_exec.plugin(reader, entry)),
                    other => reader.not_built(entry, &format!("plugin \"{other}\"")),
                }),
                "acl" | "vault" if reader.is_off(entry) => {}
                "acl" | "vault" => reader.not_built(entry, &entry.key),
                key => reader.other(entry, key, &NO_MEANING, &NOT_BUILT),
            }
        }
    }
}

impl Server {
    fn take(&mut self, reader: &mut Reader<'_>, entry: &Entry) {
        match entry.key.as_str() {
            "enabled" => reader.set(&mut self.enabled, entry),
            "num_schedulers" => reader.set(&mut self.num_schedulers, entry),
            "enabled_schedulers" => reader.set(&mut self.enabled_schedulers, entry),
            "min_heartbeat_ttl" => reader.set(&mut self.min_heartbeat_ttl, entry),
            "heartbeat_grace" => reader.set(&mut self.heartbeat_grace, entry),
            "failover_heartbeat_ttl" => reader.set(&mut self.failover_heartbeat_ttl, entry),
            "max_heartbeats_per_second" => reader.set(&mut self.max_heartbeats_per_second, entry),
            "job_default_priority" => reader.set(&mut self.job_default_priority, entry),
            "job_max_priority" => reader.set(&mut self.job_max_priority, entry),
            "job_max_count" => reader.set(&mut self.job_max_count, entry),
            "job_max_source_size" => reader.set(&mut self.job_max_source_size, entry),
            "oidc_issuer" => reader.set(&mut self.oidc_issuer, entry),
            "job_gc_interval" => reader.set(&mut self.job_gc_interval, entry),
            "job_gc_threshold" => reader.set(&mut self.job_gc_threshold, entry),
            "eval_gc_threshold" => reader.set(&mut self.eval_gc_threshold, entry),
            "batch_eval_gc_threshold" => reader.set(&mut self.batch_eval_gc_threshold, entry),
            "deployment_gc_threshold" => reader.set(&mut self.deployment_gc_threshold, entry),
            "node_gc_threshold" => reader.set(&mut self.node_gc_threshold, entry),
            key => reader.other(entry, key, &SERVER_NO_MEANING, &SERVER_NOT_BUILT),
        }
    }
}

impl Client {
    fn take(&mut self, reader: &mut Reader<'_>, entry: &Entry) {
        match entry.key.as_str() {
            "enabled" => reader.set(&mut self.enabled, entry),
            "node_class" => reader.set(&mut self.node_class, entry),
            "node_pool" => reader.set(&mut self.node_pool, entry),
            "meta" => reader.texts(&mut self.meta, entry),
            "options" => reader.texts(&mut self.options, entry),
            "network_interface" => reader.set(&mut self.network_interface, entry),
            "cpu_total_compute" => reader.set(&mut self.cpu_total_compute, entry),
            "memory_total_mb" => reader.set(&mut self.memory_total_mb, entry),
            "disk_free_mb" => reader.set(&mut self.disk_free_mb, entry),
            "min_dynamic_port" => reader.set(&mut self.min_dynamic_port, entry),
            "max_dynamic_port" => reader.set(&mut self.max_dynamic_port, entry),
            "gc_max_allocs" => reader.set(&mut self.gc_max_allocs, entry),
            "gc_disk_usage_threshold" => reader.set(&mut self.gc_disk_usage_threshold, entry),
            "gc_inode_usage_threshold" => reader.set(&mut self.gc_inode_usage_threshold, entry),
            "reserved" => reader.each(entry, |reader, entry| match entry.key.as_str() {
                "cpu" => reader.set(&mut self.reserved_cpu, entry),
                "memory" => reader.set(&mut self.reserved_memory, entry),
                "disk" => reader.set(&mut self.reserved_disk, entry),
                "reserved_ports" => reader.set(&mut self.reserved_ports, entry),
                "cores" => reader.not_built(entry, "reserved cores"),
                _ => reader.unknown(entry),
            }),
            key => reader.other(entry, key, &CLIENT_NO_MEANING, &CLIENT_NOT_BUILT),
        }
    }
}

impl RawExec {
    fn plugin(&mut self, reader: &mut Reader<'_>, entry: &Entry) {
        match entry.key.as_str() {
            "config" => reader.each(entry, |reader, entry| match entry.key.as_str() {
                "enabled" => reader.set(&mut self.enabled, entry),
                "denied_host_uids" => reader.set(&mut self.denied_host_uids, entry),
                "denied_host_gids" => reader.set(&mut self.denied_host_gids, entry),
                "denied_envvars" => reader.set(&mut self.denied_envvars, entry),
                "no_cgroups" => {}
                _ => reader.unknown(entry),
            }),
            "args" => reader.not_built(entry, "args of a plugin"),
            _ => reader.unknown(entry),
        }
    }
}

/// Takes values out of a file, and notes what is wrong with them.
struct Reader<'a> {
    file: &'a str,
    faults: Vec<String>,
}

impl Reader<'_> {
    fn fault(&mut self, entry: &Entry, text: &str) {
        self.faults.push(format!("{}:{}: {text}", self.file, entry.line));
    }

    fn unknown(&mut self, entry: &Entry) {
        self.fault(entry, &format!("unknown key \"{}\"", entry.key));
    }

    fn not_built(&mut self, entry: &Entry, what: &str) {
        self.fault(entry, &format!("not built yet: {what}"));
    }

    /// A key that is not used.
    fn other(&mut self, entry: &Entry, key: &str, no_meaning: &[&str], not_built: &[&str]) {
        if not_built.contains(&key) {
            self.not_built(entry, key);
        } else if !no_meaning.contains(&key) {
            self.unknown(entry);
        }
    }

    fn set<T: FromValue>(&mut self, slot: &mut Option<T>, entry: &Entry) {
        match T::from_value(&entry.value) {
            Some(value) => *slot = Some(value),
            None => {
                let text = format!("{} must be {}, not {}", entry.key, T::EXPECTED, shown(&entry.value));
                self.fault(entry, &text);
            }
        }
    }

    /// What stands in a block, also where it is a list of blocks.
    fn each(&mut self, entry: &Entry, mut take: impl FnMut(&mut Self, &Entry)) {
        let maps = match &entry.value {
            Value::List(values) => values.as_slice(),
            Value::Text(_) | Value::Number(_) | Value::Bool(_) | Value::Map(_) => {
                std::slice::from_ref(&entry.value)
            }
        };
        for map in maps {
            if let Value::Map(entries) = map {
                entries.iter().for_each(|entry| take(self, entry));
            } else {
                self.fault(entry, &format!("{} must be a block, not {}", entry.key, shown(map)));
            }
        }
    }

    /// A block of texts; other plain values count as theirs.
    fn texts(&mut self, texts: &mut BTreeMap<String, String>, entry: &Entry) {
        self.each(entry, |reader, entry| {
            let text = match &entry.value {
                Value::Text(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                Value::Bool(value) => value.to_string(),
                Value::List(_) | Value::Map(_) => {
                    let text = format!("{} must be a text, not {}", entry.key, entry.value.kind());
                    return reader.fault(entry, &text);
                }
            };
            texts.insert(entry.key.clone(), text);
        });
    }

    /// Whether a block says `enabled = false`, or does not say that it is on.
    fn is_off(&mut self, entry: &Entry) -> bool {
        let mut on = None;
        self.each(entry, |reader, entry| {
            if entry.key == "enabled" {
                reader.set(&mut on, entry);
            }
        });
        on != Some(true)
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("{text:?}"),
        Value::Number(number) => number.to_string(),
        Value::Bool(_) | Value::List(_) | Value::Map(_) => value.kind().to_owned(),
    }
}

/// What a key can be set to.
trait FromValue: Sized {
    const EXPECTED: &'static str;

    fn from_value(value: &Value) -> Option<Self>;
}

impl FromValue for String {
    const EXPECTED: &'static str = "a text";

    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Text(text) = value { Some(text.clone()) } else { None }
    }
}

impl FromValue for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Bool(value) = value { Some(*value) } else { None }
    }
}

impl FromValue for u16 {
    const EXPECTED: &'static str = "a whole number from 0 to 65535";

    fn from_value(value: &Value) -> Option<Self> {
        u32::from_value(value)?.try_into().ok()
    }
}

impl FromValue for u32 {
    const EXPECTED: &'static str = "a whole number from 0 to 4294967295";

    fn from_value(value: &Value) -> Option<Self> {
        let number = f64::from_value(value)?;
        let is_one = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
        is_one.then_some(number as u32)
    }
}

impl FromValue for f64 {
    const EXPECTED: &'static str = "a number";

    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Number(number) = value { Some(*number) } else { None }
    }
}

impl FromValue for IpAddr {
    const EXPECTED: &'static str = "an IP address";

    fn from_value(value: &Value) -> Option<Self> {
        String::from_value(value)?.parse().ok()
    }
}

impl FromValue for Millis {
    const EXPECTED: &'static str = "a time span, such as \"10s\"";

    fn from_value(value: &Value) -> Option<Self> {
        let nanos = api_types::duration::parse(&String::from_value(value)?).ok()?;
        u32::try_from(nanos / 1_000_000).ok().map(Millis)
    }
}

impl FromValue for Bytes {
    const EXPECTED: &'static str = "a size, such as \"500K\" or \"2MiB\"";

    fn from_value(value: &Value) -> Option<Self> {
        size::read(&String::from_value(value)?).map(Bytes)
    }
}

impl FromValue for Vec<String> {
    const EXPECTED: &'static str = "a list of texts";

    fn from_value(value: &Value) -> Option<Self> {
        let Value::List(values) = value else { return None };
        values.iter().map(String::from_value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        let mut settings = Settings::default();
        settings.read("a.hcl", text).map(|()| settings)
    }

    #[test]
    fn a_file_as_people_write_it() {
        let settings = read(
            "data_dir = \"/d\"\nports { http = 0 }\nserver {\n  enabled = true\n  bootstrap_expect = 1\n  \
             heartbeat_grace = \"1500ms\"\n  enabled_schedulers = [\"batch\"]\n}\nclient {\n  enabled = true\n  \
             meta = { rack = \"r7\", weight = 3 }\n  reserved { cpu = 500 }\n}\n\
             plugin \"raw_exec\" {\n  config { enabled = true }\n}\nnats { url = \"nats://one\" }\n",
        )
        .unwrap();
        let expected = Settings {
            data_dir: Some("/d".to_owned()),
            http_port: Some(0),
            server: Server {
                enabled: Some(true),
                heartbeat_grace: Some(Millis(1_500)),
                enabled_schedulers: Some(vec!["batch".to_owned()]),
                ..Server::default()
            },
            client: Client {
                enabled: Some(true),
                meta: [("rack".to_owned(), "r7".to_owned()), ("weight".to_owned(), "3".to_owned())].into(),
                reserved_cpu: Some(500),
                ..Client::default()
            },
            raw_exec: RawExec { enabled: Some(true), ..RawExec::default() },
            nats_url: Some("nats://one".to_owned()),
            ..Settings::default()
        };
        assert_eq!(settings, expected);
    }

    /// C.2: the harnesses of client libraries write all of this.
    #[test]
    fn json_as_test_harnesses_write_it() {
        let settings = read(
            r#"{"name":"n1","data_dir":"/d","region":"r","disable_update_check":true,"log_level":"DEBUG",
            "consul":{"address":"127.0.0.1:8500","auth":"","token":""},
            "advertise":{"http":"127.0.0.1","rpc":"127.0.0.1","serf":"127.0.0.1"},
            "ports":{"http":20000,"rpc":20001,"serf":20002},
            "server":{"enabled":true,"bootstrap_expect":1,"raft_protocol":3},
            "client":{"enabled":false,"options":{"test.tighten_network_timeouts":"true"}},
            "vault":{"enabled":false},"acl":{"enabled":false},"telemetry":{"prometheus_metrics":true}}"#,
        )
        .unwrap();
        assert_eq!(settings.http_port, Some(20_000));
        assert_eq!((settings.server.enabled, settings.client.enabled), (Some(true), Some(false)));
    }

    #[test]
    fn everything_wrong_is_said_with_its_line() {
        let error = read(
            "dat_dir = \"/d\"\nports {\n  http = 70000\n  ftp = 21\n}\nserver = true\nacl { enabled = true }\n\
             tls { http = true }\nclient {\n  host_volume \"v\" {\n    path = \"/v\"\n  }\n  node_class = 3\n  \
             reserved { cores = \"1\" }\n}\nplugin \"docker\" {}\nbind_addr = \"here\"\n",
        );
        let expected = "\
a.hcl:1: unknown key \"dat_dir\"
a.hcl:3: http must be a whole number from 0 to 65535, not 70000
a.hcl:4: unknown key \"ftp\"
a.hcl:6: server must be a block, not true or false
a.hcl:7: not built yet: acl
a.hcl:8: not built yet: tls
a.hcl:10: not built yet: host_volume
a.hcl:13: node_class must be a text, not 3
a.hcl:14: not built yet: reserved cores
a.hcl:16: not built yet: plugin \"docker\"
a.hcl:17: bind_addr must be an IP address, not \"here\"";
        assert_eq!(error.unwrap_err(), expected);
    }

    #[test]
    fn sizes_have_units() {
        let server = |size: &str| read(&format!("server {{\n  job_max_source_size = {size}\n}}\n"));
        assert_eq!(server("\"2K\"").unwrap().server.job_max_source_size, Some(Bytes(2_000)));
        let expected =
            "a.hcl:2: job_max_source_size must be a size, such as \"500K\" or \"2MiB\", not \"big\"";
        assert_eq!(server("\"big\"").unwrap_err(), expected);
    }

    #[test]
    fn later_files_override_earlier_ones_key_by_key() {
        let mut settings = Settings::default();
        settings.read("a.hcl", "name = \"a\"\nclient {\n  enabled = true\n  meta { x = 1 }\n}\n").unwrap();
        settings.read("b.hcl", "name = \"b\"\nclient {\n  meta { y = 2 }\n}\n").unwrap();
        assert_eq!(settings.name.as_deref(), Some("b"));
        assert_eq!(settings.client.enabled, Some(true));
        assert_eq!(settings.client.meta.keys().collect::<Vec<_>>(), ["x", "y"]);
    }
}
