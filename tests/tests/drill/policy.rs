//! Rules for the compose file: privileges that no container has, limits that every container has, and membership in
//! networks. The rules apply to the file as Compose resolves it, not to its text.

use std::path::Path;

use serde_json::Value;
use tests::harness::api::array;

/// Services that exit by themselves. They need no health check, and are not restarted.
const ONE_SHOT: [&str; 2] = ["init", "cli"];
/// Services whose image has a health check.
const OWN_CHECK: [&str; 8] = [
    "agent-1",
    "agent-2",
    "api",
    "deployment-watcher",
    "eval-broker",
    "node-tracker",
    "plan-applier",
    "scheduler",
];
/// Services that need no health check: the image has neither a shell nor a client, and everything works without it.
const UNCHECKED: [&str; 1] = ["collector"];
/// Services that are published outside the default profile, on this machine.
const OBSERVABILITY: [&str; 3] = ["collector", "grafana", "prometheus"];

/// Returns the faults of a resolved compose file.
pub(crate) fn faults(file: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let services = file["services"].as_object().expect("a compose file has services");
    for (name, service) in services {
        let mut must = |holds: bool, what: &str| {
            if !holds {
                faults.push(format!("{name}: {what}"));
            }
        };
        let restart = if ONE_SHOT.contains(&name.as_str()) { "no" } else { "unless-stopped" };
        must(service["restart"] == restart, "has a wrong restart policy");
        must(service["read_only"] == true, "can write to its root file system");
        must(service["cap_drop"] == serde_json::json!(["ALL"]), "keeps capabilities");
        must(
            array(&service["security_opt"]).contains(&"no-new-privileges:true".into()),
            "may gain privileges",
        );
        must(service["privileged"] != true, "is privileged");
        let limits = &service["deploy"]["resources"]["limits"];
        for limit in ["cpus", "memory", "pids"] {
            must(!limits[limit].is_null(), &format!("has no limit of {limit}"));
        }
        must(!service["logging"]["options"]["max-size"].is_null(), "has no limit of its log size");
        let image = service["image"].as_str().unwrap_or_default();
        must(image.contains(':') && !image.ends_with(":latest"), "has an image without a version");
        let is_checked = !service["healthcheck"]["test"].is_null() || OWN_CHECK.contains(&name.as_str());
        let needs_none = ONE_SHOT.contains(&name.as_str()) || UNCHECKED.contains(&name.as_str());
        must(is_checked || needs_none, "has no health check");
        for port in array(&service["ports"]) {
            must(port["host_ip"] == "127.0.0.1", "is published beyond this machine");
            let may_publish = name == "lb" || OBSERVABILITY.contains(&name.as_str());
            must(may_publish, "is published");
        }
        for (server, condition) in service["depends_on"].as_object().into_iter().flatten() {
            must(
                condition["condition"] != "service_started",
                &format!("does not wait until {server} is healthy"),
            );
        }
        let networks = service["networks"].as_object();
        let is_in = |network: &str| networks.is_some_and(|networks| networks.contains_key(network));
        must(!(name.starts_with("agent") && is_in("data")), "is an agent in the network of the database");
        let is_root = service["user"].as_str().is_some_and(|user| user.starts_with('0'));
        must(!is_root || name.starts_with("agent") || name == "init", "runs as root");
        let mounted = array(&service["volumes"]);
        for volume in mounted.iter().filter(|volume| volume["type"] == "bind") {
            // The engine would create a directory with that name.
            let source = volume["source"].as_str().unwrap_or_default();
            must(Path::new(source).exists(), &format!("mounts {source}, which does not exist"));
            must(volume["read_only"] == true, &format!("can write to {source}"));
        }
        let has_keys = mounted.iter().any(|volume| volume["source"] == "operator-secrets");
        must(!has_keys || name == "init", "has the signing keys");
        let secrets = mounted.iter().filter(|volume| volume["target"] == "/run/drover");
        must(secrets.clone().all(|volume| volume["read_only"] == true), "can write to its secrets");
        let own = format!("{}-secrets", if name.starts_with("agent") { "agent" } else { name });
        must(
            secrets.clone().all(|volume| volume["source"] == own.as_str()),
            "has the secrets of another service",
        );
    }
    let of_init = array(&file["services"]["init"]["volumes"]);
    for volume in file["volumes"].as_object().into_iter().flat_map(|volumes| volumes.keys()) {
        let is_made = of_init.iter().any(|mounted| mounted["source"] == volume.as_str());
        if volume.ends_with("-secrets") && !is_made {
            faults.push(format!("no service fills {volume}"));
        }
    }
    for network in ["control", "data"] {
        if file["networks"][network]["internal"] != true {
            faults.push(format!("the network {network} is not internal"));
        }
    }
    faults
}

#[test]
fn finds_what_breaks_the_rules() {
    let file = serde_json::json!({
        "services": {
            "api": {
                "image": "drover:dev",
                "restart": "unless-stopped",
                "read_only": true,
                "cap_drop": ["ALL"],
                "security_opt": ["no-new-privileges:true"],
                "deploy": { "resources": { "limits": { "cpus": 1, "memory": "1", "pids": 1 } } },
                "logging": { "options": { "max-size": "10m" } },
                "networks": { "control": null },
                "volumes": [{ "source": "api-secrets", "target": "/run/drover", "read_only": true }],
            },
            "agent-1": {
                "image": "drover-agent",
                "networks": { "data": null },
                "ports": [{ "host_ip": "0.0.0.0" }],
                "depends_on": { "nats": { "condition": "service_started" } },
                "volumes": [
                    { "source": "operator-secrets", "target": "/run/drover" },
                    { "type": "bind", "source": "/nowhere", "target": "/etc/drover" },
                ],
            },
            "init": {
                "image": "drover:dev",
                "restart": "no",
                "read_only": true,
                "user": "0:0",
                "cap_drop": ["ALL"],
                "security_opt": ["no-new-privileges:true"],
                "deploy": { "resources": { "limits": { "cpus": 1, "memory": "1", "pids": 1 } } },
                "logging": { "options": { "max-size": "10m" } },
                "volumes": [{ "source": "api-secrets", "target": "/secrets/api" }],
            },
        },
        "networks": { "control": { "internal": true }, "data": {} },
        "volumes": { "api-secrets": {}, "scheduler-secrets": {} },
    });
    assert_eq!(
        faults(&file),
        [
            "agent-1: has a wrong restart policy",
            "agent-1: can write to its root file system",
            "agent-1: keeps capabilities",
            "agent-1: may gain privileges",
            "agent-1: has no limit of cpus",
            "agent-1: has no limit of memory",
            "agent-1: has no limit of pids",
            "agent-1: has no limit of its log size",
            "agent-1: has an image without a version",
            "agent-1: is published beyond this machine",
            "agent-1: is published",
            "agent-1: does not wait until nats is healthy",
            "agent-1: is an agent in the network of the database",
            "agent-1: mounts /nowhere, which does not exist",
            "agent-1: can write to /nowhere",
            "agent-1: has the signing keys",
            "agent-1: can write to its secrets",
            "agent-1: has the secrets of another service",
            "no service fills scheduler-secrets",
            "the network data is not internal",
        ]
    );
}
