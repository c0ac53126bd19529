//! Metrics of requests: counts, durations, and the reference's timers of the corresponding RPCs.

use std::time::Duration;

use actix_web::http::{Method, StatusCode};
use telemetry::metrics::Timer;
use telemetry::metrics::catalogue::{API_REQUEST, API_REQUESTS, RPC_QUERY};

/// Records a response, with the timer of its route if it has one. If the request may have blocked, its duration says
/// nothing and is not recorded.
pub(crate) fn record_request(
    route: &str,
    method: &Method,
    status: StatusCode,
    took: Duration,
    timer: Option<&Timer>,
    may_have_blocked: bool,
) {
    let method = method_label(method);
    API_REQUESTS.add_with(1, &[route, method, status_class(status)]);
    if method == "GET" {
        RPC_QUERY.add(1);
    }
    if !may_have_blocked {
        API_REQUEST.record_with(took.as_secs_f64(), &[route, method]);
        if let Some(timer) = timer {
            timer.record(took);
        }
    }
}

/// Label for a method. Clients can send any method, so unknown ones share a label.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::PUT => "PUT",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        _ => "other",
    }
}

fn status_class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        ..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        500.. => "5xx",
    }
}
