//! Patterns that match recorded responses. A pattern is JSON and matches exactly itself, except that some words in it
//! stand for a kind of value, and that elements of arrays match in any order unless marked otherwise.
//!
//! Elements and alternatives are tried one after another, and variables that one of them sets hold for everything after
//! it. So a match passes its variables to a continuation that matches the rest of the pattern, and that may reject
//! them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

/// Variables that earlier parts of a scene have set.
pub(super) type Variables = BTreeMap<String, Value>;

/// How far from now a time may be, in seconds.
const DAY_SECS: f64 = 86_400.0;
/// The longest duration in responses, in nanoseconds.
const HOUR_NANOS: i64 = 3_600_000_000_000;

static KIND: LazyLock<Regex> = LazyLock::new(|| regex(r"\A<([a-z][a-z0-9-]*)(?::(\w+))?>\z"));
static VARIABLE: LazyLock<Regex> = LazyLock::new(|| regex(r"\$\{(\w+)\}"));
static UUID: LazyLock<Regex> = LazyLock::new(|| regex(r"\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\z"));
static RFC3339: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\A2\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)\z"));
static BASE64: LazyLock<Regex> = LazyLock::new(|| regex(r"\A[A-Za-z0-9+/]+=*\z"));

fn regex(text: &str) -> Regex {
    Regex::new(text).expect("the regular expression is valid")
}

/// Inserts variables into a request or a text. A text that consists of one variable takes the variable's type. Unknown
/// variables are left unchanged.
pub(super) fn fill(value: &Value, variables: &Variables) -> Value {
    match value {
        Value::String(text) => {
            let whole = VARIABLE.captures(text).filter(|found| found[0].len() == text.len());
            match whole.and_then(|found| variables.get(&found[1])) {
                Some(value) => value.clone(),
                None => Value::String(fill_text(text, variables)),
            }
        }
        Value::Array(items) => items.iter().map(|item| fill(item, variables)).collect(),
        Value::Object(members) => {
            let filled = members.iter().map(|(key, item)| (fill_text(key, variables), fill(item, variables)));
            Value::Object(filled.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// The same for a text that remains a text.
pub(super) fn fill_text(text: &str, variables: &Variables) -> String {
    fill_with(text, variables, |value| value)
}

fn fill_with(text: &str, variables: &Variables, write: impl Fn(String) -> String) -> String {
    let replace = |found: &regex::Captures<'_>| match variables.get(&found[1]) {
        Some(Value::String(value)) => write(value.clone()),
        Some(value) => write(value.to_string()),
        None => found[0].to_owned(),
    };
    VARIABLE.replace_all(text, replace).into_owned()
}

/// Matches a pattern against a value, or against `None` if there is no value. Returns the variables after the match.
///
/// # Errors
/// Where and why it does not match. Of all attempts, the deepest mismatch is reported.
pub(super) fn fit(
    pattern: &Value,
    value: Option<&Value>,
    variables: &Variables,
    now_secs: f64,
) -> Result<Variables, String> {
    let mut matcher = Matcher { now_secs, failed: None };
    let mut found = None;
    let root = Path { parent: None, step: "" };
    matcher.fit(pattern, value, variables, &root, &mut |_, variables| {
        found = Some(variables.clone());
        true
    });
    found.ok_or_else(|| matcher.failed.map_or_else(String::new, |(_, reason)| reason))
}

/// Matches the rest of a pattern. Returns whether it matches.
type Continuation<'a> = &'a mut dyn FnMut(&mut Matcher, &Variables) -> bool;

/// The path of a value within the whole.
struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: &'a str,
}

impl Path<'_> {
    fn depth(&self) -> usize {
        self.parent.map_or(0, |parent| parent.depth() + 1)
    }

    fn path(&self) -> String {
        self.parent.map_or_else(String::new, |parent| format!("{}/{}", parent.path(), self.step))
    }
}

struct Matcher {
    now_secs: f64,
    /// The depth and the reason of the deepest mismatch.
    failed: Option<(usize, String)>,
}

impl Matcher {
    fn fail(&mut self, at: &Path<'_>, reason: &str) -> bool {
        let depth = at.depth();
        if self.failed.as_ref().is_none_or(|(deepest, _)| depth > *deepest) {
            self.failed = Some((depth, format!("{}: {reason}", at.path())));
        }
        false
    }

    fn fit(
        &mut self,
        pattern: &Value,
        value: Option<&Value>,
        variables: &Variables,
        at: &Path<'_>,
        then: Continuation<'_>,
    ) -> bool {
        match pattern {
            Value::String(text) => self.fit_text(text, value, variables, at, then),
            Value::Object(members) => match members.get("<or>") {
                Some(Value::Array(alternatives)) if members.len() == 1 => {
                    alternatives.iter().any(|alternative| self.fit(alternative, value, variables, at, then))
                }
                _ => match value {
                    Some(Value::Object(found)) => self.fit_object(members, found, variables, at, then),
                    other => self.fail(at, &format!("want an object, got {}", shown(other))),
                },
            },
            Value::Array(items) => match value {
                Some(Value::Array(found)) => self.fit_array(items, found, variables, at, then),
                other => self.fail(at, &format!("want an array, got {}", shown(other))),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                if value.is_some_and(|value| is_same(pattern, value)) {
                    then(self, variables)
                } else {
                    self.fail(at, &format!("want {pattern}, got {}", shown(value)))
                }
            }
        }
    }

    fn fit_text(
        &mut self,
        text: &str,
        value: Option<&Value>,
        variables: &Variables,
        at: &Path<'_>,
        then: Continuation<'_>,
    ) -> bool {
        let wanted = || format!("want {text}, got {}", shown(value));
        if let Some(expression) = text.strip_prefix("<re ").and_then(|rest| rest.strip_suffix('>')) {
            let filled = fill_with(expression, variables, |value| regex::escape(&value));
            let expression = regex(&format!(r"(?s)\A(?:{filled})\z"));
            let Some(found) = value.and_then(Value::as_str).and_then(|text| expression.captures(text)) else {
                return self.fail(at, &wanted());
            };
            let mut set = variables.clone();
            for name in expression.capture_names().flatten() {
                let Some(part) = found.name(name) else { continue };
                let part = Value::from(part.as_str());
                if *set.entry(name.to_owned()).or_insert_with(|| part.clone()) != part {
                    return self.fail(at, &wanted());
                }
            }
            return then(self, &set);
        }
        if let Some(kind) = KIND.captures(text)
            && let Some(is_kind) = is_of_kind(&kind[1], value, self.now_secs)
        {
            let (true, Some(value)) = (is_kind, value) else { return self.fail(at, &wanted()) };
            let Some(name) = kind.get(2) else { return then(self, variables) };
            return match variables.get(name.as_str()) {
                Some(set) if is_same(set, value) => then(self, variables),
                Some(set) => self.fail(at, &format!("want {text} = {set}, got {value}")),
                None => {
                    let mut set = variables.clone();
                    set.insert(name.as_str().to_owned(), value.clone());
                    then(self, &set)
                }
            };
        }
        let filled = fill(&Value::from(text), variables);
        if value.is_some_and(|value| is_same(&filled, value)) {
            then(self, variables)
        } else {
            self.fail(at, &format!("want {filled}, got {}", shown(value)))
        }
    }

    fn fit_object(
        &mut self,
        pattern: &Map<String, Value>,
        found: &Map<String, Value>,
        variables: &Variables,
        at: &Path<'_>,
        then: Continuation<'_>,
    ) -> bool {
        let mut pairs = Vec::new();
        let mut named = Vec::new();
        for (key, wanted) in pattern.iter().filter(|(key, _)| !matches!(key.as_str(), "..." | "<each>")) {
            let key = fill_text(key, variables);
            pairs.push((wanted, found.get(&key), key.clone()));
            named.push(key);
        }
        let rest = || found.iter().filter(|(key, _)| !named.contains(key));
        if let Some(each) = pattern.get("<each>") {
            pairs.extend(rest().map(|(key, value)| (each, Some(value), key.clone())));
        } else if !pattern.contains_key("...") {
            let unexpected: Vec<_> =
                rest().map(|(key, value)| format!("{key}={}", shown(Some(value)))).collect();
            if !unexpected.is_empty() {
                return self.fail(at, &format!("unexpected {}", unexpected.join(", ")));
            }
        }
        self.fit_all(&pairs, variables, at, then)
    }

    fn fit_all(
        &mut self,
        pairs: &[(&Value, Option<&Value>, String)],
        variables: &Variables,
        at: &Path<'_>,
        then: Continuation<'_>,
    ) -> bool {
        let Some(((pattern, value, step), rest)) = pairs.split_first() else { return then(self, variables) };
        let place = Path { parent: Some(at), step };
        self.fit(pattern, *value, variables, &place, &mut |matcher, variables| {
            matcher.fit_all(rest, variables, at, then)
        })
    }

    fn fit_array(
        &mut self,
        pattern: &[Value],
        found: &[Value],
        variables: &Variables,
        at: &Path<'_>,
        then: Continuation<'_>,
    ) -> bool {
        let mark = pattern.first().and_then(Value::as_str);
        let mark = mark.filter(|mark| matches!(*mark, "<ordered>" | "<some>" | "<each>" | "<start>"));
        let items = if mark.is_some() { &pattern[1..] } else { pattern };
        let is_enough = match mark {
            Some("<some>" | "<each>") => true,
            Some("<start>") => found.len() >= items.len(),
            _ => found.len() == items.len(),
        };
        if !is_enough {
            let found = Value::from(found);
            return self.fail(at, &format!("want {} elements, got {}", items.len(), shown(Some(&found))));
        }
        let pair = |(place, (pattern, value))| -> (&Value, Option<&Value>, String) {
            let place: usize = place;
            (pattern, Some(value), place.to_string())
        };
        match mark {
            Some("<each>") => {
                let pairs: Vec<_> =
                    found.iter().map(|value| (&items[0], value)).enumerate().map(pair).collect();
                self.fit_all(&pairs, variables, at, then)
            }
            Some("<ordered>" | "<start>") => {
                let pairs: Vec<_> = items.iter().zip(found).enumerate().map(pair).collect();
                self.fit_all(&pairs, variables, at, then)
            }
            _ => self.assign(items, &found.iter().enumerate().collect::<Vec<_>>(), variables, at, then),
        }
    }

    /// Assigns an element of its own to each pattern, in any order.
    fn assign(
        &mut self,
        patterns: &[Value],
        left: &[(usize, &Value)],
        variables: &Variables,
        at: &Path<'_>,
        then: Continuation<'_>,
    ) -> bool {
        let Some((pattern, rest)) = patterns.split_first() else { return then(self, variables) };
        (0..left.len()).any(|taken| {
            let (number, value) = left[taken];
            let place = Path { parent: Some(at), step: &number.to_string() };
            let others: Vec<_> = [&left[..taken], &left[taken + 1..]].concat();
            self.fit(pattern, Some(value), variables, &place, &mut |matcher, variables| {
                matcher.assign(rest, &others, variables, at, then)
            })
        })
    }
}

/// Whether a value is of a kind, or `None` if the kind does not exist.
fn is_of_kind(kind: &str, value: Option<&Value>, now_secs: f64) -> Option<bool> {
    let value = value.unwrap_or(&Value::Null);
    let is_int = value.is_i64() || value.is_u64();
    let text = |expression: &Regex| value.as_str().is_some_and(|text| expression.is_match(text));
    let near = |unit: f64| is_int && value.as_f64().is_some_and(|at| (at / unit - now_secs).abs() < DAY_SECS);
    Some(match kind {
        "uuid" => text(&UUID),
        "index" => value.as_u64().is_some_and(|index| index > 0),
        "int" => is_int,
        "number" => value.is_number(),
        "bool" => value.is_boolean(),
        "string" => value.as_str().is_some_and(|text| !text.is_empty()),
        "time-ns" => near(1e9),
        "time-s" => near(1.0),
        "duration-ns" => value.as_i64().is_some_and(|nanos| (0..HOUR_NANOS).contains(&nanos)),
        "rfc3339" => text(&RFC3339),
        "port" => value.as_u64().is_some_and(|port| (1..65_536).contains(&port)),
        "base64" => text(&BASE64),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "any" => true,
        _ => return None,
    })
}

/// Whether values are equal. 1 and 1.0 are equal.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

fn shown(value: Option<&Value>) -> String {
    const CHARS_MAX: usize = 300;
    value.map_or_else(|| "nothing".to_owned(), |value| value.to_string().chars().take(CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn try_fit(pattern: Value, value: Value) -> Result<Variables, String> {
        fit(&pattern, Some(&value), &Variables::new(), 1e9)
    }

    #[test]
    fn a_pattern_fits_itself_and_nothing_else() {
        for value in [json!(null), json!(0), json!(""), json!([]), json!({}), json!({"a": [1, "b"]})] {
            assert!(try_fit(value.clone(), value.clone()).is_ok());
            assert!(try_fit(value, json!(7)).is_err());
        }
        assert_eq!(try_fit(json!({"a": 1}), json!({"a": 1, "b": 2})).unwrap_err(), ": unexpected b=2");
        assert_eq!(try_fit(json!({"a": null}), json!({})).unwrap_err(), "/a: want null, got nothing");
        assert!(try_fit(json!(1), json!(true)).is_err());
    }

    #[test]
    fn kinds_and_what_they_set() {
        let set = try_fit(json!({"a": "<index:i>", "b": "<index:i>"}), json!({"a": 7, "b": 7})).unwrap();
        assert_eq!(set["i"], 7);
        assert!(try_fit(json!({"a": "<index:i>", "b": "<index:i>"}), json!({"a": 7, "b": 8})).is_err());
        assert!(try_fit(json!("<index>"), json!(0)).is_err());
        assert!(try_fit(json!("<time-ns>"), json!(1_000_000_000_000_000_000_i64)).is_ok());
        assert!(try_fit(json!("<time-ns>"), json!(1)).is_err());
        assert!(try_fit(json!("<uuid>"), json!("00000000-0000-4000-8000-000000000000")).is_ok());
        assert!(try_fit(json!("<string>"), json!("")).is_err());
        let set = try_fit(json!("<re a(?P<rest>.*)>"), json!("ab\nc")).unwrap();
        assert_eq!(set["rest"], "b\nc");
        assert!(try_fit(json!("<re a>"), json!("ab")).is_err());
    }

    #[test]
    fn elements_find_their_patterns() {
        let pattern = json!([{"...": true, "a": "<int:x>"}, {"a": "${x}", "b": 1}]);
        assert!(try_fit(pattern.clone(), json!([{"a": 5, "b": 1}, {"a": 5}])).is_ok());
        assert!(try_fit(pattern, json!([{"a": 5, "b": 1}, {"a": 6}])).is_err());
        assert!(try_fit(json!(["<ordered>", 1, 2]), json!([2, 1])).is_err());
        assert!(try_fit(json!(["<start>", 1]), json!([1, 2])).is_ok());
        assert!(try_fit(json!(["<some>", 2]), json!([1, 2])).is_ok());
        assert!(try_fit(json!(["<each>", "<int>"]), json!([1, "x"])).is_err());
        assert!(try_fit(json!([1, 2]), json!([1])).is_err());
        assert!(try_fit(json!({"<or>": [1, null]}), json!(null)).is_ok());
        assert!(try_fit(json!({"<each>": 1}), json!({"a": 1, "b": 2})).is_err());
    }

    #[test]
    fn variables_are_put_in() {
        let variables = Variables::from([("a".to_owned(), json!(7)), ("b".to_owned(), json!("x.y"))]);
        assert_eq!(fill(&json!(["${a}", "n${a}", "${c}"]), &variables), json!([7, "n7", "${c}"]));
        assert_eq!(fill(&json!({"${b}": 1}), &variables), json!({"x.y": 1}));
        assert!(fit(&json!("<re ${b}>"), Some(&json!("x.y")), &variables, 0.0).is_ok());
        assert!(
            fit(&json!("<re ${b}>"), Some(&json!("xzy")), &variables, 0.0).is_err(),
            "variables are inserted as literal text"
        );
    }
}
