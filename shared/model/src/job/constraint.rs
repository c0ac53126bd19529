//! Constraints, affinities and spreads: what a job wants of the nodes that it is placed on.

use serde::{Deserialize, Serialize};

use crate::Text;
use crate::mirror::{mirror, text_members};
use crate::text::string_enum;

string_enum! {
    /// How the two sides of a constraint or an affinity are compared.
    ///
    /// Several words mean the same; each is a value of its own, so that a specification is read back as it was written.
    #[derive(Default)]
    Operand, "operand" {
        /// Both sides are there and equal.
        #[default]
        Equal => "=",
        /// As [`Self::Equal`].
        DoubleEqual => "==",
        /// As [`Self::Equal`].
        Is => "is",
        /// The sides differ; one that is missing counts as empty text.
        NotEqual => "!=",
        /// As [`Self::NotEqual`].
        Not => "not",
        /// Ordered as integers, else as floats, else as bytes.
        Less => "<",
        /// Ordered as [`Self::Less`] does.
        LessOrEqual => "<=",
        /// Ordered as [`Self::Less`] does.
        Greater => ">",
        /// Ordered as [`Self::Less`] does.
        GreaterOrEqual => ">=",
        /// The left side is there.
        IsSet => "is_set",
        /// The left side is missing.
        IsNotSet => "is_not_set",
        /// The left side is a version within the bounds on the right, `~>` among them.
        Version => "version",
        /// The left side is a version within the bounds on the right, by the rules of SemVer alone.
        Semver => "semver",
        /// The left side matches the expression on the right.
        Regexp => "regexp",
        /// The list on the left holds every element of that on the right.
        SetContains => "set_contains",
        /// As [`Self::SetContains`].
        SetContainsAll => "set_contains_all",
        /// The list on the left holds some element of that on the right.
        SetContainsAny => "set_contains_any",
        /// No two allocations share a node.
        DistinctHosts => "distinct_hosts",
        /// No more allocations share a value of the left side than the right side says.
        DistinctProperty => "distinct_property",
    }
}

text_members!(Operand);

/// What a node must fulfil.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraint {
    /// The left side, for instance `${attr.kernel.name}`.
    pub l_target: Text,
    /// The right side, usually a literal.
    pub r_target: Text,
    /// How the two are compared.
    pub operand: Operand,
}

mirror! {
    Constraint = Constraint { l_target: "LTarget", r_target: "RTarget", operand: "Operand" }
}

/// What makes a node more desirable, or less.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affinity {
    /// The left side, for instance `${node.datacenter}`.
    pub l_target: Text,
    /// The right side, usually a literal.
    pub r_target: Text,
    /// How the two are compared.
    pub operand: Operand,
    /// How much it counts, -100 to 100; negative keeps away.
    pub weight: i64,
}

mirror! {
    Affinity = Affinity { l_target: "LTarget", r_target: "RTarget", operand: "Operand", weight: "Weight" }
}

/// An attribute over whose values allocations are spread.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// The attribute, for instance `${node.datacenter}`.
    pub attribute: Text,
    /// How much it counts beside other spreads, 0 to 100.
    pub weight: u32,
    /// Wanted shares of single values; empty is evenly.
    pub targets: Vec<SpreadTarget>,
}

mirror! {
    Spread = Spread { attribute: "Attribute", weight: "Weight" }
    renamed { targets = spread_target: "SpreadTarget" }
}

/// The share of one value of a spread's attribute.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpreadTarget {
    /// The value.
    pub value: Text,
    /// Its share of the allocations, 0 to 100.
    pub percent: u64,
}

mirror! {
    SpreadTarget = SpreadTarget { value: "Value", percent: "Percent" }
}
