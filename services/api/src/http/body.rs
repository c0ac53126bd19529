//! Request bodies: receiving them within limits, and decoding them (http-api §1.5).

use actix_web::web::{Bytes, Payload};
use serde::de::DeserializeOwned;

use super::Error;
use crate::settings::Limits;

/// Receives a request body.
///
/// # Errors
/// If the body is too large, takes too long to arrive, or ends early.
pub(crate) async fn receive(payload: Payload, limits: &Limits) -> Result<Bytes, Error> {
    let max = limits.request_bytes_max;
    match tokio::time::timeout(limits.request_timeout, payload.to_bytes_limited(max)).await {
        Ok(Ok(Ok(body))) => Ok(body),
        Ok(Ok(Err(error))) => Err(Error::bad_request(format!("cannot receive the request body: {error}"))),
        Ok(Err(_)) => Err(Error::too_large(format!("request body is larger than {max} bytes"))),
        Err(_) => Err(Error::bad_request("the request body did not arrive in time")),
    }
}

/// Decodes a JSON request body.
///
/// # Errors
/// If the body is empty, contains too many objects, or does not have the form of `T`.
pub(crate) fn decode<T: DeserializeOwned>(body: &[u8], limits: &Limits) -> Result<T, Error> {
    if body.is_empty() {
        return Err(Error::bad_request("Request body is empty"));
    }
    // A few bytes of JSON can become a kilobyte of job, so objects are counted before anything is decoded.
    if count_objects(body) > limits.request_objects_max {
        let max = limits.request_objects_max;
        return Err(Error::too_large(format!("request body holds more than {max} objects")));
    }
    api_types::decode::from_slice(body).map_err(|error| Error::bad_request(error.to_string()))
}

/// Counts the opening braces outside of strings. The count is approximate if the input is not valid JSON.
fn count_objects(json: &[u8]) -> usize {
    let (mut count, mut in_text, mut is_escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'{' if !in_text => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use api_types::JobRegisterRequest;

    use super::*;

    fn refusal(body: &str) -> (u16, String) {
        let limits = Limits { request_objects_max: 3, ..Limits::default() };
        let error = decode::<JobRegisterRequest>(body.as_bytes(), &limits).unwrap_err();
        (error.status.as_u16(), error.text)
    }

    #[test]
    fn objects_are_counted_outside_of_texts() {
        assert_eq!(count_objects(br#"{"a{": "\"{{", "b": [{}, {"c": {}}]}"#), 4);
        assert_eq!(count_objects(b"\"{"), 0);
    }

    #[test]
    fn what_cannot_be_decoded_says_where() {
        assert_eq!(refusal(""), (400, "Request body is empty".to_owned()));
        let (status, text) = refusal(r#"{"Job": {"TaskGroups": [{"Count": "x"}]}}"#);
        assert_eq!(status, 400);
        assert!(text.starts_with("Job.TaskGroups[0].Count: invalid type"), "{text}");
        assert_eq!(refusal("{").0, 400);
    }

    #[test]
    fn too_many_objects_are_never_made() {
        let (status, text) = refusal(r#"{"Job": {"TaskGroups": [{}, {}, {}]}}"#);
        assert_eq!((status, text.as_str()), (413, "request body holds more than 3 objects"));
    }
}
