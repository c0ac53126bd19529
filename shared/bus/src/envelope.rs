//! The headers of a message: kind, version, request id, deadline and trace context.

use std::time::Duration;

use async_nats::{HeaderMap, HeaderName, HeaderValue, Message};
use model::{RequestId, TraceContext};
use wire::envelope::{
    HEADER_DATABASE, HEADER_DEADLINE_MS, HEADER_KIND, HEADER_REQUEST_ID, HEADER_TRACE, HEADER_VERSION,
};
use wire::{DecodeError, Refusal, Wire};

const KIND: HeaderName = HeaderName::from_static(HEADER_KIND);
const VERSION: HeaderName = HeaderName::from_static(HEADER_VERSION);
const REQUEST_ID: HeaderName = HeaderName::from_static(HEADER_REQUEST_ID);
const DEADLINE_MS: HeaderName = HeaderName::from_static(HEADER_DEADLINE_MS);
const DATABASE: HeaderName = HeaderName::from_static(HEADER_DATABASE);
const TRACE: HeaderName = HeaderName::from_static(HEADER_TRACE);

/// Maximum size of the headers of a message, in bytes. The usual size is some 250.
pub(crate) const HEADERS_BYTES_MAX: usize = 1 << 10;

/// Maximum deadline. A longer deadline counts as this, and so does a missing one.
pub(crate) const DEADLINE_MAX: Duration = Duration::from_secs(600);

/// Headers of a message that expects no response, in the current trace.
pub(crate) fn headers<T: Wire>() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(KIND, T::KIND);
    headers.insert(VERSION, HeaderValue::from(T::VERSION));
    if let Some(trace) = telemetry::current_trace() {
        headers.insert(TRACE, trace.to_string());
    }
    headers
}

/// Adds the headers of a request.
pub(crate) fn add_request_headers(headers: &mut HeaderMap, id: RequestId, remaining: Duration) {
    headers.insert(REQUEST_ID, id.to_string());
    let millis = u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX);
    headers.insert(DEADLINE_MS, HeaderValue::from(millis));
}

/// Adds the header of an announced head that names the applier's database.
pub(crate) fn add_database_header(headers: &mut HeaderMap, address: &str) {
    // A header is one line.
    let address: String = address.chars().filter(|char| !char.is_control()).collect();
    headers.insert(DATABASE, address);
}

fn header(message: &Message, name: HeaderName) -> Option<&str> {
    message.headers.as_ref()?.get(name).map(|value| value.as_str())
}

/// The kind of the message according to its header; empty if the header is missing.
pub(crate) fn kind(message: &Message) -> &str {
    header(message, KIND).unwrap_or_default()
}

fn version(message: &Message) -> u16 {
    header(message, VERSION).and_then(|text| text.parse().ok()).unwrap_or_default()
}

pub(crate) fn request_id(message: &Message) -> Option<RequestId> {
    header(message, REQUEST_ID)?.parse().ok()
}

/// How long the sender waits for a response, counted from the time of sending.
pub(crate) fn deadline(message: &Message) -> Duration {
    let given = header(message, DEADLINE_MS).and_then(|text| text.parse().ok()).map(Duration::from_millis);
    given.map_or(DEADLINE_MAX, |given| given.min(DEADLINE_MAX))
}

/// The address of the applier's database in an announced head.
pub(crate) fn database(message: &Message) -> Option<&str> {
    header(message, DATABASE)
}

pub(crate) fn trace(message: &Message) -> Option<TraceContext> {
    header(message, TRACE)?.parse().ok()
}

pub(crate) fn body<T: Wire>(message: &Message) -> Result<T, DecodeError> {
    wire::decode_message(kind(message), version(message), &message.payload)
}

pub(crate) fn answer<T: Wire>(message: &Message) -> Result<Result<T, Refusal>, DecodeError> {
    wire::decode_answer(kind(message), version(message), &message.payload)
}
