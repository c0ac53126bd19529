//! [`WriteTurn`]: a singleton sends one command at a time, and the next only when it has seen what the last one did, so
//! that nothing is written twice. Pure.

use model::{Index, Nanos, Timestamp};

/// How long a command that failed waits before what is then to be written is tried.
const RETRY_DELAY: Nanos = Nanos::SECOND;

/// Whose turn it is: the singleton's to send a command, the applier's to carry it out, or the feed's to bring it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteTurn(Turn);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// A command may be sent from this moment on.
    From(Timestamp),
    /// One is under way.
    UnderWay,
    /// One was carried out, and what it did comes with the feed at this index.
    Expected(Index),
}

impl Default for WriteTurn {
    /// A command may be sent at once.
    fn default() -> Self {
        Self(Turn::From(Timestamp::UNSET))
    }
}

impl WriteTurn {
    /// From when on a command may be sent; none may while one is under way or expected.
    pub fn from(&self) -> Option<Timestamp> {
        match self.0 {
            Turn::From(moment) => Some(moment),
            Turn::UnderWay | Turn::Expected(_) => None,
        }
    }

    /// A command is sent.
    pub fn begin(&mut self) {
        self.0 = Turn::UnderWay;
    }

    /// It was carried out at `index`; the state is at `seen`.
    pub fn written(&mut self, index: Index, seen: Index) {
        self.0 = Turn::Expected(index);
        self.saw(seen);
    }

    /// Whether it was carried out is not known, or it was not.
    pub fn not_written(&mut self, now: Timestamp) {
        self.0 = Turn::From(now + RETRY_DELAY);
    }

    /// The state is at `index`.
    pub fn saw(&mut self, index: Index) {
        if matches!(self.0, Turn::Expected(expected) if index >= expected) {
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
        let mut turn = WriteTurn::default();
        assert_eq!(turn.from(), Some(Timestamp::UNSET));
        turn.begin();
        turn.saw(Index(8));
        assert_eq!(turn.from(), None, "it is under way");
        turn.written(Index(9), Index(8));
        assert_eq!(turn.from(), None);
        turn.saw(Index(9));
        assert_eq!(turn.from(), Some(Timestamp::UNSET));

        turn.begin();
        turn.written(Index(10), Index(11));
        assert_eq!(turn.from(), Some(Timestamp::UNSET), "it was seen before its answer came");
    }

    #[test]
    fn a_command_that_failed_is_not_tried_again_at_once() {
        let mut turn = WriteTurn::default();
        turn.begin();
        turn.not_written(NOW);
        turn.saw(Index(9));
        assert_eq!(turn.from(), Some(NOW + Nanos::SECOND));
    }
}
