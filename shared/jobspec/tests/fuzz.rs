//! Fuzz tests: recorded job files that are cut up and recombined, and random expressions. The parser must accept or refuse
//! every file within limits of time and memory. The targets in `tests/fuzz` search with the guidance of coverage; these
//! files are less likely to be refused at their beginning.
//!
//! Each test runs for ten seconds, or for `JOBSPEC_FUZZ_SECS`.
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]
#![allow(clippy::disallowed_methods, reason = "a test that detects hangs reads the clock")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use jobspec::{Options, Variables, format, lint, parse};

/// How long each of the two tests runs by default, in seconds.
const SECS_DEFAULT: u64 = 10;
/// Maximum time for one file, in an unoptimised build on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);
/// Maximum peak memory of the process.
const MEMORY_KB_MAX: u64 = 2 << 20;
/// Maximum size of a generated file.
const BYTES_MAX: usize = 16 << 10;

fn budget_ms() -> u64 {
    let given = std::env::var("JOBSPEC_FUZZ_SECS").ok().and_then(|secs| secs.parse().ok());
    given.unwrap_or(SECS_DEFAULT) * 1000
}

/// The corpus: job files of the recorded cases.
fn corpus() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/jobspec");
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts: Vec<String> = files.into_iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let source = |line: &str| {
        serde_json::from_str::<serde_json::Value>(line).unwrap()["source"].as_str().unwrap().to_owned()
    };
    texts.iter().flat_map(|text| text.lines().map(source)).filter(|source| source.len() < 8192).collect()
}

/// Parses a file in every way.
fn check(source: &str) {
    let begun = Instant::now();
    let file = Variables::File { name: "v.hcl".to_owned(), text: source.to_owned() };
    let with_itself = Options { variables: vec![file], ..Options::default() };
    for options in [Options::default(), with_itself] {
        if let Err(error) = parse(source, &options) {
            assert!(!error.diagnostics.is_empty());
        }
    }
    let _ = lint(source, "input.hcl");
    if let Ok(formatted) = format(source, "input.hcl") {
        let again = format(&formatted, "input.hcl").unwrap_or_else(|error| panic!("{error}\n{formatted}"));
        assert_eq!(again, formatted, "formatting twice differs from formatting once");
    }
    let taken = begun.elapsed();
    assert!(taken < LIMIT, "{taken:?} for {source:?}");
}

fn memory_is_bounded() {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return };
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes: u64 = peak.and_then(|peak| peak.trim().strip_suffix(" kB")).unwrap().parse().unwrap();
    assert!(kilobytes < MEMORY_KB_MAX, "{kilobytes} kB");
}

/// Tokens and fragments with a meaning in some context.
const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"",
    "${",
    "%{",
    "~}",
    "${~",
    "<<-E\n",
    "\nE\n",
    "=",
    "==",
    "=>",
    ",",
    ".",
    "...",
    "[*]",
    ".*",
    "for x in ",
    " : ",
    " if ",
    "?",
    "null",
    "true",
    "1e999",
    "9e19999",
    "\n",
    "\r\n",
    "é",
    "\u{301}",
    "dynamic \"group\" {\n",
    "for_each = range(1000)\n",
    "content {\n",
    "/*",
    "*/",
    "#",
    "\\u00e9",
    "\\",
    "var.x",
    "local.a",
    "setproduct(range(1000), range(1000))",
    "format(\"%1000d\", 1)",
    "%{ for i in range(999) }",
];

fn spliced(input: &mut Unstructured<'_>, corpus: &[String]) -> Result<String> {
    let mut source: Vec<char> = input.choose(corpus)?.chars().collect();
    for _ in 0..input.int_in_range(1..=6)? {
        let at = input.int_in_range(0..=source.len())?;
        let removed = input.int_in_range(0..=24_usize)?.min(source.len() - at);
        let piece: Vec<char> = if input.ratio(1, 3)? {
            let other: Vec<char> = input.choose(corpus)?.chars().collect();
            let from = input.int_in_range(0..=other.len())?;
            let length = input.int_in_range(0..=200_usize)?.min(other.len() - from);
            other[from..from + length].to_vec()
        } else {
            let word = input.choose(WORDS)?;
            word.repeat(input.int_in_range(1..=3)?).chars().collect()
        };
        source.splice(at..at + removed, piece);
    }
    let mut text: String = source.into_iter().collect();
    text.truncate(text.floor_char_boundary(BYTES_MAX));
    Ok(text)
}

/// An expression with a maximum nesting.
fn expression(input: &mut Unstructured<'_>, levels: u32) -> Result<String> {
    const LEAVES: &[&str] = &[
        "1",
        "-2.5",
        "1e300",
        "\"\"",
        "\"a,b\"",
        "\"é${local.a}\"",
        "null",
        "true",
        "[]",
        "{}",
        "local.a",
        "local.l",
        "local.m",
        "attr.x",
        "var",
        "each",
        "\"2024-01-02T03:04:05Z\"",
        "\"10.0.0.0/8\"",
        "[1, \"1\", true]",
    ];
    const FUNCTIONS: &[&str] = &[
        "abs",
        "base64decode",
        "base64encode",
        "can",
        "ceil",
        "chomp",
        "chunklist",
        "cidrhost",
        "cidrnetmask",
        "cidrsubnet",
        "cidrsubnets",
        "coalesce",
        "coalescelist",
        "compact",
        "concat",
        "contains",
        "csvdecode",
        "distinct",
        "element",
        "flatten",
        "floor",
        "format",
        "formatdate",
        "formatlist",
        "indent",
        "index",
        "join",
        "jsondecode",
        "jsonencode",
        "keys",
        "length",
        "log",
        "lookup",
        "lower",
        "max",
        "md5",
        "merge",
        "min",
        "parseint",
        "pow",
        "range",
        "regex_replace",
        "replace",
        "reverse",
        "setintersection",
        "setproduct",
        "setunion",
        "sha256",
        "signum",
        "slice",
        "sort",
        "split",
        "strlen",
        "substr",
        "timeadd",
        "title",
        "trim",
        "trimprefix",
        "trimspace",
        "try",
        "upper",
        "urlencode",
        "uuidv4",
        "uuidv5",
        "values",
        "yamldecode",
        "yamlencode",
        "zipmap",
    ];
    if levels == 0 || input.ratio(1, 4)? {
        return Ok((*input.choose(LEAVES)?).to_owned());
    }
    let part = |input: &mut Unstructured<'_>| expression(input, levels - 1);
    Ok(match input.int_in_range(0..=9)? {
        0 => format!("({})", part(input)?),
        1 => {
            let operators = ["+", "-", "*", "/", "%", "==", "!=", "<", ">=", "&&", "||"];
            format!("{} {} {}", part(input)?, input.choose(&operators)?, part(input)?)
        }
        2 => format!("{} ? {} : {}", part(input)?, part(input)?, part(input)?),
        3 => format!("[{}, {}]", part(input)?, part(input)?),
        4 => format!("{{ a = {}, \"b\" = {} }}", part(input)?, part(input)?),
        5 => format!("[for k, v in {} : {} if {}]", part(input)?, part(input)?, part(input)?),
        6 => format!("\"%{{ for v in {} ~}} x${{{}}} %{{ endfor }}\"", part(input)?, part(input)?),
        7 => format!("{}[{}]", part(input)?, part(input)?),
        8 => format!("{}[*].a", part(input)?),
        _ => {
            let name = input.choose(FUNCTIONS)?;
            let count = input.int_in_range(0..=3)?;
            let arguments: Vec<String> = (0..count).map(|_| part(input)).collect::<Result<_>>()?;
            format!("{name}({})", arguments.join(", "))
        }
    })
}

#[test]
fn cut_up_files_are_read_or_refused() {
    let corpus = corpus();
    arbtest(|input| {
        check(&spliced(input, &corpus)?);
        Ok(())
    })
    .budget_ms(budget_ms());
    memory_is_bounded();
}

#[test]
fn grown_expressions_are_evaluated_or_refused() {
    arbtest(|input| {
        let (a, b) = (expression(input, 5)?, expression(input, 5)?);
        check(&format!(
            "locals {{\n  l = [1, \"x\", {{ a = 2 }}]\n  m = convert({{ k = \"v\" }}, map(string))\n  a = {a}\n}}\n\
             job \"e\" {{\n  name = {b}\n  meta {{\n    a = \"${{local.a}}\"\n  }}\n}}\n"
        ));
        Ok(())
    })
    .budget_ms(budget_ms());
    memory_is_bounded();
}
