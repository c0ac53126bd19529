//! Attacks by jobs that are valid, or nearly: many groups, constraints and ports, long metadata, deep differences.

use serde_json::{Value, json};
use tests::harness::jobs;

use crate::attack::{Attack, Outcome, Size, at_once, ensure, expect, expect_answered, expect_refused};
use crate::scene::Scene;
use crate::socket::{CLOSED, ask};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "many-groups",
        does: "a job of 10,000 groups, registered, planned and stopped",
        expected: "the job is registered, or an error",
        size: Size::Full,
        run: |scene| Box::pin(many_groups(scene)),
    },
    Attack {
        name: "many-constraints",
        does: "a group with 10,000 constraints, affinities and spreads each",
        expected: "the job is registered, or an error",
        size: Size::Full,
        run: |scene| Box::pin(many_constraints(scene)),
    },
    Attack {
        name: "many-ports",
        does: "a group with 10,000 dynamic ports, and one with 10,000 ports of the same long name",
        expected: "the job is registered, or an error of bounded length",
        size: Size::Full,
        run: |scene| Box::pin(many_ports(scene)),
    },
    Attack {
        name: "many-allocations",
        does: "a job of 50,000 allocations, one of 50,001, and one of 2^63",
        expected: "200, and then errors",
        size: Size::Full,
        run: |scene| Box::pin(many_allocations(scene)),
    },
    Attack {
        name: "huge-metadata",
        does: "metadata of 7 MiB in one value, in 7,000, and in names; listed with `?meta` by eight",
        expected: "the job is registered, or an error",
        size: Size::Full,
        run: |scene| Box::pin(huge_metadata(scene)),
    },
    Attack {
        name: "deep-diff",
        does: "plans of a job against a version with other 20,000 variables and a configuration 60 deep",
        expected: "a plan, or an error",
        size: Size::Full,
        run: |scene| Box::pin(deep_diff(scene)),
    },
    Attack {
        name: "expensive-patterns",
        does: "constraints whose regular expressions expand to gigabytes, and versions of 100,000 segments",
        expected: "an error, or a job that waits",
        size: Size::Full,
        run: |scene| Box::pin(expensive_patterns(scene)),
    },
    Attack {
        name: "same-job-at-once",
        does: "200 registrations of one job at once, each with the same expected index",
        expected: "one succeeds at most",
        size: Size::Full,
        run: |scene| Box::pin(same_job_at_once(scene)),
    },
    Attack {
        name: "purge-and-register",
        does: "eight clients purge and register the same job in turns, 50 times each",
        expected: "an answer each",
        size: Size::Full,
        run: |scene| Box::pin(purge_and_register(scene)),
    },
    Attack {
        name: "other-writes",
        does: "deletion of built-in namespaces and pools, garbage collection 100 times, a configuration that is no one",
        expected: "built-in objects stay",
        size: Size::Full,
        run: |scene| Box::pin(other_writes(scene)),
    },
    Attack {
        name: "interpolation",
        does: "metadata whose values contain each other and double 30 times, used in a task's environment",
        expected: "the task fails, or an error",
        size: Size::Full,
        run: |scene| Box::pin(interpolation(scene)),
    },
];

/// The longest error text, in bytes. What is wrong may be in many places, but the text says so once.
const ERROR_BYTES_MAX: usize = 1 << 20;

/// Registers a job and expects it to be accepted, or refused with an error of bounded length.
async fn expect_judged(scene: &Scene, what: &str, job: &Value) -> Result<(), String> {
    let answer = scene.register(job).await;
    expect(what, &answer, &[200, 400, 413, 500, 503, CLOSED])?;
    let bytes = answer.body.len();
    ensure(answer.status == 200 || bytes < ERROR_BYTES_MAX, || format!("{what}: an error of {bytes} bytes"))
}

fn many_group_job() -> Value {
    let mut job = jobs::mock_service("many-groups", 0);
    let group = job["Job"]["TaskGroups"][0].clone();
    let groups = (0..10_000).map(|number| {
        let mut group = group.clone();
        group["Name"] = json!(format!("group-{number}"));
        group
    });
    job["Job"]["TaskGroups"] = groups.collect();
    job
}

async fn many_groups(scene: &Scene) -> Outcome {
    let job = many_group_job();
    expect_judged(scene, "10,000 groups", &job).await?;
    let plan = json!({ "Job": job["Job"], "Diff": true });
    expect_answered(
        "a plan",
        &scene.ask("PUT", "/v1/job/many-groups/plan", plan.to_string().as_bytes()).await,
    )?;
    expect_answered("stopping", &scene.ask("DELETE", "/v1/job/many-groups", b"").await)?;
    Ok(())
}

async fn many_constraints(scene: &Scene) -> Outcome {
    let numbers = || 0..10_000;
    let constraint =
        |n: i32| json!({ "LTarget": "${attr.kernel.name}", "Operand": "!=", "RTarget": n.to_string() });
    for (what, member, blocks) in [
        (
            "constraints",
            "Constraints",
            numbers().map(constraint).collect(),
        ),
        (
            "affinities",
            "Affinities",
            numbers()
                .map(|n| json!({ "LTarget": "${node.class}", "Operand": "=", "RTarget": n.to_string(), "Weight": 1 }))
                .collect(),
        ),
        (
            "spreads",
            "Spreads",
            numbers().map(|n| json!({ "Attribute": format!("${{meta.m{n}}}"), "Weight": 1 })).collect::<Value>(),
        ),
    ] {
        let mut job = jobs::mock_service("many-constraints", 1);
        job["Job"]["TaskGroups"][0][member] = blocks;
        expect_judged(scene, what, &job).await?;
    }
    Ok(())
}

async fn many_ports(scene: &Scene) -> Outcome {
    let long = "p".repeat(10_000);
    let different: Value = (0..10_000).map(|n| json!({ "Label": format!("port{n}") })).collect();
    let same: Value = (0..500).map(|_| json!({ "Label": long })).collect();
    let reserved: Value = (0..10_000).map(|n| json!({ "Label": format!("p{n}"), "Value": 22 })).collect();
    for (what, member, ports) in [
        ("10,000 ports", "DynamicPorts", different),
        ("long names", "DynamicPorts", same),
        ("one port 10,000 times", "ReservedPorts", reserved),
    ] {
        let mut job = jobs::mock_service("many-ports", 1);
        job["Job"]["TaskGroups"][0]["Networks"] = json!([{ "Mode": "host", member: ports }]);
        expect_judged(scene, what, &job).await?;
    }
    Ok(())
}

async fn many_allocations(scene: &Scene) -> Outcome {
    let mut job = jobs::mock_service("many-allocations", 50_000);
    // No node has so much, so nothing is placed.
    job["Job"]["TaskGroups"][0]["Tasks"][0]["Resources"]["MemoryMB"] = json!(900_000);
    expect("50,000 allocations", &scene.register(&job).await, &[200])?;
    for count in [json!(50_001), json!(i64::MAX), json!(u64::MAX), json!(-1), json!(1e300)] {
        job["Job"]["TaskGroups"][0]["Count"] = count.clone();
        expect_refused(&format!("a count of {count}"), &scene.register(&job).await)?;
    }
    Ok(())
}

async fn huge_metadata(scene: &Scene) -> Outcome {
    let one = json!({ "a": "m".repeat(7 << 20) });
    let many: Value = (0..7_000)
        .map(|n| (format!("name{n}"), json!("m".repeat(1_000))))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let names: Value = (0..700)
        .map(|n| (format!("{}{n}", "n".repeat(10_000)), json!("a")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    for (what, meta) in [("one value", one), ("many values", many), ("long names", names)] {
        let mut job = jobs::mock_service("huge-metadata", 0);
        job["Job"]["Meta"] = meta;
        expect_judged(scene, what, &job).await?;
        let host = scene.host();
        let lists = at_once(8, |_| {
            let host = host.clone();
            async move { ask(&host, "GET", "/v1/jobs?meta=true&prefix=huge", b"").await }
        })
        .await;
        for list in lists {
            expect("a list with metadata", &list, &[200, 503])?;
        }
    }
    Ok(())
}

async fn deep_diff(scene: &Scene) -> Outcome {
    let version = |mark: &str| {
        let mut job = jobs::mock_service("deep-diff", 0);
        let variables = (0..20_000).map(|n| (format!("{mark}{n}"), json!(mark)));
        let mut nested = json!(mark);
        for _ in 0..30 {
            nested = json!([{ "a": nested }]);
        }
        let task = &mut job["Job"]["TaskGroups"][0]["Tasks"][0];
        task["Env"] = variables.collect::<serde_json::Map<_, _>>().into();
        task["Config"]["nested"] = nested;
        job
    };
    expect_judged(scene, "the first version", &version("a")).await?;
    let plan = json!({ "Job": version("b")["Job"], "Diff": true, "PolicyOverride": false }).to_string();
    let host = scene.host();
    let plans = at_once(8, |_| {
        let (host, plan) = (host.clone(), plan.clone());
        async move { ask(&host, "PUT", "/v1/job/deep-diff/plan", plan.as_bytes()).await }
    })
    .await;
    for answer in plans {
        expect("a plan with a difference", &answer, &[200, 400, 500, 503])?;
    }
    expect_judged(scene, "the second version", &version("b")).await?;
    expect_answered(
        "versions with differences",
        &scene.ask("GET", "/v1/job/deep-diff/versions?diffs=true", b"").await,
    )?;
    Ok(())
}

async fn expensive_patterns(scene: &Scene) -> Outcome {
    let segments = vec!["1"; 100_000].join(".");
    for (operand, value) in [
        ("regexp", "((a{1,300}){1,300}){1,300}"),
        ("regexp", r"(?i)(\pL{1,1000}|\pN{1,1000}){1,20}"),
        ("regexp", "(x+x+)+y"),
        ("version", &segments[..]),
        ("semver", ">= 99999999999999999999999.0.0"),
        ("version", "~> 1.2.3.4.5.6.7.8.9"),
        ("set_contains_any", &segments[..]),
    ] {
        let mut job = jobs::mock_service("expensive-patterns", 1);
        job["Job"]["Constraints"] =
            json!([{ "LTarget": "${attr.kernel.version}", "Operand": operand, "RTarget": value }]);
        let what: String = format!("{operand} {value}").chars().take(60).collect();
        expect_judged(scene, &what, &job).await?;
    }
    Ok(())
}

async fn same_job_at_once(scene: &Scene) -> Outcome {
    let host = scene.host();
    let statuses = at_once(200, |number| {
        let host = host.clone();
        let mut job = jobs::mock_service("same-job", 0);
        job["EnforceIndex"] = json!(true);
        job["JobModifyIndex"] = json!(0);
        job["Job"]["Meta"] = json!({ "by": number.to_string() });
        async move { ask(&host, "PUT", "/v1/jobs", job.to_string().as_bytes()).await.status }
    })
    .await;
    let succeeded = statuses.iter().filter(|status| **status == 200).count();
    ensure(succeeded == 1, || format!("{succeeded} of {} registrations succeeded", statuses.len()))?;
    Ok(())
}

async fn purge_and_register(scene: &Scene) -> Outcome {
    let host = scene.host();
    let answers = at_once(8, |_| {
        let (host, job) = (host.clone(), jobs::mock_service("purged", 1).to_string());
        async move {
            let mut failures = Vec::new();
            for _ in 0..50 {
                let registered = ask(&host, "PUT", "/v1/jobs", job.as_bytes()).await;
                let purged = ask(&host, "DELETE", "/v1/job/purged?purge=true", b"").await;
                let are_answered =
                    [&registered, &purged].map(|answer| [200, 404, 500].contains(&answer.status));
                if are_answered != [true, true] {
                    failures.push(format!("{}, {}", registered.summary(), purged.summary()));
                }
            }
            failures
        }
    })
    .await;
    let failures: Vec<String> = answers.into_iter().flatten().collect();
    ensure(failures.is_empty(), || failures.join("; "))?;
    Ok(())
}

async fn other_writes(scene: &Scene) -> Outcome {
    for path in ["/v1/namespace/default", "/v1/node/pool/default", "/v1/node/pool/all"] {
        expect_refused(path, &scene.ask("DELETE", path, b"").await)?;
        let answer = scene.ask("GET", path, b"").await;
        expect(path, &answer, &[200])?;
    }
    for _ in 0..100 {
        expect("a collection", &scene.ask("PUT", "/v1/system/gc", b"").await, &[200, 429, 500, 503])?;
    }
    for body in ["{}", "[]", "null", r#"{"SchedulerAlgorithm":"none"}"#, r#"{"SchedulerAlgorithm":7}"#] {
        let answer = scene.ask("PUT", "/v1/operator/scheduler/configuration", body.as_bytes()).await;
        expect_answered(body, &answer)?;
    }
    Ok(())
}

async fn interpolation(scene: &Scene) -> Outcome {
    let mut job = jobs::batch("interpolated", "sleep 600");
    let mut meta = serde_json::Map::new();
    meta.insert("m0".to_owned(), json!("x".repeat(100)));
    for level in 1..=30 {
        let before = format!("${{NOMAD_META_m{}}}", level - 1);
        meta.insert(format!("m{level}"), json!(format!("{before}{before}")));
    }
    let task = &mut job["Job"]["TaskGroups"][0]["Tasks"][0];
    task["Meta"] = meta.into();
    task["Env"] = json!({ "ALL": "${NOMAD_META_m30}".repeat(100) });
    let answer = scene.register(&job).await;
    expect("a job whose metadata double", &answer, &[200, 400, 500])?;
    if answer.status == 200 {
        scene
            .wait_until("the task has failed, or runs", async || {
                let allocs = scene.get("/v1/job/interpolated/allocations").await.json();
                let status = allocs[0]["ClientStatus"].as_str()?.to_owned();
                (status != "pending").then_some(())
            })
            .await?;
    }
    Ok(())
}
