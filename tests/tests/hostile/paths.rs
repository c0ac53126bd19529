//! Attacks by paths.

use tests::harness::jobs;

use crate::attack::{Attack, Outcome, Size, ensure, expect, expect_refused};
use crate::scene::Scene;
use crate::socket::{CLOSED, SILENT};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "escaped-slashes",
        does: "`DELETE /v1/job/%2Fa%2Fb` and others that look like a request for the job `a/b`",
        expected: "`a/b` is still there",
        size: Size::Quick,
        run: |scene| Box::pin(escaped_slashes(scene)),
    },
    Attack {
        name: "dots-in-paths",
        does: "`.` and `..`, plain and escaped, once and twice, on routes that delete",
        expected: "no other job is deleted, no file is read",
        size: Size::Full,
        run: |scene| Box::pin(dots_in_paths(scene)),
    },
    Attack {
        name: "long-paths",
        does: "paths of 100,000 bytes, and of 30,000 segments",
        expected: "an error, or the connection is closed",
        size: Size::Full,
        run: |scene| Box::pin(long_paths(scene)),
    },
    Attack {
        name: "broken-escapes",
        does: "`%`, `%z`, `%ff`, overlong UTF-8, surrogates, escapes of escapes",
        expected: "an error",
        size: Size::Quick,
        run: |scene| Box::pin(broken_escapes(scene)),
    },
    Attack {
        name: "odd-object-ids",
        does: "ids of allocations, nodes, evaluations and deployments that are no ids: short, odd, `*`, 2,000 bytes",
        expected: "an error, or the object whose id begins so",
        size: Size::Full,
        run: |scene| Box::pin(odd_object_ids(scene)),
    },
    Attack {
        name: "unknown-routes",
        does: "routes of other programs: `/etc/passwd`, `/admin`, `/.git/config`, `/debug/pprof/heap`",
        expected: "an error; nothing of this machine",
        size: Size::Full,
        run: |scene| Box::pin(unknown_routes(scene)),
    },
];

/// The job that the attacker wants to hit by other names.
const VICTIM: &str = "paths/victim";

async fn register_victim(scene: &Scene) -> Outcome {
    expect("registering the job", &scene.register(&jobs::mock_service(VICTIM, 0)).await, &[200])?;
    Ok(())
}

/// Deletes each path, and checks that the job is still there.
async fn expect_victim_survives(scene: &Scene, paths: &[&str]) -> Outcome {
    register_victim(scene).await?;
    for path in paths {
        let answer = scene.ask("DELETE", &format!("{path}?purge=true"), b"").await;
        ensure(answer.status != SILENT, || format!("{path}: {}", answer.summary()))?;
        ensure(scene.has_job(VICTIM).await, || format!("DELETE {path} has deleted {VICTIM}"))?;
    }
    Ok(())
}

async fn escaped_slashes(scene: &Scene) -> Outcome {
    let paths = [
        "/v1/job/%2Fpaths%2Fvictim",
        "/v1/job/paths%2Fvictim%2F",
        "/v1/job/paths%2F%2Fvictim",
        "/v1/job/paths%252Fvictim",
        "/v1/job/paths%5Cvictim",
        "/v1/job/paths\\victim",
        "/v1/job/PATHS%2FVICTIM",
        "/v1/job/paths%2Fvictim%20",
    ];
    expect_victim_survives(scene, &paths).await
}

async fn dots_in_paths(scene: &Scene) -> Outcome {
    let paths = [
        "/v1/job/x/../paths/victim",
        "/v1/job/paths/./victim",
        "/v1/job/x%2F..%2Fpaths%2Fvictim",
        "/v1/job/%2e%2e/job/paths/victim",
        "/v1/job/x%252F..%252Fpaths%252Fvictim",
        "/v1/./job//paths/victim",
        "/v1/job/..%2Fjob%2Fpaths%2Fvictim",
        "/v1/node/../job/paths/victim",
    ];
    expect_victim_survives(scene, &paths).await?;
    for path in ["/../../../../etc/passwd", "/v1/%2e%2e/%2e%2e/etc/passwd", "/ui/..%2f..%2fetc%2fpasswd"] {
        let answer = scene.get(path).await;
        ensure(!answer.text().contains("root:"), || format!("{path} shows a file of this machine"))?;
    }
    Ok(())
}

async fn long_paths(scene: &Scene) -> Outcome {
    let long = format!("/v1/job/{}", "a".repeat(100_000));
    let deep = format!("/v1/job{}", "/a".repeat(30_000));
    let escaped = format!("/v1/job/{}", "%61".repeat(30_000));
    let crooked = format!("/v1/job{}", "/a/..".repeat(10_000));
    for path in [long, deep, escaped, crooked] {
        let answer = scene.get(&path).await;
        expect("a long path", &answer, &[307, 400, 404, 413, 414, 431, CLOSED])?;
    }
    Ok(())
}

async fn broken_escapes(scene: &Scene) -> Outcome {
    for id in ["%", "%z", "%zz", "%f", "%ff", "%c0%af", "%ed%a0%80", "%u0061", "%%36%31", "%f4%90%80%80"] {
        expect_refused(id, &scene.get(&format!("/v1/job/{id}")).await)?;
        expect_refused(id, &scene.ask("DELETE", &format!("/v1/job/{id}"), b"").await)?;
    }
    Ok(())
}

async fn odd_object_ids(scene: &Scene) -> Outcome {
    let long = "f".repeat(2_000);
    for id in [
        "",
        "f",
        "*",
        "%2A",
        "%25",
        "g",
        "-",
        "0-0-0-0",
        "%00",
        "..",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        &long[..],
    ] {
        for kind in ["allocation", "node", "evaluation", "deployment", "client/fs/ls", "client/allocation"] {
            let path = match kind {
                "client/allocation" => format!("/v1/{kind}/{id}/stats"),
                kind => format!("/v1/{kind}/{id}"),
            };
            let answer = scene.get(&path).await;
            // A prefix of one character may name an object; a redirect leads to the straight path.
            expect(&path, &answer, &[200, 307, 400, 404, 405, 500])?;
        }
    }
    Ok(())
}

async fn unknown_routes(scene: &Scene) -> Outcome {
    for path in [
        "/etc/passwd",
        "/admin",
        "/.git/config",
        "/.env",
        "/debug/pprof/heap",
        "/server-status",
        "/v1/agent/pprof/profile",
        "/v2/jobs",
        "/v1/nonsense",
        "*",
    ] {
        expect(path, &scene.get(path).await, &[307, 400, 404, 405, 501])?;
    }
    Ok(())
}
