//! What a route is: its path, and what handles its requests. Paths are matched after decoding, because ids may contain
//! slashes, whether escaped or not (http-api §1.2). So the matching is our own and not the framework's.

use actix_web::http::Method;
use futures::future::LocalBoxFuture;
use model::features::Feature;
use telemetry::metrics::Timer;

use crate::Api;
use crate::http::{Error, Query, RequestBody, Response, SocketRequest};

/// The parts of a request that handlers use.
#[derive(Debug, Default)]
pub(crate) struct Request {
    /// Method, for routes that accept every method.
    pub(crate) method: Method,
    /// Values of the route's `:name` segments.
    pub(crate) params: Vec<String>,
    /// Query parameters.
    pub(crate) query: Query,
    /// Body; empty for methods without a body.
    pub(crate) body: RequestBody,
    /// What a GET says about a WebSocket.
    pub(crate) socket: SocketRequest,
}

impl Request {
    /// Value of the first `:name` segment.
    pub(crate) fn id(&self) -> &str {
        self.params.first().map_or("", String::as_str)
    }
}

/// A route's handler.
pub(crate) type Handler = for<'a> fn(&'a Api, &'a Request) -> LocalBoxFuture<'a, Result<Response, Error>>;

/// What handles the requests of a route and method.
#[derive(Clone, Copy)]
pub(crate) struct Endpoint {
    /// Handler.
    pub(crate) handler: Handler,
    /// The reference's timer of the corresponding RPC.
    pub(crate) timer: Option<&'static Timer>,
}

/// Makes an [`Endpoint`] of an `async fn`, with a timer of the catalogue if one is named.
macro_rules! handler {
    ($handler:path) => {
        Endpoint { handler: |api, request| Box::pin($handler(api, request)), timer: None }
    };
    ($handler:path, $timer:ident) => {
        Endpoint { timer: Some(&telemetry::metrics::catalogue::$timer), ..handler!($handler) }
    };
}

/// Makes an [`Endpoint`] of a function that is not `async`.
macro_rules! sync_handler {
    ($handler:path) => {
        Endpoint { handler: |api, request| Box::pin(std::future::ready($handler(api, request))), timer: None }
    };
}

pub(super) use handler;
pub(super) use sync_handler;

/// A route.
pub(crate) struct Route {
    /// Path.
    pub(crate) path: &'static str,
    /// What handles its requests.
    pub(super) kind: RouteKind,
}

/// What handles the requests of a route.
#[derive(Clone, Copy)]
pub(super) enum RouteKind {
    /// An endpoint for each accepted method.
    Methods(Methods),
    /// One endpoint for every method, except those that are wrong everywhere (http-api §1.4).
    Any(Endpoint),
    /// The route is documented, but belongs to a feature that is not built.
    NotBuilt(Feature),
    /// The same, but the endpoint answers as the reference does while the feature is switched off.
    Off(
        #[cfg_attr(not(test), expect(dead_code, reason = "a test compares the table with the list"))] Feature,
        Endpoint,
    ),
    /// The route belongs to Nomad Enterprise (http-api §33).
    Enterprise,
}

/// Endpoints by method.
#[derive(Clone, Copy)]
pub(super) struct Methods {
    get: Option<Endpoint>,
    put: Option<Endpoint>,
    /// On nearly all routes the same as for PUT.
    post: Option<Endpoint>,
    delete: Option<Endpoint>,
}

const fn none(path: &'static str) -> Route {
    Route { path, kind: RouteKind::Methods(Methods { get: None, put: None, post: None, delete: None }) }
}

pub(super) const fn get(path: &'static str, endpoint: Endpoint) -> Route {
    none(path).and_get(endpoint)
}

/// For PUT and POST.
pub(super) const fn put(path: &'static str, endpoint: Endpoint) -> Route {
    none(path).and_put(endpoint)
}

pub(super) const fn delete(path: &'static str, endpoint: Endpoint) -> Route {
    none(path).and_delete(endpoint)
}

/// For POST, but not for PUT.
pub(super) const fn post_only(path: &'static str, endpoint: Endpoint) -> Route {
    let methods = Methods { post: Some(endpoint), ..none(path).methods() };
    Route { path, kind: RouteKind::Methods(methods) }
}

/// For PUT, but not for POST.
pub(super) const fn put_only(path: &'static str, endpoint: Endpoint) -> Route {
    let methods = Methods { put: Some(endpoint), ..none(path).methods() };
    Route { path, kind: RouteKind::Methods(methods) }
}

pub(super) const fn any(path: &'static str, endpoint: Endpoint) -> Route {
    Route { path, kind: RouteKind::Any(endpoint) }
}

pub(super) const fn not_built(path: &'static str, feature: Feature) -> Route {
    Route { path, kind: RouteKind::NotBuilt(feature) }
}

/// For every method.
pub(super) const fn off(path: &'static str, feature: Feature, endpoint: Endpoint) -> Route {
    Route { path, kind: RouteKind::Off(feature, endpoint) }
}

pub(super) const fn enterprise(path: &'static str) -> Route {
    Route { path, kind: RouteKind::Enterprise }
}

impl Route {
    const fn methods(&self) -> Methods {
        let RouteKind::Methods(methods) = self.kind else { panic!("the route accepts every method") };
        methods
    }

    pub(super) const fn and_get(self, endpoint: Endpoint) -> Self {
        let methods = Methods { get: Some(endpoint), ..self.methods() };
        Self { path: self.path, kind: RouteKind::Methods(methods) }
    }

    pub(super) const fn and_put(self, endpoint: Endpoint) -> Self {
        let methods = Methods { put: Some(endpoint), post: Some(endpoint), ..self.methods() };
        Self { path: self.path, kind: RouteKind::Methods(methods) }
    }

    /// For PUT, but not for POST.
    pub(super) const fn and_put_only(self, endpoint: Endpoint) -> Self {
        let methods = Methods { put: Some(endpoint), ..self.methods() };
        Self { path: self.path, kind: RouteKind::Methods(methods) }
    }

    pub(super) const fn and_delete(self, endpoint: Endpoint) -> Self {
        let methods = Methods { delete: Some(endpoint), ..self.methods() };
        Self { path: self.path, kind: RouteKind::Methods(methods) }
    }

    /// What handles requests with a method.
    ///
    /// # Errors
    /// If the route is not built, belongs to Nomad Enterprise, or does not accept the method.
    pub(crate) fn endpoint(&self, method: &Method) -> Result<Endpoint, Error> {
        let methods = match self.kind {
            RouteKind::Methods(methods) => methods,
            RouteKind::Any(endpoint) | RouteKind::Off(_, endpoint) => {
                let is_wrong = matches!(*method, Method::HEAD | Method::OPTIONS);
                return if is_wrong { Err(Error::wrong_method()) } else { Ok(endpoint) };
            }
            RouteKind::NotBuilt(feature) => {
                return Err(Error::not_built(feature.refusal_of(format_args!("{method} {}", self.path))));
            }
            RouteKind::Enterprise => return Err(Error::not_built("Nomad Enterprise only endpoint")),
        };
        let endpoint = match *method {
            Method::GET => methods.get,
            Method::PUT => methods.put,
            Method::POST => methods.post,
            Method::DELETE => methods.delete,
            _ => None,
        };
        endpoint.ok_or_else(Error::wrong_method)
    }

    /// The methods that have a handler. `ANY` stands for every method, and PUT for POST, too.
    #[cfg(test)]
    pub(super) fn handled(&self) -> Vec<&'static str> {
        match self.kind {
            RouteKind::Any(_) => vec!["ANY"],
            RouteKind::Methods(methods) => {
                let post_only = methods.post.filter(|_| methods.put.is_none());
                let all = [
                    ("GET", methods.get),
                    ("PUT", methods.put),
                    ("POST", post_only),
                    ("DELETE", methods.delete),
                ];
                all.into_iter().filter_map(|(method, endpoint)| endpoint.map(|_| method)).collect()
            }
            RouteKind::NotBuilt(_) | RouteKind::Off(..) | RouteKind::Enterprise => Vec::new(),
        }
    }

    /// Values of the `:name` segments in `path`, if the route matches it. A `:name` segment matches any text, including
    /// the empty text and text with slashes.
    pub(super) fn params(&self, path: &str) -> Option<Vec<String>> {
        params(self.path, path)
    }

    /// Values of the `:name` segments if each of them is one of `segments`, which are those of a path.
    pub(super) fn params_of_segments(&self, segments: &[String]) -> Option<Vec<String>> {
        let names: Vec<&str> = self.path.split('/').collect();
        if names.len() != segments.len() {
            return None;
        }
        let mut values = Vec::new();
        for (name, segment) in names.into_iter().zip(segments) {
            if name.starts_with(':') {
                values.push(segment.clone());
            } else if name != segment {
                return None;
            }
        }
        Some(values)
    }
}

fn params(route: &str, path: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = route.split_once(':') else {
        return (route == path).then(Vec::new);
    };
    let path = path.strip_prefix(before)?;
    let after = rest.find('/').map_or("", |end| &rest[end..]);
    // The literal text between this name and the next one.
    let literal = after.split(':').next().unwrap_or_default();
    if after.len() == literal.len() {
        return path.strip_suffix(after).map(|value| vec![value.to_owned()]);
    }
    path.match_indices(literal).find_map(|(at, _)| {
        let mut values = params(after, &path[at..])?;
        values.insert(0, path[..at].to_owned());
        Some(values)
    })
}
