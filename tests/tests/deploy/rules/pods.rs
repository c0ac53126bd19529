//! Rules for workloads and their pods.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::objects::{Object, Pods, at, elements, keys, text};

/// Labels that may be used in a selector. They stay the same from version to version, as selectors must.
const SELECTOR_LABELS: [&str; 3] =
    ["app.kubernetes.io/component", "app.kubernetes.io/instance", "app.kubernetes.io/name"];
/// How long a service may take to shut down in the binary, in seconds.
const ENDING_SECS: u64 = 15;
/// The directory in which a service's Secret is mounted.
const SECRET_DIR: &str = "/run/drover/";
/// Capabilities that the Pod Security level `baseline` allows, as far as an agent may use them.
const AGENT_CAPABILITIES: [&str; 6] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"];
/// The role whose pods run tasks.
const AGENT: &str = "agent";
/// Files in the Secret of a server, as `drover operator init` creates them.
const SERVER_FILES: [&str; 3] = ["ca.pem", "nats.creds", "postgres-password"];
/// Files in the Secret of agents.
const AGENT_FILES: [&str; 2] = ["ca.pem", "node.key"];

/// Collects the faults of every workload, prefixed with the workload's name.
fn for_each_workload(objects: &[Object], find: impl Fn(Pods<'_>) -> Vec<String>) -> Vec<String> {
    let workloads = objects.iter().filter_map(Object::pods);
    workloads
        .flat_map(|pods| {
            let title = pods.owner.title();
            find(pods).into_iter().map(move |fault| format!("{title}: {fault}"))
        })
        .collect()
}

/// Returns a fault if a condition does not hold.
fn fault_unless(holds: bool, fault: impl Into<String>) -> Option<String> {
    (!holds).then(|| fault.into())
}

pub(super) fn selectors_choose_their_own_pods(objects: &[Object]) -> Vec<String> {
    for_each_workload(objects, |pods| {
        let selector = pods.owner.at("/spec/selector");
        let mut chosen = objects.iter().filter_map(Object::pods);
        let others = chosen.any(|other| {
            other.owner.title() != pods.owner.title() && other.chosen_by(selector, pods.owner.namespace())
        });
        let stable = keys(at(selector, "/matchLabels")).into_iter().collect::<Vec<_>>() == SELECTOR_LABELS;
        let faults = [
            fault_unless(
                pods.chosen_by(selector, pods.owner.namespace()),
                "its selector misses its own pods",
            ),
            fault_unless(!others, "its selector chooses another workload's pods"),
            fault_unless(stable, format!("its selector is not exactly {SELECTOR_LABELS:?}")),
            fault_unless(
                text(at(pods.labels(), "/app.kubernetes.io~1component")) == pods.owner.role(),
                "its pods have another role",
            ),
            fault_unless(
                at(pods.container(), "/args") == &json!([pods.owner.role()]),
                "its container runs another service",
            ),
        ];
        faults.into_iter().flatten().collect()
    })
}

pub(super) fn containers_are_bounded(objects: &[Object]) -> Vec<String> {
    for_each_workload(objects, |pods| {
        let resources = at(pods.container(), "/resources");
        let mut faults = Vec::new();
        for pointer in ["/requests/cpu", "/requests/memory", "/limits/memory"] {
            faults.extend(fault_unless(
                amount(at(resources, pointer)).is_some(),
                format!("no resources{pointer}"),
            ));
        }
        for name in keys(at(resources, "/limits")) {
            let of = |which: &str| amount(at(resources, &format!("/{which}/{name}")));
            let fits = of("requests").zip(of("limits")).is_none_or(|(request, limit)| request <= limit);
            faults.extend(fault_unless(fits, format!("it requests more {name} than its limit")));
        }
        let images = text(at(pods.container(), "/image"));
        let pinned =
            images.rsplit_once([':', '@']).is_some_and(|(_, tag)| !tag.is_empty() && tag != "latest");
        faults.extend(fault_unless(pinned, format!("its image {images} has no version")));
        faults.extend(fault_unless(
            elements(at(pods.spec(), "/containers")).len() == 1,
            "it does not have exactly one container",
        ));
        faults
    })
}

/// Parses an amount, in thousandths of its unit.
fn amount(value: &Value) -> Option<u64> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "m" => 1,
        "" => 1_000,
        "Ki" => 1_000 << 10,
        "Mi" => 1_000 << 20,
        "Gi" => 1_000 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

pub(super) fn probes_are_there(objects: &[Object]) -> Vec<String> {
    for_each_workload(objects, |pods| {
        let container = pods.container();
        let is_agent = pods.owner.role() == AGENT;
        let mut faults = Vec::new();
        for (probe, path) in
            [("startupProbe", "/live"), ("livenessProbe", "/live"), ("readinessProbe", "/ready")]
        {
            let found = at(container, &format!("/{probe}"));
            if is_agent && probe == "livenessProbe" {
                faults.extend(fault_unless(found.is_null(), "a liveness probe would end tasks"));
                continue;
            }
            let get = at(found, "/httpGet");
            faults.extend(fault_unless(
                text(at(get, "/path")) == path,
                format!("its {probe} does not request {path}"),
            ));
            faults.extend(fault_unless(
                pods.has_port(at(get, "/port")),
                format!("its {probe} uses a port that does not exist"),
            ));
        }
        let seconds = |name: &str| at(container, &format!("/startupProbe/{name}")).as_u64().unwrap_or(0);
        let start_secs = seconds("periodSeconds") * seconds("failureThreshold");
        faults.extend(fault_unless(start_secs >= 60, "it has less than a minute to start"));
        let env = |name: &str| elements(at(container, "/env")).iter().find(|var| at(var, "/name") == name);
        let health = env("DROVER_HEALTH_ADDR").map(|var| text(at(var, "/value")));
        faults.extend(fault_unless(
            health.is_some_and(|addr| addr.ends_with(":4650")),
            "it has no health endpoint",
        ));
        faults
    })
}

pub(super) fn privileges_are_few(objects: &[Object]) -> Vec<String> {
    for_each_workload(objects, |pods| {
        let (spec, container) = (pods.spec(), pods.container());
        let is_agent = pods.owner.role() == AGENT;
        let own = at(container, "/securityContext");
        let mut faults = vec![
            fault_unless(at(own, "/allowPrivilegeEscalation") == false, "it may gain privileges"),
            fault_unless(at(own, "/privileged") == false, "it is privileged"),
            fault_unless(at(own, "/readOnlyRootFilesystem") == true, "its root file system can be written"),
            fault_unless(
                at(own, "/capabilities/drop") == &json!(["ALL"]),
                "it does not drop all capabilities",
            ),
            fault_unless(
                at(spec, "/securityContext/seccompProfile/type") == "RuntimeDefault",
                "it has no seccomp profile",
            ),
            fault_unless(
                at(spec, "/automountServiceAccountToken") == false,
                "it gets a token for Kubernetes",
            ),
            fault_unless(at(spec, "/enableServiceLinks") == false, "it gets variables of Services"),
            fault_unless(
                at(spec, "/hostPID").is_null() && at(spec, "/hostIPC").is_null(),
                "it sees the machine's processes",
            ),
        ];
        let added = elements(at(own, "/capabilities/add"));
        let host_paths =
            elements(at(spec, "/volumes")).iter().filter(|volume| !at(volume, "/hostPath").is_null());
        if is_agent {
            let few = added.iter().all(|name| AGENT_CAPABILITIES.contains(&text(name)));
            faults.push(fault_unless(few, format!("it has other capabilities than {AGENT_CAPABILITIES:?}")));
            faults.push(fault_unless(
                host_paths.count() == 1,
                "it mounts more of the machine than one directory",
            ));
        } else {
            let user = at(spec, "/securityContext/runAsUser").as_u64();
            faults
                .push(fault_unless(at(spec, "/securityContext/runAsNonRoot") == true, "it may run as root"));
            faults.push(fault_unless(user == Some(65532), "it is not user 65532"));
            faults.push(fault_unless(added.is_empty(), "it has capabilities"));
            faults.push(fault_unless(host_paths.count() == 0, "it mounts a directory of the machine"));
            faults.push(fault_unless(at(spec, "/hostNetwork").is_null(), "it uses the machine's network"));
        }
        faults.into_iter().flatten().collect()
    })
}

pub(super) fn pods_end_in_order(objects: &[Object]) -> Vec<String> {
    for_each_workload(objects, |pods| {
        let grace = at(pods.spec(), "/terminationGracePeriodSeconds").as_u64().unwrap_or(0);
        let pause = at(pods.container(), "/lifecycle/preStop/sleep/seconds").as_u64();
        let serves = pods.owner.role() == "api";
        let mut faults = vec![
            fault_unless(
                grace > pause.unwrap_or(0) + ENDING_SECS,
                "its grace period is shorter than it takes to end",
            ),
            fault_unless(!serves || pause.is_some(), "it ends before its address is withdrawn"),
        ];
        if pods.owner.kind() == "Deployment" {
            let rolling = pods.owner.at("/spec/strategy/rollingUpdate");
            let none_less = rolling == &json!({ "maxSurge": 1, "maxUnavailable": 0 });
            faults.push(fault_unless(none_less, "an update removes a pod before its replacement is ready"));
        } else {
            let type_ = pods.owner.at("/spec/updateStrategy/type");
            faults.push(fault_unless(type_ == "OnDelete", "an update restarts agents and ends their tasks"));
        }
        faults.into_iter().flatten().collect()
    })
}

pub(super) fn pods_are_spread(objects: &[Object]) -> Vec<String> {
    for_each_workload(objects, |pods| {
        let spec = pods.spec();
        let term =
            "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0";
        let arch = elements(at(at(spec, term), "/matchExpressions"))
            .iter()
            .any(|expression| at(expression, "/key") == "kubernetes.io/arch");
        let mut faults: Vec<_> =
            fault_unless(arch, "it may be put on a machine that its image does not run on")
                .into_iter()
                .collect();
        if pods.owner.kind() == "DaemonSet" {
            return faults;
        }
        let constraints = elements(at(spec, "/topologySpreadConstraints"));
        let topologies: BTreeSet<_> = constraints.iter().map(|of| text(at(of, "/topologyKey"))).collect();
        let wanted = BTreeSet::from(["kubernetes.io/hostname", "topology.kubernetes.io/zone"]);
        faults.extend(fault_unless(topologies == wanted, format!("it is spread over {topologies:?}")));
        let own = |of: &Value| at(of, "/labelSelector") == pods.owner.at("/spec/selector");
        faults
            .extend(fault_unless(constraints.iter().all(own), "it is spread among other pods than its own"));
        faults
    })
}

pub(super) fn files_are_mounted(objects: &[Object]) -> Vec<String> {
    for_each_workload(objects, |pods| {
        let volumes = elements(at(pods.spec(), "/volumes"));
        let mounts = elements(at(pods.container(), "/volumeMounts"));
        let names = |list: &[Value]| -> BTreeSet<String> {
            list.iter().map(|entry| text(at(entry, "/name")).to_owned()).collect()
        };
        let mut faults: Vec<_> =
            fault_unless(names(volumes) == names(mounts), "its volumes are not those that it mounts")
                .into_iter()
                .collect();
        let mut files = BTreeSet::new();
        for mount in mounts {
            let volume = volumes.iter().find(|volume| at(volume, "/name") == at(mount, "/name"));
            for item in volume.map(|volume| elements(at(volume, "/secret/items"))).unwrap_or_default() {
                faults.extend(fault_unless(
                    at(mount, "/readOnly") == true,
                    "a Secret is mounted to be written",
                ));
                files.insert(format!("{}/{}", text(at(mount, "/mountPath")), text(at(item, "/path"))));
            }
        }
        for variable in elements(at(pods.container(), "/env")) {
            let value = text(at(variable, "/value"));
            let path = value.rsplit_once("sslrootcert=").map_or(value, |(_, path)| path);
            if path.starts_with("/run/") {
                faults.extend(fault_unless(
                    files.contains(path),
                    format!("{} names no file of a Secret", variable["name"]),
                ));
            }
        }
        faults
    })
}

pub(super) fn secrets_are_as_they_are_made(objects: &[Object]) -> Vec<String> {
    for_each_workload(objects, |pods| {
        let is_agent = pods.owner.role() == AGENT;
        let made: &[&str] = if is_agent { &AGENT_FILES } else { &SERVER_FILES };
        let volume =
            elements(at(pods.spec(), "/volumes")).iter().find(|volume| at(volume, "/name") == "drover");
        let secret = volume.map_or(&Value::Null, |volume| at(volume, "/secret"));
        let mut keys: Vec<_> =
            elements(at(secret, "/items")).iter().map(|item| text(at(item, "/key"))).collect();
        keys.sort_unstable();
        let role = pods.owner.role();
        let faults = [
            fault_unless(
                at(secret, "/secretName") == &json!(format!("drover-{role}")),
                "it has another role's Secret",
            ),
            fault_unless(keys == made, format!("it uses {keys:?} of its Secret, which contains {made:?}")),
            fault_unless(
                !keys.contains(&"postgres-password") || !is_agent,
                "an agent has the database's password",
            ),
            fault_unless(
                elements(at(pods.container(), "/volumeMounts")).iter().any(|mount| {
                    at(mount, "/name") == "drover"
                        && at(mount, "/mountPath") == SECRET_DIR.trim_end_matches('/')
                }),
                format!("its Secret is not at {SECRET_DIR}"),
            ),
        ];
        faults.into_iter().flatten().collect()
    })
}

#[test]
fn amounts_are_compared_by_their_units() {
    assert_eq!(amount(&json!("1536Mi")), Some(1536 * 1024 * 1024 * 1_000));
    assert_eq!(amount(&json!("2Gi")), amount(&json!("2048Mi")));
    assert_eq!((amount(&json!("500m")), amount(&json!(2))), (Some(500), Some(2_000)));
    assert_eq!((amount(&json!("1 GB")), amount(&Value::Null)), (None, None));
}
