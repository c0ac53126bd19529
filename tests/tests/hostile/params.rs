//! Attacks by query parameters.

use std::time::Duration;

use serde_json::json;
use telemetry::clock;
use tests::harness::jobs;

use crate::attack::{Attack, Outcome, Size, at_once, ensure, expect, expect_refused};
use crate::scene::{Scene, escaped};
use crate::socket::{Answer, CLOSED, SILENT, get};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "odd-numbers",
        does: "`index`, `per_page`, `offset` and `limit` that are negative, of 64 bits and more, or no numbers",
        expected: "an answer at once",
        size: Size::Quick,
        run: |scene| Box::pin(odd_numbers(scene)),
    },
    Attack {
        name: "odd-waits",
        does: "`wait` of minus a second, of centuries, of no unit, of 1e300 hours",
        expected: "an answer at once, or an error",
        size: Size::Full,
        run: |scene| Box::pin(odd_waits(scene)),
    },
    Attack {
        name: "next-token-garbage",
        does: "tokens of the next page that no page has returned: dots, NUL, other alphabets, 50,000 bytes",
        expected: "a page, or an error",
        size: Size::Full,
        run: |scene| Box::pin(next_tokens(scene)),
    },
    Attack {
        name: "parameter-flood",
        does: "15,000 parameters in one query; broken escapes; parameters without names",
        expected: "any answer",
        size: Size::Full,
        run: |scene| Box::pin(parameter_flood(scene)),
    },
    Attack {
        name: "odd-namespaces",
        does: "namespaces, regions, prefixes and flags of odd kinds",
        expected: "an empty list, or an error",
        size: Size::Full,
        run: |scene| Box::pin(odd_namespaces(scene)),
    },
    Attack {
        name: "nested-quantifiers",
        does: "a filter with quantifiers twelve deep over a job of 30 datacenters, eight at once",
        expected: "an error",
        size: Size::Full,
        run: |scene| Box::pin(nested_quantifiers(scene)),
    },
    Attack {
        name: "filter-depth",
        does: "filters of 15,000 parentheses, of 5,000 negations, and longer than filters may be",
        expected: "an error",
        size: Size::Quick,
        run: |scene| Box::pin(filter_depth(scene)),
    },
    Attack {
        name: "filter-expressions",
        does: "regular expressions that expand to gigabytes or backtrack, eight at once",
        expected: "a list, or an error",
        size: Size::Full,
        run: |scene| Box::pin(filter_expressions(scene)),
    },
    Attack {
        name: "search-garbage",
        does: "searches with unknown contexts, long prefixes and prefixes that are no ids",
        expected: "any answer",
        size: Size::Full,
        run: |scene| Box::pin(search_garbage(scene)),
    },
];

/// The time within which a request that cannot block is answered. It leaves room for an ordinary build.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Values that are no ordinary numbers.
const NUMBERS: [&str; 16] = [
    "-1",
    "-9223372036854775808",
    "-9223372036854775809",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999",
    "0x10",
    "1e9",
    "1.5",
    "NaN",
    "Infinity",
    "%2B1",
    "%201",
    "%D9%A3",
    "1%00",
];

/// Sends a request and expects an answer at once.
async fn expect_at_once(scene: &Scene, path: &str) -> Result<(), String> {
    let begun = clock::monotonic();
    let answer = scene.get(path).await;
    let took = begun.elapsed();
    ensure(answer.status != SILENT && answer.status != CLOSED, || format!("{path}: {}", answer.summary()))?;
    ensure(took < AT_ONCE, || format!("{path}: answered after {took:?}"))
}

async fn odd_numbers(scene: &Scene) -> Outcome {
    let unknown = "00000000-0000-0000-0000-000000000000";
    for number in NUMBERS {
        expect_at_once(scene, &format!("/v1/jobs?per_page={number}")).await?;
        // A valid index may block, for so long.
        expect_at_once(scene, &format!("/v1/nodes?index={number}&wait=10ms")).await?;
        expect_at_once(scene, &format!("/v1/client/fs/readat/{unknown}?path=a&offset={number}&limit=1"))
            .await?;
        expect_at_once(scene, &format!("/v1/client/fs/readat/{unknown}?path=a&offset=1&limit={number}"))
            .await?;
        expect_at_once(scene, &format!("/v1/client/fs/logs/{unknown}?task=a&type=stdout&offset={number}"))
            .await?;
    }
    Ok(())
}

async fn odd_waits(scene: &Scene) -> Outcome {
    for wait in
        ["-1s", "0s", "5", "1ns", "s", "1x", "", "1e300h", "99999999999999999999h", "1h1h1h-3h", "%E2%88%9E"]
    {
        // The index has passed, so no valid wait blocks.
        expect_at_once(scene, &format!("/v1/jobs?index=1&wait={wait}")).await?;
    }
    Ok(())
}

async fn next_tokens(scene: &Scene) -> Outcome {
    let long = "x".repeat(50_000);
    for token in [
        "",
        ".",
        "..",
        "....",
        "a.b.c",
        "%00",
        "%ff",
        "%E2%80%AE",
        "default.%F0%9F%92%A5",
        "'--",
        "-1",
        &long[..],
    ] {
        for list in ["jobs", "allocations", "evaluations", "nodes", "deployments", "jobs/statuses"] {
            expect_at_once(scene, &format!("/v1/{list}?per_page=1&next_token={token}")).await?;
            expect_at_once(scene, &format!("/v1/{list}?per_page=1&reverse=true&next_token={token}")).await?;
        }
    }
    Ok(())
}

async fn parameter_flood(scene: &Scene) -> Outcome {
    let many = "a=1&".repeat(15_000);
    let prefixes = "prefix=a&".repeat(5_000);
    for query in [
        &many[..],
        &prefixes[..],
        "%",
        "%zz=%zz",
        "%u0000",
        "=",
        "=a&=b",
        "&&&&",
        "a=b=c=d",
        "?a?b",
        "prefix[]=a",
    ] {
        let answer = scene.get(&format!("/v1/jobs?{query}")).await;
        ensure(answer.status != SILENT, || answer.summary())?;
    }
    Ok(())
}

async fn odd_namespaces(scene: &Scene) -> Outcome {
    let long = "n".repeat(50_000);
    for value in [
        "*",
        "**",
        "..",
        "%2F..%2F",
        "%00",
        "%0a",
        "%F0%9F%92%A5",
        "'%3B%20drop%20table%20jobs%3B--",
        &long[..],
    ] {
        for name in ["namespace", "region", "prefix", "stale", "pretty", "reverse", "meta"] {
            let answer = scene.get(&format!("/v1/jobs?{name}={value}")).await;
            ensure(answer.status != SILENT && answer.status != CLOSED, || {
                format!("{name}: {}", answer.summary())
            })?;
        }
    }
    Ok(())
}

async fn nested_quantifiers(scene: &Scene) -> Outcome {
    const DEPTH: usize = 12;
    let mut job = jobs::mock_service("quantified", 0);
    let datacenters: Vec<String> = (0..30).map(|number| format!("dc{number}")).collect();
    job["Job"]["Datacenters"] = json!(datacenters);
    expect("registering the job", &scene.register(&job).await, &[200])?;
    let open: String = (0..DEPTH).map(|level| format!("all Datacenters as d{level} {{ ")).collect();
    let filter = format!("{open}d0 != none{}", " }".repeat(DEPTH));
    let path = format!("/v1/jobs?filter={}", escaped(&filter));
    for answer in filtered(scene, &path).await {
        expect("quantifiers in quantifiers", &answer, &[400])?;
    }
    Ok(())
}

/// Sends the same request eight times at once.
async fn filtered(scene: &Scene, path: &str) -> Vec<Answer> {
    let host = scene.host();
    at_once(8, |_| {
        let (host, path) = (host.clone(), path.to_owned());
        async move { get(&host, &path).await }
    })
    .await
}

async fn filter_depth(scene: &Scene) -> Outcome {
    let parentheses = format!("{}ID == a{}", "(".repeat(7_500), ")".repeat(7_500));
    let negations = format!("{}ID == a", "not ".repeat(4_000));
    let long = format!("ID == {}", "a".repeat(20_000));
    for filter in [parentheses, negations, long] {
        let answer = scene.get(&format!("/v1/jobs?filter={}", escaped(&filter))).await;
        expect_refused("a deep or long filter", &answer)?;
    }
    Ok(())
}

async fn filter_expressions(scene: &mut Scene) -> Outcome {
    scene.make_crowd().await?;
    for pattern in ["((a{1,200}){1,200}){1,200}", "(m+)+$", "(m|mm)*x", r"(?i)\pL{1,1000}x", "(.*.*.*.*.*)*y"]
    {
        let filter = format!("any Meta as key, value {{ value matches `{pattern}` }}");
        let path = format!("/v1/jobs?filter={}", escaped(&filter));
        for answer in filtered(scene, &path).await {
            expect(pattern, &answer, &[200, 400, 503])?;
        }
    }
    Ok(())
}

async fn search_garbage(scene: &Scene) -> Outcome {
    let long = "a".repeat(1 << 20);
    for body in [
        json!({}),
        json!({ "Prefix": "", "Context": "all" }),
        json!({ "Prefix": long, "Context": "jobs" }),
        json!({ "Prefix": "%", "Context": "allocs" }),
        json!({ "Prefix": "\u{202e}\u{0}", "Context": "nodes" }),
        json!({ "Prefix": "a", "Context": "nothing" }),
        json!({ "Prefix": ["a"], "Context": 7 }),
        json!([]),
    ] {
        let answer = scene.ask("PUT", "/v1/search", body.to_string().as_bytes()).await;
        ensure(answer.status != SILENT && answer.status != CLOSED, || answer.summary())?;
    }
    Ok(())
}
