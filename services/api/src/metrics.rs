//! Metrics of requests: counts, durations, and the reference's timers of the corresponding RPCs.

use std::time::Duration;

use actix_web::http::{Method, StatusCode};
use telemetry::metrics::Timer;
use telemetry::metrics::catalogue::{
    ALLOC_GET_ALLOC, ALLOC_LIST, ALLOC_STOP, API_REQUEST, API_REQUESTS, CLIENT_BATCH_DEREGISTER,
    CLIENT_EVALUATE, CLIENT_GET_NODE, CLIENT_LIST, CLIENT_UPDATE_ELIGIBILITY, EVAL_ALLOCATIONS, EVAL_COUNT,
    EVAL_DELETE, EVAL_GET_EVAL, EVAL_LIST, JOB_ALLOCATIONS, JOB_DEPLOYMENTS, JOB_DEREGISTER, JOB_EVALUATE,
    JOB_EVALUATIONS, JOB_GET_JOB, JOB_GET_SUBMISSION, JOB_GET_SUMMARY, JOB_GET_VERSIONS,
    JOB_LATEST_DEPLOYMENT, JOB_LIST, JOB_PLAN, JOB_REGISTER, JOB_STATUSES, JOB_VALIDATE, RPC_QUERY,
};

/// Records a response. If the request may have blocked, its duration says nothing and is not recorded.
pub(crate) fn record(
    route: &str,
    method: &Method,
    status: StatusCode,
    took: Duration,
    may_have_blocked: bool,
) {
    let method = method_label(method);
    API_REQUESTS.add_with(1, &[route, method, status_class(status)]);
    if method == "GET" {
        RPC_QUERY.add(1);
    }
    if !may_have_blocked {
        API_REQUEST.record_with(took.as_secs_f64(), &[route, method]);
        if let Some(timer) = timer(route, method) {
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

/// The reference's timer for a route.
fn timer(route: &str, method: &str) -> Option<&'static Timer> {
    Some(match (route, method) {
        ("/v1/job/:id", "GET") => &JOB_GET_JOB,
        ("/v1/jobs" | "/v1/job/:id", "PUT" | "POST") => &JOB_REGISTER,
        ("/v1/job/:id", "DELETE") => &JOB_DEREGISTER,
        ("/v1/jobs", "GET") => &JOB_LIST,
        ("/v1/jobs/statuses", _) => &JOB_STATUSES,
        ("/v1/validate/job", _) => &JOB_VALIDATE,
        ("/v1/job/:id/evaluate", _) => &JOB_EVALUATE,
        ("/v1/job/:id/allocations", _) => &JOB_ALLOCATIONS,
        ("/v1/job/:id/evaluations", _) => &JOB_EVALUATIONS,
        ("/v1/job/:id/plan", _) => &JOB_PLAN,
        ("/v1/job/:id/summary", _) => &JOB_GET_SUMMARY,
        ("/v1/job/:id/versions", _) => &JOB_GET_VERSIONS,
        ("/v1/job/:id/submission", _) => &JOB_GET_SUBMISSION,
        ("/v1/job/:id/deployments", _) => &JOB_DEPLOYMENTS,
        ("/v1/job/:id/deployment", _) => &JOB_LATEST_DEPLOYMENT,
        ("/v1/allocations", _) => &ALLOC_LIST,
        ("/v1/allocation/:id", _) => &ALLOC_GET_ALLOC,
        ("/v1/allocation/:id/stop", _) => &ALLOC_STOP,
        ("/v1/evaluations", "GET") => &EVAL_LIST,
        ("/v1/evaluations", "DELETE") => &EVAL_DELETE,
        ("/v1/evaluations/count", _) => &EVAL_COUNT,
        ("/v1/evaluation/:id", _) => &EVAL_GET_EVAL,
        ("/v1/evaluation/:id/allocations", _) => &EVAL_ALLOCATIONS,
        ("/v1/nodes", _) => &CLIENT_LIST,
        ("/v1/node/:id", _) => &CLIENT_GET_NODE,
        ("/v1/node/:id/evaluate", _) => &CLIENT_EVALUATE,
        ("/v1/node/:id/purge", _) => &CLIENT_BATCH_DEREGISTER,
        ("/v1/node/:id/eligibility", _) => &CLIENT_UPDATE_ELIGIBILITY,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn routes_with_a_timer_are_routes() {
        let source = include_str!("metrics.rs");
        let (_, table) = source.split_once("fn timer(").unwrap();
        let (table, _) = table.split_once("_ => return None").unwrap();
        let named: Vec<&str> = table.split('"').filter(|part| part.starts_with("/v1/")).collect();
        assert!(named.len() > 25, "{named:?}");
        for route in named {
            assert!(crate::routes::paths().any(|path| path == route), "{route}");
        }
    }
}
