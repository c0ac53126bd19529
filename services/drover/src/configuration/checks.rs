//! What settings must be together, whatever each of them is.

use agent::PortRange;
use model::job::JobType;

use super::settings::{Client, Millis, Nats, Settings};

/// The range of ports for tasks where nobody sets another (http-api C.4).
const DYNAMIC_PORTS: PortRange = PortRange { first: 20_000, last: 32_000 };

/// What an agent with these settings lacks whatever else there is (cli §14), in the reference's words.
pub(crate) fn missing(settings: &Settings, is_dev: bool) -> Option<&'static str> {
    let is_server = settings.server.enabled.unwrap_or(is_dev);
    let is_client = settings.client.enabled.unwrap_or(is_dev);
    if !is_server && !is_client {
        return Some("Must specify either server, client or dev mode for the agent.");
    }
    let has_dir = settings.data_dir.as_ref().is_some_and(|dir| !dir.is_empty());
    (!has_dir && !is_dev).then_some("Must specify data directory: data_dir = \"...\"")
}

/// What an agent with these settings still needs from elsewhere: the addresses of the servers that it uses.
pub(crate) fn addresses_missing(settings: &Settings, is_dev: bool) -> Option<&'static str> {
    let is_server = settings.server.enabled.unwrap_or(is_dev);
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

/// Values that do not fit together.
pub(crate) fn unfit(settings: &Settings) -> Vec<String> {
    let mut texts = Vec::new();
    texts.extend(dynamic_ports(&settings.client, DYNAMIC_PORTS).err());
    let server = &settings.server;
    let spans =
        [("min_heartbeat_ttl", server.min_heartbeat_ttl), ("job_gc_interval", server.job_gc_interval)];
    for (key, span) in spans {
        if span == Some(Millis(0)) {
            texts.push(format!("server.{key} must not be 0"));
        }
    }
    if settings.server.max_heartbeats_per_second.is_some_and(|number| number <= 0.0) {
        texts.push("server.max_heartbeats_per_second must be greater than 0".to_owned());
    }
    for name in settings.server.enabled_schedulers.iter().flatten() {
        if name.parse::<JobType>().is_err() {
            texts.push(format!("server.enabled_schedulers: no type of job is called {name:?}"));
        }
    }
    texts
}

/// The range of ports for tasks: `given`, where the settings say nothing else.
pub(crate) fn dynamic_ports(client: &Client, given: PortRange) -> Result<PortRange, String> {
    let port = |key: &str, setting: Option<i64>, given: u16| match setting {
        None => Ok(given),
        Some(port) => u16::try_from(port)
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| format!("Invalid dynamic port range: {key}={port}: a port is from 1 to 65535")),
    };
    let first = port("min_dynamic_port", client.min_dynamic_port, given.first)?;
    let last = port("max_dynamic_port", client.max_dynamic_port, given.last)?;
    if first > last {
        return Err(format!(
            "Invalid dynamic port range: min_dynamic_port={first} is greater than max_dynamic_port={last}"
        ));
    }
    Ok(PortRange { first, last })
}
