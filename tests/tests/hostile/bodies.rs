//! Attacks by the bodies of requests: JSON that is large, deep, wide or wrong, and bodies that are compressed.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use tests::harness::jobs;
use wire::envelope::COMMAND_BYTES_MAX;

use crate::attack::{Attack, Outcome, Size, at_once, ensure, expect, expect_refused};
use crate::scene::Scene;
use crate::socket::{CLOSED, SILENT, ask};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "body-at-the-limit",
        does: "bodies of a byte less than the limit, of exactly the limit, and of a byte more",
        expected: "200, 200 and 413",
        size: Size::Full,
        run: |scene| Box::pin(body_at_the_limit(scene)),
    },
    Attack {
        name: "many-large-bodies",
        does: "64 bodies of 8 MiB at once",
        expected: "an answer each; 503 when there is no memory for more",
        size: Size::Full,
        run: |scene| Box::pin(many_large_bodies(scene)),
    },
    Attack {
        name: "wide-json",
        does: "`[1,1,…]` of 8 MiB, as a body, as a job and in its metadata, eight at once",
        expected: "an error",
        size: Size::Full,
        run: |scene| Box::pin(wide_json(scene)),
    },
    Attack {
        name: "deep-json",
        does: "lists and objects nested 20,000 deep, open and closed, on every route that takes a body",
        expected: "an error",
        size: Size::Full,
        run: |scene| Box::pin(deep_json(scene)),
    },
    Attack {
        name: "many-objects",
        does: "jobs of 50,000 and more groups without anything in them",
        expected: "an error",
        size: Size::Full,
        run: |scene| Box::pin(many_objects(scene)),
    },
    Attack {
        name: "odd-json",
        does: "numbers of 1e999999, duplicate members, other encodings, comments, half escapes",
        expected: "an error",
        size: Size::Quick,
        run: |scene| Box::pin(odd_json(scene)),
    },
    Attack {
        name: "wrong-types",
        does: "each member of a job replaced by null, a text, a list, an object, a large number",
        expected: "any answer",
        size: Size::Full,
        run: |scene| Box::pin(wrong_types(scene)),
    },
    Attack {
        name: "compressed-bodies",
        does: "bodies that are compressed, of 1 GiB of zeros and of a job, in one layer and in two",
        expected: "an error; nothing is decompressed",
        size: Size::Full,
        run: |scene| Box::pin(compressed_bodies(scene)),
    },
];

/// Routes that take a body, with their methods.
const ROUTES: [(&str, &str); 10] = [
    ("PUT", "/v1/jobs"),
    ("PUT", "/v1/jobs/parse"),
    ("PUT", "/v1/validate/job"),
    ("PUT", "/v1/job/x/plan"),
    ("PUT", "/v1/job/x/evaluate"),
    ("PUT", "/v1/search"),
    ("PUT", "/v1/namespace"),
    ("PUT", "/v1/node/pools"),
    ("PUT", "/v1/operator/scheduler/configuration"),
    ("DELETE", "/v1/evaluations"),
];

/// A job that is padded to so many bytes.
fn padded(id: &str, bytes: usize) -> Vec<u8> {
    let mut body = jobs::mock_service(id, 0).to_string().into_bytes();
    body.resize(bytes, b' ');
    body
}

async fn body_at_the_limit(scene: &Scene) -> Outcome {
    for (bytes, statuses) in [
        (COMMAND_BYTES_MAX - 1, &[200][..]),
        (COMMAND_BYTES_MAX, &[200]),
        // The server does not read on, so its answer may be lost.
        (COMMAND_BYTES_MAX + 1, &[413, CLOSED]),
        (4 * COMMAND_BYTES_MAX, &[413, CLOSED]),
    ] {
        let answer = scene.ask("PUT", "/v1/jobs", &padded("at-the-limit", bytes)).await;
        expect(&format!("a body of {bytes} bytes"), &answer, statuses)?;
    }
    Ok(())
}

async fn many_large_bodies(scene: &Scene) -> Outcome {
    let host = scene.host();
    let answers = at_once(64, |number| {
        let (host, body) = (host.clone(), padded(&format!("large-{number}"), COMMAND_BYTES_MAX));
        async move { ask(&host, "PUT", "/v1/jobs", &body).await }
    })
    .await;
    for answer in answers {
        expect("a large body", &answer, &[200, 503, CLOSED])?;
    }
    Ok(())
}

async fn wide_json(scene: &Scene) -> Outcome {
    let ones = "1,".repeat(COMMAND_BYTES_MAX / 2 - 100);
    let list = format!("[{ones}1]");
    let bodies =
        [list.clone(), format!(r#"{{"Job":{list}}}"#), format!(r#"{{"Job":{{"ID":"a","Meta":{list}}}}}"#)];
    let host = scene.host();
    for body in bodies {
        let answers = at_once(8, |_| {
            let (host, body) = (host.clone(), body.clone());
            async move { ask(&host, "PUT", "/v1/jobs", body.as_bytes()).await }
        })
        .await;
        for answer in answers {
            expect_refused("a wide list", &answer)?;
        }
    }
    Ok(())
}

async fn deep_json(scene: &Scene) -> Outcome {
    const DEPTH: usize = 20_000;
    let open = "[".repeat(DEPTH);
    let closed = format!("{open}{}", "]".repeat(DEPTH));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(DEPTH), "}".repeat(DEPTH));
    let job = format!(r#"{{"Job":{{"ID":"deep","TaskGroups":[{{"Tasks":[{{"Config":{objects}}}]}}]}}}}"#);
    for (method, path) in ROUTES {
        for body in [&open, &closed, &objects, &job] {
            let answer = scene.ask(method, path, body.as_bytes()).await;
            expect_refused(&format!("{method} {path}"), &answer)?;
        }
    }
    Ok(())
}

async fn many_objects(scene: &Scene) -> Outcome {
    for count in [49_000, 50_001, 1_000_000] {
        let groups = vec!["{}"; count].join(",");
        let body = format!(r#"{{"Job":{{"ID":"many-objects","TaskGroups":[{groups}]}}}}"#);
        let answer = scene.ask("PUT", "/v1/jobs", body.as_bytes()).await;
        expect_refused(&format!("{count} groups"), &answer)?;
    }
    Ok(())
}

async fn odd_json(scene: &Scene) -> Outcome {
    let good = jobs::mock_service("odd-json", 0).to_string();
    let utf16: Vec<u8> = good.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("a number without bounds", br#"{"Job":{"ID":"a","Priority":1e999999}}"#.to_vec()),
        ("a count of minus zero point five", br#"{"Job":{"ID":"a","TaskGroups":[{"Count":-0.5}]}}"#.to_vec()),
        (
            "100,000 digits",
            format!(r#"{{"Job":{{"ID":"a","Priority":{}}}}}"#, "9".repeat(100_000)).into_bytes(),
        ),
        ("not a number", br#"{"Job":{"ID":"a","Priority":NaN}}"#.to_vec()),
        ("UTF-16", utf16),
        ("bytes that are no text", b"{\"Job\":{\"ID\":\"\xff\xfe\"}}".to_vec()),
        ("half a surrogate", br#"{"Job":{"ID":"\ud800"}}"#.to_vec()),
        ("a comment", format!("/* */ {good}").into_bytes()),
        ("half of it", good.as_bytes()[..good.len() / 2].to_vec()),
        ("an escape without end", br#"{"Job":{"ID":"\"#.to_vec()),
        ("duplicate members", br#"{"Job":{"ID":"a","ID":"b"},"Job":null}"#.to_vec()),
    ];
    for (what, body) in cases {
        expect_refused(what, &scene.ask("PUT", "/v1/jobs", &body).await)?;
    }
    Ok(())
}

async fn wrong_types(scene: &Scene) -> Outcome {
    let good = jobs::mock_service("wrong-types", 0);
    let mut pointers = Vec::new();
    collect_pointers(&good, String::new(), &mut pointers);
    for pointer in pointers {
        for wrong in [
            serde_json::json!(null),
            serde_json::json!("text"),
            serde_json::json!([1, [2]]),
            serde_json::json!({ "a": {} }),
            serde_json::json!(i64::MIN),
        ] {
            let mut job = good.clone();
            *job.pointer_mut(&pointer).expect("the job has this member") = wrong;
            let answer = scene.register(&job).await;
            ensure(answer.status != SILENT && answer.status != CLOSED, || {
                format!("{pointer}: {}", answer.summary())
            })?;
        }
    }
    Ok(())
}

/// The paths of all members and elements of a value.
fn collect_pointers(value: &serde_json::Value, path: String, found: &mut Vec<String>) {
    if let Some(members) = value.as_object() {
        members.iter().for_each(|(name, member)| collect_pointers(member, format!("{path}/{name}"), found));
    }
    if let Some(elements) = value.as_array() {
        let elements = elements.iter().enumerate();
        elements.for_each(|(index, element)| collect_pointers(element, format!("{path}/{index}"), found));
    }
    if !path.is_empty() {
        found.push(path);
    }
}

async fn compressed_bodies(scene: &Scene) -> Outcome {
    let job = jobs::mock_service("compressed", 0).to_string().into_bytes();
    let bomb = compressed(&vec![0; 1 << 20]).repeat(1_024);
    let twice = compressed(&bomb);
    for (what, encoding, body) in [
        ("a compressed job", "gzip", compressed(&job)),
        ("1 GiB of zeros", "gzip", bomb),
        ("zeros in two layers", "gzip, gzip", twice),
        ("an unknown encoding", "x-nothing", job.clone()),
        ("an encoding that it does not have", "br", job),
    ] {
        let headers = format!("Content-Encoding: {encoding}\r\n");
        let answer = scene.ask_with("PUT", "/v1/jobs", &headers, &body).await;
        expect_refused(what, &answer)?;
    }
    ensure(!scene.has_job("compressed").await, || "a compressed body was read".to_owned())?;
    Ok(())
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("a vector takes everything");
    encoder.finish().expect("a vector takes everything")
}
