//! Which requests are traced: every write, every read that belongs to somebody's trace, and of other reads a few.

use std::sync::atomic::{AtomicU64, Ordering};

use actix_web::http::header::HeaderMap;
use model::TraceContext;
use tracing::Span;
use wire::envelope::HEADER_TRACE;

/// One of so many reads gets a span of its own: at tens of thousands a second, all of them would cost more than they tell.
const READS_PER_SPAN: u64 = 1_024;

/// Makes the root spans of requests.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    reads: AtomicU64,
}

impl Spans {
    /// The span of a request.
    pub(crate) fn root(&self, method: &str, route: &'static str, headers: &HeaderMap) -> Span {
        let parent: Option<TraceContext> =
            headers.get(HEADER_TRACE).and_then(|value| value.to_str().ok()?.parse().ok());
        let is_read = method == "GET";
        if is_read && parent.is_none() && !self.is_turn() {
            return Span::none();
        }
        let span = tracing::info_span!("http.request", http.method = method, http.route = route);
        if let Some(parent) = parent {
            telemetry::adopt(&span, &parent);
        }
        span
    }

    fn is_turn(&self) -> bool {
        self.reads.fetch_add(1, Ordering::Relaxed).is_multiple_of(READS_PER_SPAN)
    }
}
