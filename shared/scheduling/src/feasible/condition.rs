//! A condition on a node: two operands and an operator (`docs/rules/scheduling.md` R-5.10, R-5.11).

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::cmp::Ordering;
use std::collections::BTreeSet;

use model::Text;
use model::job::{Affinity, Constraint, Operand};
use model::node::NodeSpec;
use model::pattern::PatternCost;
use regex::Regex;
use state::NodeRef;

use super::version::{Bounds, Rules};

/// Maximum number of transitions of a regular expression. Validation refuses larger ones in jobs, but an expression may also
/// come from a node.
const TRANSITIONS_MAX: u64 = 1_000_000;

/// A constraint or an affinity, prepared for many nodes.
#[derive(Debug)]
pub(crate) struct Condition<'a> {
    left: Side<'a>,
    operand: Operand,
    right: Side<'a>,
    /// The right side in parsed form, if it is a literal and the operator needs parsing.
    prepared: Option<Matcher>,
    /// The last left side and its result; cached because many nodes have equal values.
    last: RefCell<Option<(Box<str>, bool)>>,
    targets: [&'a str; 2],
    reason: OnceCell<Text>,
}

/// Where the value of one side comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side<'a> {
    Literal(&'a str),
    NodeId,
    Datacenter,
    NodeName,
    NodeClass,
    NodePool,
    Attribute(&'a str),
    Meta(&'a str),
    /// A reference that no node resolves.
    Unknown,
}

/// A parsed right side; `None` if parsing failed, so nothing matches it.
#[derive(Debug)]
enum Matcher {
    Expression(Option<Regex>),
    Bounds(Option<Bounds>),
    /// All items of a list, without duplicates.
    All(BTreeSet<Box<str>>),
    /// Any item of a list.
    Any(BTreeSet<Box<str>>),
}

impl<'a> Condition<'a> {
    pub(crate) fn of_constraint(constraint: &'a Constraint) -> Self {
        Self::new(&constraint.l_target, constraint.operand, &constraint.r_target)
    }

    pub(crate) fn of_affinity(affinity: &'a Affinity) -> Self {
        Self::new(&affinity.l_target, affinity.operand, &affinity.r_target)
    }

    fn new(left: &'a str, operand: Operand, right: &'a str) -> Self {
        let targets = [left, right];
        let [left, right] = targets.map(Side::parse);
        let is_literal = matches!(right, Side::Literal(_));
        let prepared = is_literal.then(|| Matcher::prepare(operand, targets[1])).flatten();
        Self { left, operand, right, prepared, last: RefCell::default(), targets, reason: OnceCell::new() }
    }

    /// Whether it refers to an attribute that is unique to a node, so its result is not determined by the class
    /// (R-4.3).
    pub(crate) fn escapes_class(&self) -> bool {
        self.targets.iter().any(|target| escapes_class(target))
    }

    /// The condition as metrics show it (R-5.13).
    pub(crate) fn reason(&self) -> Text {
        let [left, right] = self.targets;
        Text::clone(self.reason.get_or_init(|| format!("{left} {} {right}", self.operand).into()))
    }

    /// Whether a node satisfies the condition.
    pub(crate) fn holds_on(&self, node: NodeRef<'_>) -> bool {
        let (left, right) = (self.left.resolve(node), self.right.resolve(node));
        let both = left.as_deref().zip(right.as_deref());
        let both_and = |holds: fn(&str, &str) -> bool| both.is_some_and(|(left, right)| holds(left, right));
        match self.operand {
            Operand::Equal | Operand::DoubleEqual | Operand::Is => both_and(|left, right| left == right),
            Operand::NotEqual | Operand::Not => left.unwrap_or_default() != right.unwrap_or_default(),
            Operand::Less => both_and(|left, right| compare(left, right).is_lt()),
            Operand::LessOrEqual => both_and(|left, right| compare(left, right).is_le()),
            Operand::Greater => both_and(|left, right| compare(left, right).is_gt()),
            Operand::GreaterOrEqual => both_and(|left, right| compare(left, right).is_ge()),
            Operand::IsSet => left.is_some(),
            Operand::IsNotSet => left.is_none(),
            Operand::Version
            | Operand::Semver
            | Operand::Regexp
            | Operand::SetContains
            | Operand::SetContainsAll
            | Operand::SetContainsAny => both.is_some_and(|(left, right)| match &self.prepared {
                Some(matcher) => self.matches(matcher, left),
                None => Matcher::prepare(self.operand, right).is_some_and(|matcher| matcher.matches(left)),
            }),
            // These are checked for each placement.
            Operand::DistinctHosts | Operand::DistinctProperty => true,
        }
    }

    fn matches(&self, matcher: &Matcher, left: &str) -> bool {
        let mut last = self.last.borrow_mut();
        match &*last {
            Some((same, matches)) if **same == *left => *matches,
            Some(_) | None => {
                let matches = matcher.matches(left);
                *last = Some((left.into(), matches));
                matches
            }
        }
    }
}

/// Whether a target refers to an attribute that is unique to a node (R-4.3).
pub(crate) fn escapes_class(target: &str) -> bool {
    ["${unique.", "${node.unique.", "${attr.unique.", "${meta.unique."]
        .iter()
        .any(|prefix| target.starts_with(prefix))
}

/// The value of a literal or a reference on a node; `None` if the node does not have it.
pub(crate) fn resolve<'n>(target: &'n str, node: NodeRef<'n>) -> Option<Cow<'n, str>> {
    Side::parse(target).resolve(node)
}

impl<'a> Side<'a> {
    pub(super) fn parse(target: &'a str) -> Self {
        let Some(name) = target.strip_prefix("${") else { return Side::Literal(target) };
        let Some(name) = name.strip_suffix('}') else { return Side::Unknown };
        match name {
            "node.unique.id" => Side::NodeId,
            "node.datacenter" => Side::Datacenter,
            "node.unique.name" => Side::NodeName,
            "node.class" => Side::NodeClass,
            "node.pool" => Side::NodePool,
            _ => match (name.strip_prefix("attr."), name.strip_prefix("meta.")) {
                (Some(key), _) => Side::Attribute(key),
                (None, Some(key)) => Side::Meta(key),
                (None, None) => Side::Unknown,
            },
        }
    }

    /// `None` if the node does not have the value.
    pub(super) fn resolve<'n>(self, node: NodeRef<'n>) -> Option<Cow<'n, str>>
    where
        'a: 'n,
    {
        let spec: &'n NodeSpec = node.spec();
        Some(Cow::Borrowed(match self {
            Side::Literal(text) => text,
            Side::NodeId => return Some(Cow::Owned(node.id().to_string())),
            Side::Datacenter => &spec.datacenter,
            Side::NodeName => &spec.name,
            Side::NodeClass => &spec.node_class,
            Side::NodePool => &spec.node_pool,
            Side::Attribute(key) => spec.attributes.get(key)?,
            Side::Meta(key) => spec.meta.get(key)?,
            Side::Unknown => return None,
        }))
    }
}

impl Matcher {
    fn prepare(operand: Operand, right: &str) -> Option<Self> {
        let list = || items(right).map(Box::from).collect();
        Some(match operand {
            Operand::Regexp => Self::Expression(compile(right)),
            Operand::Version => Self::Bounds(Bounds::parse(right, Rules::Version)),
            Operand::Semver => Self::Bounds(Bounds::parse(right, Rules::Semver)),
            Operand::SetContains | Operand::SetContainsAll => Self::All(list()),
            Operand::SetContainsAny => Self::Any(list()),
            Operand::Equal
            | Operand::DoubleEqual
            | Operand::Is
            | Operand::NotEqual
            | Operand::Not
            | Operand::Less
            | Operand::LessOrEqual
            | Operand::Greater
            | Operand::GreaterOrEqual
            | Operand::IsSet
            | Operand::IsNotSet
            | Operand::DistinctHosts
            | Operand::DistinctProperty => return None,
        })
    }

    fn matches(&self, left: &str) -> bool {
        match self {
            Self::Expression(expression) => expression.as_ref().is_some_and(|regex| regex.is_match(left)),
            Self::Bounds(bounds) => bounds.as_ref().is_some_and(|bounds| bounds.admit(left)),
            Self::All(wanted) => {
                let has: BTreeSet<&str> = items(left).collect();
                wanted.iter().all(|item| has.contains(&**item))
            }
            Self::Any(wanted) => items(left).any(|item| wanted.contains(item)),
        }
    }
}

/// Compiles a regular expression; `None` if it is invalid or too large.
pub(super) fn compile(pattern: &str) -> Option<Regex> {
    PatternCost::of(pattern, TRANSITIONS_MAX).ok()?;
    Regex::new(pattern).ok()
}

/// Compares as integers if both sides are integers, otherwise as floats if both are floats, otherwise as bytes.
fn compare(left: &str, right: &str) -> Ordering {
    if let (Ok(left), Ok(right)) = (left.parse::<i64>(), right.parse::<i64>()) {
        return left.cmp(&right);
    }
    if let (Ok(left), Ok(right)) = (left.parse::<f64>(), right.parse::<f64>()) {
        return left.partial_cmp(&right).unwrap_or(Ordering::Equal);
    }
    left.cmp(right)
}

pub(super) fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scene;

    fn holds(left: &str, operand: Operand, right: &str) -> bool {
        let scene = Scene::default().node_with(1, |spec| {
            spec.attributes.insert("arch".into(), "x86".into());
            spec.attributes.insert("cores".into(), "10".into());
            spec.attributes.insert("kernel".into(), "5.10.0".into());
            spec.meta.insert("tags".into(), "a, b".into());
            spec.node_class = "big".into();
        });
        let state = scene.state();
        let node = state.nodes().next().unwrap();
        Condition::new(left, operand, right).holds_on(node)
    }

    #[test]
    fn both_sides_must_be_there_to_be_equal_but_not_to_differ() {
        assert!(holds("${attr.arch}", Operand::Equal, "x86"));
        assert!(holds("${node.class}", Operand::Is, "big"));
        assert!(!holds("${attr.none}", Operand::Equal, ""));
        assert!(holds("${attr.none}", Operand::NotEqual, "x"));
        assert!(!holds("${attr.none}", Operand::NotEqual, ""));
        assert!(holds("${attr.none}", Operand::IsNotSet, "") && holds("${attr.arch}", Operand::IsSet, ""));
        assert!(!holds("${attr.arch", Operand::IsSet, ""));
    }

    #[test]
    fn numbers_are_ordered_as_numbers_and_words_as_bytes() {
        assert!(holds("${attr.cores}", Operand::Greater, "9"));
        assert!(holds("${attr.cores}", Operand::Less, "10.5"));
        assert!(holds("${attr.arch}", Operand::LessOrEqual, "x87"));
        assert!(!holds("${attr.none}", Operand::Less, "1"));
    }

    #[test]
    fn an_expression_that_is_too_large_matches_nothing() {
        assert!(holds("${attr.arch}", Operand::Regexp, r"^\w{1,63}$"));
        let large = r"(?i)\p{L}{0,200}".repeat(3);
        assert!(!holds("${attr.arch}", Operand::Regexp, &large));
    }

    #[test]
    fn expressions_versions_and_lists() {
        assert!(holds("${attr.arch}", Operand::Regexp, "^x[0-9]+$"));
        assert!(!holds("${attr.arch}", Operand::Regexp, "("));
        assert!(holds("${attr.kernel}", Operand::Version, ">= 5.4, < 6"));
        assert!(holds("${attr.kernel}", Operand::Semver, "> 5"));
        assert!(holds("${meta.tags}", Operand::SetContains, "b,a"));
        assert!(!holds("${meta.tags}", Operand::SetContainsAll, "b,c"));
        assert!(holds("${meta.tags}", Operand::SetContainsAny, "b,c"));
        assert!(holds("5.10.1", Operand::Version, "> 5"));
    }
}
