//! Checks the alert rules: Prometheus accepts them, their metrics exist, they have explanations, and they pass their
//! own tests.

use std::fs;
use std::path::{Path, PathBuf};

use tests::promtool::promtool;

use crate::emitted::faults;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/observability")
}

/// The parts of a rule that are checked.
#[derive(Debug, Default)]
struct Rule {
    alert: String,
    expression: String,
    /// All other fields of the rule, by name.
    fields: Vec<(String, String)>,
}

/// Parses the rules of a file in the format of ours: one field per line, and expressions that may be folded (`>-`).
fn rules(text: &str) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut folded = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if let Some(alert) = line.strip_prefix("- alert: ") {
            rules.push(Rule { alert: alert.to_owned(), ..Rule::default() });
        }
        let Some(rule) = rules.last_mut() else { continue };
        match folded {
            Some(of) if indent > of => {
                rule.expression.push_str(line);
                rule.expression.push(' ');
                continue;
            }
            Some(_) | None => folded = None,
        }
        match line.split_once(": ") {
            Some(("expr", ">-")) => folded = Some(indent),
            Some(("expr", expression)) => rule.expression = expression.to_owned(),
            Some((name, value)) => rule.fields.push((name.to_owned(), value.to_owned())),
            None => {}
        }
    }
    rules
}

#[test]
fn rules_name_metrics_that_there_are_and_explain_themselves() {
    let rules = rules(&fs::read_to_string(folder().join("alerts.yaml")).unwrap());
    assert!(rules.len() >= 20, "{}", rules.len());
    let mut wrong = Vec::new();
    for rule in &rules {
        let mut fault = |text: String| wrong.push(format!("{}: {text}", rule.alert));
        faults(&rule.expression).into_iter().for_each(&mut fault);
        let field =
            |name: &str| rule.fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        for name in ["summary", "description"] {
            if field(name).is_none_or(|text| !text.trim_end_matches('\'').ends_with('.')) {
                fault(format!("its {name} is not a sentence"));
            }
        }
        if !matches!(field("severity"), Some("warning" | "critical")) {
            fault("its severity is neither warning nor critical".to_owned());
        }
        let runbook = field("runbook_url").and_then(|url| url.split_once('#'));
        let Some((file, heading)) = runbook else {
            fault("it has no runbook".to_owned());
            continue;
        };
        let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file))
            .unwrap_or_default();
        let exists = page.lines().any(|line| line.to_lowercase() == format!("### {heading}"));
        if !exists || heading != rule.alert.to_lowercase() {
            fault(format!("its runbook {file}#{heading} does not exist"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn prometheus_takes_the_rules_and_they_do_what_they_should() {
    let rules = folder().join("alerts.yaml").display().to_string();
    let tests = folder().join("alerts.test.yaml").display().to_string();
    for args in [["check", "rules", &rules], ["test", "rules", &tests]] {
        let output = promtool(&args, "");
        let text = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&text));
    }
}

#[test]
fn folded_expressions_are_read_whole() {
    let text = "rules:\n  - alert: A\n    expr: >-\n      a\n      / b\n    for: 5m\n  - alert: B\n    expr: c > 1\n";
    let rules = rules(text);
    assert_eq!(rules.iter().map(|rule| rule.expression.trim()).collect::<Vec<_>>(), ["a / b", "c > 1"]);
    assert_eq!(rules[0].fields.last(), Some(&("for".to_owned(), "5m".to_owned())));
}
