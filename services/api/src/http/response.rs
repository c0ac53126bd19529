//! Responses: a status, a body, and the headers that clients read (http-api §1.6, §1.7, §4).

use std::time::Duration;

use actix_web::body::SizedStream;
use actix_web::http::StatusCode;
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
    SEC_WEBSOCKET_ACCEPT, VARY, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::web::Bytes;
use actix_web::{HttpResponse, HttpResponseBuilder};
use model::Index;
use serde::Serialize;

use super::content::{COMPRESSED_INLINE_BYTES_MAX, TEXT};
use super::indent::Indenter;
use super::transfer::{SLICE_BYTES_MAX, slices, transformed};
use super::{Body, Content, Error, Memory, gzip, page_token};

/// Maximum memory of all responses that are in memory as a whole, those of the cache included, in bytes.
pub(crate) const RESPONSE_MEMORY_MAX: usize = 512 << 20;

const JSON: &str = "application/json";
const GZIP: &str = "gzip";
/// What a browser may do with the contents of a job's files (http-api §13).
const SANDBOX: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

const INDEX: &str = "X-Nomad-Index";
const LAST_CONTACT: &str = "X-Nomad-LastContact";
const KNOWN_LEADER: &str = "X-Nomad-KnownLeader";
const NEXT_TOKEN: &str = "X-Nomad-NextToken";

/// Response to a request.
pub(crate) struct Response {
    status: StatusCode,
    body: Body,
    meta: Meta,
    /// Whether clients must not keep the response.
    is_uncached: bool,
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
        Self { status: StatusCode::OK, body, meta: Meta::default(), is_uncached: false }
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

    /// Tells clients not to keep the response.
    pub(crate) fn uncached(self) -> Self {
        Self { is_uncached: true, ..self }
    }

    /// Sets the headers.
    pub(crate) fn with(self, meta: Meta) -> Self {
        Self { meta, ..self }
    }

    /// Response for an error.
    pub(crate) fn error(error: Error) -> Self {
        Self::ok(Body::text(error.text)).status(error.status)
    }

    /// Builds the HTTP response, indented if `pretty`, and compressed if `compress` and the body is large enough. A body that
    /// is in memory as a whole takes its part of `memory` until it has been sent.
    pub(crate) fn into_http(self, pretty: bool, compress: bool, memory: &Memory) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        response.insert_header((VARY, "Accept-Encoding"));
        if self.is_uncached {
            response.insert_header((CACHE_CONTROL, "no-cache"));
        }
        let Meta { index, contact, next_token } = self.meta;
        if let Some(index) = index {
            response.insert_header((INDEX, index.to_string()));
        }
        if let Some((ago, is_known)) = contact {
            response.insert_header((LAST_CONTACT, ago.as_millis().to_string()));
            response.insert_header((KNOWN_LEADER, if is_known { "true" } else { "false" }));
        }
        // Other characters of ids are sent as they are.
        let token = next_token.map(|token| page_token::to_header(&token));
        if let Some(token) = token.and_then(|token| HeaderValue::from_bytes(token.as_bytes()).ok()) {
            response.insert_header((NEXT_TOKEN, token));
        }
        match self.body {
            Body::Empty => response.finish(),
            Body::Json(bytes) => match memory.reserve(bytes.len()) {
                Some(taken) => {
                    whole(response.content_type(JSON), bytes.into(), taken, Format { pretty, compress })
                }
                None => out_of_memory(memory),
            },
            Body::Shared(shared) if pretty => {
                whole(response.content_type(JSON), shared.json.clone(), shared, Format { pretty, compress })
            }
            Body::Shared(shared) => {
                response.content_type(JSON);
                match compress.then(|| shared.gzipped()).flatten() {
                    Some(smaller) => {
                        sliced(response.insert_header((CONTENT_ENCODING, GZIP)), smaller, shared)
                    }
                    None => sliced(&mut response, shared.json.clone(), shared),
                }
            }
            Body::Other { content_type, bytes } => match memory.reserve(bytes.len()) {
                Some(taken) => {
                    let format = Format { pretty: false, compress };
                    whole(response.content_type(content_type), bytes, taken, format)
                }
                None => out_of_memory(memory),
            },
            Body::Events(pieces) => {
                response.insert_header((CACHE_CONTROL, "no-cache")).content_type(JSON).streaming(pieces)
            }
            Body::JsonStream(pieces) if pretty => {
                response.content_type(JSON).streaming(transformed(pieces, true, false))
            }
            Body::JsonStream(pieces) => response.content_type(JSON).streaming(pieces),
            Body::Unsniffed(text) => {
                response.insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff")).content_type(TEXT).body(text)
            }
            Body::Socket { accept, pieces } => {
                response.upgrade("websocket").insert_header((SEC_WEBSOCKET_ACCEPT, accept)).streaming(pieces)
            }
            Body::OtherStream { content_type, is_untrusted, pieces } => {
                if is_untrusted {
                    response.insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"));
                    response.insert_header((CONTENT_SECURITY_POLICY, SANDBOX));
                }
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

/// How a body is sent.
#[derive(Debug, Clone, Copy)]
struct Format {
    pretty: bool,
    compress: bool,
}

/// A response with a body that is in memory as a whole. `keep` is dropped when it has been sent.
fn whole<K: 'static>(
    response: &mut HttpResponseBuilder,
    bytes: Bytes,
    keep: K,
    Format { pretty, compress }: Format,
) -> HttpResponse {
    if pretty && bytes.len() <= SLICE_BYTES_MAX {
        return compressed(response, indented(&bytes).into(), keep, compress);
    }
    if pretty || (compress && bytes.len() > COMPRESSED_INLINE_BYTES_MAX) {
        if compress {
            response.insert_header((CONTENT_ENCODING, GZIP));
        }
        return response.streaming(transformed(slices(bytes, keep), pretty, compress));
    }
    compressed(response, bytes, keep, compress)
}

fn compressed<K: 'static>(
    response: &mut HttpResponseBuilder,
    bytes: Bytes,
    keep: K,
    compress: bool,
) -> HttpResponse {
    match compress.then(|| gzip(&bytes)).flatten() {
        Some(smaller) => sliced(response.insert_header((CONTENT_ENCODING, GZIP)), smaller.into(), keep),
        None => sliced(response, bytes, keep),
    }
}

/// A response whose body is sent in slices if it is long.
fn sliced<K: 'static>(response: &mut HttpResponseBuilder, bytes: Bytes, keep: K) -> HttpResponse {
    if bytes.len() <= SLICE_BYTES_MAX {
        return response.body(bytes);
    }
    response.body(SizedStream::new(bytes.len() as u64, slices(bytes, keep)))
}

fn indented(json: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(json.len() * 2);
    Indenter::default().indent(json, &mut text);
    text.push(b'\n');
    text
}

fn out_of_memory(memory: &Memory) -> HttpResponse {
    Response::error(no_response_memory()).into_http(false, false, memory)
}

/// 503: the memory for responses is taken.
pub(crate) fn no_response_memory() -> Error {
    Error::overloaded(format!(
        "this server is busy: its memory for responses, {} MiB, is taken; try again later",
        RESPONSE_MEMORY_MAX >> 20
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        Memory::new(RESPONSE_MEMORY_MAX)
    }

    #[test]
    fn indentation_is_four_spaces_and_a_newline() {
        assert_eq!(
            indented(br#"{"a":[1,{"b":"<"}]}"#),
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
        let response = Response::json(&1).with(meta).into_http(false, true, &memory());
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!(header(INDEX), Some("7"));
        assert_eq!(header(LAST_CONTACT), Some("12"));
        assert_eq!(header(KNOWN_LEADER), Some("false"));
        assert_eq!(header(NEXT_TOKEN), Some("a.b"));
        assert_eq!(header("content-type"), Some(JSON));
        assert_eq!(header("content-encoding"), None, "the body is too small");
        let response = Response::ok(Body::Empty).into_http(false, false, &memory());
        assert!(response.headers().get("content-type").is_none());
        assert!(response.headers().get(INDEX).is_none());
    }

    #[test]
    fn a_long_body_takes_memory_until_it_has_been_sent() {
        let memory = Memory::new(1 << 20);
        let response = |pretty, compress| {
            Response::ok(Body::Json(vec![b' '; 600 << 10])).into_http(pretty, compress, &memory)
        };
        for (pretty, compress) in [(false, false), (true, false), (true, true)] {
            let sent = response(pretty, compress);
            assert_eq!(sent.status(), StatusCode::OK);
            let refused = response(pretty, compress);
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "pretty {pretty}, gzip {compress}");
            drop(sent);
        }
        assert_eq!(response(false, false).status(), StatusCode::OK);
    }
}
