//! Tests of filters on jobs and nodes, and property tests of the language.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Instant;

use api_types::{Evaluation, Job, Node};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use telemetry::clock;

use super::parse::{Bind, Expr, Operator, parse};
use super::steps::FILTER_STEPS_MAX;
use super::{Filter, FilterError, FilterLimits, LimitExceeded, Object, SyntaxError};

struct TestObject {
    json: Value,
    is_serialized: Cell<bool>,
}

impl Object for TestObject {
    fn stored_field(&self, field: &str) -> Option<Cow<'_, str>> {
        (field == "ID").then(|| self.json["ID"].as_str().unwrap_or_default().into())
    }

    fn to_json(&self) -> Value {
        self.is_serialized.set(true);
        self.json.clone()
    }
}

fn job() -> TestObject {
    let json = json!({
        "ID": "web/a", "Name": "web", "Type": "service", "Priority": 70, "Stop": false,
        "Datacenters": ["dc1", "dc2"], "Meta": {"team": "x", "odd.key": "v"},
        "ParameterizedJob": null, "Update": null, "Region": null,
        "TaskGroups": [
            {"Name": "g", "Count": 1, "Meta": null, "Tasks": [{"Name": "t", "Config": {"port": 80, "args": ["a"]}}]},
            {"Name": "h", "Count": 0, "Meta": {"k": "v"}, "Tasks": []},
        ],
    });
    TestObject { json, is_serialized: Cell::new(false) }
}

/// A clock that stands still: the time of regular expressions on a busy machine is no matter of these tests.
fn stopped_clock() -> Instant {
    static TIME: OnceLock<Instant> = OnceLock::new();
    *TIME.get_or_init(clock::monotonic)
}

/// Few enough steps for a test to take all of them.
const STEPS_MAX: u64 = 100_000;

fn read<T: DeserializeOwned>(text: &str) -> Result<Option<Filter>, SyntaxError> {
    super::read::<T>(text, FilterLimits { steps_max: STEPS_MAX, now: stopped_clock })
}

fn wants(text: &str) -> bool {
    let filter = read::<Job>(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
    filter.unwrap().matches(&job()).unwrap()
}

fn problem(text: &str) -> SyntaxError {
    read::<Job>(text).map(|_| ()).expect_err(text)
}

/// Why an expression does not fit a job.
fn unfit(text: &str) -> String {
    let filter = read::<Job>(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
    match filter.unwrap().matches(&job()) {
        Err(FilterError::Unfit(reason)) => reason,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn comparisons() {
    for text in [
        "Type == service",
        r#"Type == "service""#,
        "Type == `service`",
        "Type != batch",
        "Priority == 70",
        "Priority != 7",
        "Stop == false",
        "Stop != true",
        r#"Name contains "e""#,
        "Datacenters contains dc2",
        "Meta contains team",
        r#""dc1" in Datacenters"#,
        "dc1 in Datacenters",
        "dc3 not in Datacenters",
        "Name not contains x",
        r#"ID matches "^web/[a-c]$""#,
        r#"ID not matches "\d""#,
        r#"Meta.team == "x""#,
        r#"Meta["odd.key"] == v"#,
        r#""/Meta/team" == x"#,
        "TaskGroups.0.Name == g",
        "TaskGroups.0.Tasks.0.Config.port == 80",
        "a in TaskGroups.0.Tasks.0.Config.args",
    ] {
        assert!(wants(text), "{text}");
        assert!(!wants(&format!("not ({text})")), "{text}");
        assert!(!wants(&format!("not {text}")), "{text}");
    }
}

#[test]
fn absent_values_are_empty() {
    for text in [
        "ParameterizedJob is nil",
        "Region is not nil",
        "Constraints is nil",
        "Region is empty",
        r#"Region == """#,
        "Meta is not empty",
        "Meta is not nil",
        "Datacenters is not empty",
        "Meta.none is empty",
        "Meta.none != x",
        "x not in Meta.none",
        "TaskGroups.0.Meta is empty",
    ] {
        assert!(wants(text), "{text}");
    }
    for text in [
        "Meta.none == x",
        "Update.MaxParallel == 0",
        "Update.MaxParallel != 1",
        "Update.MaxParallel is not nil",
        "Meta is empty",
        "Region is nil",
        "Type is nil",
        "Priority is nil",
        "TaskGroups.0.Count is nil",
        "Datacenters.7 == dc1",
    ] {
        assert!(!wants(text), "{text}");
    }
}

#[test]
fn words_bind_as_they_should() {
    assert!(wants("Type == batch or Type == service and Priority == 70"));
    assert!(!wants("(Type == batch or Type == service) and Priority == 7"));
    assert!(wants("not Type == batch and Priority == 70"));
    assert!(!wants("not (Type == batch or Priority == 70)"));
    assert!(wants("\n Type==service\tand\n(Priority==70)"));
    assert!(wants("Name == web or Name == and"), "a value may be a keyword");
}

#[test]
fn quantifiers() {
    for text in [
        "any TaskGroups as tg { tg.Name == g and tg.Count == 1 }",
        "all TaskGroups as tg { tg.Count != 7 }",
        "any TaskGroups as i, tg { i == 1 and tg.Name == h }",
        "any TaskGroups as _, tg { tg.Name == h }",
        "any TaskGroups as i, _ { i == 1 }",
        "any Meta as key { key == team }",
        "any Meta as key, value { key == team and value == x }",
        "any Datacenters as dc { dc matches `2$` }",
        "all Constraints as c { c.LTarget == x }",
        "any TaskGroups as tg { any tg.Tasks as t { t.Name == t and tg.Name == g } }",
        "not any TaskGroups as tg { tg.Count == 9 }",
    ] {
        assert!(wants(text), "{text}");
    }
    assert!(!wants("any Constraints as c { c.LTarget == x }"));
    assert!(!wants("all TaskGroups as tg { tg.Count == 0 }"));
}

#[test]
fn an_object_is_written_out_only_if_need_be() {
    let filter = read::<Job>(r#"ID == "web/a" or Priority == 70"#).unwrap().unwrap();
    let object = job();
    assert_eq!(filter.matches(&object), Ok(true));
    assert!(!object.is_serialized.get());
    let filter = read::<Job>("ID == other or Priority == 70").unwrap().unwrap();
    assert!(filter.matches(&object) == Ok(true) && object.is_serialized.get());
}

#[test]
fn fields_of_objects_that_leave_out_what_is_empty() {
    let eval = TestObject { json: json!({"ID": "x"}), is_serialized: Cell::new(false) };
    let wants = |text: &str| read::<Evaluation>(text).unwrap().unwrap().matches(&eval).unwrap();
    assert!(wants(r#"DeploymentID == """#) && wants("Priority == 0") && wants("NodeID is empty"));
    assert!(
        read::<Node>(r#"Attributes["kernel.name"] == linux and Drivers.raw_exec.Healthy == true"#).is_ok()
    );
}

#[test]
fn what_does_not_fit_is_an_error_once_an_object_is_compared() {
    for (text, reason) in [
        (
            "Nope == 1",
            r#"error finding value in datum: /Nope at part 0: couldn't find key: struct field with name "Nope""#,
        ),
        ("Meta.none.State == x", r#"error finding value in datum: /Meta/none/State at part 2"#),
        (
            "TaskGroups.7.Name == g",
            r#"error finding value in datum: /TaskGroups/7/Name at part 1: couldn't find key "7""#,
        ),
        (
            "Priority == abc",
            r#"error getting match value in expression: strconv.ParseInt: parsing "abc": invalid syntax"#,
        ),
        ("Priority == 1.5", "error getting match value in expression: strconv.ParseInt"),
        ("Version == -1", r#"error getting match value in expression: strconv.ParseUint: parsing "-1""#),
        ("Update == x", "unable to find suitable primitive comparison function for matching"),
        (
            "ID matches `(`",
            "failed to compile regular expression \"(\": error parsing regexp: missing closing ): `(`",
        ),
        ("Name matches `((((a{100}){100}){100}){100})`", "failed to compile regular expression"),
    ] {
        assert!(unfit(text).starts_with(reason), "{text}: {}", unfit(text));
    }
    for text in [
        "TaskGroups.0.Nope == 1",
        "Meta.a.b == 1",
        "TaskGroups.x is empty",
        "any TaskGroups as tg { tg.Nope == 1 }",
        "any Meta as key { key.x == 1 }",
        "any Priority as x { x == 1 }",
        "Priority == abc",
        "Stop == 7",
        "Datacenters == dc1",
        "Priority contains 7",
        "Priority matches `7`",
        "Priority is empty",
    ] {
        assert_ne!(unfit(text), "", "{text}");
    }
    assert!(wants("Type == service or Nope == 1"), "what need not be compared is no error");
}

#[test]
fn invalid_expressions_are_refused_with_their_place() {
    assert!(problem("bad").to_string().starts_with("1:4 (3): no match found, expected"));
    for text in [
        "Type == ",
        "(Type == batch",
        "Type === \"x\"",
        "Priority > 3",
        "Type == a AND Type == b",
        "and",
        "Type == \"x",
        "Type ==",
        "x in",
        "\"a\" == b",
        "7 == Priority",
        "any TaskGroups as { x == 1 }",
        "any TaskGroups as tg { }",
        "Type is",
        "Type is full",
        "Meta[team] == x",
        "Meta[\"a\" == x",
        "a. == b",
        " ",
        "7x in Datacenters",
    ] {
        assert!(problem(text).to_string().starts_with("1:"), "{text}: {}", problem(text));
    }
}

#[test]
fn it_is_bounded() {
    let syntax = |text: &str| read::<Job>(text).is_err();
    assert!(syntax(&format!("Name == \"{}\"", "x".repeat(20_000))));
    assert!(syntax(&format!("{}Name == x{}", "(".repeat(40), ")".repeat(40))));
    assert!(syntax(&"not ".repeat(1_000)));
    assert!(syntax(&vec!["Name matches `a`"; 33].join(" or ")));
    let config = |steps: usize| format!("TaskGroups.0.Tasks.0.Config{} == x", ".a".repeat(steps - 5));
    assert!(read::<Job>(&config(20)).is_ok() && syntax(&config(21)));
    assert!(syntax(&format!("\"/{}\" == x", "a/".repeat(20))));
    let long = vec!["Name contains \"abcdefghij\""; 500].join(" or ");
    assert!(read::<Job>(&long).is_ok(), "the web interface sends expressions of this length");
}

/// A node with so many attributes.
fn node(attributes: usize) -> TestObject {
    let attributes: serde_json::Map<String, Value> =
        (0..attributes).map(|number| (format!("attribute.{number}"), json!("value"))).collect();
    TestObject { json: json!({"ID": "x", "Attributes": attributes}), is_serialized: Cell::new(false) }
}

/// Quantifiers over the attributes of a node, inside each other. No attribute ever satisfies the innermost.
fn nested(depth: usize) -> String {
    let quantifiers: String = (0..depth).map(|number| format!("any Attributes as k{number} {{ ")).collect();
    format!("{quantifiers}k0 == none{}", " }".repeat(depth))
}

#[test]
fn nested_quantifiers_end_at_a_limit_of_steps() {
    let (filter, node) = (read::<Node>(&nested(12)).unwrap().unwrap(), node(22));
    let exceeded = || FilterError::from(LimitExceeded::Steps { max: STEPS_MAX });
    assert_eq!(filter.matches(&node), Err(exceeded()));
    assert_eq!(filter.matches(&node), Err(exceeded()), "the limit is for all objects together");
    filter.renew_steps();
    assert!(filter.steps_left() == STEPS_MAX && filter.matches(&node) == Err(exceeded()));
    let exceeded = exceeded();
    assert!(exceeded.to_string().contains("more than 100000 steps"), "{exceeded}");
    let filter = read::<Node>(&nested(2)).unwrap().unwrap();
    assert_eq!(filter.matches(&node), Ok(false));
}

#[test]
fn a_long_expression_is_affordable_on_a_hundred_thousand_objects() {
    let long = vec!["Name contains \"abcdefghij\""; 500].join(" or ");
    let filter = read::<Job>(&long).unwrap().unwrap();
    assert_eq!(filter.matches(&job()), Ok(false));
    let taken = STEPS_MAX - filter.steps_left();
    assert!(taken > 500 && taken * 100_000 <= FILTER_STEPS_MAX, "{taken} steps");
}

#[test]
fn a_slow_regular_expression_is_matched_with_short_texts_only() {
    let large = read::<Job>("Name matches `^[ab]{0,900}[bc]{0,900}$`").unwrap().unwrap();
    let object = |length| TestObject {
        json: json!({"ID": "x", "Name": "a".repeat(length)}),
        is_serialized: Cell::new(false),
    };
    assert!(large.matches(&object(100)).is_ok());
    let found = large.matches(&object(1 << 20));
    assert!(matches!(found, Err(FilterError::Limit(LimitExceeded::Text { .. }))), "{found:?}");
    let small = read::<Job>("Name matches `a$`").unwrap().unwrap();
    assert_eq!(small.matches(&object(1 << 10)), Ok(true));
}

/// Writes an expression with all parentheses.
fn write(expr: &Expr) -> String {
    let join = |exprs: &[Expr], word: &str| {
        format!("({})", exprs.iter().map(write).collect::<Vec<_>>().join(&format!(" {word} ")))
    };
    let path = |steps: &[String]| {
        let rest: String = steps[1..].iter().map(|step| format!("[{}]", quoted(step))).collect();
        format!("{}{rest}", steps[0])
    };
    match expr {
        Expr::Or(alternatives) => join(alternatives, "or"),
        Expr::And(parts) => join(parts, "and"),
        Expr::Not(inner) => format!("not {}", write(inner)),
        Expr::Match { selector, operator, is_negated } => {
            let not = if *is_negated { "not " } else { "" };
            let selector = path(selector);
            match operator {
                Operator::Equals(value) => {
                    format!("{selector} {} {}", if *is_negated { "!=" } else { "==" }, quoted(value))
                }
                Operator::Contains(value) => format!("{} {not}in {selector}", quoted(value)),
                Operator::Matches(value) => format!("{selector} {not}matches {}", quoted(value)),
                Operator::IsEmpty => format!("{selector} is {not}empty"),
                Operator::IsNil => format!("{selector} is {not}nil"),
            }
        }
        Expr::Each { all, selector, bind, body } => {
            let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "_".to_owned());
            let bind = match bind {
                Bind::One(one) => one.clone(),
                Bind::Two(first, second) => format!("{}, {}", name(first), name(second)),
            };
            let word = if *all { "all" } else { "any" };
            format!("{word} {} as {bind} {{ {} }}", path(selector), write(body))
        }
    }
}

/// Quotes a text, escaping only the characters that have an escape.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

/// An arbitrary expression.
fn any_expr(u: &mut arbtest::arbitrary::Unstructured<'_>, depth: usize) -> arbtest::arbitrary::Result<Expr> {
    const NAMES: [&str; 6] = ["Name", "Meta", "x", "not_in", "order", "anyone"];
    const TEXTS: [&str; 8] = ["", "a", "a\"b\\", "dc1", "and", "7", "\u{e4}\n", "}"];
    let steps = |u: &mut arbtest::arbitrary::Unstructured<'_>| {
        let mut steps = vec![(*u.choose(&NAMES)?).to_owned()];
        for _ in 0..u.int_in_range(0..=2)? {
            steps.push((*u.choose(&TEXTS)?).to_owned());
        }
        Ok(steps)
    };
    if depth == 0 || u.is_empty() || u.ratio(1, 3)? {
        let value = (*u.choose(&TEXTS)?).to_owned();
        let operator = match u.int_in_range(0..=4)? {
            0 => Operator::Equals(value),
            1 => Operator::Contains(value),
            2 => Operator::Matches(value),
            3 => Operator::IsEmpty,
            _ => Operator::IsNil,
        };
        return Ok(Expr::Match { selector: steps(u)?, operator, is_negated: u.arbitrary()? });
    }
    let some = |u: &mut arbtest::arbitrary::Unstructured<'_>| -> arbtest::arbitrary::Result<Vec<Expr>> {
        (0..u.int_in_range(2..=4)?).map(|_| any_expr(u, depth - 1)).collect()
    };
    Ok(match u.int_in_range(0..=3)? {
        0 => Expr::Or(some(u)?),
        1 => Expr::And(some(u)?),
        2 => Expr::Not(Box::new(any_expr(u, depth - 1)?)),
        _ => {
            let name = |u: &mut arbtest::arbitrary::Unstructured<'_>| -> arbtest::arbitrary::Result<_> {
                Ok(u.arbitrary::<bool>()?.then(|| "bound".to_owned()))
            };
            let bind =
                if u.arbitrary()? { Bind::One("bound".to_owned()) } else { Bind::Two(name(u)?, name(u)?) };
            let body = Box::new(any_expr(u, depth - 1)?);
            Expr::Each { all: u.arbitrary()?, selector: steps(u)?, bind, body }
        }
    })
}

#[test]
fn printed_expressions_parse_to_themselves() {
    arbtest::arbtest(|u| {
        let expr = any_expr(u, 4)?;
        let text = write(&expr);
        assert_eq!(parse(&text).as_ref(), Ok(&expr), "{text}");
        Ok(())
    })
    .budget_ms(1_000);
}

#[test]
fn nothing_makes_it_panic() {
    const PARTS: [&str; 34] = [
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ".",
        ",",
        "_",
        "\"",
        "`",
        "\\",
        "/",
        " ",
        "==",
        "!=",
        "not ",
        "in ",
        "and ",
        "or ",
        "is ",
        "empty",
        "nil",
        "any ",
        "all ",
        "as ",
        "contains ",
        "matches ",
        "Meta",
        "TaskGroups",
        "Name",
        "7",
        "-",
        "\u{e4}",
    ];
    let object = job();
    arbtest::arbtest(|u| {
        let mut text = String::new();
        while !u.is_empty() && text.len() < 500 {
            text.push_str(u.choose(&PARTS)?);
        }
        if let Ok(Some(filter)) = read::<Job>(&text) {
            // It may exceed its limits.
            let _ = filter.matches(&object);
        }
        Ok(())
    })
    .budget_ms(1_000);
}
