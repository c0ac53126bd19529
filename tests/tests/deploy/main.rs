//! Rules for the committed files in `deploy/`, checked without a cluster or other programs. `make manifests` checks
//! them against the schemas of Kubernetes, and checks the output of the chart.

mod chart;
mod objects;
mod rules;
#[allow(clippy::wildcard_enum_match_arm, reason = "each position in a document allows only some events")]
mod yaml;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use objects::{Object, at, elements, text};

/// The binary whose settings the manifests set.
const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");

/// Variables that are not settings of Drover: those of OpenTelemetry, and those that are used in the values of others.
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate's directory has a parent");
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

/// Every variable of a container must be one that its service reads. A misspelt variable would have no effect.
#[test]
fn services_know_their_variables() {
    for files in SETS {
        for pods in set(files).iter().filter_map(Object::pods) {
            let role = pods.owner.role();
            let output =
                Command::new(BINARY).args([role, "--help"]).output().expect("the binary can be started");
            let help = String::from_utf8(output.stdout).expect("the help text is UTF-8");
            let mut names = BTreeSet::new();
            for variable in elements(at(pods.container(), "/env")) {
                let name = text(at(variable, "/name"));
                assert!(names.insert(name), "{role}: {name} is set twice");
                let is_known = OTHER_VARIABLES.contains(&name) || help.contains(&format!("[env: {name}"));
                assert!(
                    is_known,
                    "drover {role} does not read {name}; its help lists the variables that it reads"
                );
            }
        }
    }
}

#[test]
fn examples_are_yaml() {
    let examples =
        std::fs::read_dir(kubernetes().join("examples")).expect("the directory of examples can be read");
    for path in examples.map(|entry| entry.expect("the directory can be listed").path()) {
        let documents = objects::read(&[&path]);
        assert!(!documents.is_empty(), "{} is empty", path.display());
    }
}

/// In the example for NATS' own chart, the largest command fits into a message, and Go's memory limit is below the
/// container's.
#[test]
fn nats_takes_the_largest_command() {
    let [values] = &objects::read(&[&kubernetes().join("examples/nats-values.yaml")])[..] else {
        panic!("the file has one document")
    };
    let setting = |pointer: &str| text(values.at(pointer)).trim_matches(['<', '>', ' ']).parse::<usize>();
    let largest = wire::envelope::COMMAND_BYTES_MAX;
    let payload = setting("/config/merge/max_payload").expect("the payload limit is a number of bytes");
    assert!(
        payload > largest,
        "messages have at most {payload} bytes, and a command has {largest} without its headers"
    );
    let pending = setting("/config/merge/max_pending").expect("the pending limit is a number of bytes");
    assert!(pending > payload, "one message of {payload} bytes exceeds the pending limit of {pending}");
    let mebibytes = |pointer: &str, unit: &str| {
        text(values.at(pointer)).strip_suffix(unit).and_then(|number| number.parse::<u32>().ok())
    };
    let soft = mebibytes("/container/env/GOMEMLIMIT", "MiB").expect("the limit is an amount in MiB");
    let hard =
        mebibytes("/container/merge/resources/limits/memory", "Mi").expect("the limit is an amount in Mi");
    assert!(soft < hard, "Go may take {soft} MiB and the container {hard}");
}

/// One change that makes the manifests invalid.
struct Mistake {
    /// Kind and name of the object.
    object: (&'static str, &'static str),
    /// The JSON pointer of the value to change. CONTAINER stands for the container of its pods.
    pointer: String,
    /// The new value. Null removes the value.
    to: Value,
    /// A part of the expected fault.
    fault: &'static str,
}

fn mistake(
    object: (&'static str, &'static str),
    pointer: &'static str,
    to: Value,
    fault: &'static str,
) -> Mistake {
    let pointer = pointer.replace("CONTAINER", "/spec/template/spec/containers/0");
    Mistake { object, pointer, to, fault }
}

/// Mistakes that the schemas accept, each with a part of the fault that the rules report.
fn mistakes() -> Vec<Mistake> {
    let api = ("Deployment", "drover-api");
    let scheduler = ("Deployment", "drover-scheduler");
    let agent = ("DaemonSet", "drover-agent");
    vec![
        mistake(api, "/apiVersion", json!("apps/v1beta2"), "is not the current API version"),
        mistake(api, "/metadata/name", json!("drover_api"), "name \"drover_api\""),
        mistake(
            api,
            "/spec/template/metadata/labels/app.kubernetes.io~1part-of",
            json!("a b"),
            "label's value",
        ),
        mistake(api, "/metadata/labels/app.kubernetes.io~1version", json!(1), "label's value"),
        mistake(scheduler, "/metadata/name", json!("drover-api"), "exists twice"),
        mistake(
            api,
            "/spec/selector/matchLabels/app.kubernetes.io~1component",
            json!("app"),
            "misses its own pods",
        ),
        mistake(
            api,
            "/spec/selector/matchLabels/app.kubernetes.io~1component",
            Value::Null,
            "chooses another workload's pods",
        ),
        mistake(
            api,
            "/spec/selector/matchLabels/app.kubernetes.io~1version",
            json!("0.0.0"),
            "is not exactly",
        ),
        mistake(api, "CONTAINER/args", json!(["scheduler"]), "its container runs another service"),
        mistake(api, "CONTAINER/resources/limits", Value::Null, "no resources/limits/memory"),
        mistake(api, "CONTAINER/resources/requests/memory", json!("9Gi"), "requests more memory"),
        mistake(api, "CONTAINER/image", json!("drover:latest"), "has no version"),
        mistake(api, "CONTAINER/livenessProbe", Value::Null, "its livenessProbe does not request /live"),
        mistake(api, "CONTAINER/readinessProbe/httpGet/port", json!("ready"), "a port that does not exist"),
        mistake(agent, "CONTAINER/livenessProbe", json!({}), "would end tasks"),
        mistake(api, "CONTAINER/startupProbe/failureThreshold", json!(1), "less than a minute"),
        mistake(api, "/spec/template/spec/securityContext/runAsNonRoot", json!(false), "may run as root"),
        mistake(api, "/spec/template/spec/securityContext/runAsUser", json!(1000), "is not user 65532"),
        mistake(api, "/spec/template/spec/securityContext/seccompProfile", Value::Null, "no seccomp profile"),
        mistake(api, "CONTAINER/securityContext/capabilities", Value::Null, "drop all capabilities"),
        mistake(api, "CONTAINER/securityContext/readOnlyRootFilesystem", json!(false), "can be written"),
        mistake(
            agent,
            "CONTAINER/securityContext/capabilities/add",
            json!(["SYS_ADMIN"]),
            "other capabilities",
        ),
        mistake(agent, "/spec/template/spec/hostPID", json!(true), "sees the machine's processes"),
        mistake(agent, "CONTAINER/securityContext/privileged", json!(true), "it is privileged"),
        mistake(api, "/spec/template/spec/automountServiceAccountToken", Value::Null, "gets a token"),
        mistake(
            api,
            "/spec/template/spec/terminationGracePeriodSeconds",
            json!(15),
            "shorter than it takes to end",
        ),
        mistake(api, "CONTAINER/lifecycle", Value::Null, "before its address is withdrawn"),
        mistake(api, "/spec/strategy/rollingUpdate/maxUnavailable", json!(1), "before its replacement"),
        mistake(agent, "/spec/updateStrategy/type", json!("RollingUpdate"), "ends their tasks"),
        mistake(api, "/spec/template/spec/affinity", Value::Null, "its image does not run on"),
        mistake(
            api,
            "/spec/template/spec/topologySpreadConstraints/0/labelSelector",
            json!({}),
            "among other pods",
        ),
        mistake(api, "CONTAINER/volumeMounts/0/name", json!("secrets"), "not those that it mounts"),
        mistake(
            api,
            "/spec/template/spec/volumes/0/secret/items/2/path",
            json!("ca.crt"),
            "names no file of a Secret",
        ),
        mistake(api, "/spec/template/spec/volumes/0/secret/items/2/key", json!("ca.crt"), "of its Secret"),
        mistake(
            api,
            "/spec/template/spec/volumes/0/secret/secretName",
            json!("drover-agent"),
            "another role's Secret",
        ),
        mistake(
            ("Service", "drover-api"),
            "/spec/selector/app.kubernetes.io~1component",
            json!("web"),
            "pods of 0 workloads",
        ),
        mistake(("Service", "drover-api"), "/spec/ports/0/targetPort", json!("web"), "have no port"),
        mistake(("Service", "drover-api"), "/metadata/name", json!("drover-web"), "leads to no Service"),
        mistake(
            ("Ingress", "drover-api"),
            "/spec/tls/0/hosts",
            json!(["other.example.com"]),
            "for another host",
        ),
        mistake(("HTTPRoute", "drover-api"), "/spec/parents", json!([]), "unknown field parents"),
        mistake(
            ("HTTPRoute", "drover-api"),
            "/spec/rules/0/backendRefs/0/port",
            json!(80),
            "leads to no Service",
        ),
        mistake(
            api,
            "/spec/template/spec/serviceAccountName",
            json!("default"),
            "there is no ServiceAccount",
        ),
        mistake(
            api,
            "/spec/template/spec/serviceAccountName",
            json!("drover-scheduler"),
            "is another role's",
        ),
        mistake(
            ("ServiceAccount", "drover-api"),
            "/automountServiceAccountToken",
            json!(true),
            "its pods get tokens",
        ),
        mistake(
            ("PodDisruptionBudget", "drover-api"),
            "/spec/maxUnavailable",
            json!(0),
            "wait for it forever",
        ),
        mistake(
            ("PodDisruptionBudget", "drover-api"),
            "/spec/selector/matchLabels/app.kubernetes.io~1component",
            Value::Null,
            "for the pods of its role alone",
        ),
        mistake(
            ("HorizontalPodAutoscaler", "drover-scheduler"),
            "/spec/scaleTargetRef/name",
            json!("scheduler"),
            "its target does not exist",
        ),
        mistake(
            ("HorizontalPodAutoscaler", "drover-scheduler"),
            "/spec/scaleTargetRef/name",
            json!("drover-api"),
            "resets its replica count",
        ),
        mistake(
            ("HorizontalPodAutoscaler", "drover-scheduler"),
            "/spec/scaleTargetRef/name",
            json!("drover-api"),
            "neither a replica count nor an autoscaler",
        ),
        mistake(
            ("HorizontalPodAutoscaler", "drover-scheduler"),
            "/spec/minReplicas",
            json!(11),
            "within its bounds",
        ),
        mistake(
            ("PodMonitor", "drover"),
            "/spec/namespaceSelector/matchNames",
            json!(["drover"]),
            "does not read all pods",
        ),
        mistake(
            ("PodMonitor", "drover"),
            "/spec/podMetricsEndpoints/0/port",
            json!("http"),
            "not all pods have its port",
        ),
        mistake(
            ("PodMonitor", "drover"),
            "/spec/podMetricsEndpoints/0/honorLabels",
            Value::Null,
            "renames labels",
        ),
        mistake(("PodMonitor", "drover"), "/spec/endpoints", json!([]), "unknown field endpoints"),
        mistake(
            ("ServiceMonitor", "drover-api"),
            "/spec/endpoints/0/port",
            json!("metrics"),
            "has no such port",
        ),
        mistake(
            ("NetworkPolicy", "drover-api"),
            "/spec/podSelector/matchLabels/app.kubernetes.io~1component",
            json!("web"),
            "selects no pods",
        ),
        mistake(
            ("NetworkPolicy", "drover-api"),
            "/spec/policyTypes",
            json!(["Egress"]),
            "its rules for Ingress have no effect",
        ),
        mistake(
            ("NetworkPolicy", "drover-default-deny"),
            "/spec/policyTypes",
            json!(["Egress"]),
            "no policy restricts both directions",
        ),
        mistake(
            ("NetworkPolicy", "drover-api"),
            "/spec/ingress/0/ports/0/port",
            json!(4647),
            "on which no container listens",
        ),
        mistake(("NetworkPolicy", "drover-api"), "/spec/ingress/0/ports", Value::Null, "opens all ports"),
        mistake(("NetworkPolicy", "drover-servers"), "/spec/egress", json!([]), "does not reach PostgreSQL"),
        mistake(
            ("NetworkPolicy", "drover-agent"),
            "/spec/egress/0/ports",
            Value::Null,
            "it reaches PostgreSQL",
        ),
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
        Value::Array(list) => {
            list[name.parse::<usize>().expect("the last part of the pointer is an index")] = to.clone()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            panic!("the parent of {pointer} is not a map or list")
        }
    }
}

#[test]
fn rules_find_what_the_schemas_let_pass() {
    let whole = set(&["everything/drover.yaml"]);
    for Mistake { object: (kind, name), pointer, to, fault } in mistakes() {
        let mut objects = whole.clone();
        let found = objects.iter_mut().find(|object| object.kind() == kind && object.name() == name);
        let object = found.unwrap_or_else(|| panic!("no {kind} {name}"));
        change(&mut object.0, &pointer, &to);
        let faults: Vec<_> = rules::RULES.iter().flat_map(|rule| rule(&objects)).collect();
        assert!(
            faults.iter().any(|reported| reported.contains(fault)),
            "{kind} {name} with {pointer} = {to}: expected {fault:?}, found\n  {}",
            faults.join("\n  ")
        );
    }
}
