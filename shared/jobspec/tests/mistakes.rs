//! Tests of messages for typical mistakes: each names the line, the cause and the remedy.
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

use jobspec::{Error, Options, Variables, lint, parse};

/// The error in a file.
fn mistake(source: &str) -> Error {
    let flag = Variables::Flag { name: "extra".to_owned(), value: "1".to_owned() };
    let options =
        Options { variables: vec![flag], strict: source.contains("# strict"), ..Options::default() };
    parse(source, &options).map(|_| ()).and_then(|()| lint(source, "input.hcl")).unwrap_err()
}

/// A name, a file with a mistake, the line of the mistake, and parts of the message about the cause and the remedy.
const MISTAKES: &[(&str, &str, usize, &str, &str)] = &[
    ("misspelt block", "job \"a\" {\n  gruop \"g\" {}\n}", 2, "gruop", "Did you mean \"group\"?"),
    ("misspelt argument", "job \"a\" {\n  prioritiy = 5\n}", 2, "prioritiy", "Did you mean \"priority\"?"),
    ("missing brace", "job \"a\" {\n  group \"g\" {\n    count = 1\n}\n", 1, "Unclosed", "closing brace"),
    ("one brace too many", "job \"a\" {\n}\n}\n", 3, "closes no block", "one too many"),
    (
        "text for a number",
        "job \"a\" {\n  priority = \"high\"\n}",
        2,
        "priority: number required",
        "string \"high\"",
    ),
    ("a fraction", "job \"a\" {\n  group \"g\" {\n    count = 1.5\n  }\n}", 3, "not 1.5", "whole number"),
    (
        "quoted name",
        "job \"a\" {\n  group \"g\" {\n    task \"t\" {\n      config {\n        \"image\" = \"x\"\n      }\n    }\n  }\n}",
        5,
        "Invalid argument name",
        "no quotes",
    ),
    (
        "duplicate task",
        "job \"a\" {\n  group \"g\" {\n    task \"t\" {}\n    task \"t\" {}\n  }\n}",
        4,
        "Duplicate task name",
        "another name",
    ),
    (
        "duplicate group",
        "job \"a\" {\n  group \"g\" {}\n  group \"g\" {}\n}",
        3,
        "Duplicate group name",
        "another name",
    ),
    (
        "bad duration",
        "job \"a\" {\n  group \"g\" {\n    shutdown_delay = \"5\"\n  }\n}",
        3,
        "invalid duration \"5\"",
        "units, such as 90s",
    ),
    (
        "bad cron",
        "job \"a\" {\n  periodic {\n    crons = [\"every day\"]\n  }\n}",
        3,
        "Invalid cron spec",
        "0 3 * * *",
    ),
    (
        "unknown port",
        "job \"a\" {\n  group \"g\" {\n    network {\n      port \"http\" {}\n    }\n    service {\n      port = \"htpp\"\n    }\n  }\n}",
        7,
        "no port \"htpp\"",
        "Did you mean \"http\"?",
    ),
    (
        "undeclared variable",
        "job \"a\" {\n  name = var.nmae\n}\nvariable \"name\" {\n  default = \"x\"\n}",
        2,
        "no attribute \"nmae\"",
        "Did you mean \"name\"?",
    ),
    (
        "variable without value",
        "variable \"image\" {\n  type = string\n}\njob \"a\" {}",
        1,
        "Unset variable \"image\"",
        "-var",
    ),
    (
        "value for no variable",
        "# strict\njob \"a\" {}",
        0,
        "Undefined -var variable",
        "variable \"extra\" {}",
    ),
    (
        "block as argument",
        "job \"a\" {\n  update = {\n    max_parallel = 1\n  }\n}",
        2,
        "\"update\"",
        "leave out the equals sign",
    ),
    ("argument as block", "job \"a\" {\n  datacenters {}\n}", 2, "\"datacenters\"", "use the equals sign"),
    (
        "missing comma",
        "job \"a\" {\n  datacenters = [\"a\"\n    \"b\"]\n}",
        3,
        "Missing item separator",
        "comma",
    ),
    ("single quotes", "job \"a\" {\n  type = 'batch'\n}", 2, "Invalid character", "double quotes"),
    ("open quotes", "job \"a\" {\n  type = \"batch\n}", 2, "Invalid multi-line string", "close the quotes"),
    (
        "unknown function",
        "job \"a\" {\n  name = uper(\"x\")\n}",
        2,
        "no function named \"uper\"",
        "Did you mean \"upper\"?",
    ),
    (
        "file function on a server",
        "job \"a\" {\n  name = file(\"x\")\n}",
        2,
        "Error in function call",
        "where the job file is",
    ),
    (
        "missing hook",
        "job \"a\" {\n  group \"g\" {\n    task \"t\" {\n      lifecycle {}\n    }\n  }\n}",
        4,
        "Missing required argument",
        "\"hook\"",
    ),
    (
        "misspelt argument that is needed",
        "job \"a\" {\n  group \"g\" {\n    scaling {\n      mx = 1\n    }\n  }\n}",
        4,
        "\"mx\" is not expected",
        "Did you mean \"max\"?",
    ),
    (
        "meta as a block and as an argument",
        "job \"a\" {\n  meta = { a = 1 }\n  meta {\n    b = 1\n  }\n}",
        3,
        "Duplicate meta block",
        "not both",
    ),
    (
        "a port out of range",
        "job \"a\" {\n  group \"g\" {\n    service {\n      connect {\n        sidecar_service {\n          proxy {\n            \
         transparent_proxy {\n              exclude_outbound_ports = [80, 70000]\n            }\n          }\n        }\n      \
         }\n    }\n  }\n}",
        8,
        "not 70000",
        "between 0 and 65535",
    ),
    (
        "a call in a description",
        "variable \"a\" {\n  default     = 1\n  description = upper(\"x\")\n}\njob \"a\" {}",
        3,
        "Function calls not allowed",
        "in locals",
    ),
    ("group without a name", "job \"a\" {\n  group {}\n}", 2, "Missing name for group", "group \"name\" {"),
    (
        "two arguments on a line",
        "job \"a\" {\n  meta { a = 1, b = 2 }\n}",
        2,
        "Invalid single-argument block",
        "a line of its own",
    ),
];

#[test]
fn typical_mistakes_are_explained() {
    for (what, source, line, cause, remedy) in MISTAKES {
        let error = mistake(source);
        let first = &error.diagnostics[0];
        let found = first.place.as_ref().map_or(0, |place| place.line);
        assert_eq!(found, *line, "{what}: {error}");
        let text = first.to_string();
        assert!(text.contains(cause) && text.contains(remedy), "{what}: {text}");
    }
    assert!(MISTAKES.len() >= 20);
}

#[test]
fn a_correct_file_has_no_mistakes() {
    let right = "job \"a\" {\n  periodic {\n    crons = [\"@daily\", \"*/5 * * * *\"]\n  }\n  group \"g\" {\n    network {\n      port \"http\" {}\n    }\n    \
        volume \"data\" {}\n    service {\n      port = \"http\"\n      check {\n        port = \"8080\"\n      }\n    }\n    task \"t\" {\n      volume_mount {\n        \
        volume = \"data\"\n      }\n      service {\n        port = \"${meta.port}\"\n      }\n    }\n  }\n}\n";
    assert_eq!(lint(right, "input.hcl"), Ok(()));
}
