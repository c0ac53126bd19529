//! A client of Consul's agent: the part of its HTTP API that is needed here.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Certificate, Client, Identity, Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::registration::Listed;
use crate::node::consul::ConsulSettings;

/// The header with the token.
const TOKEN_HEADER: &str = "x-consul-token";
/// The maximum size of an answer.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// The maximum length of a refusal in messages, in bytes.
const SHOWN_BYTES_MAX: usize = 300;
/// The characters that are not escaped in a path: those of ids.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');

/// Consul's agent.
#[derive(Debug, Clone)]
pub(crate) struct ConsulClient {
    client: Client,
    url: String,
}

/// A check, as Consul's agent lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct ListedCheck {
    pub(super) name: String,
    #[serde(rename = "ServiceID")]
    pub(super) service_id: String,
    pub(super) status: String,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConsulError {
    /// There is no answer.
    #[error("cannot reach Consul at {url}")]
    Unreachable {
        /// The address.
        url: String,
        /// What went wrong. It has no URL, which may contain what is private.
        source: reqwest::Error,
    },
    /// Consul has refused the request.
    #[error("Consul answers {status}: {reason}")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// What Consul says.
        reason: String,
    },
    /// The answer is not as it should be.
    #[error("the answer of Consul cannot be read: {0}")]
    Invalid(String),
}

impl ConsulClient {
    /// A client with these settings.
    ///
    /// # Errors
    /// If a certificate cannot be read, or the token is not valid in a header.
    pub(crate) fn new(settings: &ConsulSettings) -> anyhow::Result<Self> {
        let mut headers = HeaderMap::new();
        if !settings.token.0.is_empty() {
            // The error would show the token.
            let token = HeaderValue::from_str(&settings.token.0);
            let mut token =
                token.ok().context("the token for Consul has characters that no header can have")?;
            token.set_sensitive(true);
            headers.insert(TOKEN_HEADER, token);
        }
        if !settings.auth.0.is_empty() {
            let auth = HeaderValue::from_str(&format!("Basic {}", BASE64.encode(&settings.auth.0)));
            let mut auth = auth.context("user and password for Consul")?;
            auth.set_sensitive(true);
            headers.insert(AUTHORIZATION, auth);
        }
        let mut builder =
            Client::builder().timeout(settings.timeout).no_proxy().default_headers(headers).http1_only();
        if settings.url.starts_with("http://") {
            // The certificates of the system need not be read.
            builder = builder.tls_certs_only(std::iter::empty());
        } else if let Some(file) = &settings.ca_file {
            let certificates = Certificate::from_pem_bundle(&read(file)?);
            let certificates =
                certificates.with_context(|| format!("no certificates in {}", file.display()))?;
            builder = builder.tls_certs_only(certificates);
        }
        if let Some((certificate, key)) = &settings.identity {
            let mut pem = read(certificate)?;
            pem.push(b'\n');
            pem.extend(read(key)?);
            builder = builder.identity(Identity::from_pem(&pem).context("the certificate for Consul")?);
        }
        if settings.skip_verify {
            builder = builder.tls_danger_accept_invalid_certs(true);
        }
        if let Some(socket) = &settings.socket {
            builder = builder.unix_socket(socket.clone());
        }
        let client = builder.build().context("cannot set up the client of Consul")?;
        Ok(Self { client, url: settings.url.clone() })
    }

    /// What Consul's agent says about itself.
    pub(crate) async fn about(&self) -> Result<Value, ConsulError> {
        self.get("/v1/agent/self").await
    }

    /// All services of Consul's agent, by id.
    pub(crate) async fn services(&self) -> Result<BTreeMap<String, Listed>, ConsulError> {
        self.get("/v1/agent/services").await
    }

    /// All checks of Consul's agent, by id.
    pub(super) async fn checks(&self) -> Result<BTreeMap<String, ListedCheck>, ConsulError> {
        self.get("/v1/agent/checks").await
    }

    /// Registers a service. Checks that it had before and that are not in the body are removed.
    pub(crate) async fn register(&self, body: &Value) -> Result<(), ConsulError> {
        let path = "/v1/agent/service/register?replace-existing-checks=true";
        self.call(Method::PUT, path, Some(body)).await.map(|_| ())
    }

    /// Sets the status of a check that Consul does not run.
    pub(super) async fn update_check(&self, id: &str, body: &Value) -> Result<(), ConsulError> {
        let path = format!("/v1/agent/check/update/{}", utf8_percent_encode(id, PATH));
        self.call(Method::PUT, &path, Some(body)).await.map(|_| ())
    }

    /// Removes a service. It may be gone already.
    pub(crate) async fn deregister(&self, id: &str) -> Result<(), ConsulError> {
        let path = format!("/v1/agent/service/deregister/{}", utf8_percent_encode(id, PATH));
        match self.call(Method::PUT, &path, None).await {
            Ok(_) | Err(ConsulError::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ConsulError> {
        let body = self.call(Method::GET, path, None).await?;
        serde_json::from_slice(&body).map_err(|error| ConsulError::Invalid(error.to_string()))
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Vec<u8>, ConsulError> {
        let unreachable = |error: reqwest::Error| ConsulError::Unreachable {
            url: self.url.clone(),
            source: error.without_url(),
        };
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        if let Some(body) = body {
            request = request.json(body);
        }
        let mut response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if answer.len().saturating_add(chunk.len()) > ANSWER_BYTES_MAX {
                return Err(ConsulError::Invalid(format!("it has more than {ANSWER_BYTES_MAX} bytes")));
            }
            answer.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(answer);
        }
        let reason = String::from_utf8_lossy(&answer);
        let reason = reason.trim();
        let shown = &reason[..reason.floor_char_boundary(SHOWN_BYTES_MAX)];
        Err(ConsulError::Refused { status, reason: shown.to_owned() })
    }
}

impl ConsulError {
    /// Whether Consul could be reached.
    pub(crate) fn is_answer(&self) -> bool {
        match self {
            Self::Unreachable { .. } => false,
            Self::Refused { .. } | Self::Invalid(_) => true,
        }
    }
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}
