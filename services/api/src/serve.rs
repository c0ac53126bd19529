//! Brings each request to the handler of its route, and its result to the client.

use std::time::Duration;

use actix_web::http::header::{HeaderName, HeaderValue, LOCATION};
use actix_web::http::{Method, StatusCode};
use actix_web::web::{Bytes, Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use telemetry::{clock, traces};
use tracing::Instrument as _;

use crate::Api;
use crate::http::{
    Answered, Body, CleanPath, Error, NO_REGION, Query, Response, accepts_gzip, clean, client_trace, cors,
    escape, receive, record_request, record_status,
};
use crate::routes::{self, Handler, Request};

/// Serves one request.
pub(crate) async fn serve(api: Data<Api>, request: HttpRequest, payload: Payload) -> HttpResponse {
    let path = match clean(request.uri().path()) {
        CleanPath::Path(path) => path,
        CleanPath::Redirect(path) => return redirect(&path, request.query_string()),
        CleanPath::Invalid => {
            return Response::error(Error::bad_request("the path is not readable text"))
                .into_http(false, false);
        }
    };
    let query = Query::parse(&path, request.query_string());
    let (pretty, compress) = (query.pretty(), accepts_gzip(request.headers()));
    let cors_methods = cors::methods(&path);
    let (method, headers) = (request.method(), request.headers());
    if let Some(response) = cors::preflight(cors_methods, method, headers) {
        return response;
    }
    let mut response = match route(&api, &request, &path, query, payload).await {
        Ok(Routed::Response(response)) => response.into_http(pretty, compress),
        Ok(Routed::Redirect(path)) => return redirect(&path, request.query_string()),
        Err(error) => Response::error(error).into_http(false, false),
    };
    cors::allow_origin(cors_methods, method, headers, &mut response);
    response
}

enum Routed {
    Response(Response),
    Redirect(String),
}

async fn route(
    api: &Api,
    request: &HttpRequest,
    path: &str,
    query: Query,
    payload: Payload,
) -> Result<Routed, Error> {
    let Some((route, params)) = routes::find(path) else {
        if let Some(path) = routes::redirect_target(path) {
            return Ok(Routed::Redirect(escape(&path)));
        }
        return Ok(Routed::Response(Response::ok(Body::Empty).status(StatusCode::NOT_FOUND)));
    };
    let method = request.method();
    let started = clock::monotonic();
    let may_have_blocked = !matches!(query.text("index"), "" | "0");
    let answered = Answered {
        method,
        route: route.path,
        status: StatusCode::OK,
        error: None,
        took: Duration::ZERO,
        may_have_blocked,
        peer: request.peer_addr(),
    };
    let endpoint = route.endpoint(method).inspect_err(|error| {
        api.failure_log.record(&Answered { status: error.status, error: Some(error), ..answered }, started);
    })?;
    let trace = client_trace(request);
    let span = api.spans.server(request, route.path, trace);
    let parts = Request { params, query, body: Bytes::new() };
    let handling = handle(api, endpoint.handler, request, parts, payload);
    let answering = async {
        let response = handling.await;
        let now = clock::monotonic();
        let took = now.saturating_duration_since(started);
        let (status, error) = match &response {
            Ok(response) => (response.status_code(), None),
            Err(error) => (error.status, Some(error)),
        };
        record_status(&span, status, error.map(|error| &*error.text));
        api.failure_log.record(&Answered { status, error, took, ..answered }, now);
        record_request(route.path, method, status, took, endpoint.timer, may_have_blocked);
        response
    };
    traces::follow(trace, answering.instrument(span.clone())).await.map(Routed::Response)
}

/// Receives the body of a request, and calls its handler.
async fn handle(
    api: &Api,
    handler: Handler,
    http_request: &HttpRequest,
    mut request: Request,
    payload: Payload,
) -> Result<Response, Error> {
    let region = request.query.text("region");
    if !region.is_empty() && region != api.args.region {
        return Err(Error::failed(NO_REGION));
    }
    if !matches!(*http_request.method(), Method::GET | Method::HEAD) {
        request.body = receive(payload, &api.limits).await?;
    }
    handler(api, &request).await
}

/// Redirects a client to another path with the same query.
fn redirect(path: &str, query: &str) -> HttpResponse {
    let location = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    let escaped =
        location.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&#34;");
    let Ok(header) = HeaderValue::from_str(&location) else {
        return Response::error(Error::bad_request("the path is not readable text")).into_http(false, false);
    };
    HttpResponse::TemporaryRedirect()
        .insert_header((LOCATION, header))
        .insert_header((HeaderName::from_static("content-type"), "text/html; charset=utf-8"))
        .body(format!("<a href=\"{escaped}\">Temporary Redirect</a>.\n\n"))
}
