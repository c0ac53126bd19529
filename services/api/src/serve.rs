//! Brings each request to the handler of its route, and its result to the client.

use std::time::Duration;

use actix_web::http::header::{CONTENT_TYPE, HeaderValue, LOCATION, VARY};
use actix_web::http::{Method, StatusCode};
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use telemetry::{clock, traces};
use tracing::Instrument as _;

use crate::Api;
use crate::http::{
    Answered, Body, CleanPath, Error, Query, Response, SocketRequest, accepts_gzip, clean, client_trace,
    cors, escape, receive, record_request, record_status,
};
use crate::routes::{self, Handler, Request};

/// Memory of a request relative to the length of its path and query, which are kept escaped and decoded.
const MEMORY_PER_URI_BYTE: usize = 4;

/// Serves one request.
pub(crate) async fn serve(api: Data<Api>, request: HttpRequest, payload: Payload) -> HttpResponse {
    let failed = |error| Response::error(error).into_http(false, false, &api.response_memory);
    let path = match clean(request.uri().path()) {
        CleanPath::Path(path) => path,
        CleanPath::Redirect(path) => return redirect(&request, &path),
        CleanPath::Invalid => {
            return failed(Error::bad_request("the path must begin with a slash and be readable text"));
        }
    };
    // Different escapes may mean different ids, so the path as it was sent is what identifies a response.
    let query = Query::parse(request.uri().path(), request.query_string());
    let (pretty, compress) = (query.pretty(), accepts_gzip(request.headers()));
    let (method, headers) = (request.method(), request.headers());
    let grant = cors::grant(&api.origins, &path, headers);
    if let Some(response) = grant.preflight(method, headers) {
        return response;
    }
    let mut response = match route(&api, &request, &path, query, payload).await {
        Ok(Routed::Response(response)) => response.into_http(pretty, compress, &api.response_memory),
        Ok(Routed::Redirect(path)) => return redirect(&request, &path),
        Err(error) => failed(error),
    };
    grant.allow_origin(method, headers, &mut response);
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
    let raw_path = request.uri().path();
    let Some((route, params)) = routes::find_escaped(raw_path).or_else(|| routes::find(path)) else {
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
    let admitted = api.origins.check(method, path, request.headers());
    let endpoint = admitted.and_then(|()| route.endpoint(method)).inspect_err(|error| {
        api.failure_log.record(&Answered { status: error.status, error: Some(error), ..answered }, started);
    })?;
    let trace = client_trace(request);
    let span = api.spans.server(request, route.path, trace);
    let parts = Request { method: method.clone(), params, query, ..Request::default() };
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
    let uri = http_request.uri();
    let uri_bytes = uri.path().len() + uri.query().map_or(0, str::len);
    let Some(_memory) = api.request_memory.reserve(uri_bytes * MEMORY_PER_URI_BYTE) else {
        return Err(Error::overloaded(
            "this server is busy: it has no memory for long requests; try again later",
        ));
    };
    let headers = http_request.headers();
    match *http_request.method() {
        Method::GET => request.socket = SocketRequest::new(headers, http_request.peer_addr(), payload),
        Method::HEAD => {}
        _ => request.body = receive(payload, headers, &api.limits, &api.request_memory).await?,
    }
    handler(api, &request).await
}

/// Redirects a client to another path with the same query. Only a GET gets a page about it (http-api §1.3).
fn redirect(request: &HttpRequest, path: &str) -> HttpResponse {
    let query = request.query_string();
    let location = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    let mut response = HttpResponse::TemporaryRedirect();
    response.insert_header((VARY, "Accept-Encoding"));
    match HeaderValue::from_str(&location) {
        Ok(location) => response.insert_header((LOCATION, location)),
        Err(_) => {
            return HttpResponse::BadRequest().body("the path must begin with a slash and be readable text");
        }
    };
    if request.method() != Method::GET {
        return response.finish();
    }
    let escaped =
        location.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&#34;");
    response
        .insert_header((CONTENT_TYPE, "text/html; charset=utf-8"))
        .body(format!("<a href=\"{escaped}\">Temporary Redirect</a>.\n\n"))
}
