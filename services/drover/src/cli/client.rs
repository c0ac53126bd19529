//! A client of the HTTP API.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Method, Request, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::flags::Api;

/// The timeout of connecting to a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of requests.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a blocking query waits for a change. The server adds some time to it.
const WAIT: Duration = Duration::from_secs(60);
/// The timeout of blocking queries.
const BLOCKING_QUERY_TIMEOUT: Duration = Duration::from_secs(90);

/// A connection to a cluster's API.
pub(crate) struct Client {
    http: reqwest::Client,
    address: String,
    query: Vec<(&'static str, String)>,
    token: Option<HeaderValue>,
    /// User and password for a proxy in front of the API.
    basic_auth: Option<(String, Option<String>)>,
}

/// Names and values of query parameters.
pub(crate) type Query<'a> = &'a [(&'a str, &'a str)];

impl Client {
    pub(crate) fn new(flags: &Api) -> anyhow::Result<Self> {
        flags.check()?;
        let address = flags.address().trim_end_matches('/').to_owned();
        // An empty variable counts as unset.
        let given = |name, value: &Option<String>| {
            value.clone().filter(|value| !value.is_empty()).map(|value| (name, value))
        };
        let query = [given("namespace", &flags.namespace), given("region", &flags.region)];
        let token = flags.token.as_ref().filter(|token| !token.is_empty());
        let token = token.map(|token| HeaderValue::from_str(token)).transpose();
        let mut token =
            token.context("cannot use the token: it has characters that HTTP headers do not allow")?;
        token.iter_mut().for_each(|token| token.set_sensitive(true));
        let basic_auth = std::env::var("NOMAD_HTTP_AUTH").ok().filter(|basic_auth| !basic_auth.is_empty());
        let basic_auth = basic_auth.map(|basic_auth| match basic_auth.split_once(':') {
            Some((user, password)) => (user.to_owned(), Some(password.to_owned())),
            None => (basic_auth, None),
        });
        let http = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).build()?;
        Ok(Self { http, address, query: query.into_iter().flatten().collect(), token, basic_auth })
    }

    /// The namespace of requests, if it is set.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.parameter("namespace")
    }

    /// The region of requests, if it is set.
    pub(crate) fn region(&self) -> Option<&str> {
        self.parameter("region")
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Directs further requests to a namespace and a region, each of them only if it is given.
    pub(crate) fn select(&mut self, namespace: Option<&str>, region: Option<&str>) {
        for (name, value) in [("namespace", namespace), ("region", region)] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                self.query.retain(|(known, _)| *known != name);
                self.query.push((name, value.to_owned()));
            }
        }
    }

    /// Reads an object.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str, query: Query<'_>) -> Result<T, Error> {
        self.fetch(path, self.request(Method::GET, path, query)?.timeout(REQUEST_TIMEOUT)).await
    }

    /// Reads a page of a list, and the token of the next page if there is one.
    pub(crate) async fn get_page<T: DeserializeOwned>(
        &self,
        path: &str,
        query: Query<'_>,
    ) -> Result<(T, Option<String>), Error> {
        let response = self.send(self.request(Method::GET, path, query)?.timeout(REQUEST_TIMEOUT)).await?;
        let next = header(&response, "x-nomad-nexttoken").map(str::to_owned);
        let bytes = response.bytes().await.map_err(|error| self.unreachable(error))?;
        Ok((decode(path, &bytes)?, next.filter(|token| !token.is_empty())))
    }

    /// Waits until an object is newer than `index`, and reads it with its index. After [`WAIT`], returns the object unchanged.
    pub(crate) async fn wait<T: DeserializeOwned>(&self, path: &str, index: u64) -> Result<(T, u64), Error> {
        self.wait_with(path, &[], index).await
    }

    async fn wait_with<T: DeserializeOwned>(
        &self,
        path: &str,
        query: Query<'_>,
        index: u64,
    ) -> Result<(T, u64), Error> {
        let (index_text, wait) = (index.to_string(), format!("{}s", WAIT.as_secs()));
        let waiting = [("index", index_text.as_str()), ("wait", wait.as_str())];
        let query = [&waiting, query].concat();
        let request = self.request(Method::GET, path, &query)?.timeout(BLOCKING_QUERY_TIMEOUT);
        let response = self.send(request).await?;
        let found = header(&response, "x-nomad-index").and_then(|value| value.parse().ok()).unwrap_or(0);
        let bytes = response.bytes().await.map_err(|error| self.unreachable(error))?;
        // If the index is lower than before, the cluster has been replaced. Start from its beginning.
        let next = if found < index { 0 } else { found };
        Ok((decode(path, &bytes)?, next))
    }

    /// Like [`Self::wait`], for an object in a namespace.
    pub(crate) async fn wait_in<T: DeserializeOwned>(
        &self,
        path: &str,
        namespace: &str,
        index: u64,
    ) -> Result<(T, u64), Error> {
        self.wait_with(path, &[("namespace", namespace)], index).await
    }

    /// Reads a streamed response.
    pub(crate) async fn stream(&self, path: &str, query: Query<'_>) -> Result<Response, Error> {
        self.send(self.request(Method::GET, path, query)?).await
    }

    /// Sends an object.
    pub(crate) async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        self.put_with(path, &[], body).await
    }

    /// Sends an object, with query parameters.
    pub(crate) async fn put_with<T: DeserializeOwned>(
        &self,
        path: &str,
        query: Query<'_>,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        self.fetch(path, self.request(Method::PUT, path, query)?.json(body).timeout(REQUEST_TIMEOUT)).await
    }

    /// Sends a request that has an empty body and an empty response.
    pub(crate) async fn put_empty(&self, path: &str) -> Result<(), Error> {
        self.put_empty_with(path, &[]).await
    }

    /// The same, with query parameters.
    pub(crate) async fn put_empty_with(&self, path: &str, query: Query<'_>) -> Result<(), Error> {
        self.send(self.request(Method::PUT, path, query)?.timeout(REQUEST_TIMEOUT)).await.map(drop)
    }

    /// Sends an object to which there is an empty response.
    pub(crate) async fn put_object(&self, path: &str, body: &impl Serialize) -> Result<(), Error> {
        let request = self.request(Method::PUT, path, &[])?.json(body).timeout(REQUEST_TIMEOUT);
        self.send(request).await.map(drop)
    }

    /// Sends an object by POST.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        self.fetch(path, self.request(Method::POST, path, &[])?.json(body).timeout(REQUEST_TIMEOUT)).await
    }

    /// Sends a request without a body, to which there is an empty response.
    pub(crate) async fn send_empty(&self, method: Method, path: &str) -> Result<(), Error> {
        self.send(self.request(method, path, &[])?.timeout(REQUEST_TIMEOUT)).await.map(drop)
    }

    /// Deletes objects that a body names.
    pub(crate) async fn delete_with<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        self.fetch(path, self.request(Method::DELETE, path, &[])?.json(body).timeout(REQUEST_TIMEOUT)).await
    }

    /// Deletes an object.
    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str, query: Query<'_>) -> Result<T, Error> {
        self.fetch(path, self.request(Method::DELETE, path, query)?.timeout(REQUEST_TIMEOUT)).await
    }

    /// Deletes an object, with an empty response.
    pub(crate) async fn delete_empty(&self, path: &str) -> Result<(), Error> {
        self.send(self.request(Method::DELETE, path, &[])?.timeout(REQUEST_TIMEOUT)).await.map(drop)
    }

    /// Asks the server to use the connection for something else, which the headers name. Returns the response that says so.
    pub(crate) async fn upgrade(
        &self,
        path: &str,
        query: Query<'_>,
        headers: HeaderMap,
    ) -> Result<Response, Error> {
        let request = self.request(Method::GET, path, query)?.headers(headers);
        let response = request.send().await.map_err(|error| self.unreachable(error))?;
        let status = response.status();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        let text = response.text().await.unwrap_or_default();
        Err(Error::Refused { status: status.as_u16(), text: text.trim().to_owned() })
    }

    /// The token of the user; empty if there is none.
    pub(crate) fn token(&self) -> &str {
        self.token.as_ref().and_then(|token| token.to_str().ok()).unwrap_or_default()
    }

    /// Builds an arbitrary request.
    pub(crate) fn build_request(
        &self,
        method: Method,
        path: &str,
        query: Query<'_>,
        headers: HeaderMap,
    ) -> anyhow::Result<Request> {
        let request = self.request(method, path, query)?.headers(headers).build();
        request
            .map_err(reqwest::Error::without_url)
            .with_context(|| format!("cannot build a request for {path:?}"))
    }

    /// Sends a request. Returns the response whatever its status.
    pub(crate) async fn execute(&self, request: Request) -> Result<Response, Error> {
        self.http.execute(request).await.map_err(|error| self.unreachable(error))
    }

    /// Builds a request. Query parameters of the command override those that come from flags.
    fn request(&self, method: Method, path: &str, query: Query<'_>) -> Result<RequestBuilder, Error> {
        if has_dot_segment(path) {
            return Err(Error::DotSegment { path: path.to_owned() });
        }
        let is_set = |(name, _): &&(&str, String)| query.iter().any(|(set_name, _)| set_name == name);
        let flags: Vec<_> = self.query.iter().filter(|pair| !is_set(pair)).collect();
        let mut request =
            self.http.request(method, format!("{}{path}", self.address)).query(query).query(&flags);
        if let Some((user, password)) = &self.basic_auth {
            request = request.basic_auth(user, password.as_ref());
        }
        Ok(match &self.token {
            Some(token) => request.header("X-Nomad-Token", token),
            None => request,
        })
    }

    async fn fetch<T: DeserializeOwned>(&self, path: &str, request: RequestBuilder) -> Result<T, Error> {
        let bytes = self.send(request).await?.bytes().await.map_err(|error| self.unreachable(error))?;
        decode(path, &bytes)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let response = request.send().await.map_err(|error| self.unreachable(error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.text().await.unwrap_or_default();
        Err(Error::Refused { status: status.as_u16(), text: text.trim().to_owned() })
    }

    fn unreachable(&self, source: reqwest::Error) -> Error {
        Error::Unreachable { address: self.address.clone(), source: source.without_url() }
    }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot reach the API at {address}")]
    Unreachable { address: String, source: reqwest::Error },
    #[error("Unexpected response code: {status} ({text})")]
    Refused { status: u16, text: String },
    #[error(
        "cannot request {path}: HTTP clients remove the parts `.` and `..` of a path, so these cannot be ids"
    )]
    DotSegment { path: String },
    #[error("cannot decode the API's response to {path}")]
    Unreadable { path: String, source: api_types::decode::DecodeError },
}

impl Error {
    /// Whether the same request may succeed in a moment.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Error::Unreachable { .. } => true,
            Error::Refused { status, .. } => matches!(status, 429 | 500..=599),
            Error::DotSegment { .. } | Error::Unreadable { .. } => false,
        }
    }
}

/// The text of a header.
fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// Decodes JSON whose keys may be in any letter case, as all clients of this API do.
fn decode<T: DeserializeOwned>(path: &str, body: &[u8]) -> Result<T, Error> {
    api_types::decode::from_slice(body).map_err(|source| Error::Unreadable { path: path.to_owned(), source })
}

/// A segment of a path, with special characters escaped.
pub(crate) fn escaped(part: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    part.bytes()
        .map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Whether a part of a path is `.` or `..`, escaped or not. Without these parts, the path would lead to another object.
fn has_dot_segment(path: &str) -> bool {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    path.split('/').any(|part| matches!(&*part.to_ascii_lowercase().replace("%2e", "."), "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(arguments: &[&str]) -> Client {
        #[derive(clap::Parser)]
        struct Flags {
            #[command(flatten)]
            api: Api,
        }
        let flags = <Flags as clap::Parser>::parse_from(["drover"].iter().chain(arguments));
        Client::new(&flags.api).unwrap()
    }

    #[test]
    fn ids_are_escaped() {
        assert_eq!(escaped("/a/b c?d#e%f"), "%2Fa%2Fb%20c%3Fd%23e%25f");
        assert_eq!(escaped("a-1_x.y~z"), "a-1_x.y~z");
        assert_eq!(escaped("\u{e4}"), "%C3%A4");
    }

    #[test]
    fn paths_that_would_lead_elsewhere_are_refused() {
        for path in
            ["/v1/job/..", "/v1/job/../allocations", "/v1/job/.", "/v1/job/%2E%2e/plan", "/v1/job/.%2e?a=b"]
        {
            assert!(has_dot_segment(path), "{path}");
        }
        for path in ["/v1/job/a%2F..%2Fb", "/v1/job/...", "/v1/job/a..b", "/v1/jobs?prefix=/../x"] {
            assert!(!has_dot_segment(path), "{path}");
        }
    }

    #[test]
    fn requests_go_to_the_selected_namespace_and_region() {
        let mut client = client(&["--address", "http://host:1", "--namespace", "team", "--region", "eu"]);
        let query = |client: &Client| {
            let request = client.build_request(Method::GET, "/v1/jobs", &[], HeaderMap::new()).unwrap();
            request.url().query().unwrap_or_default().to_owned()
        };
        assert_eq!(query(&client), "namespace=team&region=eu");
        client.select(Some("own"), Some(""));
        assert_eq!(query(&client), "region=eu&namespace=own");
        assert_eq!((client.namespace(), client.region()), (Some("own"), Some("eu")));
        client.select(None, Some("us"));
        assert_eq!(query(&client), "namespace=own&region=us");
    }
}
