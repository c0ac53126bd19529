//! Downloads by HTTP. Redirects are followed here, and not by the client, because each is checked.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Response, StatusCode, Url, redirect};
use telemetry::chain;
use tokio::time::{sleep, timeout};

use super::Fetch;
use super::address::is_refused;

/// The maximum number of redirects of a request.
const REDIRECTS_MAX: u32 = 10;
/// How often a download is tried that fails for a reason that may pass.
const ATTEMPTS_MAX: u32 = 3;
/// The pause before the second attempt. It doubles with each further one.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a server may send nothing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The size of a file of checksums, in bytes.
const TEXT_BYTES_MAX: u64 = 1 << 20;
/// What the requests say of themselves.
const USER_AGENT: &str = "drover";

/// Why a download failed.
struct Failure {
    text: String,
    /// Whether it may pass.
    may_pass: bool,
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self { text, may_pass: false }
    }
}

impl From<reqwest::Error> for Failure {
    /// Without the URL, which may contain secrets.
    fn from(error: reqwest::Error) -> Self {
        Self { text: chain(&error.without_url()), may_pass: true }
    }
}

/// A client for one artifact.
pub(super) struct Client {
    client: reqwest::Client,
    headers: HeaderMap,
    time: Duration,
}

impl Client {
    /// A client with the settings of an artifact. It knows no proxies: the environment of the agent is not that of a job.
    pub(super) fn new(fetch: &Fetch) -> Result<Self, String> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(IDLE_TIMEOUT)
            .user_agent(USER_AGENT)
            .dns_resolver(CheckedNames)
            .tls_danger_accept_invalid_certs(fetch.insecure)
            .build()
            .map_err(|error| format!("cannot make a client: {}", chain(&error)))?;
        Ok(Self { client, headers: headers(&fetch.headers)?, time: fetch.limits.http_time })
    }

    /// Downloads into a file, from its beginning.
    pub(super) async fn download(&self, url: &str, file: &mut File, bytes_max: u64) -> Result<(), String> {
        self.within_time(async {
            let mut pause = RETRY_PAUSE;
            for _ in 1..ATTEMPTS_MAX {
                match self.attempt(url, file, bytes_max).await {
                    Err(failure) if failure.may_pass => sleep(pause).await,
                    outcome => return outcome.map_err(|failure| failure.text),
                }
                pause = pause.saturating_mul(2);
            }
            self.attempt(url, file, bytes_max).await.map_err(|failure| failure.text)
        })
        .await
    }

    async fn attempt(&self, url: &str, file: &mut File, bytes_max: u64) -> Result<(), Failure> {
        let unwritten = |error: std::io::Error| Failure::from(format!("cannot write the file: {error}"));
        file.rewind().and_then(|()| file.set_len(0)).map_err(unwritten)?;
        let mut response = self.request(url).await?;
        let too_large = || Failure::from(format!("the download is larger than {bytes_max} bytes"));
        if response.content_length().is_some_and(|length| length > bytes_max) {
            return Err(too_large());
        }
        let mut left = bytes_max;
        while let Some(chunk) = response.chunk().await? {
            let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
            left = left.checked_sub(length).ok_or_else(too_large)?;
            file.write_all(&chunk).map_err(unwritten)?;
        }
        Ok(())
    }

    /// Downloads a short text.
    pub(super) async fn text(&self, url: &str) -> Result<String, String> {
        self.within_time(async {
            let failed =
                |failure: Failure| format!("cannot download the file of checksums: {}", failure.text);
            let mut response = self.request(url).await.map_err(failed)?;
            let mut text = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|error| failed(error.into()))? {
                text.extend_from_slice(&chunk);
                if u64::try_from(text.len()).unwrap_or(u64::MAX) > TEXT_BYTES_MAX {
                    return Err(format!("the file of checksums is larger than {TEXT_BYTES_MAX} bytes"));
                }
            }
            String::from_utf8(text).map_err(|_| "the file of checksums is no text".to_owned())
        })
        .await
    }

    async fn within_time<T>(&self, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let late = |_| Err(format!("the download took longer than {} seconds", self.time.as_secs()));
        timeout(self.time, work).await.unwrap_or_else(late)
    }

    /// Requests a URL, and follows redirects. The headers of the job go to the host that the job names only.
    async fn request(&self, url: &str) -> Result<Response, Failure> {
        let first: Url = url.parse().map_err(|_| "the source is not a URL".to_owned())?;
        let mut url = first.clone();
        for _ in 0..=REDIRECTS_MAX {
            check(&url)?;
            let mut request = self.client.get(url.clone());
            if url.host() == first.host() && url.port_or_known_default() == first.port_or_known_default() {
                request = request.headers(self.headers.clone());
            }
            let response = request.send().await?;
            let status = response.status();
            if !status.is_redirection() {
                return if status.is_success() { Ok(response) } else { Err(bad_status(status)) };
            }
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let next = location.and_then(|location| url.join(location).ok());
            let next = next.ok_or_else(|| format!("bad response code: {}", status.as_u16()))?;
            if url.scheme() == "https" && next.scheme() != "https" {
                return Err("a redirect leads from https to http".to_owned().into());
            }
            url = next;
        }
        Err(format!("there were more than {REDIRECTS_MAX} redirects").into())
    }
}

fn bad_status(status: StatusCode) -> Failure {
    let may_pass = status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT;
    Failure { text: format!("bad response code: {}", status.as_u16()), may_pass }
}

/// Checks that a URL may be requested. Names are checked when they are looked up.
fn check(url: &Url) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err("a redirect leads to another scheme than http and https".to_owned());
    }
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) if is_refused(address) => Err(refusal(host)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Why nothing is fetched from a host.
pub(super) fn refusal(host: &str) -> String {
    format!("host {host} has an address of the link or of metadata, from which nothing is downloaded")
}

/// The headers of a job.
fn headers(given: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let invalid = || format!("header {} is not valid", model::text::quoted(name));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

/// Looks up names, and refuses those with an address that nothing is fetched from.
struct CheckedNames;

impl Resolve for CheckedNames {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = addresses(name.as_str(), 0).await.map_err(Box::<dyn Error + Send + Sync>::from)?;
            let found: Addrs = Box::new(found.into_iter());
            Ok(found)
        })
    }
}

/// The addresses of a host that may be fetched from.
pub(super) async fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = tokio::net::lookup_host((host, port)).await;
    let found: Vec<SocketAddr> =
        found.map_err(|error| format!("cannot look up host {host}: {error}"))?.collect();
    if found.iter().any(|address| is_refused(address.ip())) {
        return Err(refusal(host));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_link_are_refused() {
        for refused in
            ["http://169.254.169.254/latest", "http://[fe80::1]/", "http://0xa9fea9fe/", "ftp://a/"]
        {
            assert!(check(&refused.parse().unwrap()).is_err(), "{refused}");
        }
        for allowed in ["http://127.0.0.1:1/", "https://example.org/", "http://[::1]/"] {
            assert_eq!(check(&allowed.parse().unwrap()), Ok(()), "{allowed}");
        }
    }
}
