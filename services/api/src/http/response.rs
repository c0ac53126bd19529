//! Responses: a status, a body, and the headers that clients read (http-api §1.6, §1.7, §4).

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, VARY};
use actix_web::web::Bytes;
use model::Index;
use serde::Serialize;

use super::{Body, Content, Error, gzip};

const JSON: &str = "application/json";

const INDEX: &str = "X-Nomad-Index";
const LAST_CONTACT: &str = "X-Nomad-LastContact";
const KNOWN_LEADER: &str = "X-Nomad-KnownLeader";
const NEXT_TOKEN: &str = "X-Nomad-NextToken";

/// Response to a request.
pub(crate) struct Response {
    status: StatusCode,
    body: Body,
    meta: Meta,
}

/// Values of the response headers. A header whose value is `None` is omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Index of the response.
    pub(crate) index: Option<Index>,
    /// Time since the last message of the applier, and whether it is known.
    pub(crate) contact: Option<(Duration, bool)>,
    /// Token of the next page.
    pub(crate) next_token: Option<String>,
}

impl Response {
    /// A 200 without Nomad's headers.
    pub(crate) fn ok(body: Body) -> Self {
        Self { status: StatusCode::OK, body, meta: Meta::default() }
    }

    /// A 200 with a value as JSON.
    pub(crate) fn json(value: &impl Serialize) -> Self {
        Self::ok(Body::json(value))
    }

    /// Response to a write that was committed at an index.
    pub(crate) fn written(value: &impl Serialize, index: Index) -> Self {
        Self::json(value).with(Meta { index: Some(index), ..Meta::default() })
    }

    /// Response without a body to a write that was committed at an index.
    pub(crate) fn done(index: Index) -> Self {
        Self::ok(Body::Empty).with(Meta { index: Some(index), ..Meta::default() })
    }

    /// HTTP status.
    pub(crate) fn status_code(&self) -> StatusCode {
        self.status
    }

    /// Sets the status.
    pub(crate) fn status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Sets the headers.
    pub(crate) fn with(self, meta: Meta) -> Self {
        Self { meta, ..self }
    }

    /// Response for an error.
    pub(crate) fn error(error: Error) -> Self {
        Self { status: error.status, body: Body::text(error.text), meta: Meta::default() }
    }

    /// Builds the HTTP response, indented if `pretty`, and compressed if `compress` and the body is large enough.
    pub(crate) fn into_http(self, pretty: bool, compress: bool) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        response.insert_header((VARY, "Accept-Encoding"));
        let Meta { index, contact, next_token } = self.meta;
        if let Some(index) = index {
            response.insert_header((INDEX, index.to_string()));
        }
        if let Some((ago, is_known)) = contact {
            response.insert_header((LAST_CONTACT, ago.as_millis().to_string()));
            response.insert_header((KNOWN_LEADER, if is_known { "true" } else { "false" }));
        }
        // Ids in a token may contain any UTF-8 characters, which are sent as they are.
        if let Some(token) = next_token.and_then(|token| HeaderValue::from_bytes(token.as_bytes()).ok()) {
            response.insert_header((NEXT_TOKEN, token));
        }
        match self.body {
            Body::Empty => response.finish(),
            Body::Json(bytes) => {
                let bytes = if pretty { indented(bytes) } else { bytes };
                with_body(response.content_type(JSON), bytes.into(), compress)
            }
            Body::Shared(shared) if pretty => {
                with_body(response.content_type(JSON), indented(shared.json.to_vec()).into(), compress)
            }
            Body::Shared(shared) => {
                response.content_type(JSON);
                match compress.then(|| shared.gzipped()).flatten() {
                    Some(smaller) => response.insert_header((CONTENT_ENCODING, "gzip")).body(smaller),
                    None => response.body(shared.json.clone()),
                }
            }
            Body::Other { content_type, bytes } => {
                with_body(response.content_type(content_type), bytes, compress)
            }
            Body::Events(pieces) => {
                response.insert_header((CACHE_CONTROL, "no-cache")).content_type(JSON).streaming(pieces)
            }
            Body::JsonStream(pieces) => response.content_type(JSON).streaming(pieces),
            Body::OtherStream { content_type, pieces } => {
                response.insert_header((CONTENT_TYPE, content_type)).streaming(pieces)
            }
        }
    }
}

impl Content {
    /// The response with these headers.
    pub(crate) fn into_response(self, meta: Meta) -> Response {
        Response::ok(self.body).with(Meta { next_token: self.next_token, ..meta })
    }
}

fn with_body(response: &mut actix_web::HttpResponseBuilder, bytes: Bytes, compress: bool) -> HttpResponse {
    match compress.then(|| gzip(&bytes)).flatten() {
        Some(smaller) => response.insert_header((CONTENT_ENCODING, "gzip")).body(smaller),
        None => response.body(bytes),
    }
}

/// Indents JSON for people: four spaces for each level, and a newline at the end.
fn indented(json: Vec<u8>) -> Vec<u8> {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(&json) else { return json };
    let mut text = Vec::with_capacity(json.len() * 2);
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut writer = serde_json::Serializer::with_formatter(&mut text, formatter);
    match value.serialize(&mut writer) {
        Ok(()) => {
            text.push(b'\n');
            text
        }
        Err(_) => json,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indentation_is_four_spaces_and_a_newline() {
        assert_eq!(
            indented(br#"{"a":[1,{"b":"<"}]}"#.to_vec()),
            b"{\n    \"a\": [\n        1,\n        {\n            \"b\": \"<\"\n        }\n    ]\n}\n"
        );
    }

    #[test]
    fn headers_say_where_an_answer_stands() {
        let meta = Meta {
            index: Some(Index(7)),
            contact: Some((Duration::from_millis(12), false)),
            next_token: Some("a.b".to_owned()),
        };
        let response = Response::json(&1).with(meta).into_http(false, true);
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!(header(INDEX), Some("7"));
        assert_eq!(header(LAST_CONTACT), Some("12"));
        assert_eq!(header(KNOWN_LEADER), Some("false"));
        assert_eq!(header(NEXT_TOKEN), Some("a.b"));
        assert_eq!(header("content-type"), Some(JSON));
        assert_eq!(header("content-encoding"), None, "the body is too small");
        let response = Response::ok(Body::Empty).into_http(false, false);
        assert!(response.headers().get("content-type").is_none());
        assert!(response.headers().get(INDEX).is_none());
    }
}
