//! Requests to the HTTP API: bodies of jobs, filter expressions, schedules, and whole requests.

use api::fuzzing::{Request, Response};
use api_types::JobRegisterRequest;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::job_files::stored;
use crate::http;
use crate::seeds::{self, SEPARATOR};
use crate::target::{Repeated, Target};

/// Maximum size of a request body (`drover api -http-request-bytes-max`).
const BODY_BYTES_MAX: usize = wire::envelope::COMMAND_BYTES_MAX;
/// The lists that have filters.
const LISTS: [&str; 6] =
    ["/v1/jobs", "/v1/allocations", "/v1/evaluations", "/v1/deployments", "/v1/nodes", "/v1/node/pools"];

/// A pattern of a part of a job.
macro_rules! in_job {
    ($before:literal, $open:literal, $middle:literal, $close:literal, $after:literal) => {
        Repeated {
            before: concat!("{\"Job\":{\"ID\":\"a\",", $before),
            open: $open,
            middle: $middle,
            close: $close,
            after: concat!($after, "}}"),
        }
    };
}

/// Bodies of registrations, validations and dry runs of jobs.
pub static JOB_BODY: Target = Target {
    name: "job_body",
    run: job_body,
    seeds: || {
        let bodies = seeds::requests().filter_map(|(_, body)| body).filter(|body| body["Job"].is_object());
        seeds::texts(bodies.map(|body| body.to_string()))
    },
    words: &[
        "{\"Job\":",
        "\"ID\":\"a\"",
        "\"TaskGroups\":[",
        "\"Tasks\":[",
        "\"Constraints\":[",
        "\"LTarget\":\"${attr.kernel.name}\"",
        "\"Operand\":\"version\"",
        "\"Periodic\":{\"Spec\":\"* * * * *\"}",
        "\"Update\":{",
        "\"Networks\":[",
        "\"ReservedPorts\":[",
        "\"Services\":[",
        "\"Volumes\":{",
        "\"Scaling\":{",
        "\"Spreads\":[",
        "\"Count\":",
        "\"Config\":{",
        "\"Meta\":{",
        "\"Type\":\"system\"",
        "null",
        "true",
        "-1",
        "1e999",
        "\"1h\"",
        "\\u0000",
        "\\ud800",
    ],
    repeated: &[
        in_job!("\"Meta\":{\"a\":", "[", "", "]", "}"),
        in_job!("\"Datacenters\":[\"a\"", ",\"a\"", "", "", "]"),
        in_job!("\"Constraints\":[{}", ",{}", "", "", "]"),
        in_job!("\"TaskGroups\":[{}", ",{}", "", "", "]"),
        in_job!(
            "\"TaskGroups\":[{\"Name\":\"g\",\"Tasks\":[{\"Name\":\"t\",\"Config\":{\"a\":[1",
            ",1",
            "]",
            "",
            "}}]}]"
        ),
        in_job!(
            "\"TaskGroups\":[{\"Name\":\"g\",\"Tasks\":[{\"Name\":\"t\",\"Config\":{\"a\":[1",
            ",[]",
            "]",
            "",
            "}}]}]"
        ),
        in_job!("\"Name\":\"", "\\u0000", "", "", "\""),
        in_job!("\"Unknown\":[1", ",1", "", "", "]"),
        Repeated { before: "", open: "[", middle: "", close: "]", after: "" },
        Repeated { before: "", open: "{\"Job\":", middle: "1", close: "}", after: "" },
    ],
    size_max: BODY_BYTES_MAX,
};

/// Filter expressions of lists.
pub static FILTER: Target = Target {
    name: "filter",
    run: filter,
    seeds: || {
        let with_filter = seeds::requests().filter_map(|(request, _)| {
            let (_, query) = request.split_once("filter=")?;
            let encoded = query.split('&').next().unwrap_or_default().replace('+', " ");
            Some(percent_decode_str(&encoded).decode_utf8().ok()?.into_owned())
        });
        let expressions = [
            "ID == \"web\" and not (Status == running or Priority != 50)",
            "any TaskGroups as tg { any tg.Tasks as t { t.Driver == docker } }",
            "all Meta as k, v { k matches `^a` and v is not empty }",
            "\"dc1\" in Datacenters or Attributes[\"kernel.name\"] == linux",
            "\"/Meta/a~1b\" == x and Name contains \"e\\n\"",
            "ClientStatus == running and TaskStates.web.State is not nil",
        ];
        seeds::texts(with_filter.chain(expressions.map(str::to_owned)))
    },
    words: &[
        " and ",
        " or ",
        "not ",
        "(",
        ")",
        "==",
        "!=",
        " in ",
        " not in ",
        " contains ",
        " matches ",
        " is empty",
        " is not nil",
        "any ",
        "all ",
        " as ",
        " { ",
        " }",
        "_, ",
        ".0.",
        "[\"",
        "\"]",
        "`",
        "ID",
        "Name",
        "Meta",
        "Status",
        "Priority",
        "TaskGroups",
        "Tasks",
        "Datacenters",
        "Attributes",
        "TaskStates",
        "NodeResources",
    ],
    repeated: &[
        Repeated { before: "", open: "(", middle: "ID == a", close: ")", after: "" },
        Repeated { before: "", open: "not ", middle: "ID == a", close: "", after: "" },
        Repeated { before: "ID == a", open: " or ID == a", middle: "", close: "", after: "" },
        Repeated { before: "ID matches `", open: "a*", middle: "", close: "", after: "b`" },
        Repeated { before: "ID matches `", open: "(", middle: "a", close: "){9}", after: "`" },
        Repeated { before: "ID", open: ".a", middle: "", close: "", after: " == a" },
        Repeated { before: "", open: "any TaskGroups as a { ", middle: "ID == a", close: " }", after: "" },
        Repeated { before: "", open: "any Attributes as k, v { ", middle: "k == a", close: " }", after: "" },
    ],
    size_max: 24 << 10,
};

/// Cron expressions, each followed by a time zone.
pub static CRON: Target = Target {
    name: "cron",
    run: cron,
    seeds: || {
        let schedules = [
            "*/15 * * * *",
            "0 9 * * MON-FRI\u{1e}Europe/Vienna",
            "@daily",
            "0 0 L * *",
            "0 0 29 2 *",
            "0 0 * * 5#3",
            "30 0/5 8-18 1,15 JAN-DEC * 2030-2099\u{1e}America/New_York",
            "0 0 1W * ?",
            "@every 1h",
            "61 * * * *",
        ];
        seeds::texts(schedules)
    },
    words: &[
        "*",
        "?",
        "/",
        "-",
        ",",
        " ",
        "L",
        "W",
        "#",
        "MON",
        "JAN",
        "@yearly",
        "@every ",
        "CRON_TZ=",
        "\u{1e}",
        "UTC",
        "Europe/Vienna",
        "../",
        "2099",
        "0",
    ],
    repeated: &[
        Repeated { before: "0", open: ",0", middle: " * * * *", close: "", after: "" },
        Repeated { before: "*", open: " *", middle: "", close: "", after: "" },
        Repeated { before: "0 0 1 1 *\u{1e}", open: "a/", middle: "b", close: "", after: "" },
    ],
    size_max: 64 << 10,
};

/// Whole requests: a line with method and target, headers, an empty line, and the body.
pub static HTTP_REQUEST: Target = Target {
    name: "http_request",
    run: http_request,
    seeds: || {
        let text = |(request, body): (String, Option<Value>)| {
            let request = request.replace("${", "").replace('}', "");
            let body = body.map(|body| body.to_string()).unwrap_or_default();
            format!("{request}\naccept-encoding: gzip\n\n{body}")
        };
        seeds::texts(seeds::requests().map(text))
    },
    words: &[
        "GET /v1/",
        "PUT /v1/",
        "POST /v1/",
        "DELETE /v1/",
        "jobs",
        "job/",
        "allocation/",
        "allocations",
        "evaluations",
        "evaluation/",
        "deployments",
        "deployment/",
        "nodes",
        "node/",
        "node/pools",
        "namespaces",
        "search",
        "client/fs/ls/",
        "client/fs/logs/",
        "agent/",
        "operator/",
        "metrics",
        "status/",
        "?",
        "&",
        "=",
        "index=1",
        "stale",
        "prefix=",
        "next_token=",
        "per_page=",
        "filter=",
        "namespace=*",
        "reverse=true",
        "pretty",
        "region=",
        "resources=true",
        "task_states=true",
        "%00",
        "%2F",
        "%ff",
        "..",
        "//",
        "\nx-nomad-token: ",
        "\norigin: a\n",
        "\naccess-control-request-method: GET\n",
        "\ntraceparent: 00-",
        "\naccept-encoding: gzip\n",
        "\n\n",
        "b0000001-0000-4000-8000-000000000001",
    ],
    repeated: &[
        Repeated { before: "GET /v1/job/", open: "a/", middle: "", close: "", after: "versions\n\n" },
        Repeated { before: "GET /v1/", open: "../", middle: "", close: "", after: "\n\n" },
        Repeated { before: "GET /v1/jobs?", open: "a=b&", middle: "", close: "", after: "\n\n" },
        Repeated { before: "GET /v1/jobs?prefix=", open: "%41", middle: "", close: "", after: "\n\n" },
        Repeated {
            before: "GET /v1/jobs\n",
            open: "accept-encoding: a,b\n",
            middle: "",
            close: "",
            after: "\n",
        },
        Repeated {
            before: "PUT /v1/search\n\n{\"Prefix\":\"",
            open: "a",
            middle: "",
            close: "",
            after: "\"}",
        },
        Repeated {
            before: "PUT /v1/jobs/parse\n\n{\"JobHCL\":\"",
            open: "[",
            middle: "",
            close: "",
            after: "\"}",
        },
    ],
    size_max: BODY_BYTES_MAX,
};

fn job_body(input: &[u8]) {
    http::put("/v1/validate/job", input);
    http::put("/v1/jobs", input);
    if let Some(id) = id_of(input) {
        http::put(&format!("/v1/job/{}/plan", encoded(&id)), input);
    }
    let body = api_types::decode::from_slice::<JobRegisterRequest>(input);
    if let Some(job) = body.ok().and_then(|body| body.job) {
        stored(&job);
    }
}

/// The id of the job in a body.
fn id_of(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Body {
        #[serde(rename = "Job")]
        job: Named,
    }
    #[derive(Deserialize)]
    struct Named {
        #[serde(rename = "ID")]
        id: String,
    }
    serde_json::from_slice::<Body>(body).ok().map(|body| body.job.id)
}

/// Each object of a list either matches an expression or its negation.
fn filter(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let queries = [text, &format!("not ({text})")].map(|text| format!("&filter={}", encoded(text)));
    for list in LISTS {
        let [matching, others] = queries.each_ref().map(|query| length(list, query));
        if let (Some(matching), Some(others)) = (matching, others) {
            let all = length(list, "").expect("a list can be read");
            assert_eq!(
                matching + others,
                all,
                "{list}: objects that match, and those that do not, are not all"
            );
        }
    }
}

/// The number of objects in a list; `None` if the request is refused.
fn length(list: &str, query: &str) -> Option<usize> {
    let response = http::get(&format!("{list}?stale&namespace=*{query}"))?;
    let objects = (response.status == 200).then(|| serde_json::from_slice::<Vec<IgnoredAny>>(&response.body));
    objects.map(|objects| objects.expect("a list is in JSON").len())
}

fn cron(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (schedule, zone) = text.split_once(SEPARATOR).unwrap_or((text, ""));
    let job = json!({
        "ID": "c",
        "Type": "batch",
        "Periodic": { "Spec": schedule, "TimeZone": zone },
        "TaskGroups": [{ "Name": "g", "Tasks": [{ "Name": "t", "Driver": "raw_exec" }] }],
    });
    http::put("/v1/jobs", json!({ "Job": job }).to_string().as_bytes());
    // The same in a job file, where texts are templates.
    let schedule = schedule.replace("${", "$${").replace("%{", "%%{");
    let file = json!({ "job": { "c": { "type": "batch", "periodic": { "crons": [schedule] } } } });
    // Whether the expression is valid does not matter.
    let _ = jobspec::lint(&file.to_string(), "input.json");
}

fn http_request(input: &[u8]) {
    const END: &[u8] = b"\n\n";
    let end = input.windows(END.len()).position(|bytes| bytes == END);
    let (head, body) = end.map_or((input, &[][..]), |end| (&input[..end], &input[end + END.len()..]));
    let Ok(head) = std::str::from_utf8(head) else { return };
    let mut lines = head.split('\n');
    let Some((method, target)) = lines.next().and_then(|line| line.split_once(' ')) else { return };
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name, value.as_bytes())).collect();
    let response = http::respond(&Request { method, target: &without_waiting(target), headers, body });
    if let Some(Response { status, .. }) = response {
        assert!((200..600).contains(&status), "a response has the status {status}");
    }
}

/// The target with parameters that end a blocking query at once. The first value of a parameter counts.
fn without_waiting(target: &str) -> String {
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    format!("{path}?wait=1ms&follow=false&{query}")
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
