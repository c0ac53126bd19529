//! Runs the steps of a scene: sends each request, and compares the response with the expected one.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::http::{Request, Response, send};
use super::pattern::{Variables, fill, fill_text, fit};
use super::{Scene, Verdict};

/// The root token of servers with access control: `${root}`.
pub(super) const ROOT_TOKEN: &str = "5b1a9a3e-8d1f-4b62-9d3a-0c5f5e2d7a11";
/// The pause before a request is repeated whose response is not yet as expected.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// The default time between a request and the steps that run while it waits, in seconds.
const LEAD_SECS: f64 = 0.4;

/// Plays a scene to the agent at an address.
pub(super) async fn play(address: &str, scene: &Scene) -> Verdict {
    let mut variables =
        Variables::from([("root".to_owned(), json!(ROOT_TOKEN)), ("addr".to_owned(), json!(address))]);
    let token = scene.json["token"].as_str().unwrap_or_default().to_owned();
    for (number, step) in scene.steps().iter().enumerate() {
        match play_step(address, step, &variables, &token).await {
            Ok(set) => variables = set,
            Err(Mismatch { not_built: Some(what), .. }) => return Verdict::NotBuilt(what),
            Err(mismatch) if scene.departs(number, &mismatch.reason) => {}
            Err(Mismatch { reason, not_built: None }) => {
                let what = fill_text(step["do"].as_str().unwrap_or_default(), &variables);
                return Verdict::Failed(format!("step {number} {what}: {reason}"));
            }
        }
    }
    Verdict::Passed
}

/// Why a step failed.
struct Mismatch {
    reason: String,
    /// The missing feature, if the response reports that it is not implemented.
    not_built: Option<String>,
}

impl Mismatch {
    fn new(reason: String, response: &Response) -> Self {
        const NOT_IMPLEMENTED: u16 = 501;
        let says_so = response.status == NOT_IMPLEMENTED && response.text().contains("not built");
        Self { reason, not_built: says_so.then(|| response.text()) }
    }
}

impl From<String> for Mismatch {
    fn from(reason: String) -> Self {
        Self { reason, not_built: None }
    }
}

fn seconds(value: &Value) -> Option<Duration> {
    value.as_f64().map(Duration::from_secs_f64)
}

async fn play_step(
    address: &str,
    step: &Value,
    variables: &Variables,
    token: &str,
) -> Result<Variables, Mismatch> {
    if let Some(pause) = seconds(&step["pause"]) {
        sleep(pause).await;
    }
    let request = request(step, variables, token);
    let want = &step["want"];
    let read = seconds(&want["read"]);
    let is_enough = |body: &[u8]| {
        let so_far = Response { body: body.to_vec(), ..Response::default() };
        want["whole"] != true && fit_body(want, &so_far, variables).is_ok()
    };
    if let Some(meanwhile) = step["meanwhile"].as_array() {
        let requesting = send(address, &request, read, is_enough);
        let acting = async {
            sleep(Duration::from_secs_f64(step["lead"].as_f64().unwrap_or(LEAD_SECS))).await;
            let mut variables = variables.clone();
            for step in meanwhile {
                variables =
                    Box::pin(play_step(address, step, &variables, token)).await.map_err(|mismatch| {
                        Mismatch {
                            reason: format!("meanwhile {}: {}", step["do"], mismatch.reason),
                            ..mismatch
                        }
                    })?;
            }
            Ok::<_, Mismatch>(variables)
        };
        let (response, acted) = tokio::join!(requesting, acting);
        let (acted, response) = (acted?, response?);
        return compare(step, &response, &acted).map_err(|reason| Mismatch::new(reason, &response));
    }
    let end = Instant::now() + seconds(&want["within"]).unwrap_or_default();
    loop {
        let response = send(address, &request, read, is_enough).await?;
        match compare(step, &response, variables) {
            Ok(set) => return Ok(set),
            Err(reason) => {
                let mismatch = Mismatch::new(reason, &response);
                if mismatch.not_built.is_some() || Instant::now() >= end {
                    return Err(mismatch);
                }
            }
        }
        sleep(RETRY_PAUSE).await;
    }
}

fn request(step: &Value, variables: &Variables, token: &str) -> Request {
    let what = fill_text(step["do"].as_str().unwrap_or_default(), variables);
    let (method, path) = what.split_once(' ').unwrap_or((&what, "/"));
    let mut headers = Vec::new();
    for (name, value) in step["headers"].as_object().into_iter().flatten() {
        let value = fill(value, variables);
        headers.push((name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
    }
    let token = fill_text(step["token"].as_str().unwrap_or(token), variables);
    let is_given = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("x-nomad-token"));
    if !token.is_empty() && !is_given {
        headers.push(("X-Nomad-Token".to_owned(), token));
    }
    let body = match (step.get("body"), step["raw"].as_str()) {
        (Some(body), _) => fill(body, variables).to_string(),
        (None, Some(raw)) => fill_text(raw, variables),
        (None, None) => String::new(),
    };
    Request { method: method.to_owned(), path: path.to_owned(), headers, body: body.into() }
}

/// Compares a response with the one that a step expects. A step with a quirk is accepted as it is, because we respond
/// differently by intent.
fn compare(step: &Value, response: &Response, variables: &Variables) -> Result<Variables, String> {
    if step.get("quirk").is_some() {
        return Ok(variables.clone());
    }
    let want = &step["want"];
    if let Some(status) = want["status"].as_u64()
        && status != u64::from(response.status)
    {
        return Err(format!("status: want {status}, got {}: {}", response.status, response.text()));
    }
    let mut variables = fit_body(want, response, variables)?;
    let meta = match want["meta"].as_str() {
        Some("query") => json!({
            "X-Nomad-Index": "<int>", "X-Nomad-KnownLeader": "true", "X-Nomad-LastContact": "<int>",
        }),
        Some("index") => json!({
            "X-Nomad-Index": "<index>", "X-Nomad-KnownLeader": null, "X-Nomad-LastContact": null,
        }),
        Some("none") => json!({
            "X-Nomad-Index": null, "X-Nomad-KnownLeader": null, "X-Nomad-LastContact": null,
        }),
        _ => json!({}),
    };
    let mut wanted = meta.as_object().cloned().unwrap_or_default();
    wanted.extend(want["headers"].as_object().cloned().unwrap_or_default());
    for (name, pattern) in &wanted {
        let found = response.headers.get(&name.to_lowercase());
        if pattern.is_null() && found.is_none() {
            continue;
        }
        let is_number = pattern.as_str().is_some_and(|text| text.starts_with("<in"));
        let found = found.map(|text| match text.parse::<u64>() {
            Ok(number) if is_number => json!(number),
            _ => json!(text),
        });
        variables = fit(pattern, found.as_ref(), &variables, now_secs())
            .map_err(|reason| format!("header {name}{reason}"))?;
    }
    if let (Some(least), Some(most)) = (want["seconds"][0].as_f64(), want["seconds"][1].as_f64()) {
        let took = response.took.as_secs_f64();
        if !(least..=most).contains(&took) {
            return Err(format!("took {took:.2} s, want {least} to {most}"));
        }
    }
    Ok(variables)
}

fn now_secs() -> f64 {
    telemetry::clock::now().as_secs() as f64
}

fn fit_body(want: &Value, response: &Response, variables: &Variables) -> Result<Variables, String> {
    let found = |pattern: &Value, value: &Value| {
        fit(pattern, Some(value), variables, now_secs()).map_err(|reason| format!("body{reason}"))
    };
    if let Some(pattern) = want.get("json") {
        let value: Value = serde_json::from_slice(&response.body)
            .map_err(|error| format!("body: not JSON ({error}): {}", response.text()))?;
        return found(pattern, &value);
    }
    if let Some(pattern) = want.get("text") {
        return found(pattern, &json!(response.text()));
    }
    if let Some(pattern) = want["frames"].as_object() {
        let mut pattern = pattern.clone();
        pattern.insert("...".to_owned(), json!(true));
        return found(&Value::Object(pattern), &frames(&response.body)?);
    }
    if let Some(wanted) = want["events"].as_array() {
        return fit_events(wanted, want["only_events"] == true, &response.body, variables);
    }
    Ok(variables.clone())
}

/// The JSON values that follow each other. An incomplete one at the end is left out.
fn documents(body: &[u8]) -> Vec<Value> {
    serde_json::Deserializer::from_slice(body).into_iter().map_while(Result::ok).collect()
}

/// Combines the frames of a file or log (http-api §13.1).
fn frames(body: &[u8]) -> Result<Value, String> {
    let documents = documents(body);
    let is_frame = |document: &&Value| document.as_object().is_some_and(|members| !members.is_empty());
    let frames: Vec<&Value> = documents.iter().filter(is_frame).collect();
    let mut text = Vec::new();
    for frame in &frames {
        if let Some(data) = frame.get("Data") {
            let data: api_types::Base64 =
                serde_json::from_value(data.clone()).map_err(|error| format!("frame: {error}: {frame}"))?;
            text.extend(data.0);
        }
    }
    Ok(json!({
        "text": String::from_utf8_lossy(&text),
        "first": frames.first(),
        "last": frames.last(),
        "heartbeat": documents.iter().any(|document| *document == json!({})),
        "events": frames.iter().filter_map(|frame| frame.get("FileEvent")).collect::<Vec<_>>(),
    }))
}

/// Matches expected events in this order, with others allowed in between.
fn fit_events(wanted: &[Value], only: bool, body: &[u8], variables: &Variables) -> Result<Variables, String> {
    let mut events = Vec::new();
    for document in documents(body) {
        let Some(members) = document.as_object() else { return Err(format!("stream: {document}")) };
        if members.is_empty() {
            continue;
        }
        if members.keys().collect::<Vec<_>>() != ["Events", "Index"] {
            return Err(format!("stream: unexpected line {document}"));
        }
        events.extend(document["Events"].as_array().cloned().unwrap_or_default());
    }
    let (mut events, mut variables) = (events.into_iter(), variables.clone());
    for (number, pattern) in wanted.iter().enumerate() {
        let mut mismatch = "no event left".to_owned();
        let found = events.by_ref().find_map(|event| {
            fit(pattern, Some(&event), &variables, now_secs()).map_err(|reason| mismatch = reason).ok()
        });
        let what = || format!("event {number} {} {}", pattern["Topic"], pattern["Type"]);
        variables = found.ok_or_else(|| format!("{} not found; last tried: {mismatch}", what()))?;
    }
    match events.next() {
        Some(event) if only => Err(format!("stream: more events than wanted: {event}")),
        _ => Ok(variables),
    }
}
