//! A client of the HTTP API that does not use Drover's types: it sends and receives what users do.

use reqwest::{Body, Method, RequestBuilder};
use serde_json::Value;

/// A client of one API. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Api {
    client: reqwest::Client,
    host: String,
}

impl Api {
    /// A client of the API at `host`, which is an address with a port.
    pub fn new(host: String) -> Self {
        Self { client: reqwest::Client::new(), host }
    }

    /// The API's address and port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns a request that is not yet sent.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.host))
    }

    /// Sends a GET request once.
    ///
    /// # Errors
    /// If there is no response, or it reports an error.
    pub async fn try_get(&self, path: &str) -> Result<Value, String> {
        success_body(self.request(Method::GET, path)).await
    }

    /// Sends a GET request.
    ///
    /// # Panics
    /// If there is no successful response.
    pub async fn get(&self, path: &str) -> Value {
        self.try_get(path).await.unwrap_or_else(|error| panic!("GET {path}: {error}"))
    }

    /// Sends a PUT request once.
    ///
    /// # Errors
    /// If there is no response, or it reports an error.
    pub async fn try_put(&self, path: &str, body: &Value) -> Result<Value, String> {
        success_body(self.request(Method::PUT, path).json(body)).await
    }

    /// Sends a PUT request.
    ///
    /// # Panics
    /// If there is no successful response.
    pub async fn put(&self, path: &str, body: &Value) -> Value {
        self.try_put(path, body).await.unwrap_or_else(|error| panic!("PUT {path}: {error}"))
    }

    /// Sends a DELETE request.
    ///
    /// # Panics
    /// If there is no successful response.
    pub async fn delete(&self, path: &str) -> Value {
        success_body(self.request(Method::DELETE, path))
            .await
            .unwrap_or_else(|error| panic!("DELETE {path}: {error}"))
    }

    /// Sends a request and returns the status and the text of the response.
    ///
    /// # Panics
    /// If there is no response.
    pub async fn send(&self, method: Method, path: &str, body: impl Into<Body>) -> (u16, String) {
        let sent = self.request(method.clone(), path).body(body).send().await;
        let response = sent.unwrap_or_else(|error| panic!("{method} {path}: {error:?}"));
        let status = response.status().as_u16();
        (status, response.text().await.unwrap_or_else(|error| panic!("{method} {path}: {error:?}")))
    }
}

async fn success_body(request: RequestBuilder) -> Result<Value, String> {
    let response = request.send().await.map_err(|error| error.to_string())?;
    let status = response.status();
    let body = response.text().await.map_err(|error| error.to_string())?;
    if !status.is_success() {
        return Err(format!("{status}: {body}"));
    }
    serde_json::from_str(&body).map_err(|error| format!("{error}: {body}"))
}

/// The elements of a JSON list, or none if the value is not a list.
pub fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A member that is a string, or the empty string if it does not exist.
pub fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}
