//! Attacks by ids of every kind.

use tests::harness::jobs;

use crate::attack::{Attack, Outcome, Size, ensure, expect, expect_answered, expect_refused};
use crate::scene::{Scene, escaped};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "ids-of-every-kind",
        does: "jobs whose ids have slashes, dots, percent signs, quotes, SQL, markup, other alphabets, line breaks",
        expected: "a job of exactly this id, which can be read, listed and purged; or an error",
        size: Size::Full,
        run: |scene| Box::pin(ids_of_every_kind(scene)),
    },
    Attack {
        name: "ids-at-the-limit",
        does: "ids of 1,024 bytes, of 1,025, of 1 MiB, and empty ones",
        expected: "200, and then errors",
        size: Size::Full,
        run: |scene| Box::pin(ids_at_the_limit(scene)),
    },
    Attack {
        name: "ids-that-look-alike",
        does: "ids that differ in case, in composition of letters, in invisible characters, or by a slash at the end",
        expected: "different jobs; purging one leaves the others",
        size: Size::Quick,
        run: |scene| Box::pin(ids_that_look_alike(scene)),
    },
    Attack {
        name: "ids-of-routes",
        does: "jobs named like the last part of a route: `a/plan`, `a/allocations`, `x/versions/y/tag`",
        expected: "a job of exactly this id, and no other is changed",
        size: Size::Full,
        run: |scene| Box::pin(ids_of_routes(scene)),
    },
    Attack {
        name: "names-of-groups-and-tasks",
        does: "groups and tasks named `..`, `a/b`, NUL, by 1,000 bytes, twice",
        expected: "an error, or a task that stays in its directory",
        size: Size::Full,
        run: |scene| Box::pin(names_of_groups_and_tasks(scene)),
    },
    Attack {
        name: "names-of-namespaces",
        does: "namespaces and node pools with names of every kind",
        expected: "an error",
        size: Size::Full,
        run: |scene| Box::pin(names_of_namespaces(scene)),
    },
];

/// Registers a job of this id. If it is accepted, it must be found by exactly this id, and nothing else purges it.
async fn expect_exact(scene: &Scene, id: &str) -> Result<(), String> {
    let answer = scene.register(&jobs::mock_service(id, 0)).await;
    expect_answered(id, &answer)?;
    if answer.status != 200 {
        return expect_refused(id, &answer);
    }
    let path = format!("/v1/job/{}", escaped(id));
    let found = scene.get(&path).await;
    ensure(found.json()["ID"].as_str() == Some(id), || {
        format!("{path}: {} instead of {id:?}", found.summary())
    })?;
    let listed = scene.get(&format!("/v1/jobs?prefix={}", escaped(id))).await.json();
    ensure(listed[0]["ID"].as_str() == Some(id), || format!("{id:?} is not listed by its prefix"))?;
    expect(
        &format!("purging {id:?}"),
        &scene.ask("DELETE", &format!("{path}?purge=true"), b"").await,
        &[200],
    )?;
    ensure(!scene.has_job(id).await, || format!("{id:?} is still there after it was purged"))
}

async fn ids_of_every_kind(scene: &Scene) -> Outcome {
    for id in [
        "a/b",
        "/a/b",
        "a/b/",
        "a//b",
        "/",
        ".",
        "..",
        "../..",
        "a/../b",
        "a%2Fb",
        "%",
        "%00",
        "%zz",
        "100%",
        "a b",
        "a+b",
        "a?b=c",
        "a#b",
        "a&b;c",
        "'; drop table jobs; --",
        "\"quoted\"",
        "<script>alert(1)</script>",
        "${node.unique.id}",
        "{{ .ID }}",
        "-rf",
        "--help",
        "*",
        "a\\b",
        "a\nb",
        "a\r\nX-Attacker: yes",
        "a\tb",
        "a\u{1b}[31mb",
        "a\u{7f}b",
        "ÄÖÜ",
        "日本語",
        "💥",
        "a\u{202e}b",
        "a\u{200b}b",
        "e\u{301}",
        "\u{feff}a",
        "\u{fffd}",
        "\u{10ffff}",
        "null",
        "true",
        "0",
        "NaN",
        "CON",
        "a.b.c",
        "default.a",
        "a|b",
        "a,b",
        "a:b@c",
    ] {
        expect_exact(scene, id).await?;
    }
    Ok(())
}

async fn ids_at_the_limit(scene: &Scene) -> Outcome {
    expect_exact(scene, &"i".repeat(1_024)).await?;
    expect_exact(scene, &"ü".repeat(512)).await?;
    for id in [String::new(), "i".repeat(1_025), "ü".repeat(513), "i".repeat(1 << 20)] {
        let what = format!("an id of {} bytes", id.len());
        expect_refused(&what, &scene.register(&jobs::mock_service(&id, 0)).await)?;
    }
    Ok(())
}

async fn ids_that_look_alike(scene: &Scene) -> Outcome {
    let alike =
        ["alike", "Alike", "ALIKE", "alike/", "al\u{131}ke", "alike\u{200b}", "ali\u{212a}e", "alik\u{435}"];
    for id in alike {
        let answer = scene.register(&jobs::mock_service(id, 0)).await;
        expect(id, &answer, &[200])?;
    }
    for (position, id) in alike.iter().enumerate() {
        let path = format!("/v1/job/{}?purge=true", escaped(id));
        expect(id, &scene.ask("DELETE", &path, b"").await, &[200])?;
        for other in &alike[position + 1..] {
            ensure(scene.has_job(other).await, || format!("purging {id:?} has purged {other:?}"))?;
        }
    }
    Ok(())
}

async fn ids_of_routes(scene: &Scene) -> Outcome {
    for id in [
        "routes/plan",
        "routes/allocations",
        "routes/summary",
        "routes/evaluate",
        "routes/versions",
        "routes/versions/y/tag",
        "routes/revert",
        "routes/submission",
        "routes/scale",
    ] {
        expect_exact(scene, id).await?;
    }
    Ok(())
}

async fn names_of_groups_and_tasks(scene: &Scene) -> Outcome {
    let long = "n".repeat(1_000);
    for name in
        ["..", ".", "a/b", "../../../a", "a\0b", "", "alloc", "a\nb", "${NOMAD_ALLOC_ID}", "💥", &long[..]]
    {
        for member in ["/Job/TaskGroups/0/Name", "/Job/TaskGroups/0/Tasks/0/Name"] {
            let mut job = jobs::mock_service("named", 1);
            *job.pointer_mut(member).expect("the job has this member") = name.into();
            expect_answered(&format!("{member} {name:?}"), &scene.register(&job).await)?;
        }
    }
    for (list, what) in [("/Job/TaskGroups", "groups"), ("/Job/TaskGroups/0/Tasks", "tasks")] {
        let mut job = jobs::mock_service("named", 1);
        let elements =
            job.pointer_mut(list).and_then(serde_json::Value::as_array_mut).expect("the job has this list");
        elements.push(elements[0].clone());
        expect_refused(&format!("two {what} of one name"), &scene.register(&job).await)?;
    }
    Ok(())
}

async fn names_of_namespaces(scene: &Scene) -> Outcome {
    let long = "n".repeat(200);
    for name in ["", "*", "..", "a/b", "a b", "a\0b", "💥", "a.b", "'--", "%2F", &long[..]] {
        for path in ["/v1/namespace", "/v1/node/pools"] {
            let body = serde_json::json!({ "Name": name, "Description": "d" }).to_string();
            expect_refused(&format!("{path} {name:?}"), &scene.ask("PUT", path, body.as_bytes()).await)?;
        }
    }
    Ok(())
}
