//! A new version of a service is rolled out one allocation at a time, or after its canaries; a failing version stops with a
//! reason, or makes way for the stable one. An ineligible node gets no work, and garbage is collected.

use serde_json::{Value, json};
use tests::harness::api::{array, text};
use tests::harness::{Cluster, jobs};

use crate::BINARY;

const SECOND: i64 = 1_000_000_000;

/// A job with five tasks of the mock driver that are replaced one at a time, and are healthy after running for a
/// moment.
fn five(id: &str) -> Value {
    let mut job = jobs::mock_service(id, 5);
    let group = &mut job["Job"]["TaskGroups"][0];
    group["RestartPolicy"] = json!({ "Attempts": 0, "Mode": "fail" });
    group["ReschedulePolicy"] = json!({ "Attempts": 0, "Unlimited": false });
    group["Update"] = json!({
        "MaxParallel": 1,
        "HealthCheck": "task_states",
        "MinHealthyTime": SECOND / 5,
        "HealthyDeadline": 20 * SECOND,
        "ProgressDeadline": 60 * SECOND,
    });
    job
}

/// Waits until the deployment of a job version has ended.
async fn wait_until_deployed(cluster: &Cluster, job: &str, version: u64) -> Value {
    cluster
        .wait_until(&format!("the deployment of version {version} of {job} has ended"), async |cluster| {
            let latest = cluster.api.try_get(&format!("/v1/job/{job}/deployment")).await.ok()?;
            let is_over = matches!(text(&latest, "Status"), "successful" | "failed");
            (latest["JobVersion"] == version && is_over).then_some(latest)
        })
        .await
}

/// The allocations of a job version, the oldest first.
async fn of_version(cluster: &Cluster, job: &str, version: u64) -> Vec<Value> {
    let mut allocs = cluster.allocs(job).await;
    allocs.retain(|alloc| alloc["JobVersion"] == version);
    allocs.sort_by_key(|alloc| alloc["CreateIndex"].as_u64());
    allocs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_takes_over_one_at_a_time_and_one_that_fails_stops() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let mut job = five("web");
    cluster.api.put("/v1/jobs", &job).await;
    let first = wait_until_deployed(&cluster, "web", 0).await;
    assert_eq!(text(&first, "StatusDescription"), "Deployment completed successfully");
    assert_eq!(first["TaskGroups"]["group"]["HealthyAllocs"], 5);

    let task = |job: &mut Value, key: &str, value: Value| {
        job["Job"]["TaskGroups"][0]["Tasks"][0][key] = value;
    };
    task(&mut job, "Env", json!({ "VERSION": "1" }));
    cluster.api.put("/v1/jobs", &job).await;
    let second = wait_until_deployed(&cluster, "web", 1).await;
    assert_eq!(text(&second, "Status"), "successful", "{second}");
    let allocs = of_version(&cluster, "web", 1).await;
    assert_eq!(allocs.len(), 5);
    for pair in allocs.windows(2) {
        let healthy_at = pair[0]["DeploymentStatus"]["ModifyIndex"].as_u64();
        assert!(healthy_at.is_some() && healthy_at < pair[1]["CreateIndex"].as_u64(), "{pair:#?}");
    }
    assert_eq!(cluster.api.get("/v1/job/web").await["Stable"], true);

    task(&mut job, "Config", json!({ "run_for": "10ms", "exit_code": 1 }));
    cluster.api.put("/v1/jobs", &job).await;
    let third = wait_until_deployed(&cluster, "web", 2).await;
    assert_eq!(text(&third, "Status"), "failed");
    assert_eq!(text(&third, "StatusDescription"), "Failed due to unhealthy allocations");
    cluster
        .wait_until("no evaluation of the job is pending", async |cluster| {
            let evals = cluster.api.try_get("/v1/job/web/evaluations").await.ok()?;
            array(&evals).iter().all(|eval| text(eval, "Status") != "pending").then_some(())
        })
        .await;
    assert_eq!(of_version(&cluster, "web", 2).await.len(), 1, "the rollout stopped");
    let running =
        cluster.allocs("web").await.into_iter().filter(|alloc| text(alloc, "ClientStatus") == "running");
    assert_eq!(running.count(), 4, "the previous version continues");
    assert_eq!(array(&cluster.api.get("/v1/job/web/deployments").await).len(), 3);
    let of_third = format!("/v1/deployment/allocations/{}", text(&third, "ID"));
    assert_eq!(array(&cluster.api.get(&of_third).await).len(), 1);
    cluster.assert_alive();
}

/// A job with two such tasks, whose new versions begin with a canary if `canary`, and make way for the stable version if
/// they fail.
fn two(id: &str, canary: bool) -> Value {
    let mut job = five(id);
    let group = &mut job["Job"]["TaskGroups"][0];
    group["Count"] = json!(2);
    group["Update"]["AutoRevert"] = json!(true);
    group["Update"]["Canary"] = json!(i64::from(canary));
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_runs_beside_the_old_version_until_it_is_promoted() {
    // N-13.5, N-15.
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let mut job = two("web", true);
    cluster.api.put("/v1/jobs", &job).await;
    assert_eq!(text(&wait_until_deployed(&cluster, "web", 0).await, "Status"), "successful");
    job["Job"]["TaskGroups"][0]["Tasks"][0]["Env"] = json!({ "VERSION": "1" });
    cluster.api.put("/v1/jobs", &job).await;
    let waiting = cluster
        .wait_until("the canary is healthy", async |cluster| {
            let latest = cluster.api.try_get("/v1/job/web/deployment").await.ok()?;
            (latest["JobVersion"] == 1 && latest["TaskGroups"]["group"]["HealthyAllocs"] == 1)
                .then_some(latest)
        })
        .await;
    let description = "Deployment is running but requires manual promotion";
    assert_eq!(text(&waiting, "StatusDescription"), description);
    let is_running = |alloc: &&Value| text(alloc, "DesiredStatus") == "run";
    let [old, new] = [of_version(&cluster, "web", 0).await, of_version(&cluster, "web", 1).await];
    assert_eq!((old.iter().filter(is_running).count(), new.len()), (2, 1));
    assert_eq!(new[0]["DeploymentStatus"]["Canary"], true);
    assert_eq!(waiting["TaskGroups"]["group"]["PlacedCanaries"], json!([new[0]["ID"]]));

    let id = text(&waiting, "ID");
    let change = async |verb: &str, members: Value| {
        let mut body = json!({ "DeploymentID": id });
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        cluster.api.put(&format!("/v1/deployment/{verb}/{id}"), &body).await
    };
    assert_eq!(change("pause", json!({ "Pause": true })).await["EvalID"], "");
    assert_eq!(cluster.api.get(&format!("/v1/deployment/{id}")).await["Status"], "paused");
    assert_ne!(change("pause", json!({ "Pause": false })).await["EvalID"], "");
    assert_ne!(change("promote", json!({ "All": true })).await["EvalID"], "");
    let promoted = wait_until_deployed(&cluster, "web", 1).await;
    assert_eq!(text(&promoted, "Status"), "successful", "{promoted}");
    assert_eq!(promoted["TaskGroups"]["group"]["Promoted"], true);
    let allocs = of_version(&cluster, "web", 1).await;
    assert_eq!(allocs.iter().filter(is_running).count(), 2);
    assert!(allocs.iter().all(|alloc| alloc["DeploymentStatus"]["Canary"] == false), "{allocs:#?}");
    cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_fails_makes_way_for_the_stable_one() {
    // N-14.9, R-7.97.
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let mut job = two("web", false);
    cluster.api.put("/v1/jobs", &job).await;
    assert_eq!(text(&wait_until_deployed(&cluster, "web", 0).await, "Status"), "successful");
    let config = job["Job"]["TaskGroups"][0]["Tasks"][0]["Config"].clone();
    job["Job"]["TaskGroups"][0]["Tasks"][0]["Config"] = json!({ "run_for": "10ms", "exit_code": 1 });
    cluster.api.put("/v1/jobs", &job).await;
    let third = wait_until_deployed(&cluster, "web", 2).await;
    assert_eq!(text(&third, "Status"), "successful", "{third}");
    let current = cluster.api.get("/v1/job/web").await;
    assert_eq!((&current["Version"], &current["Stable"]), (&json!(2), &json!(true)));
    assert_eq!(current["TaskGroups"][0]["Tasks"][0]["Config"], config);
    let deployments = cluster.api.get("/v1/job/web/deployments").await;
    let second = array(&deployments).iter().find(|one| one["JobVersion"] == 1).expect("it had a deployment");
    let text_of_second = "Failed due to unhealthy allocations - rolling back to job version 0";
    assert_eq!((text(second, "Status"), text(second, "StatusDescription")), ("failed", text_of_second));
    cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_eligibility_gets_no_work_and_garbage_goes() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let nodes = cluster.api.get("/v1/nodes").await;
    let node = format!("/v1/node/{}", text(&array(&nodes)[0], "ID"));
    let set = async |eligibility: &str| {
        cluster.api.put(&format!("{node}/eligibility"), &json!({ "Eligibility": eligibility })).await
    };
    set("ineligible").await;
    cluster.api.put("/v1/jobs", &jobs::mock_service("late", 1)).await;
    cluster
        .wait_until("the job waits for a node", async |cluster| {
            let evals = cluster.api.try_get("/v1/job/late/evaluations").await.ok()?;
            array(&evals).iter().any(|eval| text(eval, "Status") == "blocked").then_some(())
        })
        .await;
    set("eligible").await;
    cluster.wait_for_alloc("late", "running").await;
    let events = cluster.api.get(&node).await["Events"].clone();
    let has_event = |words: &str| array(&events).iter().any(|event| text(event, "Message") == words);
    assert!(
        has_event("Node marked as ineligible for scheduling")
            && has_event("Node marked as eligible for scheduling")
    );

    cluster.api.delete("/v1/job/late").await;
    cluster.wait_for_alloc("late", "complete").await;
    cluster
        .wait_until("the job and its objects are deleted", async |cluster| {
            let (status, _) = cluster.api.send(reqwest::Method::PUT, "/v1/system/gc", "").await;
            assert_eq!(status, 200);
            let (status, _) = cluster.api.send(reqwest::Method::GET, "/v1/job/late", "").await;
            (status == 404 && cluster.sql("select id from allocs union select id from evals").is_empty())
                .then_some(())
        })
        .await;
    cluster.assert_alive();
}
