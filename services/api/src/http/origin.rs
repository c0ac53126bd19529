//! Which requests of web browsers are refused (`docs/decisions/0044-requests-of-browsers.md`).
//!
//! A browser sends requests to this server on behalf of any page that its user visits. It names the page's site in `Origin`,
//! and the host under which the page reached this server in `Host`. Pages of other sites may change nothing. A page that has
//! made its own name lead to this machine (DNS rebinding) is of the same site for the browser, so only its `Host` shows it.
//! Clients that are no browsers send no `Origin`.

use std::net::{IpAddr, SocketAddr};

use actix_web::http::Method;
use actix_web::http::header::{HOST, HeaderMap, HeaderValue, ORIGIN, UPGRADE};

use super::Error;

/// Stands for any host or origin in the settings.
const ANY: &str = "*";
/// Where a browser says how the site of a page relates to this server. Pages cannot set it.
const SEC_FETCH_SITE: &str = "sec-fetch-site";
/// The host that a client named to a proxy. Pages of other sites cannot set it without asking this server first.
const FORWARDED_HOST: &str = "x-forwarded-host";
/// Path prefix of the routes that command tasks, and the ends of those that change something whatever the method.
const TASK_ROUTES: &str = "/v1/client/allocation/";
const TASK_COMMANDS: [&str; 2] = ["/restart", "/signal"];

/// Which hosts and origins may be named in requests.
#[derive(Debug, Clone)]
pub(crate) struct Origins {
    hosts: Vec<String>,
    origins: Vec<String>,
    /// Address that the server listens on if only this machine reaches it.
    loopback: Option<SocketAddr>,
}

impl Origins {
    /// For a server that listens on `addr`. `hosts` and `origins` are allowed besides its own.
    pub(crate) fn new(hosts: &[String], origins: &[String], addr: SocketAddr) -> Self {
        let given = |names: &[String]| {
            names
                .iter()
                .map(|name| name.trim().to_ascii_lowercase())
                .filter(|name| !name.is_empty())
                .collect()
        };
        let loopback = Some(addr).filter(|addr| addr.ip().is_loopback());
        Self { hosts: given(hosts), origins: given(origins), loopback }
    }

    /// Checks the headers of a request.
    ///
    /// # Errors
    /// A 403 if the request may come from a page of another site.
    pub(crate) fn check(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Error> {
        self.check_host(headers)?;
        if changes_something(method, path, headers) { self.check_origin(headers) } else { Ok(()) }
    }

    /// The origin of a request if the settings allow it to use the whole API.
    pub(crate) fn allowed<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        self.is_allowed(&text(origin)).then_some(origin)
    }

    /// A server that only this machine reaches has no name by which others know it.
    fn check_host(&self, headers: &HeaderMap) -> Result<(), Error> {
        let Some(addr) = self.loopback else { return Ok(()) };
        for host in headers.get_all(HOST).map(text) {
            let name = host_name(&host);
            let is_known = name.parse::<IpAddr>().is_ok()
                || name == "localhost"
                || name.ends_with(".localhost")
                || self.hosts.iter().any(|allowed| allowed == ANY || allowed == name);
            if !is_known {
                return Err(Error::forbidden(format!(
                    "this server listens on {addr} only and is not known as {name:?}: use localhost or its address, or \
                     allow the name with -http-allowed-hosts (DROVER_HTTP_ALLOWED_HOSTS)"
                )));
            }
        }
        Ok(())
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Error> {
        let refused = |who: &str| {
            Err(Error::forbidden(format!(
                "web pages of {who} may not change anything: allow their origin with -http-allowed-origins \
                 (DROVER_HTTP_ALLOWED_ORIGINS)"
            )))
        };
        let own = [headers.get(HOST), headers.get(FORWARDED_HOST)].map(|value| value.map(text));
        let mut origins = headers.get_all(ORIGIN).map(text).peekable();
        if origins.peek().is_none() {
            let site = headers.get(SEC_FETCH_SITE).map(text);
            return match site.as_deref() {
                Some("cross-site" | "same-site") => refused("other sites"),
                Some(_) | None => Ok(()),
            };
        }
        for origin in origins {
            let authority = origin.split_once("://").map(|(_, authority)| without_default_port(authority));
            let is_own = |host: &Option<String>| {
                host.as_deref().is_some_and(|host| authority == Some(without_default_port(host)))
            };
            if !own.iter().any(is_own) && !self.is_allowed(&origin) {
                return refused(&origin);
            }
        }
        Ok(())
    }

    fn is_allowed(&self, origin: &str) -> bool {
        self.origins.iter().any(|allowed| allowed == ANY || allowed == origin)
    }
}

/// Whether a request may change something. A WebSocket may carry anything.
fn changes_something(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let is_command = path.starts_with(TASK_ROUTES) && TASK_COMMANDS.iter().any(|end| path.ends_with(end));
    let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    !is_read || is_command || headers.contains_key(UPGRADE)
}

/// A header's value in lower case. Hosts and origins have no others than ASCII letters.
fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase()
}

/// The name or address in a `Host` header, without port, brackets and the dot at its end.
fn host_name(host: &str) -> &str {
    if let Some(address) = host.strip_prefix('[') {
        return address.split(']').next().unwrap_or_default();
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

/// A host and port without the port that browsers leave out.
fn without_default_port(authority: &str) -> &str {
    let stripped = [":80", ":443"].iter().find_map(|port| authority.strip_suffix(port));
    stripped.unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderName;

    use super::*;

    const LOOPBACK: &str = "127.0.0.1:4646";

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    /// The status of a request, 200 if it is let through, to a server that allows `ui.lan` and `https://ui.example`.
    fn status(addr: &str, method: &Method, path: &str, pairs: &[(&'static str, &'static str)]) -> u16 {
        let origins =
            Origins::new(&["UI.lan".to_owned()], &["https://ui.example".to_owned()], addr.parse().unwrap());
        origins.check(method, path, &headers(pairs)).map_or_else(|error| error.status.as_u16(), |()| 200)
    }

    fn put(pairs: &[(&'static str, &'static str)]) -> u16 {
        status(LOOPBACK, &Method::PUT, "/v1/jobs", pairs)
    }

    #[test]
    fn clients_that_are_no_browsers_may_do_everything() {
        for host in
            ["127.0.0.1:4646", "localhost:4646", "localhost", "[::1]:4646", "192.168.1.7", "drover.localhost"]
        {
            assert_eq!(put(&[("host", host)]), 200, "{host}");
        }
        assert_eq!(put(&[]), 200);
        for host in ["drover-api.drover.svc.cluster.local:4646", "api", "drover.example"] {
            assert_eq!(status("0.0.0.0:4646", &Method::PUT, "/v1/jobs", &[("host", host)]), 200, "{host}");
        }
    }

    #[test]
    fn pages_of_other_sites_change_nothing() {
        for origin in
            ["https://evil.example", "http://localhost:3000", "http://127.0.0.1:4647", "null", "", "x"]
        {
            assert_eq!(put(&[("host", LOOPBACK), ("origin", origin)]), 403, "{origin}");
            let read = [("host", LOOPBACK), ("origin", origin)];
            assert_eq!(
                status(LOOPBACK, &Method::GET, "/v1/jobs", &read),
                200,
                "its page cannot read the answer"
            );
        }
        for method in [Method::POST, Method::DELETE, Method::PATCH] {
            let pairs = [("host", "api"), ("origin", "https://evil.example")];
            assert_eq!(status("0.0.0.0:4646", &method, "/v1/jobs", &pairs), 403, "{method}");
        }
        assert_eq!(put(&[("host", LOOPBACK), ("sec-fetch-site", "cross-site")]), 403);
        assert_eq!(put(&[("host", LOOPBACK), ("sec-fetch-site", "none")]), 200);
        let socket = [("host", LOOPBACK), ("origin", "https://evil.example"), ("upgrade", "websocket")];
        assert_eq!(status(LOOPBACK, &Method::GET, "/v1/jobs", &socket), 403);
        let foreign = [("host", LOOPBACK), ("origin", "https://evil.example")];
        let restart = "/v1/client/allocation/x/restart";
        assert_eq!(status(LOOPBACK, &Method::GET, restart, &foreign), 403, "a GET restarts tasks as well");
    }

    #[test]
    fn its_own_pages_and_those_that_are_allowed_may() {
        for (host, origin) in [
            ("127.0.0.1:4646", "http://127.0.0.1:4646"),
            ("LOCALHOST:4646", "http://localhost:4646"),
            ("localhost", "http://localhost:80"),
            ("ui.lan", "https://ui.lan"),
            ("localhost", "https://ui.example"),
        ] {
            assert_eq!(put(&[("host", host), ("origin", origin)]), 200, "{host} {origin}");
        }
        let behind_proxy = [
            ("host", "127.0.0.1:4646"),
            ("x-forwarded-host", "drover.example"),
            ("origin", "https://drover.example"),
        ];
        assert_eq!(put(&behind_proxy), 200);
        let any = Origins::new(&["*".to_owned()], &["*".to_owned()], LOOPBACK.parse().unwrap());
        let foreign = headers(&[("host", "evil.example"), ("origin", "null")]);
        assert_eq!(any.check(&Method::PUT, "/v1/jobs", &foreign), Ok(()));
        assert!(any.allowed(&foreign).is_some() && any.allowed(&HeaderMap::new()).is_none());
    }

    #[test]
    fn a_name_that_was_made_to_lead_here_is_refused() {
        for host in
            ["evil.example:4646", "127.0.0.1.evil.example", "localhost.evil.example", "[evil", "x:y", ""]
        {
            assert_eq!(put(&[("host", host)]), 403, "{host}");
            assert_eq!(status(LOOPBACK, &Method::GET, "/v1/jobs", &[("host", host)]), 403, "{host}");
        }
        for host in ["ui.lan", "UI.LAN:4646", "ui.lan."] {
            assert_eq!(put(&[("host", host)]), 200, "{host}");
        }
        let origins = Origins::new(&[], &[], LOOPBACK.parse().unwrap());
        let error = origins.check(&Method::GET, "/", &headers(&[("host", "evil.example")])).unwrap_err();
        assert!(error.text.contains("DROVER_HTTP_ALLOWED_HOSTS"), "{}", error.text);
    }
}
