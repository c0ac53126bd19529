//! Texts that the command line and the agent read: templates, configuration files, and the errors of a server.

use std::sync::LazyLock;

use serde_json::Value;

use crate::seeds;
use crate::target::{Repeated, Target};
use crate::world;

/// Go templates of the flag `-t`.
pub static GO_TEMPLATE: Target = Target {
    name: "go_template",
    run: go_template,
    seeds: || {
        let templates = [
            "{{range .}}{{.ID}} {{end}}",
            "{{range $i, $job := .}}{{if not $job.Stop}}{{printf \"%s=%d\" .ID .Priority}}{{end}}{{end}}",
            "{{len .}} {{(index . 0).Meta.team}} {{index (index . 0).Datacenters 0 | printf \"%q\"}}",
            "{{with (index . 1).Meta}}some{{else}}none{{end}}",
            "{{define \"t\"}}{{. | html}}{{end}}{{template \"t\" .}}{{block \"b\" 1}}{{.}}{{end}}",
            "{{- /* a comment */ -}} {{ $x := 1 }}{{ $x = 2 }}{{ $x }} {{ slice \"abc\" 1 2 }}",
            "{{if and (eq 1 1) (or (lt 1 2) (ge \"b\" \"a\")) }}{{ js \"<\" }}{{ urlquery \"a b\" }}{{end}}",
            "{{range 3}}{{.}}{{break}}{{else}}{{continue}}{{end}} {{ println 1.5e3 'a' 0x1F nil true `raw` }}",
        ];
        seeds::texts(templates)
    },
    words: &[
        "{{",
        "}}",
        "{{-",
        "-}}",
        "range ",
        "if ",
        "else",
        "end",
        "with ",
        "define \"t\"",
        "template \"t\" .",
        "block \"b\" .",
        "break",
        "continue",
        ".ID",
        ".Meta",
        ".TaskGroups",
        "$x := ",
        "$x = ",
        "$",
        "|",
        "(",
        ")",
        "index ",
        "slice ",
        "len ",
        "printf ",
        "\"%999d\"",
        "\"%[2]*s\"",
        "print ",
        "html ",
        "js ",
        "urlquery ",
        "eq ",
        "lt ",
        "and ",
        "or ",
        "not ",
        "call ",
        "nil",
        "true",
        "1",
        "9223372036854775807",
        "1e9",
        "0x",
        "'a'",
        "`",
        "/*",
        "*/",
        "\"",
    ],
    repeated: &[
        Repeated { before: "", open: "{{if true}}", middle: "", close: "{{end}}", after: "" },
        Repeated { before: "{{", open: "(", middle: "1", close: ")", after: "}}" },
        Repeated { before: "{{1", open: "|print", middle: "", close: "", after: "}}" },
        Repeated { before: "", open: "{{range .}}", middle: "a", close: "{{end}}", after: "" },
        Repeated {
            before: "{{define \"t\"}}{{template \"t\"}}{{end}}{{template \"t\"}}",
            open: "a",
            middle: "",
            close: "",
            after: "",
        },
        Repeated { before: "{{", open: ".a", middle: "", close: "", after: "}}" },
        Repeated { before: "", open: "{{/*", middle: "", close: "*/}}", after: "" },
    ],
    size_max: 64 << 10,
};

/// Configuration files of the agent, in HCL 1 and JSON.
pub static CONFIGURATION: Target = Target {
    name: "configuration",
    run: configuration,
    seeds: || {
        let files = seeds::cases("agent-config").filter_map(|case| case["file"].as_str().map(str::to_owned));
        let json = [
            "{\"data_dir\": \"/d\", \"client\": {\"enabled\": true, \"meta\": [{\"a\": \"b\"}]}}".to_owned(),
            "{\"server\": [{\"enabled\": true}], \"ports\": {\"http\": 4646}, \"telemetry\": null}"
                .to_owned(),
        ];
        seeds::texts(files.chain(json))
    },
    words: &[
        "data_dir = ",
        "client {",
        "server {",
        "enabled = true",
        "}",
        "meta {",
        "options = {",
        "plugin \"a\" {",
        "host_volume \"v\" {",
        "host_network \"n\" {",
        "nats {",
        "telemetry {",
        "tls {",
        "ports {",
        "limits {",
        "=",
        "[",
        "]",
        ",",
        "\"",
        "<<E\n",
        "\nE\n",
        "#",
        "/*",
        "*/",
        "\"1h30m\"",
        "\"10MB\"",
        "-1",
        "1e999",
        "0x10",
        "true",
        "\\u00e9",
        "${a}",
        ".",
    ],
    repeated: &[
        Repeated { before: "a = ", open: "[", middle: "", close: "]", after: "" },
        Repeated { before: "", open: "a {", middle: "", close: "}", after: "" },
        Repeated { before: "", open: "a \"b\" ", middle: "{}", close: "", after: "" },
        Repeated { before: "a = [1", open: ",1", middle: "", close: "", after: "]" },
        Repeated { before: "", open: "a = 1\n", middle: "", close: "", after: "" },
        Repeated { before: "client { meta {\n", open: "a = \"b\"\n", middle: "", close: "", after: "} }" },
        Repeated { before: "{\"a\":", open: "[", middle: "", close: "]", after: "}" },
        Repeated { before: "", open: "{\"client\":", middle: "1", close: "}", after: "" },
        Repeated { before: "a = \"", open: "${\"", middle: "", close: "\"}", after: "\"" },
        Repeated { before: "", open: "/*", middle: "", close: "*/", after: "" },
    ],
    size_max: hcl1::BYTES_MAX,
};

/// Validation errors in a server's text.
pub static SERVER_ERRORS: Target = Target {
    name: "server_errors",
    run: server_errors,
    seeds: || {
        let refused = seeds::cases("http/register-errors.jsonl");
        seeds::texts(refused.filter_map(|case| case["text"].as_str().map(str::to_owned)))
    },
    words: &[
        "1 error occurred:",
        "2 errors occurred:",
        "99999999999 errors occurred:",
        "\n\t* ",
        "\n\n",
        "Task group g validation failed: ",
        "Task t validation failed: ",
        "Task group network ",
    ],
    repeated: &[
        Repeated { before: "", open: "2 errors occurred:\n\t* ", middle: "a", close: "\n\n", after: "" },
        Repeated { before: "9999999 errors occurred:", open: "\n\t* a", middle: "", close: "", after: "" },
        Repeated { before: "9999999 errors occurred:", open: "\n\n", middle: "", close: "", after: "" },
    ],
    size_max: 1 << 20,
};

fn go_template(input: &[u8]) {
    /// A list of jobs, as the API shows it.
    static OBJECT: LazyLock<Value> = LazyLock::new(|| {
        let jobs = world::recorded();
        let jobs = jobs.jobs().map(|job| job.to_api()).collect::<Vec<_>>();
        serde_json::to_value(jobs).expect("jobs can be encoded as JSON")
    });
    let Ok(template) = std::str::from_utf8(input) else { return };
    // Whether the template is valid does not matter.
    let _ = drover::fuzzing::template(template, &OBJECT);
}

fn configuration(input: &[u8]) {
    let (problems, json) = drover::fuzzing::configuration(input);
    let is_valid = json["valid"].as_bool().expect("the JSON says whether the file is valid");
    assert!(is_valid || !problems.is_empty(), "an invalid file has problems");
}

fn server_errors(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for line in drover::fuzzing::validation_errors(text) {
        assert!(!line.is_empty(), "an error is not empty");
    }
}
