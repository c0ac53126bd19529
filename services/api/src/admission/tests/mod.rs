//! Tests against recorded responses of the reference, and of the checks that only Drover has.

mod fields;

use std::sync::Arc;

use api_types::{Job, JobRegisterRequest};
use model::Index;
use model::change::Change;
use model::cluster::{Namespace, SchedulerConfig};
use model::job::ServiceProvider;
use serde::Deserialize;
use serde_json::{Value, json};
use state::State;

use super::*;
use crate::http::Error;
use crate::testing::state_of;

pub(super) const RULES: Rules = Rules {
    priority_default: 50,
    priority_max: 100,
    count_max: 50_000,
    source_bytes_max: 1_000_000,
    service_provider: ServiceProvider::Consul,
};

/// A recorded registration.
#[derive(Deserialize)]
struct Recorded {
    #[serde(rename = "do")]
    request: String,
    body: JobRegisterRequest,
    status: u16,
    text: Option<String>,
}

fn recorded() -> Vec<Recorded> {
    let lines = include_str!("../../../../../tests/data/http/register-errors.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Status and error text of a registration.
fn outcome(mut job: Job, state: &State) -> (u16, Option<String>) {
    job.region.get_or_insert_with(|| DEFAULT_REGION.to_owned());
    job.namespace.get_or_insert_with(|| Namespace::DEFAULT.to_owned());
    if let Err(error) = weights_fit(&job) {
        return (400, Some(error));
    }
    fill_defaults(&mut job, &RULES);
    match admit(&job, state, &RULES) {
        Ok(_) => (200, None),
        Err(rejection) => {
            let error = Error::from(rejection);
            (error.status.as_u16(), Some(error.text))
        }
    }
}

/// Whether the case depends on the HTTP handler, has an error text of our own, or uses a feature that is not built.
fn is_out_of_scope(recorded: &Recorded) -> bool {
    let job = recorded.body.job.as_ref();
    let by_handler = job.is_none_or(|job| job.id.is_none() || job.region.as_deref() == Some("nowhere"))
        || recorded.request != "PUT /v1/jobs"
        || recorded.body.eval_priority.is_some_and(|priority| priority != 0);
    let text = recorded.text.as_deref().unwrap_or_default();
    let other_words = ["json: cannot", "Regular expression", "system do not support scaling"];
    let accepts_too_much =
        job.is_some_and(|job| job.task_groups.iter().flatten().any(|group| group.volumes.is_some()));
    by_handler || accepts_too_much || other_words.iter().any(|words| text.contains(words))
}

#[test]
fn registrations_are_judged_as_the_reference_judges_them() {
    let state = state_of(Vec::new());
    let mut compared = 0;
    for recorded in recorded() {
        if is_out_of_scope(&recorded) {
            continue;
        }
        let job = recorded.body.job.unwrap();
        let (status, text) = outcome(job.clone(), &state);
        assert_eq!((status, text), (recorded.status, recorded.text), "{job:?}");
        compared += 1;
    }
    assert!(compared > 25, "{compared}");
}

/// Whether a job has services, whose texts have tests of their own.
fn has_services(job: &Job) -> bool {
    let groups = items(&job.task_groups);
    let tasks = groups.iter().flat_map(|group| items(&group.tasks));
    let of_groups = groups.iter().flat_map(|group| items(&group.services));
    of_groups.chain(tasks.flat_map(|task| items(&task.services))).next().is_some()
}

/// http-api, appendix E.
#[test]
fn validations_read_as_those_of_the_reference() {
    let state = state_of(Vec::new());
    let (mut compared, mut faults) = (0, Vec::new());
    for line in include_str!("../../../../../tests/data/scenes/jobs.jsonl").lines() {
        let scene: Value = serde_json::from_str(line).unwrap();
        for (step, recorded) in scene["steps"].as_array().into_iter().flatten().enumerate() {
            let wanted = &recorded["want"]["json"];
            let (Some(error), Some(warned)) = (wanted["Error"].as_str(), wanted["Warnings"].as_str()) else {
                continue;
            };
            let body = recorded["body"]["Job"].to_string();
            let mut job: Job = api_types::decode::from_slice(body.as_bytes()).unwrap();
            job.region.get_or_insert_with(|| DEFAULT_REGION.to_owned());
            job.namespace.get_or_insert_with(|| Namespace::DEFAULT.to_owned());
            let warnings = warnings(&job, &state).to_string();
            fill_defaults(&mut job, &RULES);
            if has_services(&job) || !not_built(&job).is_empty() {
                continue;
            }
            compared += 1;
            let problems = check(&job, &state, &RULES).err().map(|invalid| invalid.problems.to_string());
            let got = (problems.unwrap_or_default(), warnings);
            if (got.0.as_str(), got.1.as_str()) != (error, warned) {
                faults.push(format!(
                    "{}, {step}:\n  expected {error:?} {warned:?}\n  got {got:?}",
                    scene["scene"]
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{} of {compared}\n{}", faults.len(), faults.join("\n"));
    assert!(compared > 60, "{compared}");
}

fn job(text: &str) -> Job {
    let task = r#"{"Name": "t", "Driver": "raw_exec"}"#;
    let text = text.replace("TASK", task);
    api_types::decode::from_slice(text.as_bytes()).unwrap()
}

fn status(text: &str) -> u16 {
    outcome(job(text), &state_of(Vec::new())).0
}

#[test]
fn unbuilt_features_are_refused_by_name() {
    let state = state_of(Vec::new());
    let text = |text: &str| outcome(job(text), &state).1.unwrap_or_default();
    let job = r#"{"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [
        {"Name": "t", "Driver": "raw_exec", "Artifacts": [{"GetterSource": "s3::https://example.org/a"}],
         "Resources": {"NUMA": {"Affinity": "require"}}}]}]}"#;
    let nested = text(job);
    for named in ["artifacts by s3", "NUMA settings"] {
        assert!(nested.contains(named), "{nested}");
    }
    assert_eq!(status(job), 501);
}

#[test]
fn bridge_networks_ask_for_nodes_with_their_plugins() {
    let own = json!({ "LTarget": "${attr.plugins.cni.version.portmap}", "Operand": "version", "RTarget": ">= 1.0" });
    let group = |name: &str, mode: &str| {
        json!({
            "Name": name, "Networks": [{ "Mode": mode }], "Constraints": [own],
            "Tasks": [{ "Name": "t", "Driver": "raw_exec" }],
        })
    };
    let groups = json!([group("g", "bridge"), group("h", "none"), group("i", "cni/lan")]);
    let mut job = job(&json!({ "ID": "a", "TaskGroups": groups }).to_string());
    fill_defaults(&mut job, &RULES);
    let once = job.clone();
    fill_defaults(&mut job, &RULES);
    assert_eq!(job, once, "a job with its implied constraints stays as it is");
    let [bridge, none, cni] = items(&job.task_groups) else { panic!("three groups") };
    let targets = |group: &api_types::TaskGroup| -> Vec<String> {
        let constraints = items(&group.constraints).iter();
        constraints
            .map(|constraint| format!("{} {}", text(&constraint.l_target), text(&constraint.r_target)))
            .collect()
    };
    let attribute = |name: &str, value: &str| format!("${{attr.plugins.cni.version.{name}}} {value}");
    let expected = [
        attribute("portmap", ">= 1.0"),
        attribute("bridge", ">= 0.4.0"),
        attribute("firewall", ">= 0.4.0"),
        attribute("host-local", ">= 0.4.0"),
        attribute("loopback", ">= 0.4.0"),
    ];
    assert_eq!(targets(bridge), expected, "the job's own constraint counts");
    assert_eq!(targets(none), expected[..1]);
    assert_eq!(targets(cni), expected[..1]);
}

// http-api, appendix E
#[test]
fn what_the_mode_of_a_network_cannot_use_is_no_warning() {
    let warned = |network: serde_json::Value| {
        let groups =
            json!([{ "Name": "g", "Networks": [network], "Tasks": [{ "Name": "t", "Driver": "raw_exec" }] }]);
        let job = job(&json!({ "ID": "a", "TaskGroups": groups }).to_string());
        warnings(&job, &state_of(Vec::new())).to_string()
    };
    for mode in ["", "host", "none", "bridge", "cni/mynet"] {
        let all = json!({ "Mode": mode, "Hostname": "web", "DNS": { "Servers": ["1.1.1.1"] }, "CNI": { "Args": { "a": "b" } } });
        assert_eq!(warned(all), "", "{mode}");
    }
    assert!(warned(json!({ "Mode": "host", "MBits": 1 })).contains("mbits has been deprecated"));
}

#[test]
fn signals_ask_for_nodes_that_know_them() {
    let task = |name: &str, signal: &str| json!({ "Name": name, "Driver": "raw_exec", "KillSignal": signal });
    let tasks = [task("a", "SIGTERM"), task("b", "SIGHUP"), task("c", "SIGTERM"), task("d", "")];
    let groups = json!([{ "Name": "g", "Tasks": tasks }, { "Name": "h", "Tasks": [task("t", "")] }]);
    let mut job = job(&json!({ "ID": "a", "TaskGroups": groups }).to_string());
    fill_defaults(&mut job, &RULES);
    let once = job.clone();
    fill_defaults(&mut job, &RULES);
    assert_eq!(job, once, "a job with its implied constraints stays as it is");
    let [with, without] = items(&job.task_groups) else { panic!("two groups") };
    let [implied] = items(&with.constraints) else { panic!("{:?}", with.constraints) };
    assert_eq!((text(&implied.l_target), text(&implied.r_target)), ("${attr.os.signals}", "SIGHUP,SIGTERM"));
    assert_eq!(text(&implied.operand), "set_contains");
    assert_eq!(items(&without.constraints), []);
}

#[test]
fn invalid_values_are_reported_before_unbuilt_features() {
    assert_eq!(status(r#"{"ID": "a", "Type": "system"}"#), 500);
}

#[test]
fn a_job_with_every_number_out_of_bounds_is_refused() {
    for (path, number) in
        [("Count", i64::MAX), ("Count", i64::MIN), ("ShutdownDelay", i64::MIN), ("MaxRunDuration", -1)]
    {
        let text =
            format!(r#"{{"ID": "a", "TaskGroups": [{{"Name": "g", "{path}": {number}, "Tasks": [TASK]}}]}}"#);
        assert_eq!(status(&text), 500, "{text}");
    }
    for (path, number) in [("CPU", 1_i64 << 40), ("MemoryMB", i64::MAX), ("CPU", -1), ("MemoryMB", i64::MIN)]
    {
        let text = format!(
            r#"{{"ID": "a", "TaskGroups": [{{"Name": "g", "Tasks": [{{"Name": "t", "Driver": "raw_exec", "Resources": {{"{path}": {number}}}}}]}}]}}"#
        );
        assert_eq!(status(&text), 500, "{text}");
    }
}

#[test]
fn ids_and_names_that_could_lead_elsewhere_are_refused() {
    let long = "a".repeat(1_025);
    assert_eq!(
        status(&format!(r#"{{"ID": "{long}", "TaskGroups": [{{"Name": "g", "Tasks": [TASK]}}]}}"#)),
        500
    );
    assert_eq!(status(r#"{"ID": "a\u0000b", "TaskGroups": [{"Name": "g", "Tasks": [TASK]}]}"#), 500);
    for name in ["alloc", "a/b", "..", "a\\\\b", "a\\u0000"] {
        let text = format!(
            r#"{{"ID": "a", "TaskGroups": [{{"Name": "g", "Tasks": [{{"Name": "{name}", "Driver": "raw_exec"}}]}}]}}"#
        );
        assert_eq!(status(&text), 500, "{text}");
    }
}

#[test]
fn a_good_job_is_admitted_with_its_defaults() {
    let mut job = job(r#"{"ID": "web/a", "Priority": 0, "ParentID": "x", "Dispatched": true,
        "TaskGroups": [{"Name": "g", "Count": 3, "Tasks": [TASK]}]}"#);
    (job.region, job.namespace) = (Some("global".to_owned()), Some("default".to_owned()));
    fill_defaults(&mut job, &RULES);
    let spec = admit(&job, &state_of(Vec::new()), &RULES).unwrap();
    assert_eq!((&*spec.id, &*spec.name, &*spec.node_pool), ("web/a", "web/a", "default"));
    assert_eq!((spec.priority, spec.task_groups[0].count), (50, 3));
    assert_eq!((&*spec.parent_id, spec.dispatched), ("", false));
    assert_eq!(*spec.datacenters, ["*"]);
}

#[test]
fn a_job_may_not_become_what_it_is_not() {
    let batch = job(r#"{"ID": "a", "Type": "batch", "Namespace": "default"}"#);
    let stored = model::job::Job::from_api(batch).unwrap();
    let stored = model::job::Job { create_index: Index(1), ..stored };
    let state = state_of(vec![Change::Job(Arc::new(stored))]);
    let service = job(r#"{"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [TASK]}]}"#);
    let (status, text) = outcome(service, &state);
    assert_eq!(status, 500);
    assert_eq!(text.unwrap(), r#"cannot update job from type "batch" to "service""#);
}

/// The setting `reject_job_registration` rejects jobs of non-management tokens only (R-11.10). Without access control every
/// caller counts as management.
#[test]
fn switched_off_registrations_leave_management_alone() {
    let config = SchedulerConfig { reject_job_registration: true, ..SchedulerConfig::default() };
    let state = state_of(vec![Change::SchedulerConfig(config)]);
    let good = job(r#"{"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [TASK]}]}"#);
    assert_eq!(outcome(good, &state).0, 200);
}

#[test]
fn a_namespace_may_forbid_drivers_and_networks() {
    let capabilities = api_types::NamespaceCapabilities {
        disabled_task_drivers: Some(vec!["raw_exec".to_owned()]),
        enabled_network_modes: Some(vec!["none".to_owned()]),
        ..api_types::NamespaceCapabilities::default()
    };
    let namespace =
        Namespace { name: "default".into(), capabilities: Some(capabilities), ..Namespace::default() };
    let state = state_of(vec![Change::Namespace(Box::new(namespace))]);
    let job = job(r#"{"ID": "a", "TaskGroups": [{"Name": "g", "Networks": [{}], "Tasks": [TASK]}]}"#);
    let (status, text) = outcome(job, &state);
    let text = text.unwrap();
    assert_eq!(status, 500);
    assert!(text.contains("used task driver \"raw_exec\" is not allowed in namespace \"default\""), "{text}");
    assert!(text.contains("used group network mode \"host\" is not allowed"), "{text}");
}

/// http-api, appendix E: a job's own warnings, then those of its groups and their tasks, then those about memory.
#[test]
fn warnings_name_what_has_no_effect() {
    let state = state_of(Vec::new());
    let quiet = job(
        r#"{"ID": "a", "Update": {"MaxParallel": 9}, "TaskGroups": [{"Name": "g", "MaxClientDisconnect": 1, "Tasks": [TASK]}]}"#,
    );
    assert_eq!(warnings(&quiet, &state).to_string(), "");
    let loud = job(r#"{"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "raw_exec",
            "Resources": {"MemoryMB": 20, "MemoryMaxMB": 40, "IOPS": 1}}]}]}"#);
    assert_eq!(
        warnings(&loud, &state).to_string(),
        "2 warnings:\n\n* Group \"g\" has warnings: 1 error occurred:\n\t* Task \"t\" has warnings: 1 error occurred:\n\t\
         * IOPS has been deprecated as of Nomad 0.9.0. Please remove IOPS from resource block.\n\n\n\n\n\
         * Memory oversubscription is not enabled; Task \"g.t\" memory_max value will be ignored. Update the \
         Scheduler Configuration to allow oversubscription."
    );
}

/// The error text of a job with one task of `raw_exec`, with this configuration; empty if it is accepted.
fn refusal_of_config(config: &Value, count: u32) -> String {
    let tasks = json!([{ "Name": "t", "Driver": "raw_exec", "Config": config }]);
    let groups = json!([{ "Name": "g", "Count": count, "Tasks": tasks }]);
    let job = job(&json!({ "ID": "a", "TaskGroups": groups }).to_string());
    outcome(job, &state_of(Vec::new())).1.unwrap_or_default()
}

// A-22.3
#[test]
fn a_configuration_that_no_driver_can_read_is_refused() {
    let unknown = json!({ "command": "true", "arg": ["a"] });
    let refused = refusal_of_config(&unknown, 1);
    for part in
        ["Task group g ", "Task t ", "driver raw_exec: config: unknown key \"arg\"; the keys are args, "]
    {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let refused = refusal_of_config(&json!({ "command": ["true"] }), 1);
    assert!(refused.contains("command: expected a string, not a list"), "{refused}");
    assert_eq!(refusal_of_config(&json!({ "command": "${NOMAD_META_x}", "args": ["a"] }), 1), "");
    assert_eq!(refusal_of_config(&unknown, 0), "", "none of its tasks starts");
}

// N-16.1
#[test]
fn a_job_of_this_region_is_accepted_and_one_of_others_is_refused_by_name() {
    let with_regions = |regions: Value| {
        let groups = json!([{ "Name": "g", "Tasks": [{ "Name": "t", "Driver": "raw_exec" }] }]);
        let regions = json!({ "Regions": regions });
        let job = job(&json!({ "ID": "a", "Multiregion": regions, "TaskGroups": groups }).to_string());
        outcome(job, &state_of(Vec::new()))
    };
    assert_eq!(with_regions(json!([{ "Name": DEFAULT_REGION }])), (200, None));
    let (status, text) = with_regions(json!([{ "Name": DEFAULT_REGION }, { "Name": "west" }]));
    assert_eq!(status, 501);
    assert!(text.is_some_and(|text| text.contains("region \"west\"")));
    assert_eq!(with_regions(json!([])).0, 500);
}
