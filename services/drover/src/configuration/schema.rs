//! The description of a key of the configuration: the type of its values, and its support here.

use model::features::Feature;

/// A key of the configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) value_type: Type,
    pub(super) support: Support,
}

/// How Drover treats a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Support {
    /// It is a setting. The keys in a block have their own support.
    Used,
    /// It has no effect, for this reason.
    NoEffect(&'static str),
    /// It has no effect, because it is a setting of a feature that is not built.
    Without(Feature),
    /// It has no effect while it is false. `true` switches on a feature that is not built.
    Off(Feature),
    /// It needs a feature that is not built.
    NotBuilt(Feature),
    /// The support of the block around it applies.
    AsBlock,
}

/// The type of value that a key expects.
#[derive(Debug, Clone, Copy)]
pub(super) enum Type {
    Text,
    Bool,
    /// A whole number in this range.
    Whole(i64, i64),
    Float,
    /// A duration with a unit.
    Duration,
    /// A number of bytes, optionally with a unit.
    Size,
    /// An IP address.
    Address,
    /// A list of strings.
    Texts,
    /// A block of strings with arbitrary keys.
    Map,
    /// A block with these keys.
    Block(&'static [Key]),
    /// Blocks that each have a label: the known labels, and the keys of blocks with other labels. Without known labels,
    /// all labels are settings.
    Named {
        known: &'static [Key],
        others: &'static [Key],
    },
    /// Any value.
    Any,
}

/// Any whole number.
pub(super) const WHOLE: Type = Type::Whole(i64::MIN, i64::MAX);
/// A whole number that fits in 32 bits without a sign.
pub(super) const COUNT: Type = Type::Whole(0, u32::MAX as i64);
/// A whole number that fits in 16 bits without a sign.
pub(super) const SMALL: Type = Type::Whole(0, u16::MAX as i64);

impl Type {
    /// Whether the key expects a block.
    pub(super) fn is_block(self) -> bool {
        matches!(self, Type::Map | Type::Block(_) | Type::Named { .. })
    }
}
