//! Kinds of keys: operator, account and user.

use nkeys::KeyPairType;

/// Kind of the owner of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// The operator, which servers trust.
    Operator,
    /// An account, or a key that signs for an account.
    Account,
    /// A user.
    User,
}

impl KeyKind {
    /// The owner, as errors name it.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Operator => "an operator",
            Self::Account => "an account",
            Self::User => "a user",
        }
    }

    /// The kind in terms of `nkeys`.
    pub(crate) const fn key_pair_type(self) -> KeyPairType {
        match self {
            Self::Operator => KeyPairType::Operator,
            Self::Account => KeyPairType::Account,
            Self::User => KeyPairType::User,
        }
    }
}
