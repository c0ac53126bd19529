//! Job files in HCL and in JSON, and values for their variables.

use std::sync::Arc;

use api_types::Job;
use jobspec::{Options, SOURCE_BYTES_MAX, Variables};
use model::RegistrationDefaults;
use serde_json::Value;
use wire::Wire as _;
use wire::command::{Command, RegisterJob};

use crate::seeds::{self, SEPARATOR};
use crate::target::{Repeated, Target};

/// Job files in HCL.
pub static JOB_FILE: Target = Target {
    name: "job_file",
    run: job_file,
    seeds: || seeds::texts(seeds::job_files().filter(|source| !is_json(source))),
    words: &[
        "job \"e\" {\n",
        "group \"g\" {\n",
        "task \"t\" {\n",
        "config {\n",
        "dynamic \"group\" {\n",
        "for_each = range(1000)\n",
        "content {\n",
        "variable \"x\" {\n",
        "locals {\n",
        "}\n",
        "<<-E\n",
        "\nE\n",
        "\"${",
        "%{ for x in [1] }",
        "%{ endfor }",
        "var.x",
        "local.a",
        "[for x in [1] : x]",
        "{ for k, v in { a = 1 } : k => v }",
        "...",
        "[*]",
        "? 1 : 2",
        "/*",
        "*/",
        "\\u00e9",
        "\u{e9}",
        "\u{301}",
        "\r\n",
    ],
    repeated: &[
        in_meta("[", "", "]"),
        in_meta("(", "1", ")"),
        in_meta("-", "1", ""),
        in_meta("!", "true", ""),
        in_meta("\"${", "", "}\""),
        in_meta("1+", "1", ""),
        in_meta("true ? 1 : ", "1", ""),
        in_meta("a.", "b", ""),
        in_meta("9", "", ""),
        in_meta("[\"x\"", "", "][0]"),
        in_meta("{a=", "1", "}"),
        in_meta("\"%{ if true }", "", "%{ endif }\""),
        Repeated { before: "", open: "a {\n", middle: "", close: "}\n", after: "" },
        Repeated { before: "job \"e\" {\n", open: "meta {\n}\n", middle: "", close: "", after: "}\n" },
        Repeated { before: "job \"e\" {\n", open: "a = 1\n", middle: "", close: "", after: "}\n" },
        Repeated { before: "job \"e\" {\n", open: "group \"g\" {\n}\n", middle: "", close: "", after: "}\n" },
        Repeated {
            before: "locals {\na = [1",
            open: ",1",
            middle: "]\n}\n",
            close: "",
            after: "job \"e\" {}\n",
        },
        Repeated { before: "job \"e\" {}\n", open: "/*", middle: "", close: "*/", after: "" },
        Repeated { before: "job \"e\" {}\n", open: "\u{301}", middle: "", close: "", after: "" },
    ],
    size_max: SOURCE_BYTES_MAX,
};

/// Job files in JSON.
pub static JOB_FILE_JSON: Target = Target {
    name: "job_file_json",
    run: job_file,
    seeds: || seeds::texts(seeds::job_files().filter(|source| is_json(source))),
    words: &[
        "{\"job\":{\"e\":",
        "\"group\":{\"g\":",
        "\"task\":[{\"t\":",
        "\"config\":",
        "\"meta\":",
        "\"//\":",
        "\"${",
        "}\"",
        "null",
        "\\u0000",
        "\\ud800",
        "1e999",
    ],
    repeated: &[
        Repeated {
            before: "{\"job\":{\"e\":{\"meta\":{\"a\":",
            open: "[",
            middle: "1",
            close: "]",
            after: "}}}}",
        },
        Repeated { before: "{\"job\":{\"e\":", open: "{\"a\":", middle: "1", close: "}", after: "}}" },
        Repeated {
            before: "{\"job\":{\"e\":{\"meta\":{\"a\":[1",
            open: ",1",
            middle: "",
            close: "",
            after: "]}}}}",
        },
        Repeated { before: "{\"job\":{\"e\":[{}", open: ",{}", middle: "", close: "", after: "]}}" },
        Repeated {
            before: "{\"job\":{\"e\":{\"name\":\"",
            open: "${\\\"",
            middle: "",
            close: "\\\"}",
            after: "\"}}}",
        },
    ],
    size_max: SOURCE_BYTES_MAX,
};

/// Values for variables of every type: a file, a variable of the environment and a flag, one after the other.
pub static VARIABLES: Target = Target {
    name: "variables",
    run: variables,
    seeds: || {
        let files = [
            "s = \"a\"\nn = 1\nb = true\nl = [\"a\"]\no = { a = 1 }\nm = { k = \"v\" }\nx = null\n",
            "{\"s\": \"a\", \"n\": 1.5, \"l\": [], \"o\": {\"a\": \"2\"}, \"m\": {}, \"x\": [{}]}",
        ];
        let values = ["[\"a\", \"b\"]", "{ a = 1 }", "\"${1 + 1}\"", "7", "true", "null", "text"];
        let inputs = values.iter().map(|value| format!("{}{SEPARATOR}{value}{SEPARATOR}{value}", files[0]));
        seeds::texts(files.map(str::to_owned).into_iter().chain(inputs))
    },
    words: &[
        "\u{1e}", "s = ", "n = ", "l = ", "o = ", "x = ", "[", "]", "{", "}", "null", "true", "<<E\n",
        "\nE\n",
    ],
    repeated: &[
        Repeated { before: "x = ", open: "[", middle: "", close: "]", after: "\n" },
        Repeated { before: "{\"x\":", open: "[", middle: "", close: "]", after: "}" },
        Repeated { before: "l = [1", open: ",1", middle: "", close: "", after: "]\n" },
        Repeated { before: "", open: "s = 1\n", middle: "", close: "", after: "" },
        Repeated { before: "\u{1e}", open: "[", middle: "", close: "]", after: "" },
    ],
    size_max: SOURCE_BYTES_MAX,
};

/// The file with the variables.
const DECLARATIONS: &str = r#"
variable "s" { type = string }
variable "n" { type = number }
variable "b" { type = bool }
variable "l" { type = list(string) }
variable "o" { type = object({ a = number }) }
variable "m" { type = map(any) }
variable "x" {}
job "v" {
  meta {
    all = jsonencode([var.s, var.n, var.b, var.l, var.o, var.m, var.x])
  }
}
"#;

const FILE: &str = "input.hcl";
/// Maximum size of a job that is stored, as JSON in bytes.
const STORED_BYTES_MAX: usize = 1 << 20;

/// A pattern of an expression as the value of an attribute.
const fn in_meta(open: &'static str, middle: &'static str, close: &'static str) -> Repeated {
    Repeated { before: "job \"e\" {\nmeta {\na = ", open, middle, close, after: "\n}\n}\n" }
}

fn is_json(source: &str) -> bool {
    source.trim_start().starts_with('{')
}

fn job_file(input: &[u8]) {
    let options = Options::default();
    let Ok(text) = std::str::from_utf8(input) else {
        let error = jobspec::parse_bytes(input, &options).expect_err("a job file is UTF-8");
        return report(&error);
    };
    let parsed = parse(text, &options);
    if let Err(error) = jobspec::lint(text, FILE) {
        report(&error);
    }
    let Ok(formatted) = jobspec::format(text, FILE) else { return };
    if formatted.len() > SOURCE_BYTES_MAX {
        return;
    }
    let again = jobspec::format(&formatted, FILE);
    let again = again.unwrap_or_else(|error| panic!("a formatted file is refused: {error}\n{formatted}"));
    assert_eq!(again, formatted, "formatting twice differs from formatting once");
    if let Some(job) = parsed {
        let same = jobspec::parse(&formatted, &options);
        let same = same.unwrap_or_else(|error| panic!("a formatted file is refused: {error}\n{formatted}"));
        assert_eq!(json(&same), json(&job), "formatting changes the job");
    }
}

fn variables(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut parts = text.splitn(3, SEPARATOR);
    let file = parts.next().unwrap_or_default().to_owned();
    let mut values = vec![Variables::File { name: "values.hcl".to_owned(), text: file }];
    if let Some(value) = parts.next() {
        let of = |name: &str| Variables::Environment { name: name.to_owned(), value: value.to_owned() };
        values.extend(["s", "l", "m", "x"].map(of));
    }
    if let Some(value) = parts.next() {
        let of = |name: &str| Variables::Flag { name: name.to_owned(), value: value.to_owned() };
        values.extend(["n", "b", "o"].map(of));
    }
    parse(DECLARATIONS, &Options { variables: values, strict: true, ..Options::default() });
}

/// Parses a file, and does what follows: its errors are printed, or its job is stored.
pub(super) fn parse(source: &str, options: &Options) -> Option<Job> {
    match jobspec::parse(source, options) {
        Ok(job) => {
            jobspec::parse_route_json(&job);
            stored(&job);
            Some(job)
        }
        Err(error) => {
            report(&error);
            None
        }
    }
}

/// Prints errors as the command line does.
fn report(error: &jobspec::Error) {
    assert!(!error.diagnostics.is_empty(), "an error has diagnostics");
    drover::fuzzing::job_file_errors(error);
}

/// Does with a job what servers do: fills in its defaults, stores it, sends it and shows it. Each form of a large job
/// would count towards the limit of memory, although no process has all of them.
pub(super) fn stored(job: &Job) {
    if serde_json::to_vec(job).expect("a job can be encoded as JSON").len() > STORED_BYTES_MAX {
        return;
    }
    let canonical = |job: &Job| {
        let mut canonical = job.clone();
        model::canonicalise(&mut canonical);
        canonical
    };
    let once = canonical(job);
    assert_eq!(json(&canonical(&once)), json(&once), "filling in defaults twice differs from once");

    let mut registered = job.clone();
    let defaults = RegistrationDefaults { priority: 50, node_pool: "default" };
    model::canonicalise_for_registration(&mut registered, defaults);
    let Ok(stored) = model::job::Job::from_api(registered) else { return };
    let shown = stored.to_api();
    let again = model::job::Job::from_api(shown.clone());
    let again = again.unwrap_or_else(|invalid| panic!("a job is refused as it was shown: {invalid}"));
    assert_eq!(json(&again.to_api()), json(&shown), "a job changes if it is sent back as it was shown");

    let command = Command::RegisterJob(Box::new(RegisterJob {
        spec: Arc::clone(&stored.spec),
        source: None,
        enforce_index: None,
        eval_priority: None,
        preserve_counts: false,
        preserve_resources: false,
    }));
    let bytes = wire::encode(&command);
    let sent: Command = wire::decode(Command::KIND, Command::VERSION, &bytes)
        .unwrap_or_else(|error| panic!("a job cannot be decoded as it was encoded: {error}"));
    assert_eq!(wire::encode(&sent), bytes, "a job changes when it is sent");
}

fn json(job: &Job) -> Value {
    serde_json::to_value(job).expect("a job can be encoded as JSON")
}
