//! Spans of HTTP requests, with OpenTelemetry's names and attributes. Every write has a span, every read that belongs to a
//! client's trace, and a sample of the other reads.

use std::sync::atomic::{AtomicU64, Ordering};

use actix_web::HttpRequest;
use actix_web::http::header::USER_AGENT;
use actix_web::http::{Method, StatusCode};
use model::TraceContext;
use telemetry::{attribute, traces};
use tracing::Span;
use tracing::field::Empty;
use wire::envelope::HEADER_TRACE;

/// One of this many untraced reads gets a span. At tens of thousands of reads a second, a span for each would cost too
/// much.
const READS_PER_SPAN: u64 = 1_024;

/// Creates the spans of requests.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    reads: AtomicU64,
}

impl Spans {
    /// Span of a request. It is a child of the client's span if the request names one ([`client_trace`]).
    pub(crate) fn server(
        &self,
        request: &HttpRequest,
        route: &'static str,
        parent: Option<TraceContext>,
    ) -> Span {
        if !traces::are_exported() {
            return Span::none();
        }
        if request.method() == Method::GET && parent.is_none() && !self.is_sampled() {
            return Span::none();
        }
        let method = request.method().as_str();
        let connection = request.connection_info();
        let (host, port) = host_and_port(connection.host());
        let span = tracing::info_span!(
            "request",
            otel.name = %format_args!("{method} {route}"),
            otel.kind = "server",
            { attribute::HTTP_REQUEST_METHOD } = method,
            { attribute::HTTP_ROUTE } = route,
            { attribute::HTTP_RESPONSE_STATUS_CODE } = Empty,
            { attribute::URL_PATH } = request.path(),
            { attribute::URL_SCHEME } = connection.scheme(),
            { attribute::SERVER_ADDRESS } = host,
            { attribute::SERVER_PORT } = port,
            { attribute::USER_AGENT_ORIGINAL } = header(request, USER_AGENT.as_str()),
        );
        if let Some(parent) = parent {
            telemetry::adopt(&span, &parent);
        }
        span
    }

    fn is_sampled(&self) -> bool {
        self.reads.fetch_add(1, Ordering::Relaxed).is_multiple_of(READS_PER_SPAN)
    }
}

/// The trace that the client names in its request.
pub(crate) fn client_trace(request: &HttpRequest) -> Option<TraceContext> {
    header(request, HEADER_TRACE)?.parse().ok()
}

fn header<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    request.headers().get(name)?.to_str().ok()
}

/// Records the response's status. By OpenTelemetry's conventions, a server span fails on a 5xx only: a 4xx is the client's
/// error.
pub(crate) fn record_status(span: &Span, status: StatusCode, error: Option<&str>) {
    span.record(attribute::HTTP_RESPONSE_STATUS_CODE, i64::from(status.as_u16()));
    if status.is_server_error() {
        let class = match status {
            StatusCode::INTERNAL_SERVER_ERROR => "500",
            StatusCode::NOT_IMPLEMENTED => "501",
            StatusCode::BAD_GATEWAY => "502",
            StatusCode::SERVICE_UNAVAILABLE => "503",
            StatusCode::GATEWAY_TIMEOUT => "504",
            _ => "5xx",
        };
        traces::fail(span, class, error.unwrap_or_default());
    }
}

/// Splits a `Host` header into host and port.
fn host_and_port(host: &str) -> (&str, Option<i64>) {
    let port = |text: &str| text.parse::<u16>().ok().map(i64::from);
    match host.rsplit_once(':') {
        Some((name, digits)) if port(digits).is_some() => (name, port(digits)),
        Some(_) | None => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use super::host_and_port;

    #[test]
    fn a_host_has_a_port_or_none() {
        assert_eq!(host_and_port("api.example:4646"), ("api.example", Some(4646)));
        assert_eq!(host_and_port("api.example"), ("api.example", None));
        assert_eq!(host_and_port("[::1]:80"), ("[::1]", Some(80)));
        assert_eq!(host_and_port("[::1]"), ("[::1]", None));
    }
}
