//! Constraints, affinities and spreads: requirements and preferences of a job for its nodes.

use serde::{Deserialize, Serialize};

use crate::Text;
use crate::mirror::{mirror, text_members};
use crate::text::string_enum;

string_enum! {
    /// How the two sides of a constraint or an affinity are compared.
    ///
    /// Some operands are synonyms. Each is a separate value, so that a specification is returned as it was submitted.
    #[derive(Default)]
    Operand, "operand" {
        /// Both sides exist and are equal.
        #[default]
        Equal => "=",
        /// Synonym of [`Self::Equal`].
        DoubleEqual => "==",
        /// Synonym of [`Self::Equal`].
        Is => "is",
        /// The sides differ. A missing side counts as empty text.
        NotEqual => "!=",
        /// Synonym of [`Self::NotEqual`].
        Not => "not",
        /// The left side is less. The sides are compared as integers, otherwise as floats, otherwise as bytes.
        Less => "<",
        /// The left side is less or equal, compared as for [`Self::Less`].
        LessOrEqual => "<=",
        /// The left side is greater, compared as for [`Self::Less`].
        Greater => ">",
        /// The left side is greater or equal, compared as for [`Self::Less`].
        GreaterOrEqual => ">=",
        /// The left side exists.
        IsSet => "is_set",
        /// The left side is missing.
        IsNotSet => "is_not_set",
        /// The left side is a version that satisfies the bounds on the right side, which may use `~>`.
        Version => "version",
        /// The left side is a version that satisfies the bounds on the right side, by the rules of SemVer only.
        Semver => "semver",
        /// The left side matches the regular expression on the right side.
        Regexp => "regexp",
        /// The list on the left side contains every element of the list on the right side.
        SetContains => "set_contains",
        /// Synonym of [`Self::SetContains`].
        SetContainsAll => "set_contains_all",
        /// The list on the left side contains at least one element of the list on the right side.
        SetContainsAny => "set_contains_any",
        /// No two allocations share a node.
        DistinctHosts => "distinct_hosts",
        /// The right side limits how many allocations share a value of the left side.
        DistinctProperty => "distinct_property",
    }
}

text_members!(Operand);

/// A condition that a node must satisfy.
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

/// A preference for nodes.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affinity {
    /// The left side, for instance `${node.datacenter}`.
    pub l_target: Text,
    /// The right side, usually a literal.
    pub r_target: Text,
    /// How the two are compared.
    pub operand: Operand,
    /// Weight from -100 to 100. A negative weight means that such nodes are avoided.
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
    /// Weight relative to other spreads, 0 to 100.
    pub weight: u32,
    /// Target shares by value; an empty list spreads evenly.
    pub targets: Vec<SpreadTarget>,
}

mirror! {
    Spread = Spread { attribute: "Attribute", weight: "Weight" }
    renamed { targets = spread_target: "SpreadTarget" }
}

/// Target share of one value of a spread's attribute.
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
