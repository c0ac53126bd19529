//! Refusals: a response that any request may get instead of its own one.
//!
//! Repeating a refused request does not help until something else has changed. The process that refuses writes the
//! message, in the words of the specification, because users and agents depend on them (N-2.6, N-7.3).

use model::Text;
use serde::{Deserialize, Serialize};

use crate::envelope::{DecodeError, Wire, decode, kinds};

/// The reason why a request was refused: a kind for programs and a message for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Kind of the refusal.
    pub kind: RefusalKind,
    /// The message, as the API returns it.
    pub message: Text,
}

/// Kinds of refusals that callers distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalKind {
    /// The object of the request does not exist.
    NotFound,
    /// The request was made for another state: a compare-and-set failed, or a node's secret differs (N-2.6).
    Conflict,
    /// The request is not valid.
    Invalid,
    /// The request is not allowed in the current state, for instance because the node must send a heartbeat first
    /// (N-7.3).
    NotReady,
    /// The sender's program is too old; the message names both versions.
    Outdated,
    /// The sender is no longer the active process of its service.
    Deposed,
    /// The sender's role is not allowed to send this request ([`senders`](crate::senders)).
    Forbidden,
    /// The request id is older than the request log. The sender must look up whether the request was carried out.
    OutcomeUnknown,
}

impl RefusalKind {
    /// Name of the kind, as spans record it.
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

/// Decodes the response to a request: its own response type, or a refusal.
///
/// # Errors
/// If it is neither, or cannot be decoded ([`decode`]).
pub fn decode_answer<T: Wire>(
    kind: &str,
    version: u16,
    body: &[u8],
) -> Result<Result<T, Refusal>, DecodeError> {
    if kind == Refusal::KIND {
        decode(kind, version, body).map(Err)
    } else {
        decode(kind, version, body).map(Ok)
    }
}
