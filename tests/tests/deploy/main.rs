//! Is what `deploy/` installs right? Rules over the committed files, without a cluster and without other programs; whether
//! they are valid by Kubernetes' schemas, and what the chart renders, `make manifests` asks.

mod chart;
mod objects;
mod rules;
#[allow(clippy::wildcard_enum_match_arm, reason = "a place in a document takes some events and no other")]
mod yaml;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use objects::{Object, at, elements, text};

/// The binary whose settings the manifests set.
const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");

/// Variables that others than Drover's own settings read: OpenTelemetry's, and those that stand in another's value.
const OTHER_VARIABLES: [&str; 8] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_METRICS_EXPORTER",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
    "POD_NAME",
    "POD_NAMESPACE",
    "POD_NODE_NAME",
];

/// Manifests that are applied together.
const SETS: &[&[&str]] = &[&["10-servers.yaml", "20-agents.yaml"], &["everything/drover.yaml"]];

fn kubernetes() -> PathBuf {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lives in a folder of the root");
    root.join("deploy/kubernetes")
}

fn set(files: &[&str]) -> Vec<Object> {
    let paths: Vec<_> = files.iter().map(|file| kubernetes().join("manifests").join(file)).collect();
    let paths: Vec<_> = paths.iter().map(PathBuf::as_path).collect();
    objects::read(&paths)
}

#[test]
fn the_manifests_break_no_rule() {
    for files in SETS {
        let objects = set(files);
        assert!(objects.len() > 20, "{files:?} has {} objects", objects.len());
        let faults: Vec<_> = rules::RULES.iter().flat_map(|rule| rule(&objects)).collect();
        assert!(faults.is_empty(), "{files:?}:\n  {}", faults.join("\n  "));
    }
}

#[test]
fn namespaces_are_there_and_as_strict_as_can_be() {
    let namespaces = set(&["00-namespaces.yaml"]);
    let used: BTreeSet<_> = SETS
        .iter()
        .flat_map(|files| set(files))
        .collect::<Vec<_>>()
        .iter()
        .map(|object| object.namespace().to_owned())
        .collect();
    let levels: Vec<_> = namespaces
        .iter()
        .map(|namespace| {
            let level = namespace.at("/metadata/labels/pod-security.kubernetes.io~1enforce");
            (namespace.name().to_owned(), text(level).to_owned())
        })
        .collect();
    let expected = [("drover", "restricted"), ("drover-agents", "privileged")];
    assert_eq!(levels, expected.map(|(name, level)| (name.to_owned(), level.to_owned())));
    assert_eq!(used, levels.into_iter().map(|(name, _)| name).collect());
}

/// Every variable that a container sets is one that its service reads; a misspelt one would do nothing, in silence.
#[test]
fn services_know_their_variables() {
    for files in SETS {
        for pods in set(files).iter().filter_map(Object::pods) {
            let role = pods.owner.role();
            let output =
                Command::new(BINARY).args([role, "--help"]).output().expect("the binary can be started");
            let help = String::from_utf8(output.stdout).expect("help is text");
            let mut names = BTreeSet::new();
            for variable in elements(at(pods.container(), "/env")) {
                let name = text(at(variable, "/name"));
                assert!(names.insert(name), "{role}: {name} is set twice");
                let is_known = OTHER_VARIABLES.contains(&name) || help.contains(&format!("[env: {name}"));
                assert!(is_known, "drover {role} does not read {name}; its help names what it reads");
            }
        }
    }
}

#[test]
fn examples_are_yaml() {
    let examples = std::fs::read_dir(kubernetes().join("examples")).expect("there are examples");
    for path in examples.map(|entry| entry.expect("an entry").path()) {
        let documents = objects::read(&[&path]);
        assert!(!documents.is_empty(), "{} is empty", path.display());
    }
}

/// The example for NATS' own chart lets the largest command through, and keeps Go's memory below the container's limit.
#[test]
fn nats_takes_the_largest_command() {
    let [values] = &objects::read(&[&kubernetes().join("examples/nats-values.yaml")])[..] else {
        panic!("one document")
    };
    let setting = |pointer: &str| text(values.at(pointer)).trim_matches(['<', '>', ' ']).parse::<usize>();
    let largest = wire::envelope::COMMAND_BYTES_MAX;
    let payload = setting("/config/merge/max_payload").expect("a number of bytes");
    assert!(payload > largest, "{payload} bytes, and a command has {largest} without its headers");
    let pending = setting("/config/merge/max_pending").expect("a number of bytes");
    assert!(pending > payload, "one message of {payload} bytes would fill what may wait, {pending}");
    let mebibytes = |pointer: &str, unit: &str| {
        text(values.at(pointer)).strip_suffix(unit).and_then(|number| number.parse::<u32>().ok())
    };
    let soft = mebibytes("/container/env/GOMEMLIMIT", "MiB").expect("an amount in MiB");
    let hard = mebibytes("/container/merge/resources/limits/memory", "Mi").expect("an amount in Mi");
    assert!(soft < hard, "Go may take {soft} MiB and the container {hard}");
}

/// One change that makes the manifests wrong.
struct Slip {
    /// Kind and name of the object.
    object: (&'static str, &'static str),
    /// What is changed in it; CONTAINER stands for the container of its pods.
    pointer: String,
    /// To what; null takes it away.
    to: Value,
    /// What a rule says then.
    fault: &'static str,
}

fn slip(object: (&'static str, &'static str), pointer: &'static str, to: Value, fault: &'static str) -> Slip {
    let pointer = pointer.replace("CONTAINER", "/spec/template/spec/containers/0");
    Slip { object, pointer, to, fault }
}

/// Slips that the schemas let pass, each with what the rules say of it.
fn slips() -> Vec<Slip> {
    let api = ("Deployment", "drover-api");
    let scheduler = ("Deployment", "drover-scheduler");
    let agent = ("DaemonSet", "drover-agent");
    vec![
        slip(api, "/apiVersion", json!("apps/v1beta2"), "is not its version"),
        slip(api, "/metadata/name", json!("drover_api"), "name \"drover_api\""),
        slip(api, "/spec/template/metadata/labels/app.kubernetes.io~1part-of", json!("a b"), "label's value"),
        slip(api, "/metadata/labels/app.kubernetes.io~1version", json!(1), "label's value"),
        slip(scheduler, "/metadata/name", json!("drover-api"), "is there twice"),
        slip(
            api,
            "/spec/selector/matchLabels/app.kubernetes.io~1component",
            json!("app"),
            "misses its own pods",
        ),
        slip(
            api,
            "/spec/selector/matchLabels/app.kubernetes.io~1component",
            Value::Null,
            "chooses another workload's pods",
        ),
        slip(api, "/spec/selector/matchLabels/app.kubernetes.io~1version", json!("0.0.0"), "is not exactly"),
        slip(api, "CONTAINER/args", json!(["scheduler"]), "its container is another service"),
        slip(api, "CONTAINER/resources/limits", Value::Null, "no resources/limits/memory"),
        slip(api, "CONTAINER/resources/requests/memory", json!("9Gi"), "requests more memory"),
        slip(api, "CONTAINER/image", json!("drover:latest"), "has no version"),
        slip(api, "CONTAINER/livenessProbe", Value::Null, "its livenessProbe does not ask /live"),
        slip(api, "CONTAINER/readinessProbe/httpGet/port", json!("ready"), "a port that is not there"),
        slip(agent, "CONTAINER/livenessProbe", json!({}), "would end tasks"),
        slip(api, "CONTAINER/startupProbe/failureThreshold", json!(1), "less than a minute"),
        slip(api, "/spec/template/spec/securityContext/runAsNonRoot", json!(false), "may run as root"),
        slip(api, "/spec/template/spec/securityContext/runAsUser", json!(1000), "is not user 65532"),
        slip(api, "/spec/template/spec/securityContext/seccompProfile", Value::Null, "no seccomp profile"),
        slip(api, "CONTAINER/securityContext/capabilities", Value::Null, "drop all capabilities"),
        slip(api, "CONTAINER/securityContext/readOnlyRootFilesystem", json!(false), "can be written"),
        slip(agent, "CONTAINER/securityContext/capabilities/add", json!(["SYS_ADMIN"]), "other capabilities"),
        slip(agent, "/spec/template/spec/hostPID", json!(true), "sees the machine's processes"),
        slip(agent, "CONTAINER/securityContext/privileged", json!(true), "it is privileged"),
        slip(api, "/spec/template/spec/automountServiceAccountToken", Value::Null, "gets a token"),
        slip(
            api,
            "/spec/template/spec/terminationGracePeriodSeconds",
            json!(15),
            "shorter than it takes to end",
        ),
        slip(api, "CONTAINER/lifecycle", Value::Null, "before its address is withdrawn"),
        slip(api, "/spec/strategy/rollingUpdate/maxUnavailable", json!(1), "before there is another"),
        slip(agent, "/spec/updateStrategy/type", json!("RollingUpdate"), "ends their tasks"),
        slip(api, "/spec/template/spec/affinity", Value::Null, "its image does not run on"),
        slip(
            api,
            "/spec/template/spec/topologySpreadConstraints/0/labelSelector",
            json!({}),
            "among other pods",
        ),
        slip(api, "CONTAINER/volumeMounts/0/name", json!("secrets"), "not those that it mounts"),
        slip(
            api,
            "/spec/template/spec/volumes/0/secret/items/2/path",
            json!("ca.crt"),
            "names no file of a Secret",
        ),
        slip(api, "/spec/template/spec/volumes/0/secret/items/2/key", json!("ca.crt"), "of its Secret"),
        slip(
            api,
            "/spec/template/spec/volumes/0/secret/secretName",
            json!("drover-agent"),
            "another role's Secret",
        ),
        slip(
            ("Service", "drover-api"),
            "/spec/selector/app.kubernetes.io~1component",
            json!("web"),
            "pods of 0 workloads",
        ),
        slip(("Service", "drover-api"), "/spec/ports/0/targetPort", json!("web"), "have no port"),
        slip(("Service", "drover-api"), "/metadata/name", json!("drover-web"), "leads to no Service"),
        slip(
            ("Ingress", "drover-api"),
            "/spec/tls/0/hosts",
            json!(["other.example.com"]),
            "for another host",
        ),
        slip(("HTTPRoute", "drover-api"), "/spec/parents", json!([]), "unknown field parents"),
        slip(
            ("HTTPRoute", "drover-api"),
            "/spec/rules/0/backendRefs/0/port",
            json!(80),
            "leads to no Service",
        ),
        slip(api, "/spec/template/spec/serviceAccountName", json!("default"), "there is no ServiceAccount"),
        slip(api, "/spec/template/spec/serviceAccountName", json!("drover-scheduler"), "is another role's"),
        slip(
            ("ServiceAccount", "drover-api"),
            "/automountServiceAccountToken",
            json!(true),
            "its pods get tokens",
        ),
        slip(("PodDisruptionBudget", "drover-api"), "/spec/maxUnavailable", json!(0), "wait for it for ever"),
        slip(
            ("PodDisruptionBudget", "drover-api"),
            "/spec/selector/matchLabels/app.kubernetes.io~1component",
            Value::Null,
            "for the pods of its role alone",
        ),
        slip(
            ("HorizontalPodAutoscaler", "drover-scheduler"),
            "/spec/scaleTargetRef/name",
            json!("scheduler"),
            "its target is not there",
        ),
        slip(
            ("HorizontalPodAutoscaler", "drover-scheduler"),
            "/spec/scaleTargetRef/name",
            json!("drover-api"),
            "undoes what it did",
        ),
        slip(
            ("HorizontalPodAutoscaler", "drover-scheduler"),
            "/spec/scaleTargetRef/name",
            json!("drover-api"),
            "nothing says how many pods",
        ),
        slip(
            ("HorizontalPodAutoscaler", "drover-scheduler"),
            "/spec/minReplicas",
            json!(11),
            "within its bounds",
        ),
        slip(
            ("PodMonitor", "drover"),
            "/spec/namespaceSelector/matchNames",
            json!(["drover"]),
            "does not read all pods",
        ),
        slip(
            ("PodMonitor", "drover"),
            "/spec/podMetricsEndpoints/0/port",
            json!("http"),
            "not all pods have its port",
        ),
        slip(
            ("PodMonitor", "drover"),
            "/spec/podMetricsEndpoints/0/honorLabels",
            Value::Null,
            "renames labels",
        ),
        slip(("PodMonitor", "drover"), "/spec/endpoints", json!([]), "unknown field endpoints"),
        slip(
            ("ServiceMonitor", "drover-api"),
            "/spec/endpoints/0/port",
            json!("metrics"),
            "has no such port",
        ),
        slip(
            ("NetworkPolicy", "drover-api"),
            "/spec/podSelector/matchLabels/app.kubernetes.io~1component",
            json!("web"),
            "is for no pods",
        ),
        slip(
            ("NetworkPolicy", "drover-api"),
            "/spec/policyTypes",
            json!(["Egress"]),
            "its rules for Ingress do not count",
        ),
        slip(
            ("NetworkPolicy", "drover-default-deny"),
            "/spec/policyTypes",
            json!(["Egress"]),
            "no policy restricts both directions",
        ),
        slip(
            ("NetworkPolicy", "drover-api"),
            "/spec/ingress/0/ports/0/port",
            json!(4647),
            "where nobody listens",
        ),
        slip(("NetworkPolicy", "drover-api"), "/spec/ingress/0/ports", Value::Null, "opens all ports"),
        slip(("NetworkPolicy", "drover-servers"), "/spec/egress", json!([]), "does not reach PostgreSQL"),
        slip(("NetworkPolicy", "drover-agent"), "/spec/egress/0/ports", Value::Null, "it reaches PostgreSQL"),
    ]
}

/// Changes the value at a JSON pointer, which may be a new member of a map.
fn change(value: &mut Value, pointer: &str, to: &Value) {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer has a parent");
    let name = name.replace("~1", "/");
    let parent = value.pointer_mut(parent).unwrap_or_else(|| panic!("nothing at {parent}"));
    match parent {
        Value::Object(members) if to.is_null() => drop(members.remove(&name)),
        Value::Object(members) => drop(members.insert(name, to.clone())),
        Value::Array(list) => list[name.parse::<usize>().expect("an index")] = to.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            panic!("what is at {pointer} is in no map or list")
        }
    }
}

#[test]
fn rules_find_what_the_schemas_let_pass() {
    let whole = set(&["everything/drover.yaml"]);
    for Slip { object: (kind, name), pointer, to, fault } in slips() {
        let mut objects = whole.clone();
        let place = objects.iter_mut().find(|object| object.kind() == kind && object.name() == name);
        let place = place.unwrap_or_else(|| panic!("no {kind} {name}"));
        change(&mut place.0, &pointer, &to);
        let faults: Vec<_> = rules::RULES.iter().flat_map(|rule| rule(&objects)).collect();
        assert!(
            faults.iter().any(|found| found.contains(fault)),
            "{kind} {name} with {pointer} = {to}: expected {fault:?}, found\n  {}",
            faults.join("\n  ")
        );
    }
}
