//! Services as Consul's agent takes them, and the difference between what it has and what it is to have. Pure.
//!
//! Services of this node are marked in their metadata: with the node's id, so that agents that share a Consul never remove
//! each other's, and with a digest of the whole registration, so that a changed one is seen whatever has changed.

use std::collections::BTreeMap;

use model::job::{CheckKind, Service, ServiceCheck};
use model::service::{alloc_of_registration, registration_id};
use model::text::quoted;
use model::{AllocId, Nanos, Text};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::services::Advertised;
use crate::services::interpolate;

/// The key of the metadata with the id of the node whose agent has registered a service.
const OWNER_KEY: &str = "drover-node";
/// The key of the metadata with the digest of the registration.
const DIGEST_KEY: &str = "drover-digest";
/// The key by which Consul shows where a service comes from.
const SOURCE_KEY: &str = "external-source";
/// Its value.
const SOURCE: &str = "nomad";
/// How much longer than interval and timeout Consul waits for the result of a check that the agent runs.
const TTL_RESERVE: Nanos = Nanos::from_secs(30);
/// The number of characters of digests.
const DIGEST_CHARS: usize = 40;

/// A service as it is to be registered in Consul.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConsulService {
    /// Its id.
    pub(crate) id: Text,
    /// The body of the request, without the owner and the digest.
    body: Map<String, Value>,
}

/// A service as Consul's agent lists it: what is compared.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Listed {
    /// The metadata.
    meta: Option<BTreeMap<String, String>>,
    tags: Option<Vec<String>>,
    address: String,
    port: u16,
    enable_tag_override: bool,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Difference {
    /// The bodies of the services to be registered, by id.
    pub(crate) register: BTreeMap<Text, Value>,
    /// The ids of the services to be removed.
    pub(crate) remove: Vec<Text>,
}

impl ConsulService {
    /// The registration of a service of an owner.
    ///
    /// # Errors
    /// If it asks for something that is not built. The message names the service.
    pub(crate) fn new(
        alloc: AllocId,
        owner: &str,
        is_canary: bool,
        advertised: &Advertised,
    ) -> Result<Self, String> {
        let Advertised { service, endpoint, checks } = advertised;
        if let Some(what) = unsupported(service) {
            return Err(format!("service {}: {what} is not built", quoted(&service.name)));
        }
        let id = registration_id(alloc, owner, &service.name, &service.port_label);
        let mut meta: BTreeMap<&str, &str> = BTreeMap::new();
        meta.insert(SOURCE_KEY, SOURCE);
        for (key, value) in interpolate::meta(service, is_canary) {
            meta.insert(key, value);
        }
        let checks: Vec<Value> = service
            .checks
            .iter()
            .zip(checks)
            .filter_map(|(check, endpoint)| {
                let endpoint = match check.kind {
                    Some(CheckKind::Script) => String::new(),
                    Some(CheckKind::Http | CheckKind::Tcp | CheckKind::Grpc) | None => {
                        endpoint.as_ref()?.to_string()
                    }
                };
                Some(check_body(&id, service, check, &endpoint))
            })
            .collect();
        let mut body = Map::new();
        let mut put = |key: &str, value: Value| body.insert(key.to_owned(), value);
        put("ID", json!(id));
        put("Name", json!(service.name));
        put("Tags", json!(interpolate::tags(service, is_canary)));
        put("Address", json!(endpoint.address));
        put("Port", json!(endpoint.port));
        put("EnableTagOverride", json!(service.enable_tag_override));
        put("Meta", json!(meta));
        put("Checks", json!(checks));
        if let Some(weights) = &service.weights {
            put("Weights", json!({ "Passing": weights.passing, "Warning": weights.warning }));
        }
        if !service.tagged_addresses.is_empty() {
            let addresses = service.tagged_addresses.iter();
            let addresses = addresses.map(|(name, text)| (name.to_string(), tagged(text, endpoint.port)));
            put("TaggedAddresses", Value::Object(addresses.collect()));
        }
        Ok(Self { id: id.into(), body })
    }

    /// The body of the request, with the owner's mark.
    fn marked(&self, owner: &str) -> Value {
        let mut body = self.body.clone();
        if let Some(Value::Object(meta)) = body.get_mut("Meta") {
            meta.insert(OWNER_KEY.to_owned(), json!(owner));
            meta.insert(DIGEST_KEY.to_owned(), json!(self.digest()));
        }
        Value::Object(body)
    }

    fn digest(&self) -> String {
        digest(&Value::Object(self.body.clone()).to_string())
    }

    fn is_as(&self, listed: &Listed) -> bool {
        let is = |key: &str, value: Value| self.body.get(key) == Some(&value);
        listed.of(DIGEST_KEY) == Some(&self.digest())
            && is("Address", json!(listed.address))
            && is("Port", json!(listed.port))
            // With the override, others may change the tags.
            && (listed.enable_tag_override || is("Tags", json!(listed.tags.clone().unwrap_or_default())))
    }
}

impl Listed {
    fn of(&self, key: &str) -> Option<&String> {
        self.meta.as_ref()?.get(key)
    }
}

/// What must be done so that Consul has the wanted services of a node, and no others of it. Of allocations that are not
/// complete yet, nothing is removed.
pub(crate) fn difference(
    owner: &str,
    wanted: &BTreeMap<Text, ConsulService>,
    listed: &BTreeMap<String, Listed>,
    is_incomplete: impl Fn(AllocId) -> bool,
) -> Difference {
    let own =
        |id: &str| listed.get(id).filter(|listed| listed.of(OWNER_KEY).is_some_and(|node| node == owner));
    let changed = wanted.iter().filter(|(id, service)| own(id).is_none_or(|listed| !service.is_as(listed)));
    let register = changed.map(|(id, service)| (id.clone(), service.marked(owner))).collect();
    let ids = listed.keys().filter(|id| own(id).is_some() && !wanted.contains_key(id.as_str()));
    let gone = ids.filter(|id| alloc_of_registration(id).is_none_or(|alloc| !is_incomplete(alloc)));
    Difference { register, remove: gone.map(|id| id.as_str().into()).collect() }
}

/// What a service asks of Consul that is not built.
fn unsupported(service: &Service) -> Option<&'static str> {
    if service.connect.is_some() || !service.kind.is_empty() {
        Some("Consul Connect")
    } else if service.identity.is_some() {
        Some("an identity for Consul")
    } else if service.checks.iter().any(|check| check.expose) {
        Some("an exposed check")
    } else if !matches!(&*service.cluster, "" | "default") {
        Some("another Consul cluster than \"default\"")
    } else {
        None
    }
}

/// The id in Consul of a check that runs a program, of a service with this id.
pub(crate) fn script_check_id(service_id: &str, service: &Service, check: &ServiceCheck) -> Text {
    check_id(service_id, &check_fields(service, check, "")).into()
}

/// A check, with its id. `endpoint` is where Consul reaches it, which means nothing for one that runs a program.
fn check_body(service_id: &str, service: &Service, check: &ServiceCheck, endpoint: &str) -> Value {
    let mut body = check_fields(service, check, endpoint);
    let id = check_id(service_id, &body);
    body.insert("CheckID".to_owned(), json!(id));
    Value::Object(body)
}

/// The id of a check. It changes with the check, so that a changed check begins anew.
fn check_id(service_id: &str, fields: &Map<String, Value>) -> String {
    let text = Value::Object(fields.clone()).to_string();
    format!("_nomad-check-{}", digest(&format!("{service_id} {text}")))
}

fn check_fields(service: &Service, check: &ServiceCheck, endpoint: &str) -> Map<String, Value> {
    let mut body = Map::new();
    let mut put = |key: &str, value: Value| body.insert(key.to_owned(), value);
    let name = match check.name.is_empty() {
        true => format!("service: {} check", quoted(&service.name)),
        false => check.name.to_string(),
    };
    put("Name", json!(name));
    if check.kind != Some(CheckKind::Script) {
        put("Interval", json!(check.interval.to_string()));
        put("Timeout", json!(check.timeout.to_string()));
    }
    match check.kind {
        Some(CheckKind::Http) => {
            let scheme = if check.protocol.is_empty() { "http" } else { &*check.protocol };
            let slash = if check.path.starts_with('/') { "" } else { "/" };
            put("HTTP", json!(format!("{scheme}://{endpoint}{slash}{}", check.path)));
            for (key, text) in [("Method", &check.method), ("Body", &check.body)] {
                if !text.is_empty() {
                    put(key, json!(text));
                }
            }
            if !check.header.is_empty() {
                put("Header", json!(check.header));
            }
        }
        Some(CheckKind::Grpc) => {
            let slash = if check.grpc_service.is_empty() { "" } else { "/" };
            put("GRPC", json!(format!("{endpoint}{slash}{}", check.grpc_service)));
            put("GRPCUseTLS", json!(check.grpc_use_tls));
        }
        Some(CheckKind::Script) => {
            // The agent runs it. Consul waits for results, and for a while longer than a run may take.
            let times = check.interval.0.saturating_add(check.timeout.0);
            put("TTL", json!(Nanos(times.saturating_add(TTL_RESERVE.0)).to_string()));
        }
        Some(CheckKind::Tcp) | None => {
            put("TCP", json!(endpoint));
        }
    }
    if !check.tls_server_name.is_empty() {
        put("TLSServerName", json!(check.tls_server_name));
    }
    if check.tls_skip_verify {
        put("TLSSkipVerify", json!(true));
    }
    if let Some(status) = check.initial_status {
        put("Status", json!(status.as_str()));
    }
    if !check.notes.is_empty() {
        put("Notes", json!(check.notes));
    }
    for (key, number) in [
        ("SuccessBeforePassing", check.success_before_passing),
        ("FailuresBeforeCritical", check.failures_before_critical),
        ("FailuresBeforeWarning", check.failures_before_warning),
    ] {
        if number > 0 {
            put(key, json!(number));
        }
    }
    body
}

/// A further address: `host:port`, or an address that has the port of the service.
fn tagged(text: &str, port: u16) -> Value {
    let host_and_port = text.rsplit_once(':').and_then(|(host, port)| {
        let is_host = !host.contains(':') || host.starts_with('[');
        Some((host.trim_matches(['[', ']']), port.parse::<u16>().ok()?)).filter(|_| is_host)
    });
    let (address, port) = host_and_port.unwrap_or((text, port));
    json!({ "Address": address, "Port": port })
}

fn digest(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    let hex = hash.iter().map(|byte| format!("{byte:02x}"));
    hex.collect::<String>().chars().take(DIGEST_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::address::Endpoint;
    use crate::testing::alloc_id;

    const NODE: &str = "node-1";

    fn advertised(service: Service) -> Advertised {
        let endpoint = Endpoint { address: "10.0.0.1".into(), port: 8_080 };
        let checks = vec![Some(endpoint.clone()); service.checks.len()];
        Advertised { service, endpoint, checks }
    }

    fn service() -> Service {
        Service {
            name: "web".into(),
            port_label: "http".into(),
            tags: vec!["a".into()],
            ..Service::default()
        }
    }

    fn registered(service: Service) -> ConsulService {
        ConsulService::new(alloc_id(1), "server", false, &advertised(service)).unwrap()
    }

    /// Services as Consul lists them after these registrations.
    fn listed<'a>(bodies: impl IntoIterator<Item = (&'a Text, &'a Value)>) -> BTreeMap<String, Listed> {
        bodies
            .into_iter()
            .map(|(id, body)| (id.to_string(), serde_json::from_value(body.clone()).unwrap()))
            .collect()
    }

    fn wanted(services: Vec<ConsulService>) -> BTreeMap<Text, ConsulService> {
        services.into_iter().map(|service| (service.id.clone(), service)).collect()
    }

    #[test]
    fn a_service_is_written_as_consul_takes_it() {
        let http = ServiceCheck {
            kind: Some(CheckKind::Http),
            path: "/health".into(),
            interval: Nanos::from_secs(10),
            timeout: Nanos::from_secs(2),
            header: [("Accept".into(), vec!["text/plain".into()])].into(),
            ..ServiceCheck::default()
        };
        let grpc = ServiceCheck { kind: Some(CheckKind::Grpc), grpc_service: "s".into(), ..http.clone() };
        let tcp = ServiceCheck { kind: Some(CheckKind::Tcp), name: "up".into(), ..http.clone() };
        let service = Service {
            meta: [("k".into(), "v".into())].into(),
            tagged_addresses: [("wan".into(), "198.51.100.1:81".into()), ("lan".into(), "fd00::1".into())]
                .into(),
            checks: vec![http, grpc, tcp],
            ..service()
        };
        let body = registered(service).marked(NODE);
        assert_eq!(body["ID"], "_nomad-task-01010101-0101-0101-0101-010101010101-server-web-http");
        assert_eq!((&body["Address"], &body["Port"]), (&json!("10.0.0.1"), &json!(8_080)));
        assert_eq!((&body["Meta"]["k"], &body["Meta"]["external-source"]), (&json!("v"), &json!("nomad")));
        assert_eq!(body["Meta"][OWNER_KEY], NODE);
        assert_eq!(body["TaggedAddresses"]["wan"], json!({ "Address": "198.51.100.1", "Port": 81 }));
        assert_eq!(body["TaggedAddresses"]["lan"], json!({ "Address": "fd00::1", "Port": 8_080 }));
        let checks = body["Checks"].as_array().unwrap();
        assert_eq!(checks[0]["HTTP"], "http://10.0.0.1:8080/health");
        assert_eq!((&checks[0]["Interval"], &checks[0]["Timeout"]), (&json!("10s"), &json!("2s")));
        assert_eq!(checks[0]["Header"], json!({ "Accept": ["text/plain"] }));
        assert_eq!(checks[0]["Name"], "service: \"web\" check");
        assert_eq!(checks[1]["GRPC"], "10.0.0.1:8080/s");
        assert_eq!((&checks[2]["TCP"], &checks[2]["Name"]), (&json!("10.0.0.1:8080"), &json!("up")));
        assert_ne!(checks[0]["CheckID"], checks[1]["CheckID"]);
    }

    //
    #[test]
    fn a_check_that_runs_a_program_waits_for_the_results_of_the_agent() {
        let script = ServiceCheck {
            kind: Some(CheckKind::Script),
            name: "works".into(),
            interval: Nanos::from_secs(10),
            timeout: Nanos::from_secs(5),
            ..ServiceCheck::default()
        };
        let mut advertised = advertised(Service { checks: vec![script.clone()], ..service() });
        advertised.checks = vec![None];
        let registered = ConsulService::new(alloc_id(1), "server", false, &advertised).unwrap();
        let body = registered.marked(NODE);
        let check = &body["Checks"][0];
        assert_eq!((&check["Name"], &check["TTL"]), (&json!("works"), &json!("45s")));
        for key in ["Interval", "Timeout", "TCP"] {
            assert_eq!(check[key], Value::Null, "{key}");
        }
        let id = script_check_id(&registered.id, &advertised.service, &script);
        assert_eq!(check["CheckID"], *id);
    }

    #[test]
    fn what_is_not_built_is_refused_by_name() {
        let refused = |service: Service| {
            ConsulService::new(alloc_id(1), "server", false, &advertised(service)).unwrap_err()
        };
        let elsewhere = refused(Service { cluster: "east".into(), ..service() });
        assert!(elsewhere.starts_with("service \"web\": another Consul cluster"), "{elsewhere}");
    }

    #[test]
    fn only_what_differs_is_done() {
        let (web, api) = (registered(service()), registered(Service { name: "api".into(), ..service() }));
        let both = wanted(vec![web.clone(), api]);
        let nothing_known = difference(NODE, &both, &BTreeMap::new(), |_| false);
        assert_eq!((nothing_known.register.len(), nothing_known.remove.len()), (2, 0));
        let all = listed(&nothing_known.register);
        assert_eq!(difference(NODE, &both, &all, |_| false), Difference::default());
        let only_web = wanted(vec![web.clone()]);
        let removed = difference(NODE, &only_web, &all, |_| false).remove;
        assert_eq!(removed, ["_nomad-task-01010101-0101-0101-0101-010101010101-server-api-http"]);
        let kept = difference(NODE, &only_web, &all, |alloc| alloc == alloc_id(1)).remove;
        assert!(kept.is_empty(), "the allocation is still being restored");
        let changed = wanted(vec![registered(Service { tags: vec!["b".into()], ..service() })]);
        let changed = difference(NODE, &changed, &all, |_| false);
        assert_eq!(changed.register.keys().collect::<Vec<_>>(), [&web.id]);
    }

    #[test]
    fn what_others_have_registered_stays() {
        let theirs = difference("node-2", &wanted(vec![registered(service())]), &BTreeMap::new(), |_| false);
        let all = listed(&theirs.register);
        assert_eq!(difference(NODE, &BTreeMap::new(), &all, |_| false), Difference::default());
    }

    #[test]
    fn a_change_by_others_is_repaired() {
        let both = wanted(vec![registered(service())]);
        let first = difference(NODE, &both, &BTreeMap::new(), |_| false);
        let (id, body) = first.register.iter().next().unwrap();
        for (key, value) in [("Address", json!("10.9.9.9")), ("Port", json!(1)), ("Tags", json!(["x"]))] {
            let mut body = body.clone();
            body[key] = value;
            let again = difference(NODE, &both, &listed([(id, &body)]), |_| false);
            assert_eq!(again.register.len(), 1, "{key}");
        }
    }
}
