//! Tests of limits: whatever a file contains, it is parsed or refused in little time, memory and stack, and the error names
//! the limit.
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]
#![allow(clippy::disallowed_methods, reason = "a test that detects hangs reads the clock")]

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use jobspec::{Options, parse};

/// The stack of the threads that parse job files for requests.
const STACK_BYTES: usize = 2 << 20;
/// Maximum time for one file, in an unoptimised build on a busy machine: a release takes less than a second.
const LIMIT: Duration = Duration::from_secs(120);

/// The name of the job in a file, or the errors in the file.
fn name(source: String) -> Result<String, String> {
    let begun = Instant::now();
    let parser = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        parse(&source, &Options::default()).map(|job| job.name.unwrap()).map_err(|error| error.to_string())
    });
    let result = parser.unwrap().join().unwrap();
    let taken = begun.elapsed();
    assert!(taken < LIMIT, "{taken:?}");
    result
}

/// The value of an expression as the name of a job.
fn value(expression: &str) -> Result<String, String> {
    name(format!("job \"e\" {{\n name = {expression}\n}}"))
}

fn refused(result: Result<String, String>, reason: &str) {
    let error = result.unwrap_err();
    assert!(error.contains(reason), "{error}");
    assert!(error.len() < 10_000, "the error has {} bytes", error.len());
}

const TOO_MUCH: &str = "Too much to evaluate";
const TOO_DEEP: &str = "Nested too deeply";

#[test]
fn numbers_have_few_digits_and_small_exponents() {
    for number in ["1.5e-9223372036854775808", "1e9223372036854775807", "1e100000", &"9".repeat(100_000)] {
        refused(value(number), "Invalid number literal");
        refused(name(format!("{{\"job\": {{\"e\": {{\"priority\": {number}}}}}}}")), "Invalid JSON number");
        refused(value(&format!("abs(\"{number}\")")), "number required");
    }
    refused(value(&format!("parseint(\"{}\", 2)", "1".repeat(100_000))), "at most 4096");
    refused(value("format(\"%1025d\", 1)"), "at most 1024");
    refused(value("range(0, 1000000)"), "at most 1024");
    refused(value("indent(9223372036854775807, \"a\\nb\")"), TOO_MUCH);
    assert_eq!(
        value("cidrsubnet(\"::/0\", 128, 340282366920938463463374607431768211454)").unwrap().len(),
        43
    );
}

#[test]
fn many_operators_are_one_level_of_the_tree() {
    assert_eq!(value(&format!("1{}", " + 1".repeat(100_000))), Ok("100001".to_owned()));
    let nested = (0..90).fold("1".to_owned(), |inner, _| format!("({inner}{})", " + 1".repeat(200)));
    assert_eq!(value(&nested), Ok("18001".to_owned()));
    assert_eq!(value("2 + 3 * 4 - 10 / 5 % 2 == 14 && !(1 > 2 || false)"), Ok("true".to_owned()));
    refused(value(&format!("{}1", "-".repeat(100_000))), TOO_DEEP);
}

#[test]
fn directives_nest_within_bounds() {
    let nested =
        |levels: usize| format!("\"{}x{}\"", "%{ if true }".repeat(levels), "%{ endif }".repeat(levels));
    assert_eq!(value(&nested(100)), Ok("x".to_owned()));
    refused(value(&nested(80_000)), TOO_DEEP);
    let in_each_other = (0..90).fold("\"x\"".to_owned(), |inner, _| {
        format!("\"{}${{{inner}}}{}\"", "%{ if true }".repeat(90), "%{ endif }".repeat(90))
    });
    refused(value(&in_each_other), TOO_DEEP);
    let loops = format!("\"{}{}\"", "%{ for x in [1] }".repeat(10_000), "%{ endfor }".repeat(10_000));
    refused(value(&loops), TOO_DEEP);
    assert!(value("\"%{ endif }%{ if true }a%{ endif }\"").is_err());
}

#[test]
fn values_nest_within_bounds_whatever_they_are_made_of() {
    let wrapped = |inner: &str| format!("{}{inner}{}", "[".repeat(190), "]".repeat(190));
    let mut locals = format!("a0 = {}\n", wrapped("1"));
    for number in 1..30 {
        writeln!(locals, "a{number} = {}", wrapped(&format!("local.a{}", number - 1))).unwrap();
    }
    refused(name(format!("locals {{\n{locals}}}\njob \"e\" {{}}")), TOO_DEEP);
    let mut aliases = "- &a0 [x]\n".to_owned();
    for number in 1..10_000 {
        writeln!(aliases, "- &a{number} [*a{}]", number - 1).unwrap();
    }
    refused(value(&format!("yamldecode({aliases:?})")), "levels deep");
    refused(value(&format!("jsondecode({:?})", "[".repeat(100_000))), "levels deep");
    refused(value(&format!("yamldecode({:?})", "[".repeat(100_000))), "yamldecode");
}

#[test]
fn free_form_blocks_nest_within_bounds() {
    let config =
        |config: &str| name(format!("job \"e\" {{\ntask \"t\" {{\nconfig {{\n{config}\n}}\n}}\n}}\n"));
    assert!(config(&format!("a {} {{}}", "\"l\" ".repeat(40))).is_ok());
    refused(config(&format!("a {} {{}}", "\"l\" ".repeat(100_000))), TOO_DEEP);
    refused(config(&format!("{}{}", "a {\n".repeat(120), "}\n".repeat(120))), TOO_DEEP);
    refused(config(&format!("a = {}{}", "[".repeat(150), "]".repeat(150))), TOO_DEEP);
}

#[test]
fn functions_count_what_they_make_before_they_make_it() {
    for expression in [
        "jsonencode(setproduct(range(1000), range(1000), range(1000), range(1000)))".to_owned(),
        format!("join(\",\", formatlist(\"{}%s\", range(1000)))", "x".repeat(1 << 20)),
        format!("join(\",\", split(\"\", \"{}\"))", "x".repeat(1_900_000)),
        format!("format(\"{}\", 1e-400)", "%[1]s".repeat(300_000)),
        format!("regex_replace(\"{}\", \".*\", \"{}\")", "x".repeat(1 << 20), "$0".repeat(10_000)),
        format!("regex_replace(\"{}\", \".*[^A-Z]|[A-Z]|b{{1000}}\", \"b\")", "A".repeat(400_000)),
    ] {
        refused(value(&expression), TOO_MUCH);
    }
    let empty = format!("jsonencode(setproduct({}[]))", "range(1000), ".repeat(20));
    assert_eq!(value(&empty), Ok("[]".to_owned()));
    let many = format!("jsonencode(setproduct({}[\"x\"]))", "[1], ".repeat(20_000));
    assert!(value(&many).unwrap().ends_with(",\"x\"]]"));
    let trimmed = format!("trim(\"{}\", \"{}a\")", "a".repeat(800_000), "b".repeat(800_000));
    assert_eq!(value(&trimmed), Ok(String::new()));
    let product = value("jsonencode(setproduct([1, 2], [\"a\", \"b\"]))").unwrap();
    assert_eq!(product, "[[1,\"a\"],[1,\"b\"],[2,\"a\"],[2,\"b\"]]");
}

#[test]
fn expressions_of_text_are_small() {
    refused(value("regex_replace(\"a\", \"(a{1000}){1000}\", \"\")"), "transitions");
    refused(value("regex_replace(\"a\", \"(?i)(\\\\p{L}{500}){500}\", \"\")"), "transitions");
    refused(
        value(&format!("regex_replace(\"a\", \"{}\", \"\")", "a".repeat(100_000))),
        "more than the maximum",
    );
    refused(value("regex_replace(\"a\", \"(\", \"\")"), "invalid pattern");
    let spaces = "a  b ".repeat(1_000);
    assert_eq!(
        value(&format!("strlen(regex_replace(\"{spaces}\", \"\\\\s+\", \"-\"))")),
        Ok("4000".to_owned())
    );
    assert_eq!(value("regex_replace(\"k=v\", \"(\\\\w)=(\\\\w)\", \"$2:$1\")"), Ok("v:k".to_owned()));
}

#[test]
fn secrets_that_tasks_inherit_are_counted() {
    let secrets = "secret \"s\" {}\n".repeat(5_000);
    let tasks: String = (0..5_000).fold(String::new(), |mut tasks, number| {
        writeln!(tasks, "task \"{number}\" {{}}").unwrap();
        tasks
    });
    refused(name(format!("job \"e\" {{\n{secrets}{tasks}}}")), TOO_MUCH);
    refused(name(format!("job \"e\" {{\ngroup \"g\" {{\n{secrets}{tasks}}}\n}}")), TOO_MUCH);
}

#[test]
fn a_text_has_so_many_parts_and_no_more() {
    refused(value(&format!("[{}]", "1,".repeat(530_000))), "more than 1048576");
    let json = format!("{{\"job\": {{\"e\": {{\"meta\": {{\"a\": [{}1]}}}}}}}}", "1,".repeat(530_000));
    refused(name(json), "more than 524288 values");
    refused(value(&format!("jsondecode(\"[{}1]\")", "1,".repeat(530_000))), "more than 524288 values");
}

#[test]
fn strange_texts_take_no_longer_than_others() {
    for source in [
        "/* ".repeat(600_000),
        format!("job \"e\" {{\n name = {}1{}{}\n}}", "(".repeat(150), "\n".repeat(500_000), ")".repeat(150)),
        format!("variables {{\n a = [{}]\n}}\njob \"e\" {{}}", "a.b,".repeat(250_000)),
        format!(
            "locals {{\n {} = 1\n}}\njob \"e\" {{\n name = local.{}\n}}",
            "a".repeat(400_000),
            "b".repeat(400_000)
        ),
        format!("job \"e\" {{\n{}\n}}", "x=1;".repeat(400_000)),
        format!("job \"e\" {{ name = \"{}\" é {} }}", "é".repeat(400_000), "x ".repeat(100_000)),
    ] {
        let _ = name(source);
    }
    let unknown: String = (0..100_000).fold(String::new(), |mut lines, number| {
        writeln!(lines, "a{number} = 1").unwrap();
        lines
    });
    refused(name(format!("job \"e\" {{\n{unknown}}}")), "Unsupported argument");
}
