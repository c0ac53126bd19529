//! A client of the HTTP API that knows nothing of Drover's types: what it reads and writes is what users do.

use reqwest::{Body, Method, RequestBuilder};
use serde_json::Value;

/// A client of one API; clones share their connections.
#[derive(Debug, Clone)]
pub struct Api {
    client: reqwest::Client,
    host: String,
}

impl Api {
    /// A client of the API on `host`, which is an address with a port.
    pub fn new(host: String) -> Self {
        Self { client: reqwest::Client::new(), host }
    }

    /// Its address and port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// A request that is still to be sent.
    pub fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.host))
    }

    /// Asks once.
    ///
    /// # Errors
    /// If there is no answer, or not a good one.
    pub async fn try_get(&self, path: &str) -> Result<Value, String> {
        good(self.ask(Method::GET, path)).await
    }

    /// Asks.
    ///
    /// # Panics
    /// If there is no good answer.
    pub async fn get(&self, path: &str) -> Value {
        self.try_get(path).await.unwrap_or_else(|error| panic!("GET {path}: {error}"))
    }

    /// Sends something once.
    ///
    /// # Errors
    /// If there is no answer, or not a good one.
    pub async fn try_put(&self, path: &str, body: &Value) -> Result<Value, String> {
        good(self.ask(Method::PUT, path).json(body)).await
    }

    /// Sends something.
    ///
    /// # Panics
    /// If there is no good answer.
    pub async fn put(&self, path: &str, body: &Value) -> Value {
        self.try_put(path, body).await.unwrap_or_else(|error| panic!("PUT {path}: {error}"))
    }

    /// Deletes something.
    ///
    /// # Panics
    /// If there is no good answer.
    pub async fn delete(&self, path: &str) -> Value {
        good(self.ask(Method::DELETE, path)).await.unwrap_or_else(|error| panic!("DELETE {path}: {error}"))
    }

    /// The status and the text that are answered to whatever is sent.
    ///
    /// # Panics
    /// If nothing is answered.
    pub async fn send(&self, method: Method, path: &str, body: impl Into<Body>) -> (u16, String) {
        let sent = self.ask(method.clone(), path).body(body).send().await;
        let response = sent.unwrap_or_else(|error| panic!("{method} {path}: {error:?}"));
        let status = response.status().as_u16();
        (status, response.text().await.unwrap_or_else(|error| panic!("{method} {path}: {error:?}")))
    }
}

async fn good(request: RequestBuilder) -> Result<Value, String> {
    let response = request.send().await.map_err(|error| error.to_string())?;
    let status = response.status();
    let body = response.text().await.map_err(|error| error.to_string())?;
    if !status.is_success() {
        return Err(format!("{status}: {body}"));
    }
    serde_json::from_str(&body).map_err(|error| format!("{error}: {body}"))
}

/// The elements of a list; none of what is no list.
pub fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A member that is a text; empty where it is not there.
pub fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}
