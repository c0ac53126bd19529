//! Commands to the applier, repeated until one is there to answer.

use std::time::{Duration, Instant};

use model::RequestId;
use telemetry::clock;
use telemetry::metrics::catalogue::{BUS_COMMAND, BUS_COMMANDS_REPEATED};
use tracing::Instrument as _;
use wire::command::{Answer, Command, Done};
use wire::envelope::COMMAND_BYTES_MAX;
use wire::{DecodeError, Refusal, Subject};

use crate::backoff::backoff;
use crate::call::{Call, RequestError};
use crate::connection::Bus;
use crate::span;

/// How long one try waits for its answer: some time from here…
const TRY_MIN: Duration = Duration::from_secs(2);
/// …to here.
const TRY_MAX: Duration = Duration::from_secs(5);
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Why a command was not carried out, as far as is known.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It was refused; asking again does not help before something else has changed.
    #[error("refused: {}", .0.message)]
    Refused(Refusal),
    /// No applier answered in time. It may have been carried out nonetheless; the same request id may be sent again.
    #[error("no applier answered in time: {reason}")]
    Unavailable {
        /// What became of the last try.
        reason: String,
    },
    /// The applier answered with something else. It may have been carried out.
    #[error("cannot read the applier's answer")]
    Unreadable(#[source] DecodeError),
    /// The command is too large; nothing was sent.
    #[error("a command of {bytes} bytes; at most {max} can be sent")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// What may be sent.
        max: usize,
    },
}

/// How one try went that may be followed by another.
enum Again {
    /// After a pause.
    Later(String),
    /// At once: what it waited for will not come.
    Now(&'static str),
}

impl Bus {
    /// Sends a command to the applier and repeats it, under the same id, until it is answered or the time is up.
    ///
    /// # Errors
    /// If it is refused, cannot be sent, or is not answered `within` that time.
    pub async fn command(&self, command: &Command, within: Duration) -> Result<Done, CommandError> {
        self.command_as(self.new_request_id(), command, within).await
    }

    /// The same under an id of the caller's, who sends again what may have been carried out already.
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
        span::command(&span, command);
        let call = span.in_scope(|| Call::new(self.role(), Subject::Command(self.role()), id, command));
        span::body(&span, call.bytes());
        let begun = clock::monotonic();
        let settled = self.repeat(&call, begun + within).instrument(span.clone()).await;
        let outcome = match &settled {
            Ok(_) => "done",
            Err(CommandError::Refused(_)) => "refused",
            Err(CommandError::Unavailable { .. }) => "unavailable",
            Err(CommandError::Unreadable(_) | CommandError::TooLarge { .. }) => "failed",
        };
        BUS_COMMAND.record_with(begun.elapsed().as_secs_f64(), &[outcome]);
        span::commanded(&span, &settled);
        settled
    }

    /// Sends a command until it is answered or the deadline is over.
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
                Ok(settled) => return settled,
                Err(Again::Now(why)) => reason = why.to_owned(),
                Err(Again::Later(why)) => {
                    reason = why;
                    let pause = backoff(attempt, PAUSE_MIN, PAUSE_MAX).min(remaining);
                    // A new applier is asked as soon as it is heard of.
                    let _ = tokio::time::timeout(pause, self.contact().another_applier(epoch)).await;
                }
            }
            attempt += 1;
            BUS_COMMANDS_REPEATED.add(1);
        }
    }

    async fn try_once(&self, call: &Call, deadline: Instant) -> Result<Result<Done, CommandError>, Again> {
        let remaining = deadline.saturating_duration_since(clock::monotonic());
        let within = rand::random_range(TRY_MIN..=TRY_MAX).min(remaining);
        let (contact, mut link) = (self.contact(), self.link());
        let lost = link.borrow().lost;
        let answer = tokio::select! {
            answer = self.call::<Answer>(call, within, deadline) => answer,
            () = contact.another_applier(contact.epoch()) => return Err(Again::Now("the applier changed")),
            _ = link.wait_for(|link| link.lost > lost) => return Err(Again::Now("the connection to NATS was lost")),
        };
        match answer {
            Ok(Answer::Done(done)) => Ok(Ok(done)),
            Ok(Answer::Retry { reason }) => Err(Again::Later(reason.to_string())),
            Err(RequestError::Refused(refusal)) => Ok(Err(CommandError::Refused(refusal))),
            Err(RequestError::Unreadable(error)) => Ok(Err(CommandError::Unreadable(error))),
            Err(RequestError::TooLarge { bytes, max }) => Ok(Err(CommandError::TooLarge { bytes, max })),
            Err(
                error @ (RequestError::NoResponders | RequestError::TimedOut | RequestError::Disconnected),
            ) => Err(Again::Later(error.to_string())),
        }
    }
}
