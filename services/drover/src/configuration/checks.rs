//! Checks of several settings together: missing settings, and values that contradict each other.

use agent::{PortRange, check_env_allowlist};
use model::job::JobType;

use super::networks::networks;
use super::settings::{Client, Millis, Nats, Settings};

/// The default range of dynamic ports for tasks (http-api C.4).
const DYNAMIC_PORTS: PortRange = PortRange { first: 20_000, last: 32_000 };

/// The setting that every agent needs and this one lacks (cli §14), in the reference's words.
pub(crate) fn missing(settings: &Settings, is_dev: bool) -> Option<&'static str> {
    if !settings.is_server(is_dev) && !settings.is_client(is_dev) {
        return Some("Must specify either server, client or dev mode for the agent.");
    }
    let has_dir = settings.data_dir.as_ref().is_some_and(|dir| !dir.is_empty());
    (!has_dir && !is_dev).then_some("Must specify data directory: data_dir = \"...\"")
}

/// The address of a server that the agent needs and that may also come from the environment.
pub(crate) fn addresses_missing(settings: &Settings, is_dev: bool) -> Option<&'static str> {
    let is_server = settings.is_server(is_dev);
    let has_nats = settings.nats.url.is_some();
    if !is_server && !has_nats {
        return Some(
            "a client without a server needs the address of NATS: nats { url = \"nats://...\" } or DROVER_NATS_URL",
        );
    }
    let Nats { url, ca, credentials, node_key } = &settings.nats;
    if url.is_none() && (ca.is_some() || credentials.is_some() || node_key.is_some()) {
        return Some("nats has settings, but no address: set url in it or DROVER_NATS_URL");
    }
    if settings.postgres.url.is_none() && settings.postgres.password_file.is_some() {
        return Some("postgres has a password, but no address: set url in it or DROVER_DATABASE_URL");
    }
    let is_half = is_server && has_nats != settings.postgres.url.is_some();
    is_half.then_some("a server needs the addresses of NATS and of PostgreSQL, or neither for private ones")
}

/// Keys that have no effect in an agent without a server.
pub(crate) fn without_server(settings: &Settings, is_dev: bool) -> Vec<&'static str> {
    if settings.is_server(is_dev) {
        return Vec::new();
    }
    let given = [
        ("ports.rpc", settings.rpc_port.is_some()),
        ("ports.serf", settings.serf_port.is_some()),
        ("telemetry.prometheus_metrics", settings.prometheus_metrics.is_some()),
        ("telemetry.publish_allocation_metrics", settings.publish_allocation_metrics.is_some()),
        ("telemetry.publish_node_metrics", settings.publish_node_metrics.is_some()),
    ];
    given.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key).collect()
}

/// Values that are invalid, or invalid together.
pub(crate) fn conflicts(settings: &Settings) -> Vec<String> {
    let mut texts = Vec::new();
    texts.extend(dynamic_ports(&settings.client, DYNAMIC_PORTS).err());
    texts.extend(raw_exec_option(&settings.client).err());
    texts.extend(networks(&settings.client).err());
    let allowed = option_names(&settings.client, "env.allowlist").unwrap_or_default();
    texts.extend(
        check_env_allowlist(&allowed).err().map(|text| format!("client.options.env.allowlist: {text}")),
    );
    let server = &settings.server;
    let spans =
        [("min_heartbeat_ttl", server.min_heartbeat_ttl), ("job_gc_interval", server.job_gc_interval)];
    for (key, span) in spans {
        if span == Some(Millis(0)) {
            texts.push(format!("server.{key} must not be 0"));
        }
    }
    let client = &settings.client;
    let numbers = [
        ("gc_interval", client.gc_interval.map(|span| span.0)),
        ("gc_parallel_destroys", client.gc_parallel_destroys),
        ("max_concurrent_starts", client.max_concurrent_starts),
    ];
    for (key, number) in numbers {
        if number == Some(0) {
            texts.push(format!("client.{key} must not be 0"));
        }
    }
    if settings.server.max_heartbeats_per_second.is_some_and(|number| number <= 0.0) {
        texts.push("server.max_heartbeats_per_second must be greater than 0".to_owned());
    }
    for name in settings.server.enabled_schedulers.iter().flatten() {
        if name.parse::<JobType>().is_err() {
            texts.push(format!("server.enabled_schedulers: unknown job type {name:?}"));
        }
    }
    texts
}

/// The range of ports for tasks. `default` applies where the settings contain no port.
pub(crate) fn dynamic_ports(client: &Client, default: PortRange) -> Result<PortRange, String> {
    let port = |key: &str, setting: Option<i64>, default: u16| match setting {
        None => Ok(default),
        Some(port) => u16::try_from(port)
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| format!("Invalid dynamic port range: {key}={port}: a port is from 1 to 65535")),
    };
    let first = port("min_dynamic_port", client.min_dynamic_port, default.first)?;
    let last = port("max_dynamic_port", client.max_dynamic_port, default.last)?;
    if first > last {
        return Err(format!(
            "Invalid dynamic port range: min_dynamic_port={first} is greater than max_dynamic_port={last}"
        ));
    }
    Ok(PortRange { first, last })
}

/// Whether tasks may run as plain processes, by the older form of the setting, which many files still use.
pub(crate) fn raw_exec_option(client: &Client) -> Result<Option<bool>, String> {
    const OPTION: &str = "driver.raw_exec.enable";
    match client.options.get(OPTION).map(String::as_str) {
        None => Ok(None),
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(Some(true)),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(Some(false)),
        Some(text) => Err(format!("client.options.{OPTION}: must be true or false, not {text:?}")),
    }
}

/// The names in an option that is a list, separated by commas.
pub(crate) fn option_names(client: &Client, option: &str) -> Option<Vec<String>> {
    let names = client.options.get(option)?.split(',').map(str::trim);
    Some(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
}
