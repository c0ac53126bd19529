//! Does a recorded cluster state get the plan that a correct scheduler makes?
//!
//! Evaluations of service and batch jobs. A case whose job needs what is not built says so by itself ([`UNBUILT`]); others
//! that cannot agree are told by what they expect ([`expects_deployment`]) or by name ([`DIFFERENT`]), and must differ.

#[path = "schedule/compare.rs"]
mod compare;
#[path = "schedule/ran.rs"]
mod ran;

use std::collections::BTreeMap;

use model::job::JobType;
use tests::recorded::{Case, cases};

/// How many cases need what the scheduler says that it does not know yet.
const UNBUILT: [(&str, u32); 13] = [
    ("a network of a task", 11),
    ("canaries", 15),
    ("cores", 13),
    ("deployments", 84),
    ("devices", 41),
    ("disconnect", 48),
    ("distinct_hosts", 68),
    ("distinct_property", 19),
    ("multiregion", 1),
    ("preemption", 44),
    ("reconnecting", 68),
    ("spread", 46),
    ("volumes", 32),
];

/// Cases with another plan than the recorded one, and why ours is right.
const DIFFERENT: [(&str, &str); 3] = [
    ("placement/network-17", "a network may stand in either list of a node's networks (R-5.22)"),
    ("reschedule/counts-01", "what stops is not rescheduled later as well (R-7.59)"),
    ("reschedule/state-05", "a tracker without events does not use up attempts (R-7.56)"),
];

#[test]
fn recorded_cases_get_their_plans() {
    let mut unbuilt: BTreeMap<String, u32> = BTreeMap::new();
    let (mut agreed, mut faults) = (0, Vec::new());
    for case in cases() {
        let Some(eval) = case.eval() else { continue };
        if !matches!(eval.kind, JobType::Service | JobType::Batch) {
            continue;
        }
        let ran = match ran::run(&case, eval) {
            Ok(ran) => ran,
            Err(what) => {
                *unbuilt.entry(what).or_default() += 1;
                continue;
            }
        };
        let differences = compare::differences(&case, &ran);
        let reason = DIFFERENT.iter().find(|(name, _)| *name == case.name).map(|(_, reason)| *reason);
        let reason = reason.or(expects_deployment(&case).then_some("no deployments are made"));
        match (differences.is_empty(), reason) {
            (true, None) => agreed += 1,
            (false, Some(_)) => {}
            (false, None) if ran.untried.is_some() => {
                *unbuilt.entry(ran.untried.unwrap_or_default()).or_default() += 1;
            }
            (true, Some(reason)) => faults.push(format!("{} agrees, although {reason}", case.name)),
            (false, None) => {
                let about = &case.json["about"];
                faults.push(format!("{}, {about}:\n    {}", case.name, differences.join("\n    ")));
            }
        }
    }
    assert!(faults.is_empty(), "{agreed} cases agree, but\n{}", faults.join("\n"));
    assert!(agreed > 400, "only {agreed} cases were compared");
    let unbuilt: Vec<(&str, u32)> = unbuilt.iter().map(|(what, cases)| (what.as_str(), *cases)).collect();
    assert_eq!(unbuilt, UNBUILT, "what is not built; if something now is, take it off the list");
}

/// Whether the recorded plan begins a deployment, or goes on with one.
fn expects_deployment(case: &Case) -> bool {
    let plans = case.json["expect"]["plans"].as_array().into_iter().flatten();
    plans.into_iter().any(|plan| plan.get("deployment").is_some())
}
