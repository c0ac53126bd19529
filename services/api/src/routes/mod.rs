//! Routing of requests to handlers.
//!
//! Paths are matched after decoding, because ids may contain slashes, whether escaped or not (http-api §1.2). So the route
//! table is our own and not the framework's.

mod acl;
mod agent;
mod allocations;
mod client;
mod deployments;
mod evaluations;
mod events;
mod filter_objects;
mod job;
mod jobs;
mod keyring;
mod metrics;
mod monitor;
mod namespaces;
mod node_pools;
mod nodes;
mod operator;
mod plan;
mod request_metrics;
mod search;
pub(crate) mod shapes;
mod small_objects;
mod stats;
mod statuses;
mod submission;
mod table;

use actix_web::http::Method;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderName, HeaderValue, LOCATION};
use actix_web::web::{Bytes, Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use futures::future::LocalBoxFuture;
use tracing::Instrument as _;

#[cfg(test)]
pub(crate) use self::table::paths;
use self::table::{Route, RouteKind};
use crate::Api;
use crate::http::{
    Body, CleanPath, Error, Query, Response, accepts_gzip, clean, cors, escape, receive, record_status,
};

/// A route's handler.
pub(crate) type Handler = for<'a> fn(&'a Api, &'a Request) -> LocalBoxFuture<'a, Result<Response, Error>>;

/// The parts of a request that handlers use.
#[derive(Debug, Default)]
pub(crate) struct Request {
    /// Values of the route's `:name` segments.
    pub(crate) params: Vec<String>,
    /// Query parameters.
    pub(crate) query: Query,
    /// Body; empty for methods without a body.
    pub(crate) body: Bytes,
}

impl Request {
    /// Value of the first `:name` segment.
    pub(crate) fn id(&self) -> &str {
        self.params.first().map_or("", String::as_str)
    }
}

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
    let Some((route, params)) = table::find(path) else {
        if let Some(path) = table::redirect_target(path) {
            return Ok(Routed::Redirect(escape(&path)));
        }
        return Ok(Routed::Response(Response::ok(Body::Empty).status(StatusCode::NOT_FOUND)));
    };
    let method = request.method();
    let handler = handler(route, method)?;
    let span = api.spans.server(request, route.path);
    let may_wait = !matches!(query.text("index"), "" | "0");
    let handling = handle(api, handler, request, Request { params, query, body: Bytes::new() }, payload);
    let started = telemetry::clock::monotonic();
    let response = handling.instrument(span.clone()).await;
    let (status, error) = match &response {
        Ok(response) => (response.status_code(), None),
        Err(error) => (error.status, Some(&*error.text)),
    };
    record_status(&span, status, error);
    span.in_scope(|| tracing::debug!(%method, path, status = status.as_u16(), error, "answered"));
    request_metrics::record(route.path, method, status, started.elapsed(), may_wait);
    response.map(Routed::Response)
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

/// Error text for a region that is not this cluster's (http-api §3).
pub(crate) const NO_REGION: &str = "No path to region";

fn handler(route: &Route, method: &Method) -> Result<Handler, Error> {
    let not_built = || Error::not_built(format!("{method} {} is not built yet", route.path));
    let methods = match route.kind {
        RouteKind::Methods(methods) => methods,
        RouteKind::Any(handler) => return Ok(handler),
        RouteKind::NotBuilt => return Err(not_built()),
        RouteKind::Enterprise => return Err(Error::not_built("Nomad Enterprise only endpoint")),
    };
    let handler = match *method {
        Method::GET => methods.get,
        Method::PUT => methods.put,
        Method::POST => methods.post,
        Method::DELETE => methods.delete,
        _ => None,
    };
    handler.ok_or_else(Error::wrong_method)
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
