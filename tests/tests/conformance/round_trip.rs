//! Every recorded state passes through the API's types, the model, a message and the state, and is encoded as the same
//! JSON again.

use std::collections::BTreeMap;

use model::change::ChangeSet;
use model::job::Job;
use serde::Serialize;
use serde_json::Value;
use state::State;
use tests::recorded::{Case, cases};

use tests::conformance::json::without_zeros;

#[test]
fn every_recorded_state_comes_back_as_it_was() {
    let mut seen = 0;
    for case in cases() {
        let changes = case.changes();
        let message = rmp_serde::to_vec_named(&changes).expect("change sets can be encoded as MessagePack");
        let received: ChangeSet =
            rmp_serde::from_slice(&message).expect("an encoded change set can be decoded");
        assert!(received == changes, "{}: the decoded change set differs", case.name);

        let mut state = State::default();
        state.load(&received).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        check(&case, &state);
        seen += 1;
    }
    assert!(seen > 1_000, "only {seen} recorded states were found");
}

#[test]
fn the_evaluation_to_process_comes_back_as_it_was() {
    for case in cases() {
        if let Some(eval) = case.eval() {
            let back = serde_json::to_value(eval.to_api()).expect("an evaluation can be encoded as JSON");
            assert_eq!(without_zeros(&back), without_zeros(&case.json["eval"]), "{}", case.name);
        }
    }
}

fn check(case: &Case, state: &State) {
    compare(case, "nodes", state.nodes().map(|node| node.node().to_api()));
    compare(case, "jobs", jobs(state).map(|job| job.to_api()));
    compare(case, "deployments", state.deployments().map(|deployment| deployment.to_api()));
    compare(case, "evals", state.evals().map(|eval| eval.to_api()));
    compare(case, "node_pools", state.node_pools().map(|pool| pool.to_api()));
    compare(case, "namespaces", state.namespaces().map(|namespace| namespace.to_api()));
    compare(case, "host_volumes", state.host_volumes().map(|volume| volume.to_api()));
    compare(case, "csi_volumes", state.csi_volumes().map(|volume| volume.to_api()));
    compare(case, "volume_claims", state.volume_claims().map(|claim| claim.to_api()));

    let mut allocs = case.objects("allocs").to_vec();
    for alloc in &mut allocs {
        // The records leave it out where it follows from the state, but a dump always has it.
        alloc["JobCreateIndex"] = case.job_of(alloc).create_index.0.into();
    }
    compare_with(case, "allocs", &allocs, state.allocs_in(..).map(|alloc| alloc.to_allocation().to_dump()));

    let config = state.scheduler_config().map(|config| {
        serde_json::to_value(config.to_api()).expect("the configuration can be encoded as JSON")
    });
    let recorded = case.json["state"].get("scheduler_config");
    assert_eq!(config.as_ref().map(without_zeros), recorded.map(without_zeros), "{}", case.name);
}

/// All versions of all jobs, including those that only allocations refer to.
fn jobs(state: &State) -> impl Iterator<Item = Job> {
    let registered = state.jobs().flat_map(|job| state.job_versions(&job.key()));
    let embedded = state.allocs_in(..).map(|alloc| alloc.job());
    let jobs: BTreeMap<_, _> =
        registered.chain(embedded).map(|job| (job.version_key(), Job::clone(job))).collect();
    jobs.into_values()
}

fn compare<T: Serialize>(case: &Case, kind: &str, objects: impl Iterator<Item = T>) {
    compare_with(case, kind, case.objects(kind), objects);
}

fn compare_with<T: Serialize>(case: &Case, kind: &str, recorded: &[Value], objects: impl Iterator<Item = T>) {
    let back = objects.map(|object| serde_json::to_value(object).expect("an object can be encoded as JSON"));
    let (back, recorded) = (by_name(back), by_name(recorded.iter().cloned()));
    assert!(back.keys().eq(recorded.keys()), "{}: {kind}: other objects than recorded", case.name);
    for (name, recorded) in recorded {
        assert_eq!(back[&name], recorded, "{}: {kind} {name:?}", case.name);
    }
}

/// Objects by their identifying members.
fn by_name(objects: impl Iterator<Item = Value>) -> BTreeMap<(String, u64, u64), Value> {
    let named = objects.map(|object| {
        let name = object["ID"].as_str().or(object["Name"].as_str()).expect("an object has a name");
        let number = |member: &str| object[member].as_u64().unwrap_or(0);
        ((name.to_owned(), number("CreateIndex"), number("Version")), without_zeros(&object))
    });
    named.collect()
}
