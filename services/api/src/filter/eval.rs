//! Evaluation of a checked filter on an object.

use std::borrow::Cow;
use std::cell::OnceCell;

use regex::Regex;
use serde_json::Value;

use super::Object;
use super::shape::Kind;

/// A filter that was checked against the type of its objects.
#[derive(Debug, Clone)]
pub(crate) struct Filter(pub(super) Node);

#[derive(Debug, Clone)]
pub(super) enum Node {
    Or(Vec<Node>),
    And(Vec<Node>),
    Not(Box<Node>),
    Match { selector: Selector, test: Test, is_negated: bool },
    Each { all: bool, selector: Selector, body: Box<Node> },
}

/// Location of a value.
#[derive(Debug, Clone)]
pub(super) struct Selector {
    pub(super) root: Root,
    /// Names on the path. The flag tells whether a name is a map key or list index, which may be absent in a valid object.
    pub(super) steps: Vec<(String, bool)>,
    pub(super) kind: Kind,
}

/// Where a path begins.
#[derive(Debug, Clone, Copy)]
pub(super) enum Root {
    Object,
    /// A value bound by a quantifier, by its position in the scope.
    Scope(usize),
}

#[derive(Debug, Clone)]
pub(super) enum Test {
    Equals(Literal),
    Contains(Literal),
    Matches(Regex),
    IsEmpty,
    IsNil,
}

/// A literal as text, and as a number if it parses as one.
#[derive(Debug, Clone)]
pub(super) struct Literal {
    text: String,
    integer: Option<i128>,
    float: Option<f64>,
}

impl Literal {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), integer: text.parse().ok(), float: text.parse().ok() }
    }

    pub(super) fn is_number(&self) -> bool {
        self.float.is_some()
    }

    pub(super) fn is_bool(&self) -> bool {
        matches!(self.text.as_str(), "true" | "false")
    }

    fn is(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => *text == self.text,
            Value::Bool(value) => self.text == if *value { "true" } else { "false" },
            Value::Number(number) => {
                let integer = number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
                match (integer, self.integer) {
                    (Some(one), Some(other)) => one == other,
                    _ => number.as_f64() == self.float,
                }
            }
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        }
    }

    /// Whether the literal equals the zero value of a kind. The JSON form omits zero values.
    fn is_zero(&self, kind: Kind) -> bool {
        match kind {
            Kind::Text => self.text.is_empty(),
            Kind::Number => self.float == Some(0.0),
            Kind::Bool => self.text == "false",
            Kind::List | Kind::Map | Kind::Struct | Kind::Any => false,
        }
    }
}

/// An object that is serialized only when a field is needed that [`Object::stored_field`] does not provide.
struct LazyObject<'a> {
    object: &'a dyn Object,
    whole: OnceCell<Value>,
}

/// Result of resolving a selector.
enum Resolved<'a> {
    Text(Cow<'a, str>),
    Json(&'a Value),
    /// Index of a list element.
    Number(usize),
    /// The field is absent or null: the zero value of its kind.
    Zero,
    /// A map key or list index that does not exist.
    MissingKey,
    /// A field on the path is absent or null.
    Unreachable,
}

impl Resolved<'_> {
    fn json(&self) -> Option<&Value> {
        if let Self::Json(value) = self { Some(value) } else { None }
    }

    /// The value as text; the zero value is empty.
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Json(value) => value.as_str(),
            Self::Zero => Some(""),
            Self::Number(_) | Self::MissingKey | Self::Unreachable => None,
        }
    }
}

impl Filter {
    /// Whether an object matches the filter.
    pub(crate) fn matches(&self, object: &dyn Object) -> bool {
        let lazy = LazyObject { object, whole: OnceCell::new() };
        evaluate(&self.0, &lazy, &mut Vec::new())
    }
}

/// A value bound by a quantifier.
#[derive(Clone, Copy)]
enum Scoped<'a> {
    Key(&'a str),
    Number(usize),
    Value(&'a Value),
}

fn evaluate<'a>(node: &Node, lazy: &'a LazyObject<'a>, scope: &mut Vec<Scoped<'a>>) -> bool {
    match node {
        Node::Or(alternatives) => alternatives.iter().any(|alternative| evaluate(alternative, lazy, scope)),
        Node::And(parts) => parts.iter().all(|part| evaluate(part, lazy, scope)),
        Node::Not(inner) => !evaluate(inner, lazy, scope),
        Node::Match { selector, test, is_negated } => match resolve(selector, lazy, scope) {
            Resolved::Unreachable => matches!((test, is_negated), (Test::IsNil, false)),
            // A missing value is empty, and not equal to anything.
            Resolved::MissingKey => matches!(test, Test::IsEmpty | Test::IsNil) != *is_negated,
            resolved @ (Resolved::Text(_) | Resolved::Json(_) | Resolved::Number(_) | Resolved::Zero) => {
                test.matches(&resolved, selector.kind) != *is_negated
            }
        },
        Node::Each { all, selector, body } => {
            let Resolved::Json(value) = resolve(selector, lazy, scope) else { return *all };
            let mut check = |key: Scoped<'a>, value: &'a Value| {
                scope.extend([key, Scoped::Value(value)]);
                let is_true = evaluate(body, lazy, scope);
                scope.truncate(scope.len() - 2);
                is_true != *all
            };
            let is_decided = match value {
                Value::Array(items) => {
                    items.iter().enumerate().any(|(at, item)| check(Scoped::Number(at), item))
                }
                Value::Object(entries) => entries.iter().any(|(key, value)| check(Scoped::Key(key), value)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
            };
            is_decided != *all
        }
    }
}

fn resolve<'a>(selector: &Selector, lazy: &'a LazyObject<'a>, scope: &[Scoped<'a>]) -> Resolved<'a> {
    let mut value = match selector.root {
        Root::Object => {
            if let [(field, _)] = &selector.steps[..]
                && let Some(text) = lazy.object.stored_field(field)
            {
                return Resolved::Text(text);
            }
            lazy.whole.get_or_init(|| lazy.object.to_json())
        }
        Root::Scope(position) => match scope[position] {
            Scoped::Key(key) => return Resolved::Text(Cow::Borrowed(key)),
            Scoped::Number(number) => return Resolved::Number(number),
            Scoped::Value(value) => value,
        },
    };
    for (position, (name, is_key)) in selector.steps.iter().enumerate() {
        let next = match value {
            Value::Array(items) => name.parse::<usize>().ok().and_then(|at| items.get(at)),
            Value::Object(entries) => entries.get(name),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        };
        let is_last = position + 1 == selector.steps.len();
        value = match next {
            Some(Value::Null) | None if !is_last && !is_key => return Resolved::Unreachable,
            Some(Value::Null) if is_last => return Resolved::Zero,
            None if is_last && !is_key => return Resolved::Zero,
            Some(Value::Null) | None => return Resolved::MissingKey,
            Some(next) => next,
        };
    }
    Resolved::Json(value)
}

impl Test {
    fn matches(&self, resolved: &Resolved<'_>, kind: Kind) -> bool {
        match self {
            Self::Equals(literal) => match resolved {
                Resolved::Text(text) => literal.text == *text,
                Resolved::Json(value) => literal.is(value),
                Resolved::Number(number) => literal.integer == i128::try_from(*number).ok(),
                Resolved::Zero => literal.is_zero(kind),
                // `evaluate` has handled these.
                Resolved::MissingKey | Resolved::Unreachable => false,
            },
            Self::Contains(literal) => match resolved.json() {
                Some(Value::Array(items)) => items.iter().any(|item| literal.is(item)),
                Some(Value::Object(entries)) => entries.contains_key(&literal.text),
                _ => resolved.text().is_some_and(|text| text.contains(&literal.text)),
            },
            Self::Matches(regex) => resolved.text().is_some_and(|text| regex.is_match(text)),
            Self::IsEmpty => match resolved.json() {
                Some(Value::Array(items)) => items.is_empty(),
                Some(Value::Object(entries)) => entries.is_empty(),
                _ => resolved.text().is_some_and(str::is_empty),
            },
            Self::IsNil => matches!(resolved, Resolved::Zero),
        }
    }
}
