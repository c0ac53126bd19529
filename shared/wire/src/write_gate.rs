//! [`WriteGate`]: serialises the commands of a singleton. It sends one command at a time, and the next one only after
//! its replica contains the changes of the last one, so that nothing is written twice. Pure.

use model::{Index, Nanos, Timestamp};

/// Delay after a failed command.
const RETRY_DELAY: Nanos = Nanos::SECOND;

/// Whether a singleton may send its next command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteGate(State);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next command may be sent from this time on.
    From(Timestamp),
    /// A command was sent, and its response is outstanding.
    InFlight,
    /// A command was committed at this index, which the replica has not reached yet.
    Expected(Index),
}

impl Default for WriteGate {
    /// A command may be sent immediately.
    fn default() -> Self {
        Self(State::From(Timestamp::UNSET))
    }
}

impl WriteGate {
    /// The time from which the next command may be sent; `None` while a command is in flight or its changes are
    /// outstanding.
    pub fn from(&self) -> Option<Timestamp> {
        match self.0 {
            State::From(moment) => Some(moment),
            State::InFlight | State::Expected(_) => None,
        }
    }

    /// Records that a command is sent.
    pub fn begin(&mut self) {
        self.0 = State::InFlight;
    }

    /// Records that the command was committed at `index`, while the replica is at `seen`.
    pub fn written(&mut self, index: Index, seen: Index) {
        self.0 = State::Expected(index);
        self.saw(seen);
    }

    /// Records that the command was not carried out, or that its outcome is unknown.
    pub fn not_written(&mut self, now: Timestamp) {
        self.0 = State::From(now + RETRY_DELAY);
    }

    /// Records that the replica has reached `index`.
    pub fn saw(&mut self, index: Index) {
        if matches!(self.0, State::Expected(expected) if index >= expected) {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000);

    #[test]
    fn the_next_command_waits_until_the_last_one_is_seen() {
        let mut gate = WriteGate::default();
        assert_eq!(gate.from(), Some(Timestamp::UNSET));
        gate.begin();
        gate.saw(Index(8));
        assert_eq!(gate.from(), None, "it is in flight");
        gate.written(Index(9), Index(8));
        assert_eq!(gate.from(), None);
        gate.saw(Index(9));
        assert_eq!(gate.from(), Some(Timestamp::UNSET));

        gate.begin();
        gate.written(Index(10), Index(11));
        assert_eq!(gate.from(), Some(Timestamp::UNSET), "its changes arrived before its response");
    }

    #[test]
    fn a_command_that_failed_is_not_tried_again_at_once() {
        let mut gate = WriteGate::default();
        gate.begin();
        gate.not_written(NOW);
        gate.saw(Index(9));
        assert_eq!(gate.from(), Some(NOW + Nanos::SECOND));
    }
}
