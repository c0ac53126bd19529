//! Type-checks a parsed filter expression: resolves selectors and bound names, checks that values fit the type of their
//! selector, and compiles regular expressions. What does not fit becomes a part of the filter that fails for every object.

use model::text::quoted;
use serde::de::DeserializeOwned;

use super::eval::{Literal, Node, Pattern, Root, Selector, Test};
use super::parse::{Bind, Expr, Operator};
use super::shape::{Kind, Step, kind_of};
use super::{REGEX_BYTES_MAX, REGEXES_MAX, SyntaxError, pointer};
use crate::regexp;

/// Upper bounds of the sizes that are distinguished below the maximum, in bytes.
const REGEX_SIZES: [usize; 2] = [16 << 10, 64 << 10];

/// Makes a filter for objects that the API shows as `T`, and returns its root.
///
/// # Errors
/// If the expression has too many regular expressions.
pub(super) fn check<T: DeserializeOwned>(expr: &Expr) -> Result<Node, SyntaxError> {
    let mut checker = Checker { kind_of: kind_of::<T>, scope: Vec::new(), regexes: 0 };
    checker.node(expr)
}

/// Why a part of an expression becomes none of a filter.
enum Problem {
    /// The expression is refused.
    Refused(SyntaxError),
    /// The part does not fit the objects, for this reason.
    Unfit(String),
}

impl From<SyntaxError> for Problem {
    fn from(error: SyntaxError) -> Self {
        Self::Refused(error)
    }
}

type KindOf = fn(&[Step]) -> Result<(Kind, Vec<bool>), super::shape::InvalidStep>;

struct Checker {
    kind_of: KindOf,
    /// Names bound by quantifiers, the innermost last.
    scope: Vec<(Option<String>, Bound)>,
    regexes: usize,
}

#[derive(Clone)]
enum Bound {
    /// A map key.
    Key,
    /// The index of a list element.
    Number,
    /// The value at this path of the object.
    Value(Vec<Step>),
}

impl Checker {
    fn node(&mut self, expr: &Expr) -> Result<Node, SyntaxError> {
        match self.fitting(expr) {
            Ok(node) => Ok(node),
            Err(Problem::Unfit(reason)) => Ok(Node::Unfit(reason)),
            Err(Problem::Refused(error)) => Err(error),
        }
    }

    fn fitting(&mut self, expr: &Expr) -> Result<Node, Problem> {
        Ok(match expr {
            Expr::Or(alternatives) => Node::Or(self.nodes(alternatives)?),
            Expr::And(parts) => Node::And(self.nodes(parts)?),
            Expr::Not(inner) => Node::Not(Box::new(self.node(inner)?)),
            Expr::Match { selector, operator, is_negated } => {
                let (selector, _) = self.selector(selector)?;
                let test = self.test(operator, &selector)?;
                Node::Match { selector, test, is_negated: *is_negated }
            }
            Expr::Each { all, selector: steps, bind, body } => {
                let (selector, mut path) = self.selector(steps)?;
                path.push(Step::Each);
                let key = match selector.kind {
                    Kind::List => Bound::Number,
                    Kind::Map => Bound::Key,
                    Kind::Text
                    | Kind::Integer
                    | Kind::Unsigned
                    | Kind::Float
                    | Kind::Bool
                    | Kind::Struct
                    | Kind::Any => {
                        return Err(Problem::Unfit(format!(
                            "{} is neither a list nor a map",
                            pointer(steps)
                        )));
                    }
                };
                let is_map = selector.kind == Kind::Map;
                let value = Bound::Value(path);
                let (first, second) = match bind {
                    // A single name binds the key of a map entry, but the element of a list.
                    Bind::One(name) if is_map => (Some(name.clone()), None),
                    Bind::One(name) => (None, Some(name.clone())),
                    Bind::Two(first, second) => (first.clone(), second.clone()),
                };
                self.scope.extend([(first, key), (second, value)]);
                let body = self.node(body);
                self.scope.truncate(self.scope.len() - 2);
                Node::Each { all: *all, selector, body: Box::new(body?) }
            }
        })
    }

    fn nodes(&mut self, exprs: &[Expr]) -> Result<Vec<Node>, SyntaxError> {
        exprs.iter().map(|expr| self.node(expr)).collect()
    }

    /// Resolves a selector in the current scope. Also returns its path from the object on.
    fn selector(&self, steps: &[String]) -> Result<(Selector, Vec<Step>), Problem> {
        let names = |steps: &[String]| steps.iter().cloned().map(Step::Name).collect::<Vec<_>>();
        let bound = self.scope.iter().rposition(|(name, _)| name.as_ref() == steps.first());
        let (root, before, rest) = match bound.map(|position| (position, &self.scope[position].1)) {
            None => (Root::Object, Vec::new(), steps),
            Some((position, Bound::Value(path))) => (Root::Scope(position), path.clone(), &steps[1..]),
            Some((position, bound @ (Bound::Key | Bound::Number))) => {
                if steps.len() > 1 {
                    return Err(invalid_selector(steps, 1));
                }
                let kind = if matches!(bound, Bound::Key) { Kind::Text } else { Kind::Integer };
                return Ok((Selector { root: Root::Scope(position), steps: Vec::new(), kind }, Vec::new()));
            }
        };
        let path = [before.clone(), names(rest)].concat();
        let (kind, keys) = (self.kind_of)(&path).map_err(|wrong| {
            invalid_selector(steps, wrong.at.saturating_sub(before.len()) + steps.len() - rest.len())
        })?;
        let steps = rest.iter().cloned().zip(keys.into_iter().skip(before.len())).collect();
        Ok((Selector { root, steps, kind }, path))
    }

    fn test(&mut self, operator: &Operator, selector: &Selector) -> Result<Test, Problem> {
        let wrong = |what: &str| Err(Problem::Unfit(format!("unable to {what} a value of that type")));
        Ok(match (operator, selector.kind) {
            (Operator::Equals(_), Kind::List | Kind::Map | Kind::Struct) => {
                return Err(Problem::Unfit(
                    "unable to find suitable primitive comparison function for matching".to_owned(),
                ));
            }
            (Operator::Equals(text), kind) => {
                let literal = Literal::new(text);
                if let Some(function) = literal.unreadable_by(kind) {
                    return Err(Problem::Unfit(format!(
                        "error getting match value in expression: strconv.{function}: parsing {}: invalid syntax",
                        quoted(text)
                    )));
                }
                Test::Equals(literal)
            }
            (
                Operator::Contains(_),
                Kind::Integer | Kind::Unsigned | Kind::Float | Kind::Bool | Kind::Struct,
            ) => return wrong("look into"),
            (Operator::Contains(text), _) => Test::Contains(Literal::new(text)),
            (Operator::Matches(text), Kind::Text | Kind::Any) => Test::Matches(self.pattern(text)?),
            (Operator::Matches(_), _) => return wrong("match a regular expression with"),
            (Operator::IsEmpty, Kind::Integer | Kind::Unsigned | Kind::Float | Kind::Bool) => {
                return wrong("tell the emptiness of");
            }
            (Operator::IsEmpty, _) => Test::IsEmpty,
            (Operator::IsNil, _) => Test::IsNil,
        })
    }

    fn pattern(&mut self, text: &str) -> Result<Pattern, Problem> {
        self.regexes += 1;
        if self.regexes > REGEXES_MAX {
            let what = format!("more than {REGEXES_MAX} regular expressions");
            return Err(Problem::Refused(SyntaxError { offset: 0, what }));
        }
        let regex = regexp::compile(text, REGEX_BYTES_MAX).map_err(|error| {
            Problem::Unfit(format!("failed to compile regular expression {}: {error}", quoted(text)))
        })?;
        let fits = |bytes: &usize| regexp::compile(text, *bytes).is_ok();
        let bytes = REGEX_SIZES.into_iter().find(fits).unwrap_or(REGEX_BYTES_MAX);
        Ok(Pattern { regex, bytes })
    }
}

fn invalid_selector(steps: &[String], at: usize) -> Problem {
    let name = steps.get(at).map_or("", String::as_str);
    Problem::Unfit(format!(
        "error finding value in datum: {} at part {at}: couldn't find key: struct field with name {}",
        pointer(steps),
        quoted(name)
    ))
}
