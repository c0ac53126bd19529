//! Tests of the language: errors with their positions, limits, and damaged files.
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

use std::{fs, path::Path};

use jobspec::{Options, SOURCE_BYTES_MAX, Variables, parse};
use proptest::{collection::vec, prelude::*, sample};

fn errors(source: &str) -> String {
    parse(source, &Options::default()).unwrap_err().to_string()
}

/// The settings of a free-form block after parsing.
fn config(settings: &str) -> String {
    let source =
        format!("job \"e\" {{\n group \"g\" {{\n task \"t\" {{\n config {{\n{settings}\n}}\n}}\n}}\n}}");
    let job = parse(&source, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let task = job.task_groups.unwrap().remove(0).tasks.unwrap().remove(0);
    serde_json::to_string(&task.config.unwrap()).unwrap()
}

#[test]
fn an_error_says_where_what_and_what_would_be_right() {
    let source = r#"
job "web" {
  datacentres = ["dc1"]
  priority    = "high"
  group "front" {
    count = 1.5
    task "srv" {
      driver = upper("docker")
      resources {
        cpus = 500
      }
      config "docker" {}
      lifecycle {}
    }
    shutdown_delay = "soon"
    restart {
      delay = 1.5
    }
    restart {}
  }
  group {}
  services {}
}
"#;
    insta::assert_snapshot!(errors(source), @r#"
    input.hcl:3,3-14: Unsupported argument; an argument named "datacentres" is not expected here. Did you mean "datacenters"?
    input.hcl:4,17-23: Unsuitable value type; priority: number required, but have string "high"
    input.hcl:6,13-16: Unsuitable value type; count: a whole number between -9223372036854775808 and 9223372036854775807 is required, not 1.5
    input.hcl:10,9-13: Unsupported argument; an argument named "cpus" is not expected here. Did you mean "cpu"?
    input.hcl:12,14-22: Extraneous label for config; config blocks have no label
    input.hcl:13,7-16: Missing required argument; lifecycle blocks need the argument "hook"
    input.hcl:15,22-28: Unsuitable value type; shutdown_delay: invalid duration "soon": want numbers with units, such as 90s or 1h30m
    input.hcl:19,5-12: Duplicate restart block; only one restart block is allowed
    input.hcl:21,3-8: Missing name for group; group blocks have one label, their name: group "name" {
    input.hcl:22,3-11: Unsupported block type; blocks of type "services" are not expected here
    "#);
}

#[test]
fn a_file_has_one_job() {
    insta::assert_snapshot!(errors("variable \"x\" { default = 1 }"), @r#"input.hcl: Missing job block; a file has one job block: job "name" {"#);
    insta::assert_snapshot!(errors("job \"a\" {}\njob \"b\" {}"), @r#"input.hcl:2,1-4: Duplicate job block; a file has one job block"#);
    insta::assert_snapshot!(errors("job \"a\" {"), @r#"input.hcl:1,9-10: Unclosed configuration block; the closing brace of this block is missing, or a brace in the block is missing or extra"#);
}

#[test]
fn values_keep_their_kind_where_nobody_wants_another() {
    let settings = r#"
      sum    = "1" + 2 * 3
      kept   = "${0.1 + 0.2}"
      text   = "n: ${1e3} ${true ? "yes" : 2}"
      same   = 1 == "1"
      list   = [for i, v in ["a", "b"] : "${i}${v}" if v != "a"]
      map    = { for k, v in { x = 1, y = 2 } : v => k }
      member = { a = [{ b = 5 }] }.a[*].b
      node   = attr.kernel.name
      env    = "${env["HOME"]}/${NOMAD_TASK_DIR}"
      escape = "$${keep} %%{ if"
      none   = null"#;
    insta::assert_snapshot!(config(settings), @r#"{"env":"${env[\"HOME\"]}/${NOMAD_TASK_DIR}","escape":"${keep} %{ if","kept":0.3,"list":["1b"],"map":{"1":"x","2":"y"},"member":[5],"node":"${attr.kernel.name}","same":false,"sum":7,"text":"n: 1000 yes"}"#);
}

#[test]
fn variables_and_locals_are_known_to_the_job() {
    let source = r#"
variable "count" { type = number }
variables { image = "web" }
locals {
  name = "${local.base}-x"
  base = var.image
}
job "e" {
  name     = local.name
  priority = var.count
}
"#;
    let with = |text: &str| {
        let file = Variables::File { name: "v.hcl".to_owned(), text: text.to_owned() };
        Options { variables: vec![file], ..Options::default() }
    };
    let options = with("count = \"70\"\nother = 1");
    let job = parse(source, &options).unwrap();
    assert_eq!((job.name.as_deref(), job.priority), (Some("web-x"), Some(70)));
    insta::assert_snapshot!(errors(source), @r#"input.hcl:2,1-9: Unset variable "count"; the variable has no default; give it a value with -var, -var-file or NOMAD_VAR_…"#);
    let options = with("count = [1]");
    insta::assert_snapshot!(parse(source, &options).unwrap_err(), @r#"v.hcl:1,9-12: Invalid value for variable; the value of "count": number required, but have tuple"#);
}

#[test]
fn small_files_do_not_grow_without_bound() {
    let doubled: String =
        (0..60).map(|i| format!("a{i} = \"${{local.a{0}}}${{local.a{0}}}\"\n", i + 1)).collect();
    let source = format!("locals {{\n{doubled}a60 = \"x\"\n}}\njob \"e\" {{}}");
    assert!(errors(&source).contains("Too much to evaluate"));
    let deep = format!("job \"e\" {{\n name = {}1{}\n}}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(errors(&deep).contains("Nested too deeply"));
    assert!(errors(&" ".repeat(SOURCE_BYTES_MAX + 1)).contains("File too large"));
}

#[test]
fn deep_nesting_is_read_or_refused() {
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{ a = ", " }"),
        ("-", ""),
        ("upper(", ")"),
        ("true ? 1 : ", ""),
        ("\"${", "}\""),
        ("[for x in [1] : ", "]"),
        ("1 + ", ""),
        ("[1][", "]"),
        ("\"%{ if true }${", "}%{ endif }\""),
    ] {
        for levels in [10, 60, 95, 190, 5_000] {
            let source =
                format!("job \"e\" {{\n name = {}0{}\n}}", open.repeat(levels), close.repeat(levels));
            let _ = parse(&source, &Options::default());
        }
    }
    let deep = |levels: usize| format!("job \"e\" {{\n{}{}}}", "a {\n".repeat(levels), "}\n".repeat(levels));
    assert!(errors(&deep(150)).contains("Unsupported block type"));
    assert!(errors(&deep(5_000)).contains("Nested too deeply"));
    let json = |levels: usize| format!("{{\"job\": {}{}}}", "{\"a\": ".repeat(levels), "}".repeat(levels));
    assert!(errors(&json(5_000)).contains("levels deep"));
}

/// The job files of the recorded cases.
fn sources() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/jobspec");
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.into_iter().map(|file| fs::read_to_string(file).unwrap());
    let source = |line: &str| {
        serde_json::from_str::<serde_json::Value>(line).unwrap()["source"].as_str().unwrap().to_owned()
    };
    texts
        .flat_map(|text| text.lines().map(source).collect::<Vec<_>>())
        .filter(|source| source.len() < 4096)
        .collect()
}

/// Fragments that get into files by accident.
const FRAGMENTS: &[&str] = &[
    "{", "}", "[", "]", "(", ")", "\"", "${", "%{", "~}", "<<-E\n", "=", ",", ".", "*", "for ", "null",
    "1e999", "\n", "é", "dynamic",
];

fn damaged() -> impl Strategy<Value = String> {
    let edit = (any::<sample::Index>(), 0..12usize, sample::select(FRAGMENTS));
    (sample::select(sources()), vec(edit, 1..4)).prop_map(|(source, edits)| {
        let mut characters: Vec<char> = source.chars().collect();
        for (place, removed, fragment) in edits {
            let from = place.index(characters.len() + 1);
            let to = characters.len().min(from + removed);
            characters.splice(from..to, fragment.chars());
        }
        characters.into_iter().collect()
    })
}

proptest! {
    #[test]
    fn a_damaged_file_is_read_or_refused_at_a_place(source in damaged()) {
        if let Err(error) = parse(&source, &Options::default()) {
            let lines = source.lines().count() + 1;
            prop_assert!(!error.diagnostics.is_empty());
            let places = error.diagnostics.iter().flat_map(|diagnostic| &diagnostic.place);
            prop_assert!(places.clone().all(|place| place.line <= lines && place.end_line <= lines), "{error}");
        }
    }
}
