//! Cross-origin requests: which routes browsers may call from pages of other sites, and the CORS headers (http-api §1.10).

use actix_web::HttpResponse;
use actix_web::http::Method;
use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderMap,
    HeaderValue, ORIGIN, VARY,
};

const READS: [Method; 2] = [Method::GET, Method::HEAD];
const READS_AND_WRITES: [Method; 4] = [Method::GET, Method::HEAD, Method::PUT, Method::DELETE];

/// Methods that pages of other origins may use on a path; empty if they may use none.
pub(crate) fn methods(path: &str) -> &'static [Method] {
    const BELOW: [&str; 3] = ["/v1/client/fs/", "/v1/client/allocation/", "/v1/client/identity"];
    const EXACT: [&str; 3] = ["/v1/client/stats", "/v1/client/metadata", "/v1/vars"];
    if path.starts_with("/v1/var/") {
        return &READS_AND_WRITES;
    }
    let is_open = EXACT.contains(&path) || BELOW.iter().any(|below| path.starts_with(below));
    if is_open { &READS } else { &[] }
}

/// Response to a CORS preflight request; `None` if the request is not one.
pub(crate) fn preflight(methods: &[Method], method: &Method, headers: &HeaderMap) -> Option<HttpResponse> {
    if method != Method::OPTIONS || methods.is_empty() {
        return None;
    }
    let wanted = headers.get(ACCESS_CONTROL_REQUEST_METHOD)?;
    let mut response = HttpResponse::NoContent();
    response.insert_header((
        VARY,
        "Accept-Encoding, Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
    ));
    let is_allowed = methods.iter().any(|method| method.as_str().as_bytes() == wanted.as_bytes());
    if is_allowed && headers.contains_key(ORIGIN) {
        response.insert_header((ACCESS_CONTROL_ALLOW_ORIGIN, "*"));
        response.insert_header((ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"));
        response.insert_header((ACCESS_CONTROL_ALLOW_METHODS, wanted.clone()));
        if let Some(names) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS)
            && let Ok(names) = HeaderValue::from_bytes(&names.as_bytes().to_ascii_lowercase())
        {
            response.insert_header((ACCESS_CONTROL_ALLOW_HEADERS, names));
        }
    }
    Some(response.finish())
}

/// Adds the headers that let a page of another origin read the response.
pub(crate) fn allow_origin(
    methods: &[Method],
    method: &Method,
    headers: &HeaderMap,
    response: &mut HttpResponse,
) {
    if !headers.contains_key(ORIGIN) || !methods.contains(method) {
        return;
    }
    let response_headers = response.headers_mut();
    response_headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response_headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    response_headers.insert(VARY, HeaderValue::from_static("Accept-Encoding, Origin"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_routes_are_open_to_pages() {
        for path in ["/v1/client/fs/ls/x", "/v1/client/stats", "/v1/client/identity/renew", "/v1/vars"] {
            assert_eq!(methods(path), READS, "{path}");
        }
        assert_eq!(methods("/v1/var/a/b"), READS_AND_WRITES);
        for path in ["/v1/jobs", "/v1/agent/self", "/v1/client/gc", "/v1/client/statsx"] {
            assert!(methods(path).is_empty(), "{path}");
        }
    }
}
