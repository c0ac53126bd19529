//! Refusals: any request may be answered by one instead of by its own answer.
//!
//! Asking again does not help before something else has changed. Whoever refuses makes the sentence, in the words of
//! the specification, which people and agents know (N-2.6, N-7.3).

use model::Text;
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// Why a request was refused, in a word for programs and in a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The word.
    pub kind: RefusalKind,
    /// The sentence; what the API answers.
    pub message: Text,
}

/// Kinds of refusals, as far as callers tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalKind {
    /// What it is about is not there.
    NotFound,
    /// It was for another state of things: a compare-and-set failed, a node's secret is another (N-2.6).
    Conflict,
    /// It asks for what may not be.
    Invalid,
    /// It was asked in a state in which it may not be, such as a node's that must be heard of first (N-7.3).
    NotReady,
    /// The sender's program is too old; the message names both versions.
    Outdated,
    /// The sender is not the active one of its service any more.
    Deposed,
    /// The sender's role may not ask for this ([`senders`](crate::senders)).
    Forbidden,
    /// The request id is older than what is remembered: whether it was carried out must be looked up.
    OutcomeUnknown,
}

impl RefusalKind {
    /// The word, as spans carry it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Invalid => "invalid",
            Self::NotReady => "not_ready",
            Self::Outdated => "outdated",
            Self::Deposed => "deposed",
            Self::Forbidden => "forbidden",
            Self::OutcomeUnknown => "outcome_unknown",
        }
    }
}

kinds! {
    Refusal => "refusal",
}
