//! Finds the metrics and the labels in a PromQL expression. Parses enough of the language to distinguish names from
//! functions, labels, durations and keywords.

use std::collections::BTreeSet;

/// The names in an expression.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) metrics: BTreeSet<String>,
    pub(crate) labels: BTreeSet<String>,
}

/// Keywords that may follow an expression.
const KEYWORDS: &[&str] = &["and", "or", "unless", "bool", "offset", "inf", "nan", "atan2", "start", "end"];
/// Keywords before a list of labels.
const BEFORE_LABELS: &[&str] = &["by", "without", "on", "ignoring", "group_left", "group_right"];

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Text,
    Symbol(char),
}

/// Returns the names in an expression.
pub(crate) fn names_in(expression: &str) -> Names {
    let tokens = tokens(expression);
    let mut names = Names::default();
    let mut at = 0;
    while at < tokens.len() {
        let next = tokens.get(at + 1);
        match &tokens[at] {
            Token::Word(word) if BEFORE_LABELS.contains(&word.as_str()) => {
                if next == Some(&Token::Symbol('(')) {
                    at += 2;
                    while tokens.get(at).is_some_and(|token| *token != Token::Symbol(')')) {
                        if let Token::Word(label) = &tokens[at] {
                            names.labels.insert(label.clone());
                        }
                        at += 1;
                    }
                }
            }
            Token::Word(word) if next == Some(&Token::Symbol('(')) || KEYWORDS.contains(&word.as_str()) => {}
            // An aggregation may have its labels before its operand.
            Token::Word(_)
                if matches!(next, Some(Token::Word(word)) if BEFORE_LABELS.contains(&word.as_str()))
                    && matches!(tokens.get(at + 2), Some(Token::Symbol('(')))
                    && is_aggregation(&tokens[at]) => {}
            Token::Word(word) => drop(names.metrics.insert(word.clone())),
            Token::Symbol('{') => {
                while tokens.get(at).is_some_and(|token| *token != Token::Symbol('}')) {
                    if let Token::Word(label) = &tokens[at] {
                        names.labels.insert(label.clone());
                    }
                    at += 1;
                }
            }
            Token::Symbol(_) | Token::Text => {}
        }
        at += 1;
    }
    names
}

fn is_aggregation(token: &Token) -> bool {
    const AGGREGATIONS: &[&str] = &[
        "sum",
        "min",
        "max",
        "avg",
        "count",
        "topk",
        "bottomk",
        "quantile",
        "stddev",
        "stdvar",
        "group",
        "count_values",
    ];
    matches!(token, Token::Word(word) if AGGREGATIONS.contains(&word.as_str()))
}

fn tokens(expression: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        let length = match first {
            '"' | '\'' | '`' => {
                let mut escaped = false;
                let end = rest[1..].find(|c| {
                    let ends = c == first && !escaped;
                    escaped = c == '\\' && !escaped && first != '`';
                    ends
                });
                tokens.push(Token::Text);
                end.map_or(rest.len(), |end| end + 2)
            }
            // Variables of dashboards stand for durations and strings.
            '$' => 1 + rest[1..].find(|c| !is_word(c)).unwrap_or(rest.len() - 1),
            // Durations of subqueries and ranges.
            '[' => rest.find(']').map_or(rest.len(), |end| end + 1),
            _ if first.is_ascii_digit() => rest.find(|c| !is_word(c) && c != '.').unwrap_or(rest.len()),
            _ if is_word(first) => {
                let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                tokens.push(Token::Word(rest[..length].to_owned()));
                length
            }
            '#' => rest.find('\n').unwrap_or(rest.len()),
            _ => {
                if !first.is_whitespace() {
                    tokens.push(Token::Symbol(first));
                }
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    tokens
}

#[test]
fn names_are_told_from_everything_else() {
    let found = |expression: &str| {
        let Names { metrics, labels } = names_in(expression);
        let list = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>().join(" ");
        format!("{} | {}", list(metrics), list(labels))
    };
    assert_eq!(found("up"), "up | ");
    assert_eq!(found("sum by (le, job) (rate(a_bucket{x=\"b{c}\",y=~'d|e'}[5m]))"), "a_bucket | job le x y");
    assert_eq!(found("sum(a) by (b) / on (c) group_left (d) e > bool 1.5e3"), "a e | b c d");
    assert_eq!(found("max_over_time(count by (s) (a)[30m:1m]) offset 5m or vector(0)"), "a | s");
    assert_eq!(
        found("histogram_quantile(0.99, rate(a_bucket[$__rate_interval])) unless on () b"),
        "a_bucket b | "
    );
    assert_eq!(found("topk(5, a{b!=\"c\\\"d\"}) # about e"), "a | b");
    assert_eq!(found("-a:b + 1h"), "a:b | ");
}
