//! Spans of commits. A commit carries the change sets of many commands, each of which may belong to another trace.

use std::sync::Arc;

use model::TraceContext;
use model::change::ChangeSet;
use store::Error;
use telemetry::attribute;
use telemetry::traces::{self, Joined};
use tracing::Span;

use crate::core::Write;

/// The span of a write, and the context that the spans of its commands link to. The context is `None` if the span is a
/// child of a command's span.
pub(crate) fn commit(write: &Write, sets: &[Arc<ChangeSet>]) -> (Span, Option<TraceContext>) {
    let Write::Commit(..) = write else { return (Span::none(), None) };
    if !traces::are_exported() || sets.iter().all(|set| set.trace.is_none()) {
        return (Span::none(), None);
    }
    let span = tracing::info_span!(
        parent: None,
        "commit",
        otel.name = "commit log",
        otel.kind = "client",
        { attribute::DB_SYSTEM_NAME } = "postgresql",
        { attribute::DB_OPERATION_NAME } = "commit",
        { attribute::DB_COLLECTION_NAME } = "log",
        { attribute::DB_OPERATION_BATCH_SIZE } = (sets.len() > 1).then(|| sets.len().cast_signed() as i64),
        { attribute::INDEX } = sets.last().map(|set| set.index.0.cast_signed()),
    );
    match traces::join(&span, sets.iter().filter_map(|set| set.trace)) {
        Joined::Root => {
            let link = traces::trace_of(&span);
            (span, link)
        }
        Joined::Child => (span, None),
    }
}

/// Records the failure of a write in its span.
pub(crate) fn failed(span: &Span, error: &Error) {
    let kind = if error.is_unknown() {
        "outcome_unknown"
    } else if matches!(error, Error::Deposed { .. } | Error::Moved { .. }) {
        "deposed"
    } else {
        "database"
    };
    traces::fail(span, kind, &telemetry::chain(error));
}
