//! Spans of messages, with names and attributes by OpenTelemetry's semantic conventions for messaging.
//!
//! A message has a span only if it is sent within a span. So heartbeats, long polls and the feed make no traces.

use model::RequestId;
use telemetry::attribute;
use tracing::Span;
use tracing::field::Empty;
use wire::command::{Command, Done};
use wire::{Refusal, Subject};

use crate::call::RequestError;
use crate::command::CommandError;

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

/// Records the outcome of a command.
pub(crate) fn record_command_outcome(span: &Span, outcome: &Result<Done, CommandError>) {
    match outcome {
        Ok(done) => drop(span.record(attribute::INDEX, done.index.0.cast_signed())),
        Err(CommandError::Refused(refusal)) => record_refusal(span, refusal),
        Err(error) => {
            let kind = match error {
                CommandError::Refused(_) | CommandError::Unavailable { .. } => "unavailable",
                CommandError::Unreadable(_) => "unreadable",
                CommandError::TooLarge { .. } => "too_large",
            };
            telemetry::traces::fail(span, kind, &telemetry::chain(error));
        }
    }
}

/// Records the outcome of a request.
pub(crate) fn record_outcome<A>(span: &Span, outcome: &Result<A, RequestError>) {
    let Err(error) = outcome else { return };
    let kind = match error {
        RequestError::Refused(refusal) => return record_refusal(span, refusal),
        RequestError::NoResponders => "no_responders",
        RequestError::TimedOut => "timeout",
        RequestError::Disconnected => "disconnected",
        RequestError::Unreadable(_) => "unreadable",
        RequestError::TooLarge { .. } => "too_large",
    };
    telemetry::traces::fail(span, kind, &telemetry::chain(error));
}

/// Records that a request was refused.
pub(crate) fn record_refusal(span: &Span, refusal: &Refusal) {
    telemetry::traces::fail(span, refusal.kind.as_str(), &refusal.message);
}
