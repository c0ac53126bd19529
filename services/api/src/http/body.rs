//! Request bodies: receiving them within limits, and decoding them (http-api §1.5).

use std::ops::Deref;

use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap};
use actix_web::web::{Bytes, BytesMut, Payload};
use futures::StreamExt as _;
use serde::de::DeserializeOwned;

use super::Error;
use super::memory::{Memory, Reservation};
use crate::settings::Limits;

/// Maximum memory of all request bodies in flight, with what is decoded from them, in bytes.
pub(crate) const REQUEST_MEMORY_MAX: usize = 512 << 20;
/// Memory that an object of a job takes once it is decoded, in bytes.
const OBJECT_BYTES: usize = 2 << 10;
/// Memory that any other JSON value takes once it is decoded, in bytes.
const VALUE_BYTES: usize = 64;

/// A received request body. Its memory counts as taken until this is dropped, when the request has been answered.
#[derive(Debug, Default)]
pub(crate) struct RequestBody {
    bytes: Bytes,
    size: JsonSize,
    _memory: Reservation,
}

impl Deref for RequestBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// How much a JSON text holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct JsonSize {
    objects: usize,
    /// Values of any kind, members and elements.
    values: usize,
}

impl JsonSize {
    /// Counts what is outside of strings. The counts are approximate if the text is not valid JSON.
    fn of(json: &[u8]) -> Self {
        let (mut size, mut in_text, mut is_escaped) = (Self::default(), false, false);
        for byte in json {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_text => is_escaped = true,
                b'"' => in_text = !in_text,
                _ if in_text => {}
                b'{' => {
                    size.objects += 1;
                    size.values += 1;
                }
                b'[' | b',' => size.values += 1,
                _ => {}
            }
        }
        size
    }

    /// Memory that the decoded values take at most, in bytes. What exceeds the limits is never decoded.
    fn decoded_bytes(self, limits: &Limits) -> usize {
        self.objects.min(limits.request_objects_max) * OBJECT_BYTES
            + self.values.min(limits.request_values_max) * VALUE_BYTES
    }
}

/// Receives a request body.
///
/// # Errors
/// If the body is compressed, is too large, takes too long to arrive, or ends early, or if there is no memory for it.
pub(crate) async fn receive(
    payload: Payload,
    headers: &HeaderMap,
    limits: &Limits,
    memory: &Memory,
) -> Result<RequestBody, Error> {
    check_encoding(headers)?;
    let receiving = collect(payload, headers, limits, memory);
    let received = tokio::time::timeout(limits.request_timeout, receiving).await;
    let (bytes, mut reservation) =
        received.map_err(|_| Error::bad_request("the request body did not arrive in time"))??;
    let size = JsonSize::of(&bytes);
    if !memory.extend(&mut reservation, bytes.len() + size.decoded_bytes(limits)) {
        return Err(out_of_memory());
    }
    Ok(RequestBody { bytes, size, _memory: reservation })
}

/// Bodies are read as they are sent: a compressed one may become a thousand times as large.
fn check_encoding(headers: &HeaderMap) -> Result<(), Error> {
    let mut encodings = headers.get_all(CONTENT_ENCODING);
    let is_plain = encodings.all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if is_plain {
        return Ok(());
    }
    Err(Error::unsupported_encoding("compressed request bodies are not accepted: send the body as it is"))
}

async fn collect(
    mut payload: Payload,
    headers: &HeaderMap,
    limits: &Limits,
    memory: &Memory,
) -> Result<(Bytes, Reservation), Error> {
    let max = limits.request_bytes_max;
    let too_large = || Error::too_large(format!("request body is larger than {max} bytes"));
    let declared = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|declared| declared > max as u64) {
        return Err(too_large());
    }
    let (mut body, mut reservation) = (BytesMut::new(), Reservation::default());
    while let Some(piece) = payload.next().await {
        let piece =
            piece.map_err(|error| Error::bad_request(format!("cannot receive the request body: {error}")))?;
        let bytes = body.len() + piece.len();
        if bytes > max {
            return Err(too_large());
        }
        if !memory.extend(&mut reservation, bytes) {
            return Err(out_of_memory());
        }
        body.extend_from_slice(&piece);
    }
    Ok((body.freeze(), reservation))
}

fn out_of_memory() -> Error {
    Error::overloaded(format!(
        "this server is busy: its memory for request bodies, {} MiB, is taken; try again later",
        REQUEST_MEMORY_MAX >> 20
    ))
}

/// Decodes a JSON request body: the first value in it, of which `null` stands for an object without members.
///
/// # Errors
/// If the body is empty, holds too much, or does not have the form of `T`.
pub(crate) fn decode<T: DeserializeOwned + Default>(body: &RequestBody, limits: &Limits) -> Result<T, Error> {
    if body.is_empty() {
        return Err(Error::bad_request("Request body is empty"));
    }
    // A few bytes of JSON can become a kilobyte of job, and two bytes a value of 32, so both are counted before anything is
    // decoded.
    for (count, max, kind) in [
        (body.size.objects, limits.request_objects_max, "objects"),
        (body.size.values, limits.request_values_max, "values"),
    ] {
        if count > max {
            return Err(Error::too_large(format!("request body holds more than {max} {kind}")));
        }
    }
    let decoded = api_types::decode::first_from_slice::<Option<T>>(body);
    decoded.map(Option::unwrap_or_default).map_err(|error| Error::bad_request(error.to_string()))
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;
    use api_types::JobRegisterRequest;

    use super::*;

    fn body(text: &str) -> RequestBody {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        RequestBody { size: JsonSize::of(&bytes), bytes, _memory: Reservation::default() }
    }

    fn refusal(text: &str) -> (u16, String) {
        let limits = Limits { request_objects_max: 3, request_values_max: 8, ..Limits::default() };
        let error = decode::<JobRegisterRequest>(&body(text), &limits).unwrap_err();
        (error.status.as_u16(), error.text)
    }

    #[test]
    fn objects_and_values_are_counted_outside_of_texts() {
        let size = |text: &str| {
            let JsonSize { objects, values } = JsonSize::of(text.as_bytes());
            (objects, values)
        };
        assert_eq!(size(r#"{"a{": "\"{{,", "b": [{}, {"c": {}}]}"#), (4, 7));
        assert_eq!(size("\"{"), (0, 0));
        assert_eq!(size("[1,1,1]"), (0, 3));
    }

    #[test]
    fn decoding_errors_name_their_place() {
        assert_eq!(refusal(""), (400, "Request body is empty".to_owned()));
        let (status, text) = refusal(r#"{"Job": {"TaskGroups": [{"Count": "x"}]}}"#);
        assert_eq!(status, 400);
        assert!(text.starts_with("Job.TaskGroups[0].Count: invalid type"), "{text}");
        assert_eq!(refusal("{").0, 400);
    }

    #[test]
    fn null_is_an_empty_object_and_the_first_value_counts() {
        let decoded = |text: &str| decode::<JobRegisterRequest>(&body(text), &Limits::default());
        assert_eq!(decoded("null"), Ok(JobRegisterRequest::default()));
        assert_eq!(decoded(r#"{"EvalPriority": 7} x"#).map(|request| request.eval_priority), Ok(Some(7)));
        for text in ["[]", "5", "\"x\"", "{"] {
            assert_eq!(refusal(text).0, 400, "{text}");
        }
    }

    #[test]
    fn too_much_is_never_made() {
        let (status, text) = refusal(r#"{"Job": {"TaskGroups": [{}, {}, {}]}}"#);
        assert_eq!((status, text.as_str()), (413, "request body holds more than 3 objects"));
        let (status, text) = refusal(r#"{"Job": {"Meta": [1,1,1,1,1,1,1]}}"#);
        assert_eq!((status, text.as_str()), (413, "request body holds more than 8 values"));
    }

    #[test]
    fn decoded_objects_are_counted_and_limited() {
        let limits = Limits { request_objects_max: 3, request_values_max: 8, ..Limits::default() };
        let bytes = |text: &str| JsonSize::of(text.as_bytes()).decoded_bytes(&limits);
        assert_eq!(bytes("[1,1]"), 2 * VALUE_BYTES);
        assert_eq!(bytes(&"{".repeat(100)), 3 * OBJECT_BYTES + 8 * VALUE_BYTES);
    }

    #[test]
    fn compressed_bodies_are_refused() {
        let encoded = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(value));
            check_encoding(&headers).err().map(|error| error.status.as_u16())
        };
        assert_eq!((encoded("identity"), encoded("gzip")), (None, Some(415)));
        assert_eq!(check_encoding(&HeaderMap::new()), Ok(()));
    }
}
