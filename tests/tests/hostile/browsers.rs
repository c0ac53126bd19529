//! Attacks by web pages that a user of the cluster visits (`docs/architecture/http-api.md`).

use tests::harness::jobs;

use crate::attack::{Attack, Outcome, Size, ensure, expect};
use crate::scene::Scene;
use crate::socket::CLOSED;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "foreign-origin",
        does: "a page of another site registers, evaluates and deletes jobs, as a form and as a script",
        expected: "403; nothing is changed",
        size: Size::Quick,
        run: |scene| Box::pin(foreign_origin(scene)),
    },
    Attack {
        name: "foreign-host",
        does: "a page whose own name leads to this machine (DNS rebinding) reads and registers jobs",
        expected: "403; nothing is changed",
        size: Size::Quick,
        run: |scene| Box::pin(foreign_host(scene)),
    },
    Attack {
        name: "foreign-preflight",
        does: "a page of another site asks whether it may change things",
        expected: "no permission",
        size: Size::Full,
        run: |scene| Box::pin(foreign_preflight(scene)),
    },
    Attack {
        name: "open-redirect",
        does: "paths that a redirect could turn into the address of another site",
        expected: "no redirect leads away",
        size: Size::Full,
        run: |scene| Box::pin(open_redirect(scene)),
    },
];

/// Origins of pages that are not this server's.
const FOREIGN: [&str; 5] =
    ["https://evil.example", "null", "http://localhost.evil.example", "http://127.0.0.1:1", "file://"];

async fn foreign_origin(scene: &Scene) -> Outcome {
    const VICTIM: &str = "foreign-origin-victim";
    expect("registering a job", &scene.register(&jobs::mock_service(VICTIM, 0)).await, &[200])?;
    let job = jobs::mock_service("foreign-origin", 0).to_string();
    let delete = format!("/v1/job/{VICTIM}?purge=true");
    for origin in FOREIGN {
        for (method, path, body) in [
            ("POST", "/v1/jobs", &*job),
            ("PUT", "/v1/jobs", &*job),
            ("DELETE", &*delete, ""),
            ("PUT", "/v1/system/gc", ""),
        ] {
            // A form cannot send another type without asking first.
            let headers = format!("Origin: {origin}\r\nContent-Type: text/plain\r\n");
            let answer = scene.ask_with(method, path, &headers, body.as_bytes()).await;
            expect(&format!("{method} {path} from {origin}"), &answer, &[403])?;
        }
    }
    let headers = "Sec-Fetch-Site: cross-site\r\n";
    expect(
        "a form without an origin",
        &scene.ask_with("POST", "/v1/jobs", headers, job.as_bytes()).await,
        &[403],
    )?;
    ensure(!scene.has_job("foreign-origin").await, || "the job of a page was registered".to_owned())?;
    ensure(scene.has_job(VICTIM).await, || "a page has deleted a job".to_owned())?;
    Ok(())
}

async fn foreign_host(scene: &Scene) -> Outcome {
    let job = jobs::mock_service("foreign-host", 0).to_string();
    for host in ["evil.example", "evil.example:4646", "127.0.0.1.evil.example", "localhost.evil.example"] {
        for (method, path, body) in [("GET", "/v1/jobs", ""), ("PUT", "/v1/jobs", &*job)] {
            let head = format!(
                "{method} {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let answer = scene.socket().await.exchange(&[head.as_bytes(), body.as_bytes()].concat()).await;
            expect(&format!("{method} {path} at {host}"), &answer, &[403])?;
        }
    }
    ensure(!scene.has_job("foreign-host").await, || "the job of a page was registered".to_owned())?;
    Ok(())
}

async fn foreign_preflight(scene: &Scene) -> Outcome {
    for path in ["/v1/jobs", "/v1/job/steady-agent", "/v1/system/gc"] {
        let headers = "Origin: https://evil.example\r\nAccess-Control-Request-Method: PUT\r\n\
                       Access-Control-Request-Headers: X-Nomad-Token\r\n";
        let answer = scene.ask_with("OPTIONS", path, headers, b"").await;
        let allowed = answer.header("access-control-allow-origin");
        ensure(allowed.is_empty(), || format!("{path}: {allowed:?} is allowed"))?;
    }
    Ok(())
}

async fn open_redirect(scene: &Scene) -> Outcome {
    for path in [
        "//evil.example/",
        "//evil.example/%2e%2e",
        "/%2Fevil.example/..",
        "/\\evil.example/",
        "/%5Cevil.example//",
        "/v1/..//evil.example",
        "/.//evil.example/",
        "http://evil.example/v1//jobs",
    ] {
        let answer = scene.get(path).await;
        let location = answer.header("location");
        let leads_away = location.starts_with("//")
            || location.starts_with("/\\")
            || (!location.is_empty() && !location.starts_with('/'));
        ensure(!leads_away, || format!("{path} leads to {location}"))?;
        expect(path, &answer, &[200, 301, 307, 308, 400, 403, 404, 405, CLOSED])?;
    }
    Ok(())
}
