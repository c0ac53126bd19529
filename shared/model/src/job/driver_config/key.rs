//! What a key of a driver's configuration takes. Pure.

/// A key of a configuration.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// What a key takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// A text.
    Text,
    /// A bool.
    Flag,
    /// A whole number.
    Number,
    /// A duration, such as `5m`.
    Duration,
    /// A list of texts.
    Texts,
    /// A list of texts, or a text.
    TextOrTexts,
    /// Texts by names of their own, such as labels. Several blocks are one.
    Map,
    /// A block that may be given once.
    Block(&'static [Key]),
    /// Any number of blocks.
    Blocks(&'static [Key]),
}

impl Kind {
    /// What a value should be.
    pub(super) const fn expected(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Flag => "true or false",
            Self::Number => "a whole number",
            Self::Duration => "a duration, such as \"5m\"",
            Self::Texts | Self::TextOrTexts => "a list of strings",
            Self::Map => "a block of strings",
            Self::Block(_) | Self::Blocks(_) => "a block",
        }
    }
}
