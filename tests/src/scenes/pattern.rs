//! Patterns: what fits a recorded answer. A pattern is JSON and fits exactly itself, but for a few words in it that stand for
//! a kind of value, and for arrays, whose elements come in any order unless they say so.
//!
//! Elements and alternatives are tried one after the other, and what one of them set holds for all that follows; so a
//! match hands on what it set to the rest of the pattern, which may turn it down.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

/// Variables that earlier parts of a scene have set.
pub(super) type Variables = BTreeMap<String, Value>;

/// How far from now a time may be, in seconds.
const DAY_SECS: f64 = 86_400.0;
/// The longest duration that answers show, in nanoseconds.
const HOUR_NANOS: i64 = 3_600_000_000_000;

static KIND: LazyLock<Regex> = LazyLock::new(|| regex(r"\A<([a-z][a-z0-9-]*)(?::(\w+))?>\z"));
static VARIABLE: LazyLock<Regex> = LazyLock::new(|| regex(r"\$\{(\w+)\}"));
static UUID: LazyLock<Regex> = LazyLock::new(|| regex(r"\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\z"));
static RFC3339: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\A2\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)\z"));
static BASE64: LazyLock<Regex> = LazyLock::new(|| regex(r"\A[A-Za-z0-9+/]+=*\z"));

fn regex(text: &str) -> Regex {
    Regex::new(text).expect("it is a regular expression")
}

/// Puts variables into a request or a text. A text that is one variable takes its type; unknown ones stay as they are.
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

/// The same of a text that stays one.
pub(super) fn fill_text(text: &str, variables: &Variables) -> String {
    fill_with(text, variables, |value| value)
}

fn fill_with(text: &str, variables: &Variables, write: impl Fn(String) -> String) -> String {
    let put = |found: &regex::Captures<'_>| match variables.get(&found[1]) {
        Some(Value::String(value)) => write(value.clone()),
        Some(value) => write(value.to_string()),
        None => found[0].to_owned(),
    };
    VARIABLE.replace_all(text, put).into_owned()
}

/// Fits a pattern to a value (`None`: there is none), and says which variables are set then.
///
/// # Errors
/// Where it does not fit and why; the place that was furthest inside, of those that were tried.
pub(super) fn fit(
    pattern: &Value,
    value: Option<&Value>,
    variables: &Variables,
    now_secs: f64,
) -> Result<Variables, String> {
    let mut trial = Trial { now_secs, failed: None };
    let mut found = None;
    let root = Place { parent: None, step: "" };
    trial.fit(pattern, value, variables, &root, &mut |_, variables| {
        found = Some(variables.clone());
        true
    });
    found.ok_or_else(|| trial.failed.map_or_else(String::new, |(_, reason)| reason))
}

/// Goes on with the rest of a pattern; whether it fits.
type Then<'a> = &'a mut dyn FnMut(&mut Trial, &Variables) -> bool;

/// Where a value stands in the whole one.
struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    step: &'a str,
}

impl Place<'_> {
    fn depth(&self) -> usize {
        self.parent.map_or(0, |parent| parent.depth() + 1)
    }

    fn path(&self) -> String {
        self.parent.map_or_else(String::new, |parent| format!("{}/{}", parent.path(), self.step))
    }
}

struct Trial {
    now_secs: f64,
    /// How deep inside, and what did not fit there.
    failed: Option<(usize, String)>,
}

impl Trial {
    fn no(&mut self, at: &Place<'_>, reason: &str) -> bool {
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
        at: &Place<'_>,
        then: Then<'_>,
    ) -> bool {
        match pattern {
            Value::String(text) => self.fit_text(text, value, variables, at, then),
            Value::Object(members) => match members.get("<or>") {
                Some(Value::Array(ways)) if members.len() == 1 => {
                    ways.iter().any(|way| self.fit(way, value, variables, at, then))
                }
                _ => match value {
                    Some(Value::Object(found)) => self.fit_object(members, found, variables, at, then),
                    other => self.no(at, &format!("want an object, got {}", shown(other))),
                },
            },
            Value::Array(items) => match value {
                Some(Value::Array(found)) => self.fit_array(items, found, variables, at, then),
                other => self.no(at, &format!("want an array, got {}", shown(other))),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                if value.is_some_and(|value| is_same(pattern, value)) {
                    then(self, variables)
                } else {
                    self.no(at, &format!("want {pattern}, got {}", shown(value)))
                }
            }
        }
    }

    fn fit_text(
        &mut self,
        text: &str,
        value: Option<&Value>,
        variables: &Variables,
        at: &Place<'_>,
        then: Then<'_>,
    ) -> bool {
        let wanted = || format!("want {text}, got {}", shown(value));
        if let Some(expression) = text.strip_prefix("<re ").and_then(|rest| rest.strip_suffix('>')) {
            let filled = fill_with(expression, variables, |value| regex::escape(&value));
            let expression = regex(&format!(r"(?s)\A(?:{filled})\z"));
            let Some(found) = value.and_then(Value::as_str).and_then(|text| expression.captures(text)) else {
                return self.no(at, &wanted());
            };
            let mut set = variables.clone();
            for name in expression.capture_names().flatten() {
                let Some(part) = found.name(name) else { continue };
                let part = Value::from(part.as_str());
                if *set.entry(name.to_owned()).or_insert_with(|| part.clone()) != part {
                    return self.no(at, &wanted());
                }
            }
            return then(self, &set);
        }
        if let Some(kind) = KIND.captures(text)
            && let Some(is_kind) = is_of_kind(&kind[1], value, self.now_secs)
        {
            let (true, Some(value)) = (is_kind, value) else { return self.no(at, &wanted()) };
            let Some(name) = kind.get(2) else { return then(self, variables) };
            return match variables.get(name.as_str()) {
                Some(set) if is_same(set, value) => then(self, variables),
                Some(set) => self.no(at, &format!("want {text} = {set}, got {value}")),
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
            self.no(at, &format!("want {filled}, got {}", shown(value)))
        }
    }

    fn fit_object(
        &mut self,
        pattern: &Map<String, Value>,
        found: &Map<String, Value>,
        variables: &Variables,
        at: &Place<'_>,
        then: Then<'_>,
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
                return self.no(at, &format!("unexpected {}", unexpected.join(", ")));
            }
        }
        self.fit_all(&pairs, variables, at, then)
    }

    fn fit_all(
        &mut self,
        pairs: &[(&Value, Option<&Value>, String)],
        variables: &Variables,
        at: &Place<'_>,
        then: Then<'_>,
    ) -> bool {
        let Some(((pattern, value, step), rest)) = pairs.split_first() else { return then(self, variables) };
        let place = Place { parent: Some(at), step };
        self.fit(pattern, *value, variables, &place, &mut |trial, variables| {
            trial.fit_all(rest, variables, at, then)
        })
    }

    fn fit_array(
        &mut self,
        pattern: &[Value],
        found: &[Value],
        variables: &Variables,
        at: &Place<'_>,
        then: Then<'_>,
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
            return self.no(at, &format!("want {} elements, got {}", items.len(), shown(Some(&found))));
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

    /// Each pattern takes an element of its own, in any order.
    fn assign(
        &mut self,
        patterns: &[Value],
        left: &[(usize, &Value)],
        variables: &Variables,
        at: &Place<'_>,
        then: Then<'_>,
    ) -> bool {
        let Some((pattern, rest)) = patterns.split_first() else { return then(self, variables) };
        (0..left.len()).any(|taken| {
            let (number, value) = left[taken];
            let place = Place { parent: Some(at), step: &number.to_string() };
            let others: Vec<_> = [&left[..taken], &left[taken + 1..]].concat();
            self.fit(pattern, Some(value), variables, &place, &mut |trial, variables| {
                trial.assign(rest, &others, variables, at, then)
            })
        })
    }
}

/// Whether a value is of a kind; `None` if there is no such kind.
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

/// Whether values are the same; 1 and 1.0 are.
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
        assert!(fit(&json!("<re ${b}>"), Some(&json!("xzy")), &variables, 0.0).is_err(), "put in as text");
    }
}
