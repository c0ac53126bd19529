//! Cross-origin requests: which routes browsers may call from pages of other sites, and the CORS headers (http-api §1.10).
//! Pages of origins that the settings allow may call every route.

use actix_web::HttpResponse;
use actix_web::http::Method;
use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderMap,
    HeaderValue, ORIGIN, VARY,
};

use super::origin::Origins;

const READS: [Method; 2] = [Method::GET, Method::HEAD];
const READS_AND_WRITES: [Method; 4] = [Method::GET, Method::HEAD, Method::PUT, Method::DELETE];
const ALL: [Method; 5] = [Method::GET, Method::HEAD, Method::PUT, Method::POST, Method::DELETE];

/// What pages of another origin may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Methods that they may use; empty if they may use none.
    methods: &'static [Method],
    /// Origin whose pages may do so.
    origin: HeaderValue,
}

/// What the page that sent a request may do on a path.
pub(crate) fn grant(origins: &Origins, path: &str, headers: &HeaderMap) -> Grant {
    match origins.allowed(headers) {
        Some(origin) => Grant { methods: &ALL, origin: origin.clone() },
        None => Grant { methods: open_methods(path), origin: HeaderValue::from_static("*") },
    }
}

/// Methods that pages of any origin may use on a path.
fn open_methods(path: &str) -> &'static [Method] {
    const BELOW: [&str; 3] = ["/v1/client/fs/", "/v1/client/allocation/", "/v1/client/identity"];
    const EXACT: [&str; 3] = ["/v1/client/stats", "/v1/client/metadata", "/v1/vars"];
    if path.starts_with("/v1/var/") {
        return &READS_AND_WRITES;
    }
    let is_open = EXACT.contains(&path) || BELOW.iter().any(|below| path.starts_with(below));
    if is_open { &READS } else { &[] }
}

impl Grant {
    /// Response to a CORS preflight request; `None` if the request is not one.
    pub(crate) fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<HttpResponse> {
        if method != Method::OPTIONS || self.methods.is_empty() {
            return None;
        }
        let wanted = headers.get(ACCESS_CONTROL_REQUEST_METHOD)?;
        let mut response = HttpResponse::NoContent();
        response.insert_header((
            VARY,
            "Accept-Encoding, Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
        ));
        let is_allowed = self.methods.iter().any(|method| method.as_str().as_bytes() == wanted.as_bytes());
        if is_allowed && headers.contains_key(ORIGIN) {
            response.insert_header((ACCESS_CONTROL_ALLOW_ORIGIN, self.origin.clone()));
            response.insert_header((ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"));
            response.insert_header((ACCESS_CONTROL_ALLOW_METHODS, wanted.clone()));
            // The names are sent back as they were written (http-api §1.10).
            if let Some(names) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
                response.insert_header((ACCESS_CONTROL_ALLOW_HEADERS, names.clone()));
            }
        }
        Some(response.finish())
    }

    /// Adds the headers that let a page of another origin read the response.
    pub(crate) fn allow_origin(self, method: &Method, headers: &HeaderMap, response: &mut HttpResponse) {
        if !headers.contains_key(ORIGIN) || !self.methods.contains(method) {
            return;
        }
        let response_headers = response.headers_mut();
        response_headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, self.origin);
        response_headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        response_headers.insert(VARY, HeaderValue::from_static("Accept-Encoding, Origin"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_routes_are_open_to_pages() {
        for path in ["/v1/client/fs/ls/x", "/v1/client/stats", "/v1/client/identity/renew", "/v1/vars"] {
            assert_eq!(open_methods(path), READS, "{path}");
        }
        assert_eq!(open_methods("/v1/var/a/b"), READS_AND_WRITES);
        for path in ["/v1/jobs", "/v1/agent/self", "/v1/client/gc", "/v1/client/statsx"] {
            assert!(open_methods(path).is_empty(), "{path}");
        }
    }

    #[test]
    fn pages_that_the_settings_allow_may_use_every_route() {
        let ui = "https://ui.example";
        let origins = Origins::new(&[], &[ui.to_owned()], "127.0.0.1:4646".parse().unwrap());
        let grant = |origin: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
            grant(&origins, "/v1/jobs", &headers)
        };
        assert_eq!(
            grant("https://ui.example"),
            Grant { methods: &ALL, origin: HeaderValue::from_static(ui) }
        );
        assert!(grant("https://evil.example").methods.is_empty());
    }
}
