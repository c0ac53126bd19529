//! Tests of writes: which requests become commands, and which are rejected before.

use model::Index;
use serde_json::json;
use wire::command::Command;
use wire::{Refusal, RefusalKind};

use super::harness::{Harness, Response};

const JOB: &str = r#"{"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 2,
    "Tasks": [{"Name": "t", "Driver": "raw_exec"}]}]}}"#;

#[actix_web::test]
async fn a_registration_is_a_command_and_reads_see_it() {
    let harness = Harness::with(Vec::new()).await;
    let got = harness.put("/v1/jobs", JOB).await;
    let answer = got.json();
    assert_eq!(answer["EvalID"].as_str().unwrap().len(), 36);
    assert_eq!(
        (&answer["EvalCreateIndex"], &answer["JobModifyIndex"], &answer["Index"]),
        (&json!(3), &json!(3), &json!(3))
    );
    assert_eq!((&answer["Warnings"], &answer["KnownLeader"]), (&json!(""), &json!(false)));
    assert_eq!(got.header("x-nomad-index"), "3");
    assert_eq!(got.header("x-nomad-knownleader"), "");

    let job = harness.get("/v1/job/web").await.json();
    assert_eq!(job["TaskGroups"][0]["Count"], 2);
    assert_eq!(job["Datacenters"], json!(["*"]));
    let stub = &harness.get("/v1/jobs").await.json()[0];
    assert_eq!((&stub["ID"], &stub["Type"]), (&json!("web"), &json!("service")));
    let versions = harness.get("/v1/job/web/versions").await.json();
    assert_eq!((versions["Versions"].as_array().unwrap().len(), &versions["Diffs"]), (1, &json!(null)));
}

#[actix_web::test]
async fn a_dry_run_says_what_would_come_of_a_registration_and_writes_nothing() {
    let harness = Harness::with(Vec::new()).await;
    let new = harness.put("/v1/job/web/plan", &JOB.replacen('{', r#"{"Diff": true, "#, 1)).await;
    assert_eq!(new.header("x-nomad-index"), "0");
    let new = new.json();
    assert_eq!((&new["JobModifyIndex"], &new["Diff"]["Type"]), (&json!(0), &json!("Added")));
    assert_eq!(new["Annotations"]["DesiredTGUpdates"]["g"]["Place"], 2);
    assert_eq!(new["FailedTGAllocs"]["g"]["CoalescedFailures"], 1, "there is no node");
    assert_eq!(new["CreatedEvals"][0]["Status"], "blocked");
    assert!(harness.applier.commands.lock().unwrap().is_empty());

    harness.put("/v1/jobs", JOB).await;
    let fewer = JOB.replace(r#""Count": 2"#, r#""Count": 1"#);
    let fewer = harness.put("/v1/job/web/plan", &fewer.replacen('{', r#"{"Diff": true, "#, 1)).await.json();
    assert_eq!(fewer["JobModifyIndex"], 3);
    assert_eq!(
        fewer["Diff"]["TaskGroups"][0]["Fields"],
        json!([{ "Type": "Edited", "Name": "Count", "Old": "2", "New": "1", "Annotations": ["forces destroy"] }])
    );
    let without = harness.put("/v1/job/web/plan", JOB).await.json();
    assert_eq!(without["Diff"], json!(null));
    assert_eq!(harness.applier.commands.lock().unwrap().len(), 1, "only the registration");

    assert_eq!(fewer["CreatedEvals"][0]["JobModifyIndex"], 4, "the index of the changed job");
    for created in [&new["CreatedEvals"][0], &without["CreatedEvals"][0]] {
        assert!(created.is_object() && created.get("JobModifyIndex").is_none(), "{created}");
    }

    for (path, body, status, text) in [
        ("/v1/job/web/plan", "{}", 400, "Job must be specified"),
        ("/v1/job/web/plan", r#"{"Job": {}}"#, 400, "Job must have a valid ID"),
        ("/v1/job/other/plan", JOB, 400, "Job ID does not match"),
        ("/v1/job/a%20b/plan", r#"{"Job": {"ID": "a b"}}"#, 500, "2 errors occurred:"),
    ] {
        let got = harness.put(path, body).await;
        let error = got.error();
        assert!(error.0 == status && error.1.contains(text), "{path} {body}: {error:?}");
    }
}

#[actix_web::test]
async fn a_registrations_options_travel_along() {
    let harness = Harness::with(Vec::new()).await;
    let body = JOB.replacen(
        '{',
        r#"{"EnforceIndex": true, "JobModifyIndex": 0, "EvalPriority": 70, "PreserveCounts": true, "#,
        1,
    );
    assert_eq!(harness.put("/v1/job/web?namespace=default", &body).await.status, 200);
    let commands = harness.applier.commands.lock().unwrap();
    let [Command::RegisterJob(register)] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!(register.enforce_index, Some(Index(0)));
    assert_eq!(register.eval_priority, Some(70));
    assert!(register.preserve_counts && !register.preserve_resources);
}

#[actix_web::test]
async fn bad_bodies_never_become_commands() {
    let harness = Harness::with(Vec::new()).await;
    let many = format!(r#"{{"Job": {{"ID": "a", "TaskGroups": [{}]}}}}"#, vec!["{}"; 1_000].join(","));
    let large = format!(r#"{{"Job": {{"ID": "{}"}}}}"#, "x".repeat(100 << 10));
    for (body, status, text) in [
        ("", 400, "Request body is empty"),
        ("{}", 400, "Job must be specified"),
        ("null", 400, "Job must be specified"),
        (r#"{"Job": {}}"#, 400, "Job ID hasn't been provided"),
        ("{", 400, "EOF"),
        (r#"{"Job": {"ID": 7}}"#, 400, "Job.ID: invalid type"),
        (
            r#"{"Job": {"ID": "a", "TaskGroups": [{"Count": 1.5}]}}"#,
            400,
            "Job.TaskGroups[0].Count: invalid type",
        ),
        (
            r#"{"Job": {"ID": "a", "Spreads": [{"Weight": 500}]}}"#,
            400,
            "json: cannot unmarshal number 500 into Go struct field Spread.Job.Spreads.Weight of type int8",
        ),
        (r#"{"Job": {"ID": "a", "Region": "nowhere"}}"#, 500, "No path to region"),
        (r#"{"Job": {"ID": "a"}, "EvalPriority": 101}"#, 400, "Eval priority must be between 1 and 100"),
        (r#"{"Job": {"ID": "a b"}}"#, 500, "2 errors occurred:\n\t* Job ID contains a space"),
        (
            r#"{"Job": {"ID": "a", "Namespace": "none"}}"#,
            500,
            "1 error occurred:\n\t* job \"a\" is in nonexistent namespace \"none\"\n\n",
        ),
        (&many, 413, "request body holds more than 100 objects"),
        (&large, 413, "request body is larger than 65536 bytes"),
    ] {
        let got = harness.put("/v1/jobs", body).await;
        let (found, found_text) = got.error();
        assert_eq!(found, status, "{body:.100}: {found_text}");
        assert!(found_text.starts_with(text), "{body:.100}: {found_text}");
        assert_eq!(got.header("x-nomad-index"), "");
    }
    let got = super::harness::Response::new(
        harness.builder("PUT", "/v1/jobs").body(b"{\"Job\": \"\xff\"}".to_vec()),
    )
    .await;
    assert_eq!(got.error().0, 400);
    // http-api §11.1: what the reference checks before it forwards a request comes before the region.
    let bad_priority = JOB.replacen('{', r#"{"EvalPriority": -1, "#, 1);
    let scaling = r#"{"Job": {"ID": "b", "Type": "system", "TaskGroups": [{"Scaling": {}}]}}"#;
    for (path, body, status, text) in [
        ("/v1/job/other?region=x", JOB, 400, "Job ID does not match name"),
        ("/v1/job/other", r#"{"Job": {"ID": ""}}"#, 400, "Job ID does not match name"),
        ("/v1/job/a?region=x", scaling, 400, "Job ID does not match name"),
        ("/v1/jobs?region=x", scaling, 400, "Task groups with job type system do not support scaling blocks"),
        ("/v1/jobs?region=x", &bad_priority, 400, "Eval priority must be between 1 and 100 inclusively"),
        ("/v1/jobs?region=x", JOB, 500, "No path to region"),
        ("/v1/job/web?region=Global", JOB, 500, "No path to region"),
    ] {
        assert_eq!(harness.put(path, body).await.error(), (status, text), "{path} {body}");
    }
    assert!(harness.applier.commands.lock().unwrap().is_empty());
}

#[actix_web::test]
async fn refusals_of_the_applier_are_passed_on() {
    let harness = Harness::with(Vec::new()).await;
    let message = "Enforcing job modify index 10: job does not exist";
    *harness.applier.refusal.lock().unwrap() =
        Some(Refusal { kind: RefusalKind::Conflict, message: message.into() });
    assert_eq!(harness.put("/v1/jobs", JOB).await.error(), (500, message));
}

#[actix_web::test]
async fn stopping_what_is_not_there_is_no_error() {
    let harness = Harness::with(Vec::new()).await;
    let got = super::harness::Response::new(harness.builder("DELETE", "/v1/job/none?purge=true")).await;
    let answer = got.json();
    assert_eq!((&answer["EvalID"], &answer["Index"]), (&json!(""), &json!(0)));
    let stop = async |query: &str| {
        let path = format!("/v1/job/none?{query}");
        super::harness::Response::new(harness.builder("DELETE", &path)).await
    };
    // http-api §3, §11.2.
    let not_a_flag = |name: &str| {
        format!(
            "Failed to parse value of {name} (x) as a bool: strconv.ParseBool: parsing \"x\": invalid syntax"
        )
    };
    for (query, status, text) in [
        ("purge=x", 500, not_a_flag("\"purge\"")),
        ("global=x", 500, not_a_flag("\"global\"")),
        ("no_shutdown_delay=x", 500, not_a_flag("\"no_shutdown_delay\"q")),
        (
            "eval_priority=x",
            500,
            "Failed to parse value of \"eval_priority\" (x) as a int: strconv.Atoi: parsing \"x\": invalid syntax"
                .to_owned(),
        ),
        ("eval_priority=101", 400, "Eval priority must be between 1 and 100 inclusively".to_owned()),
        ("purge=x&region=nowhere", 500, not_a_flag("\"purge\"")),
        ("region=nowhere", 500, "No path to region".to_owned()),
    ] {
        assert_eq!(stop(query).await.error(), (status, text.as_str()), "{query}");
    }
    for query in ["eval_priority=0", "eval_priority=-1", "purge=", "namespace=*"] {
        assert_eq!(stop(query).await.status, 200, "{query}");
    }
}

/// http-api §11.1: a path without an id does not name another job.
#[actix_web::test]
async fn a_job_may_be_registered_by_a_path_without_an_id() {
    let harness = Harness::with(Vec::new()).await;
    assert_eq!(harness.put("/v1/job/", JOB).await.status, 200);
    let control = JOB.replace(r#""ID": "web""#, r#""ID": "a\u0001""#);
    assert_eq!(harness.put("/v1/jobs", &control).await.status, 200, "{control}");
    assert_eq!(harness.get("/v1/job/a%01").await.json()["ID"], "a\u{1}");
    assert_eq!(harness.get("/v1/job/a%00b").await.error(), (404, "job not found"));
}

#[actix_web::test]
async fn an_evaluation_names_its_job() {
    let harness = Harness::with(Vec::new()).await;
    let error = |body: &'static str| harness.put("/v1/job/a/evaluate", body);
    assert_eq!(error("{}").await.error(), (400, "Job ID must be specified"));
    assert_eq!(error(r#"{"JobID": "b"}"#).await.error(), (400, "JobID not same as job name"));
    assert_eq!(error(r#"{"JobID": "a", "EvalOptions": {"ForceReschedule": true}}"#).await.status, 200);
    let in_team = r#"{"JobID": "a", "Namespace": "team"}"#;
    for path in ["/v1/job/a/evaluate", "/v1/job/a/evaluate?namespace=other"] {
        assert_eq!(harness.put(path, in_team).await.status, 200);
    }
    let commands = harness.applier.commands.lock().unwrap();
    let evaluated: Vec<_> = commands
        .iter()
        .map(|command| {
            let Command::EvaluateJob(evaluate) = command else { panic!("{command:?}") };
            (&*evaluate.job.namespace, evaluate.force_reschedule)
        })
        .collect();
    assert_eq!(evaluated, [("default", true), ("team", false), ("other", false)]);
}

#[actix_web::test]
async fn the_scheduler_is_configured_by_comparing() {
    let harness = Harness::with(Vec::new()).await;
    let path = "/v1/operator/scheduler/configuration";
    let put = |query: &str, body: &str| {
        let path = format!("{path}{query}");
        let body = body.to_owned();
        let harness = &harness;
        async move { harness.put(&path, &body).await }
    };
    assert_eq!(put("", r#"{"SchedulerAlgorithm": "spread"}"#).await.json()["Updated"], true);
    *harness.applier.refusal.lock().unwrap() =
        Some(Refusal { kind: RefusalKind::Conflict, message: "stale".into() });
    let got = put("?cas=1", "{}").await;
    assert_eq!(got.json()["Updated"], false);
    assert_ne!(got.header("x-nomad-index"), "");
    assert_eq!(
        put("?cas=x", "{}").await.error(),
        (400, r#"Error parsing cas value: strconv.ParseUint: parsing "x": invalid syntax"#)
    );
    assert_eq!(
        put("", r#"{"SchedulerAlgorithm": "random"}"#).await.error(),
        (400, "invalid scheduler algorithm: random")
    );
    assert_eq!(put("", "").await.error(), (400, "Error parsing scheduler config: Request body is empty"));
}

#[actix_web::test]
async fn a_validation_lists_what_is_wrong() {
    let harness = Harness::with(Vec::new()).await;
    let answer = harness.put("/v1/validate/job", JOB).await.json();
    assert_eq!((&answer["ValidationErrors"], &answer["Error"]), (&json!(null), &json!("")));
    let answer = harness.put("/v1/validate/job", r#"{"Job": {"ID": "val"}}"#).await.json();
    assert_eq!(answer["ValidationErrors"], json!(["Missing job task groups"]));
    assert_eq!(answer["Error"], "1 error occurred:\n\t* Missing job task groups\n\n");
    // http-api §11.1: neither an id nor the query's namespace counts.
    let answer = harness.put("/v1/validate/job?namespace=nowhere", r#"{"Job": {}}"#).await.json();
    let expected = json!(["Missing job ID", "Missing job name", "Missing job task groups"]);
    assert_eq!(answer["ValidationErrors"], expected);
    for (body, query, status, text) in [
        ("", "", 400, "Request body is empty"),
        ("null", "", 400, "Job must be specified"),
        (r#"{"Job": {"ID": "a"}}"#, "?region=x", 500, "No path to region"),
        (
            r#"{"Job": {"ID": "a", "Namespace": ""}}"#,
            "",
            500,
            "mismatched request namespace in request: \"default\", \"\"",
        ),
    ] {
        let got = harness.put(&format!("/v1/validate/job{query}"), body).await;
        assert_eq!(got.error(), (status, text), "{body}");
    }
}

#[actix_web::test]
async fn an_unknown_allocation_cannot_be_stopped() {
    let harness = Harness::with(Vec::new()).await;
    let path = "/v1/allocation/00000000-0000-4000-8000-000000000000/stop";
    assert_eq!(harness.put(path, "").await.error(), (404, "allocation not found"));
    assert_eq!(harness.put("/v1/allocation/abc/stop", "").await.error().0, 500);
    let (status, text) = (
        500,
        "Failed to parse value of \"reschedule\" (x) as a bool: strconv.ParseBool: parsing \"x\": invalid syntax",
    );
    assert_eq!(harness.put(&format!("{path}?reschedule=x"), "").await.error(), (status, text));
    assert!(harness.applier.commands.lock().unwrap().is_empty());
}

#[actix_web::test]
async fn a_job_file_is_read() {
    let harness = Harness::without_applier(Vec::new()).await;
    let parse = |hcl: &str, canonicalize: bool| {
        let body = json!({"JobHCL": hcl, "Canonicalize": canonicalize}).to_string();
        let harness = &harness;
        async move { harness.put("/v1/jobs/parse", &body).await }
    };
    let file = "job \"web\" {\n group \"g\" {\n task \"t\" {\n driver = \"raw_exec\"\n }\n }\n }\n";
    let job = parse(file, false).await.json();
    assert_eq!((&job["ID"], &job["NodePool"]), (&json!("web"), &json!(null)));
    assert_eq!(parse(file, true).await.json()["TaskGroups"][0]["Count"], 1);
    assert_eq!(parse("", false).await.error(), (400, "Job spec is empty"));
    let got = parse("job \"web\" {\n", false).await;
    let (status, text) = got.error();
    assert_eq!(status, 400);
    assert!(text.starts_with("Failed to parse job: "), "{text}");
}

#[actix_web::test]
async fn nobody_has_to_be_asked_to_refuse_nonsense() {
    let harness = Harness::without_applier(Vec::new()).await;
    let nonsense = r#"{"Job": {"ID": "a b"}}"#;
    let text = "2 errors occurred:\n\t* Job ID contains a space\n\t* Missing job task groups\n\n";
    assert_eq!(harness.put("/v1/jobs", nonsense).await.error(), (500, text));
    // Only the newest state can tell that a namespace does not exist.
    let elsewhere = JOB.replacen("\"ID\"", "\"Namespace\": \"none\", \"ID\"", 1);
    assert_eq!(harness.put("/v1/jobs", &elsewhere).await.error(), (500, "No cluster leader"));
}

#[actix_web::test]
async fn namespaces_and_node_pools_are_made_by_command() {
    let harness = Harness::with(Vec::new()).await;
    for (path, body) in [
        ("/v1/namespace", r#"{"Name": "team", "Description": "d", "Meta": {"k": "v"}}"#),
        ("/v1/namespace/team", r#"{"Name": "team"}"#),
        ("/v1/node/pools", r#"{"Name": "gpu_1", "NodeIdentityTTL": "30m"}"#),
        ("/v1/node/pool/gpu_1", r#"{"Name": "gpu_1"}"#),
    ] {
        let got = harness.put(path, body).await;
        assert_eq!(
            (got.status.as_u16(), got.text.as_str(), got.header("content-type")),
            (200, "", ""),
            "{path}"
        );
        assert_ne!(got.header("x-nomad-index"), "");
    }
    for path in ["/v1/namespace/team", "/v1/node/pool/gpu_1"] {
        assert_eq!(Response::new(harness.builder("DELETE", path)).await.status, 200);
    }
    assert_eq!(harness.applier.commands.lock().unwrap().len(), 6);
    for (path, body, status, text) in [
        ("/v1/namespace/a", r#"{"Name": "b"}"#, 400, "Namespace name does not match request path"),
        (
            "/v1/namespace",
            r#"{"Name": "a_b"}"#,
            500,
            "Invalid namespace \"a_b\": 1 error occurred:\n\t* invalid name \"a_b\". Must match regex \
             ^[a-zA-Z0-9-]{1,128}$\n\n",
        ),
        (
            "/v1/namespace/team",
            r#"{"Name": "team", "NodePoolConfiguration": {"Default": "default"}}"#,
            500,
            "Invalid namespace \"team\": 1 error occurred:\n\t* invalid node pool configuration: Node Pools \
             Governance is unlicensed.\n\n",
        ),
        (
            "/v1/namespace/team",
            r#"{"Name": "team", "Quota": "q"}"#,
            500,
            "namespace \"team\" using non-existent quota \"q\"",
        ),
        ("/v1/namespace/", r#"{"Name": "team"}"#, 400, "Missing Namespace Name"),
        ("/v1/namespace/team?region=x", r#"{"Name": "team"}"#, 500, "No path to region"),
        (
            "/v1/namespace",
            r#"{"Name": "team", "RequiredExtraClaims": {"a": "b"}}"#,
            501,
            "workload identities are not built yet",
        ),
        ("/v1/namespace", "", 400, "Request body is empty"),
        ("/v1/node/pool/a", r#"{"Description": "b"}"#, 400, "Node pool name does not match request path"),
        ("/v1/node/pools", r#"{"Name": "all"}"#, 400, "modifying node pool \"all\" is not allowed"),
    ] {
        assert_eq!(harness.put(path, body).await.error(), (status, text), "{path}");
    }
    assert_eq!(harness.applier.commands.lock().unwrap().len(), 6, "an invalid request is no command");
}

#[actix_web::test]
async fn nodes_are_evaluated_and_purged_by_command() {
    let harness = Harness::with(Vec::new()).await;
    let node = "00000000-0000-4000-8000-000000000000";
    let got = harness.put(&format!("/v1/node/{node}/evaluate"), "").await.json();
    assert_eq!(got["EvalIDs"].as_array().unwrap().len(), 1);
    assert_eq!(got["EvalCreateIndex"], got["Index"]);
    // http-api §17.
    assert_eq!((&got["NodeModifyIndex"], &got["SignedIdentity"]), (&json!(0), &json!(null)));
    let server = json!({
        "RPCAdvertiseAddr": got["LeaderRPCAddr"], "RPCMajorVersion": 0, "RPCMinorVersion": 0, "Datacenter": "dc1",
    });
    assert_eq!(got["Servers"], json!([server]));
    assert_eq!(harness.put(&format!("/v1/node/{node}/purge"), "").await.status, 200);
    assert_eq!(harness.put("/v1/node/abc/purge", "").await.error().0, 500);
    let named = "00000000-0000-4000-8000-000000000001";
    let body = json!({"NodeID": named, "Eligibility": "ineligible"}).to_string();
    assert_eq!(harness.put(&format!("/v1/node/{node}/eligibility"), &body).await.status, 200);
    let commands = harness.applier.commands.lock().unwrap();
    assert_eq!(commands.len(), 3);
    let Some(Command::SetEligibility(set)) = commands.last() else { panic!("{commands:?}") };
    assert_eq!(set.node.to_string(), named, "a node in the body replaces that of the path");
}
