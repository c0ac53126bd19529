//! [`CommandError`]: why a command was not carried out.

use crate::{DecodeError, Refusal};

/// The reason why a command was not carried out, as far as it is known.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The command was refused. Repeating it does not help until something else has changed.
    #[error("refused: {}", .0.message)]
    Refused(Refusal),
    /// No applier responded in time. The command may have been carried out nevertheless; the same request id may be sent
    /// again.
    #[error("no applier responded in time: {reason}")]
    Unavailable {
        /// The failure of the last attempt.
        reason: String,
    },
    /// The response is not the expected message. The command may have been carried out.
    #[error("cannot decode the applier's response")]
    Unreadable(#[source] DecodeError),
    /// The command is too large. Nothing was sent.
    #[error("the command has {bytes} bytes; the maximum is {max}")]
    TooLarge {
        /// Size of the command.
        bytes: usize,
        /// Maximum size.
        max: usize,
    },
}
