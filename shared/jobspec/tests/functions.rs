//! Tests of functions that the recorded files do not call, or not in every way (§14).
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

use jobspec::{Options, parse};
use serde_json::Value;

/// The value of an expression in a driver's configuration.
fn value(expression: &str) -> Value {
    let source = format!(
        "job \"e\" {{\n group \"g\" {{\n task \"t\" {{\n config {{\n v = {expression}\n}}\n}}\n}}\n}}"
    );
    let job = parse(&source, &Options::default()).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let task = job.task_groups.unwrap().remove(0).tasks.unwrap().remove(0);
    task.config.unwrap().remove("v").unwrap_or_default()
}

const VALUES: &[(&str, &str)] = &[
    (r#"format("%5s|%-5s|%05d|%+d|%x|%b", "ab", "ab", 42, 7, 255, 5)"#, r#""   ab|ab   |00042|+7|ff|101""#),
    (r#"format("%q %t %v %v", "a\"b", true, [1, "x"], null)"#, r#""\"a\\\"b\" true [1,\"x\"] null""#),
    (
        r#"format("%.2f %8.3f %e %g", 3.14159, 2.5, 12345.678, 0.0001)"#,
        r#""3.14    2.500 1.234568e+04 0.0001""#,
    ),
    (r#"format("%[2]s %[1]s %%", "x", "y")"#, r#""y x %""#),
    (r#"formatlist("%s=%v", ["a", "b"], 1)"#, r#"["a=1","b=1"]"#),
    (
        r#"yamlencode({ a = [1, "x", { b = true, c = null }], d = "l1\nl2\n", e = {}, f = [] })"#,
        r#""\"a\":\n- 1\n- \"x\"\n- \"b\": true\n  \"c\": null\n\"d\": |\n  l1\n  l2\n\"e\": {}\n\"f\": []\n""#,
    ),
    (r#"yamlencode([[1, 2], [3]])"#, r#""- - 1\n  - 2\n- - 3\n""#),
    (r#"yamldecode("a: [1, yes, null, '5']\nb: {c: d}\n")"#, r#"{"a":[1,true,null,"5"],"b":{"c":"d"}}"#),
    (
        r#"jsonencode({ a = "<&>", b = [1.5, null] })"#,
        r#""{\"a\":\"\\u003c\\u0026\\u003e\",\"b\":[1.5,null]}""#,
    ),
    (r#"jsondecode("{\"a\": [1, 2.50, null]}")"#, r#"{"a":[1,2.5,null]}"#),
    (r#"csvdecode("a,b\n\"x,1\",2\n")"#, r#"[{"a":"x,1","b":"2"}]"#),
    (r#"csvdecode("a,b\n\"\",\"x\"\"y\nz\"\r\n")"#, r#"[{"a":"","b":"x\"y\nz"}]"#),
    (r#"cidrsubnet("10.0.0.0/8", 8, 3)"#, r#""10.3.0.0/16""#),
    (r#"cidrsubnet("fd00::/16", 16, 255)"#, r#""fd00:ff::/32""#),
    (
        r#"cidrsubnets("10.1.0.0/16", 4, 4, 8, 4)"#,
        r#"["10.1.0.0/20","10.1.16.0/20","10.1.32.0/24","10.1.48.0/20"]"#,
    ),
    (r#"coalesce(null, 1, "x")"#, r#""1""#),
    (r#"compact(["a", "", "b"])"#, r#"["a","b"]"#),
    (r#"concat([1], ["a"], [true])"#, r#"[1,"a",true]"#),
    (r#"element(["a", "b", "c"], 4)"#, r#""b""#),
    (r#"flatten([[1, [2]], [], 3])"#, "[1,2,3]"),
    (r#"indent(2, "a\nb\nc")"#, r#""a\n  b\n  c""#),
    (r#"index(["a", "b"], 1)"#, r#""b""#),
    (r#"join("-", ["a", "b"], ["c"])"#, r#""a-b-c""#),
    ("keys({ b = 1, a = 2 })", r#"["a","b"]"#),
    ("length([1, 2])", "2"),
    ("log(8, 2)", "3"),
    (r#"lower("ÄB")"#, r#""äb""#),
    (r#"merge({ a = 1 }, null, { a = 2, b = "x" })"#, r#"{"a":2,"b":"x"}"#),
    ("pow(2, 10)", "1024"),
    (r#"setunion(["b", "a"], ["c"])"#, r#"["a","b","c"]"#),
    (r#"split(",", "a,,b,")"#, r#"["a","","b",""]"#),
    (r#"substr("hello", 1, 3)"#, r#""ell""#),
    (r#"substr("hello", -3, -1)"#, r#""llo""#),
    (r#"urlencode("a b&c=d/é~")"#, r#""a+b%26c%3Dd%2F%C3%A9~""#),
    ("strlen(uuidv4())", "36"),
    (r#"strlen(bcrypt("x", 4))"#, "60"),
    ("ceil(1.2)", "2"),
    ("abs(-1.5)", "1.5"),
    (r#"try(nosuch(1), "d")"#, r#""d""#),
    (r#"upper("abc")"#, r#""ABC""#),
];

#[test]
fn functions_give_what_they_should() {
    for (expression, expected) in VALUES {
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn chance_follows_from_the_seed() {
    let id = |seed: [u8; 16]| {
        let mut options = Options::default();
        options.function_inputs.seed = seed;
        parse("job \"e\" {\n name = \"${uuidv4()}${uuidv4()}\"\n}", &options).unwrap().name.unwrap()
    };
    assert_eq!(id([1; 16]), id([1; 16]));
    assert_ne!(id([1; 16]), id([2; 16]));
    assert_ne!(id([1; 16])[..36], id([1; 16])[36..]);
}

#[test]
fn expressions_that_grow_without_bound_are_refused() {
    for expression in [
        "setproduct(range(1000), range(1000), range(1000))",
        r#"[for a in range(1000) : [for b in range(1000) : [for c in range(1000) : c]]]"#,
        r#"join("0123456789", [for a in range(1000) : join("0123456789", [for b in range(1000) : format("%1000d", b)])])"#,
        r#"replace(replace(replace(replace("aaaaaaaaaa", "a", "aaaaaaaaaaaaaaaa"), "a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), "a", format("%1000d", 1)), " ", format("%1000d", 1))"#,
        "indent(1000000000, \"a\\nb\")",
    ] {
        let source = format!("job \"e\" {{\n meta {{\n v = jsonencode({expression})\n}}\n}}");
        let error = parse(&source, &Options::default()).unwrap_err();
        assert!(error.to_string().contains("Too much to evaluate"), "{expression}: {error}");
    }
}

#[test]
fn csv_with_misplaced_quotation_marks_is_refused() {
    for (text, line) in [(r#"a\n\"x\n"#, 3), (r#"a\nx\"y\n"#, 2), (r#"a\n\"x\"y\n"#, 2)] {
        let source = format!("job \"e\" {{\n meta {{\n v = jsonencode(csvdecode(\"{text}\"))\n}}\n}}");
        let error = parse(&source, &Options::default()).unwrap_err().to_string();
        assert!(error.contains(&format!("the text is not CSV: line {line}")), "{text}: {error}");
    }
}
