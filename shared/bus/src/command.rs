//! Commands to the applier, repeated until an applier responds.

use std::time::{Duration, Instant};

use model::RequestId;
use telemetry::clock;
use telemetry::metrics::catalogue::{BUS_COMMAND, BUS_COMMANDS_REPEATED};
use tracing::{Instrument as _, Span};
use wire::Subject;
use wire::command::{Answer, Command, CommandError, Done};
use wire::envelope::COMMAND_BYTES_MAX;

use crate::backoff::backoff;
use crate::call::{Call, RequestError};
use crate::connection::Bus;
use crate::span;

/// Minimum time that one attempt waits for its response.
const TRY_MIN: Duration = Duration::from_secs(2);
/// Maximum time that one attempt waits for its response.
const TRY_MAX: Duration = Duration::from_secs(5);
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// An attempt failed, and may be repeated.
enum Retry {
    /// After a pause.
    Later(String),
    /// Immediately, because the response of this attempt will not arrive.
    Now(&'static str),
}

impl Bus {
    /// Sends a command to the applier, and repeats it under the same id until it gets a response or the time is over.
    ///
    /// # Errors
    /// If the command is refused, cannot be sent, or gets no response `within` that time.
    pub async fn command(&self, command: &Command, within: Duration) -> Result<Done, CommandError> {
        self.command_as(self.new_request_id(), command, within).await
    }

    /// Sends a command under an id of the caller, who may be repeating a command that was already carried out.
    ///
    /// # Errors
    /// As [`Self::command`].
    pub async fn command_as(
        &self,
        id: RequestId,
        command: &Command,
        within: Duration,
    ) -> Result<Done, CommandError> {
        let span = span::send(Subject::Command(self.role()), id);
        span::record_command(&span, command);
        let call = span.in_scope(|| Call::new(self.role(), Subject::Command(self.role()), id, command));
        span::record_body_size(&span, call.bytes());
        let start = clock::monotonic();
        let result = self.repeat(&call, start + within).instrument(span.clone()).await;
        let outcome = match &result {
            Ok(_) => "done",
            Err(CommandError::Refused(_)) => "refused",
            Err(CommandError::Unavailable { .. }) => "unavailable",
            Err(CommandError::Unreadable(_) | CommandError::TooLarge { .. }) => "failed",
        };
        BUS_COMMAND.record_with(start.elapsed().as_secs_f64(), &[outcome]);
        record_outcome(&span, &result);
        result
    }

    /// Sends a command until it gets a response or the deadline is over.
    async fn repeat(&self, call: &Call, deadline: Instant) -> Result<Done, CommandError> {
        if call.bytes() > COMMAND_BYTES_MAX {
            return Err(CommandError::TooLarge { bytes: call.bytes(), max: COMMAND_BYTES_MAX });
        }
        let mut attempt = 0;
        let mut reason = String::new();
        loop {
            let remaining = deadline.saturating_duration_since(clock::monotonic());
            if remaining.is_zero() {
                return Err(CommandError::Unavailable { reason });
            }
            let epoch = self.contact().epoch();
            match self.try_once(call, deadline).await {
                Ok(result) => return result,
                Err(Retry::Now(why)) => reason = why.to_owned(),
                Err(Retry::Later(why)) => {
                    reason = why;
                    let pause = backoff(attempt, PAUSE_MIN, PAUSE_MAX).min(remaining);
                    // A new applier gets the command as soon as it announces itself.
                    let _ = tokio::time::timeout(pause, self.contact().another_applier(epoch)).await;
                }
            }
            attempt += 1;
            BUS_COMMANDS_REPEATED.add(1);
        }
    }

    async fn try_once(&self, call: &Call, deadline: Instant) -> Result<Result<Done, CommandError>, Retry> {
        let remaining = deadline.saturating_duration_since(clock::monotonic());
        let within = rand::random_range(TRY_MIN..=TRY_MAX).min(remaining);
        let (contact, mut link) = (self.contact(), self.link());
        let lost = link.borrow().lost;
        let answer = tokio::select! {
            answer = self.call::<Answer>(call, within, deadline) => answer,
            () = contact.another_applier(contact.epoch()) => return Err(Retry::Now("the applier changed")),
            _ = link.wait_for(|link| link.lost > lost) => return Err(Retry::Now("the connection to NATS was lost")),
        };
        match answer {
            Ok(Answer::Done(done)) => Ok(Ok(done)),
            Ok(Answer::Retry { reason }) => Err(Retry::Later(reason.to_string())),
            Err(RequestError::Refused(refusal)) => Ok(Err(CommandError::Refused(refusal))),
            Err(RequestError::Unreadable(error)) => Ok(Err(CommandError::Unreadable(error))),
            Err(RequestError::TooLarge { bytes, max }) => Ok(Err(CommandError::TooLarge { bytes, max })),
            Err(
                error @ (RequestError::NoResponders | RequestError::TimedOut | RequestError::Disconnected),
            ) => Err(Retry::Later(error.to_string())),
        }
    }
}

/// Records the outcome of a command in its span.
fn record_outcome(span: &Span, outcome: &Result<Done, CommandError>) {
    match outcome {
        Ok(done) => span::record_index(span, done.index),
        Err(CommandError::Refused(refusal)) => span::record_refusal(span, refusal),
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
