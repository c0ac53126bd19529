//! Refusals of requests from nodes.

use wire::{Refusal, RefusalKind};

use crate::metrics;

/// The refusal of a request from a node that is not registered.
pub(crate) fn unknown() -> Refusal {
    metrics::refused("unknown");
    Refusal { kind: RefusalKind::NotFound, message: "node not found".into() }
}

/// The refusal of a malformed request.
pub(crate) fn invalid(message: String) -> Refusal {
    metrics::refused("invalid");
    Refusal { kind: RefusalKind::Invalid, message: message.into() }
}

/// The refusal of a request with an unknown outcome. The node repeats the request.
pub(crate) fn unavailable(message: String) -> Refusal {
    Refusal { kind: RefusalKind::OutcomeUnknown, message: message.into() }
}
