//! Spans of messages, with names and attributes by OpenTelemetry's semantic conventions for messaging.
//!
//! A message has a span only if it is sent within a span. So heartbeats, long polls and the feed make no traces.

use model::{Index, RequestId};
use telemetry::attribute;
use tracing::Span;
use tracing::field::Empty;
use wire::command::Command;
use wire::{Refusal, Subject};

const NATS: &str = "nats";

/// The span of a request, from sending it to its response. Disabled outside of any trace.
pub(crate) fn send(subject: Subject, id: RequestId) -> Span {
    if telemetry::current_trace().is_none() {
        return Span::none();
    }
    let subject = &*subject.to_string();
    let template = Subject::template(subject);
    tracing::info_span!(
        "send",
        otel.name = %format_args!("send {template}"),
        otel.kind = "producer",
        { attribute::MESSAGING_SYSTEM } = NATS,
        { attribute::MESSAGING_OPERATION_NAME } = "send",
        { attribute::MESSAGING_OPERATION_TYPE } = "send",
        { attribute::MESSAGING_DESTINATION_NAME } = subject,
        { attribute::MESSAGING_DESTINATION_TEMPLATE } = (template != subject).then_some(&*template),
        { attribute::MESSAGING_MESSAGE_CONVERSATION_ID } = %id,
        { attribute::MESSAGING_MESSAGE_BODY_SIZE } = Empty,
        { attribute::COMMAND } = Empty,
        { attribute::INDEX } = Empty,
    )
}

/// The span of handling a message.
pub(crate) fn process(subject: &str, id: RequestId, bytes: usize) -> Span {
    let template = Subject::template(subject);
    tracing::info_span!(
        "process",
        otel.name = %format_args!("process {template}"),
        otel.kind = "consumer",
        { attribute::MESSAGING_SYSTEM } = NATS,
        { attribute::MESSAGING_OPERATION_NAME } = "process",
        { attribute::MESSAGING_OPERATION_TYPE } = "process",
        { attribute::MESSAGING_DESTINATION_NAME } = subject,
        { attribute::MESSAGING_DESTINATION_TEMPLATE } = (template != subject).then_some(&*template),
        { attribute::MESSAGING_MESSAGE_CONVERSATION_ID } = %id,
        { attribute::MESSAGING_MESSAGE_BODY_SIZE } = bytes.cast_signed() as i64,
        { attribute::COMMAND } = Empty,
        { attribute::INDEX } = Empty,
    )
}

/// Records the size of a request's body.
pub(crate) fn record_body_size(span: &Span, bytes: usize) {
    span.record(attribute::MESSAGING_MESSAGE_BODY_SIZE, bytes.cast_signed() as i64);
}

/// Records the name of a request's command.
pub(crate) fn record_command(span: &Span, command: &Command) {
    span.record(attribute::COMMAND, command.name());
}

/// Records the index at which a command was carried out.
pub(crate) fn record_index(span: &Span, index: Index) {
    span.record(attribute::INDEX, index.0.cast_signed());
}

/// Records that a request was refused.
pub(crate) fn record_refusal(span: &Span, refusal: &Refusal) {
    telemetry::traces::fail(span, refusal.kind.as_str(), &refusal.message);
}
