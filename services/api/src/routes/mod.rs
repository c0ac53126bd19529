//! Routing: from a request to its handler and back.
//!
//! Paths are matched without their escapes, because ids may hold slashes, escaped or not (http-api §1.2); so the table is
//! our own and not the framework's.

mod acl;
mod agent;
mod allocations;
mod client;
mod deployments;
mod evaluations;
mod events;
mod figures;
mod filtered;
mod job;
mod jobs;
mod keyring;
mod measured;
mod metrics;
mod monitor;
mod namespaces;
mod node_pools;
mod nodes;
mod operator;
mod plan;
mod search;
pub(crate) mod shapes;
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
use self::table::{Route, Serves};
use crate::Api;
use crate::frame::{
    Answer, Body, Cleaned, Error, Query, clean, cors, escape, is_understood, receive, responded,
};

/// What answers a request.
pub(crate) type Handler = for<'a> fn(&'a Api, &'a Request) -> LocalBoxFuture<'a, Result<Answer, Error>>;

/// A request, as far as handlers look at it.
#[derive(Debug, Default)]
pub(crate) struct Request {
    /// What stands in the path for each `:name` of the route.
    pub(crate) params: Vec<String>,
    /// The parameters.
    pub(crate) query: Query,
    /// The body; empty for methods that have none.
    pub(crate) body: Bytes,
}

impl Request {
    /// What stands in the path for the first `:name`.
    pub(crate) fn id(&self) -> &str {
        self.params.first().map_or("", String::as_str)
    }
}

/// Serves one request.
pub(crate) async fn serve(api: Data<Api>, request: HttpRequest, payload: Payload) -> HttpResponse {
    let path = match clean(request.uri().path()) {
        Cleaned::Path(path) => path,
        Cleaned::Elsewhere(path) => return redirect(&path, request.query_string()),
        Cleaned::Unreadable => {
            return Answer::error(Error::bad_request("the path is not readable text"))
                .into_response(false, false);
        }
    };
    let query = Query::parse(&path, request.query_string());
    let (pretty, compress) = (query.pretty(), is_understood(request.headers()));
    let open_to = cors::methods(&path);
    let (method, headers) = (request.method(), request.headers());
    if let Some(answer) = cors::preflight(open_to, method, headers) {
        return answer;
    }
    let mut response = match route(&api, &request, &path, query, payload).await {
        Ok(Routed::Answer(answer)) => answer.into_response(pretty, compress),
        Ok(Routed::Elsewhere(path)) => return redirect(&path, request.query_string()),
        Err(error) => Answer::error(error).into_response(false, false),
    };
    cors::open(open_to, method, headers, &mut response);
    response
}

enum Routed {
    Answer(Answer),
    Elsewhere(String),
}

async fn route(
    api: &Api,
    request: &HttpRequest,
    path: &str,
    query: Query,
    payload: Payload,
) -> Result<Routed, Error> {
    let Some((route, params)) = table::find(path) else {
        if let Some(path) = table::elsewhere(path) {
            return Ok(Routed::Elsewhere(escape(&path)));
        }
        return Ok(Routed::Answer(Answer::ok(Body::Empty).status(StatusCode::NOT_FOUND)));
    };
    let method = request.method();
    let handler = handler(route, method)?;
    let span = api.spans.server(request, route.path);
    let may_wait = !matches!(query.text("index"), "" | "0");
    let answering = answer(api, handler, request, Request { params, query, body: Bytes::new() }, payload);
    let began = telemetry::clock::monotonic();
    let answer = answering.instrument(span.clone()).await;
    let (status, error) = match &answer {
        Ok(answer) => (answer.status_code(), None),
        Err(error) => (error.status, Some(&*error.text)),
    };
    responded(&span, status, error);
    span.in_scope(|| tracing::debug!(%method, path, status = status.as_u16(), error, "answered"));
    measured::answered(route.path, method, status, began.elapsed(), may_wait);
    answer.map(Routed::Answer)
}

/// Answers a request, whose body is still to be received.
async fn answer(
    api: &Api,
    handler: Handler,
    received: &HttpRequest,
    mut request: Request,
    payload: Payload,
) -> Result<Answer, Error> {
    let region = request.query.text("region");
    if !region.is_empty() && region != api.args.region {
        return Err(Error::failed(NO_REGION));
    }
    if !matches!(*received.method(), Method::GET | Method::HEAD) {
        request.body = receive(payload, &api.limits).await?;
    }
    handler(api, &request).await
}

/// What is said of a region that is not this one (http-api §3).
pub(crate) const NO_REGION: &str = "No path to region";

fn handler(route: &Route, method: &Method) -> Result<Handler, Error> {
    let not_built = || Error::not_built(format!("{method} {} is not built yet", route.path));
    let methods = match route.serves {
        Serves::Methods(methods) => methods,
        Serves::Any(handler) => return Ok(handler),
        Serves::NotBuilt => return Err(not_built()),
        Serves::Enterprise => return Err(Error::not_built("Nomad Enterprise only endpoint")),
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

/// Sends a client to another path, with what it asked for.
fn redirect(path: &str, query: &str) -> HttpResponse {
    let location = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    let shown =
        location.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&#34;");
    let Ok(header) = HeaderValue::from_str(&location) else {
        return Answer::error(Error::bad_request("the path is not readable text"))
            .into_response(false, false);
    };
    HttpResponse::TemporaryRedirect()
        .insert_header((LOCATION, header))
        .insert_header((HeaderName::from_static("content-type"), "text/html; charset=utf-8"))
        .body(format!("<a href=\"{shown}\">Temporary Redirect</a>.\n\n"))
}
