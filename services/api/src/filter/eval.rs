//! Evaluation of a checked filter on an object.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::time::Instant;

use model::text::quoted;
use regex::Regex;
use serde_json::Value;

use super::shape::Kind;
use super::steps::{Budget, Steps, check_text};
use super::{FilterError, FilterLimits, Object, pointer};

/// A filter that was checked against the type of its objects. It belongs to one request, for which its steps are counted.
#[derive(Debug)]
pub(crate) struct Filter {
    root: Node,
    budget: Budget,
    now: fn() -> Instant,
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    Or(Vec<Node>),
    And(Vec<Node>),
    Not(Box<Node>),
    Match {
        selector: Selector,
        test: Test,
        is_negated: bool,
    },
    Each {
        all: bool,
        selector: Selector,
        body: Box<Node>,
    },
    /// A part that fits no object, for this reason.
    Unfit(String),
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
    Matches(Pattern),
    IsEmpty,
    IsNil,
}

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pub(super) regex: Regex,
    /// Its size at most, in bytes.
    pub(super) bytes: usize,
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

    /// Go's function for values of a kind, if it cannot read the literal.
    pub(super) fn unreadable_by(&self, kind: Kind) -> Option<&'static str> {
        let (is_readable, function) = match kind {
            Kind::Integer => (self.text.parse::<i64>().is_ok(), "ParseInt"),
            Kind::Unsigned => (self.text.parse::<u64>().is_ok(), "ParseUint"),
            Kind::Float => (self.float.is_some(), "ParseFloat"),
            Kind::Bool => (matches!(self.text.as_str(), "true" | "false"), "ParseBool"),
            Kind::Text | Kind::List | Kind::Map | Kind::Struct | Kind::Any => return None,
        };
        (!is_readable).then_some(function)
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
            Kind::Integer | Kind::Unsigned | Kind::Float => self.float == Some(0.0),
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
    Zero {
        is_null: bool,
    },
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
            Self::Zero { .. } => Some(""),
            Self::Number(_) | Self::MissingKey | Self::Unreachable => None,
        }
    }
}

impl Filter {
    pub(super) fn new(root: Node, limits: FilterLimits) -> Self {
        let FilterLimits { steps_max, now } = limits;
        Self { root, budget: Budget::new(steps_max), now }
    }

    /// Whether an object matches the filter.
    ///
    /// # Errors
    /// If the filter has taken too many steps on this object and those before it, a text is too long for a regular
    /// expression, or a selector, operator or value does not fit the object.
    pub(crate) fn matches(&self, object: &dyn Object) -> Result<bool, FilterError> {
        let (lazy, steps) = (LazyObject { object, whole: OnceCell::new() }, self.budget.take());
        let evaluation = Evaluation { lazy: &lazy, steps: &steps, now: self.now };
        let result = evaluation.evaluate(&self.root, &mut Vec::new());
        self.budget.put_back(&steps);
        result
    }

    /// Gives the filter all its steps again, for the next evaluation of the same request.
    pub(crate) fn renew_steps(&self) {
        self.budget.renew();
    }

    /// Steps that it may still take.
    #[cfg(test)]
    pub(super) fn steps_left(&self) -> u64 {
        self.budget.left()
    }
}

/// A value bound by a quantifier.
#[derive(Clone, Copy)]
enum Scoped<'a> {
    Key(&'a str),
    Number(usize),
    Value(&'a Value),
}

/// Evaluation on one object.
#[derive(Clone, Copy)]
struct Evaluation<'a> {
    lazy: &'a LazyObject<'a>,
    steps: &'a Steps,
    now: fn() -> Instant,
}

impl<'a> Evaluation<'a> {
    fn evaluate(self, node: &Node, scope: &mut Vec<Scoped<'a>>) -> Result<bool, FilterError> {
        self.steps.take(1)?;
        match node {
            Node::Or(alternatives) => {
                for alternative in alternatives {
                    if self.evaluate(alternative, scope)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Node::And(parts) => {
                for part in parts {
                    if !self.evaluate(part, scope)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Node::Not(inner) => Ok(!self.evaluate(inner, scope)?),
            Node::Match { selector, test, is_negated } => match self.resolve(selector, scope)? {
                Resolved::Unreachable => Ok(matches!((test, is_negated), (Test::IsNil, false))),
                // A missing value is empty, and not equal to anything.
                Resolved::MissingKey => Ok(matches!(test, Test::IsEmpty | Test::IsNil) != *is_negated),
                resolved @ (Resolved::Text(_)
                | Resolved::Json(_)
                | Resolved::Number(_)
                | Resolved::Zero { .. }) => Ok(self.test(test, &resolved, selector.kind)? != *is_negated),
            },
            Node::Each { all, selector, body } => {
                let Resolved::Json(value) = self.resolve(selector, scope)? else { return Ok(*all) };
                self.each(value, *all, body, scope)
            }
            Node::Unfit(reason) => Err(FilterError::Unfit(reason.clone())),
        }
    }

    /// Whether the body of a quantifier holds for all elements or entries of a value, or for any of them.
    fn each(
        self,
        value: &'a Value,
        all: bool,
        body: &Node,
        scope: &mut Vec<Scoped<'a>>,
    ) -> Result<bool, FilterError> {
        match value {
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    if self.body([Scoped::Number(at), Scoped::Value(item)], body, scope)? != all {
                        return Ok(!all);
                    }
                }
            }
            Value::Object(entries) => {
                for (key, entry) in entries {
                    if self.body([Scoped::Key(key), Scoped::Value(entry)], body, scope)? != all {
                        return Ok(!all);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(all)
    }

    /// Evaluates the body of a quantifier with the values that it binds.
    fn body(
        self,
        bound: [Scoped<'a>; 2],
        body: &Node,
        scope: &mut Vec<Scoped<'a>>,
    ) -> Result<bool, FilterError> {
        scope.extend(bound);
        let result = self.evaluate(body, scope);
        scope.truncate(scope.len() - 2);
        result
    }

    fn resolve(self, selector: &Selector, scope: &[Scoped<'a>]) -> Result<Resolved<'a>, FilterError> {
        self.steps.take(selector.steps.len())?;
        resolve(selector, self.lazy, scope)
    }

    fn test(self, test: &Test, resolved: &Resolved<'_>, kind: Kind) -> Result<bool, FilterError> {
        let text = resolved.text().unwrap_or_default();
        match test {
            Test::Contains(_) => match resolved.json() {
                Some(Value::Array(items)) => self.steps.take(items.len())?,
                _ => self.steps.take_search(text)?,
            },
            Test::Matches(pattern) => {
                check_text(pattern.bytes, text)?;
                let began = (self.now)();
                let is_match = test.matches(resolved, kind);
                self.steps.take_time((self.now)().saturating_duration_since(began))?;
                return Ok(is_match);
            }
            Test::Equals(_) | Test::IsEmpty | Test::IsNil => {}
        }
        Ok(test.matches(resolved, kind))
    }
}

/// The value of a selector.
///
/// # Errors
/// If a map or list on the path lacks the next key or index. At the end of a path that is no error (http-api §7.2).
fn resolve<'a>(
    selector: &Selector,
    lazy: &'a LazyObject<'a>,
    scope: &[Scoped<'a>],
) -> Result<Resolved<'a>, FilterError> {
    let mut value = match selector.root {
        Root::Object => {
            if let [(field, _)] = &selector.steps[..]
                && let Some(text) = lazy.object.stored_field(field)
            {
                return Ok(Resolved::Text(text));
            }
            lazy.whole.get_or_init(|| lazy.object.to_json())
        }
        Root::Scope(position) => match scope[position] {
            Scoped::Key(key) => return Ok(Resolved::Text(Cow::Borrowed(key))),
            Scoped::Number(number) => return Ok(Resolved::Number(number)),
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
            Some(Value::Null) if is_last => return Ok(Resolved::Zero { is_null: true }),
            Some(Value::Null) => return Ok(Resolved::Unreachable),
            None if is_last && *is_key => return Ok(Resolved::MissingKey),
            None if is_last => return Ok(Resolved::Zero { is_null: false }),
            None if *is_key => return Err(missing_key(selector, position)),
            None => return Ok(Resolved::Unreachable),
            Some(next) => next,
        };
    }
    Ok(Resolved::Json(value))
}

fn missing_key(selector: &Selector, position: usize) -> FilterError {
    let (path, key) = (selector.steps.iter().map(|(name, _)| name), &selector.steps[position].0);
    FilterError::Unfit(format!(
        "error finding value in datum: {} at part {position}: couldn't find key {}",
        pointer(path),
        quoted(key)
    ))
}

impl Test {
    fn matches(&self, resolved: &Resolved<'_>, kind: Kind) -> bool {
        match self {
            Self::Equals(literal) => match resolved {
                Resolved::Text(text) => literal.text == *text,
                Resolved::Json(value) => literal.is(value),
                Resolved::Number(number) => literal.integer == i128::try_from(*number).ok(),
                Resolved::Zero { .. } => literal.is_zero(kind),
                // `evaluate` has handled these.
                Resolved::MissingKey | Resolved::Unreachable => false,
            },
            Self::Contains(literal) => match resolved.json() {
                Some(Value::Array(items)) => items.iter().any(|item| literal.is(item)),
                Some(Value::Object(entries)) => entries.contains_key(&literal.text),
                _ => resolved.text().is_some_and(|text| text.contains(&literal.text)),
            },
            Self::Matches(pattern) => resolved.text().is_some_and(|text| pattern.regex.is_match(text)),
            Self::IsEmpty => match resolved.json() {
                Some(Value::Array(items)) => items.is_empty(),
                Some(Value::Object(entries)) => entries.is_empty(),
                _ => resolved.text().is_some_and(str::is_empty),
            },
            // A text and a time are never nil. A number or flag is if it is optional, and then it is shown as null.
            Self::IsNil => match (resolved, kind) {
                (Resolved::Zero { .. }, Kind::List | Kind::Map | Kind::Struct | Kind::Any) => true,
                (Resolved::Zero { is_null }, Kind::Integer | Kind::Unsigned | Kind::Float | Kind::Bool) => {
                    *is_null
                }
                (Resolved::Zero { .. }, Kind::Text) => false,
                (Resolved::Text(_) | Resolved::Json(_) | Resolved::Number(_), _) => false,
                // `evaluate` has handled these.
                (Resolved::MissingKey | Resolved::Unreachable, _) => false,
            },
        }
    }
}
