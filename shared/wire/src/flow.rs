//! Numbers, credit and signs of life of a session between two processes ([`exec`](crate::exec)). Pure: the time comes from
//! the caller.
//!
//! Each side has a [`Flow`]. It numbers what it sends and checks the numbers of what it receives, so that a lost message
//! is noticed. It may have [`WINDOW_BYTES`] of data on the way, and gets credit back when the other side has passed the
//! data on. So neither side keeps more than that in memory for a slow receiver, and NATS drops nothing for it.

use std::time::{Duration, Instant};

/// Maximum size of the data that is on the way in one direction, in bytes: sent, and not taken by the receiver yet.
pub const WINDOW_BYTES: u64 = 1 << 20;
/// Maximum size of the data in one message, in bytes.
pub const DATA_BYTES_MAX: usize = 32 << 10;
/// What a message costs beyond its data, in bytes of credit. It limits the number of messages on the way.
pub const MESSAGE_COST: u64 = 64;
/// Maximum number of messages with data that are on the way in one direction.
pub const MESSAGES_MAX: usize = (WINDOW_BYTES / MESSAGE_COST) as usize;
/// A receiver gives credit back when it has taken this much, in bytes.
const GRANT_BYTES_MIN: u64 = WINDOW_BYTES / 4;
/// How often a side that has nothing to say says that it is alive.
pub const ALIVE_EVERY: Duration = Duration::from_secs(3);
/// A side that hears nothing of the other one for this long ends the session.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);

/// One side of a session.
#[derive(Debug)]
pub struct Flow {
    next_sent: u64,
    next_received: u64,
    /// How much data this side may still send, in bytes.
    credit: u64,
    /// Data that was received, and not taken yet, in bytes of credit.
    held: u64,
    /// Data that was taken, and for which no credit was given back yet.
    taken: u64,
    spoke: Instant,
    heard: Instant,
}

/// Why a session cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A message is missing.
    #[error("a message of the session was lost (expected number {expected}, received {received})")]
    Lost {
        /// The next number.
        expected: u64,
        /// The number that was received.
        received: u64,
    },
    /// The other side sent more data than it may, or gave back more credit than there is.
    #[error("the other side does not keep to the credit of the session")]
    Overrun,
    /// The other side has not been heard for [`SILENCE_MAX`].
    #[error("nothing was heard from the other side for {} seconds", SILENCE_MAX.as_secs())]
    Silent,
}

impl Flow {
    /// A session that begins now.
    pub fn new(now: Instant) -> Self {
        Self {
            next_sent: 0,
            next_received: 0,
            credit: WINDOW_BYTES,
            held: 0,
            taken: 0,
            spoke: now,
            heard: now,
        }
    }

    /// Returns the number of the next message to send.
    pub fn number(&mut self, now: Instant) -> u64 {
        self.spoke = now;
        let number = self.next_sent;
        self.next_sent += 1;
        number
    }

    /// Maximum size of the data in the next message; `None` if no data may be sent before the other side gives credit.
    pub fn room(&self) -> Option<usize> {
        let bytes = self.credit.checked_sub(MESSAGE_COST).filter(|bytes| *bytes > 0)?;
        Some(usize::try_from(bytes).unwrap_or(usize::MAX).min(DATA_BYTES_MAX))
    }

    /// Uses credit for a message with data of this size, which must not exceed [`Self::room`].
    pub fn spend(&mut self, bytes: usize) {
        debug_assert!(self.room().is_some_and(|room| bytes <= room), "{bytes} of {:?}", self.room());
        self.credit = self.credit.saturating_sub(cost(bytes));
    }

    /// Adds credit that the other side has given back.
    ///
    /// # Errors
    /// If there is more credit then than in the beginning.
    pub fn granted(&mut self, bytes: u64) -> Result<(), Broken> {
        let credit = self.credit.checked_add(bytes).filter(|credit| *credit <= WINDOW_BYTES);
        self.credit = credit.ok_or(Broken::Overrun)?;
        Ok(())
    }

    /// Checks the number of a message that was received.
    ///
    /// # Errors
    /// If a message before it was lost.
    pub fn received(&mut self, number: u64, now: Instant) -> Result<(), Broken> {
        if number != self.next_received {
            return Err(Broken::Lost { expected: self.next_received, received: number });
        }
        self.next_received += 1;
        self.heard = now;
        Ok(())
    }

    /// Records that a message with data of this size was received.
    ///
    /// # Errors
    /// If the other side had no credit for it.
    pub fn hold(&mut self, bytes: usize) -> Result<(), Broken> {
        self.held += cost(bytes);
        let is_within = bytes <= DATA_BYTES_MAX && self.held + self.taken <= WINDOW_BYTES;
        if is_within { Ok(()) } else { Err(Broken::Overrun) }
    }

    /// Records that a message with data of this size was passed on. Returns the credit to give back now, if it is worth a
    /// message.
    pub fn take(&mut self, bytes: usize) -> Option<u64> {
        self.held = self.held.saturating_sub(cost(bytes));
        self.taken += cost(bytes);
        (self.taken >= GRANT_BYTES_MIN).then(|| std::mem::take(&mut self.taken))
    }

    /// Whether this side has to say that it is alive.
    pub fn is_alive_due(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.spoke) >= ALIVE_EVERY
    }

    /// Checks when the other side was last heard.
    ///
    /// # Errors
    /// If that is too long ago.
    pub fn check_silence(&self, now: Instant) -> Result<(), Broken> {
        let silence = now.saturating_duration_since(self.heard);
        if silence < SILENCE_MAX { Ok(()) } else { Err(Broken::Silent) }
    }
}

/// The credit that a message with data of this size uses.
fn cost(bytes: usize) -> u64 {
    bytes as u64 + MESSAGE_COST
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any time will do for a beginning")]
mod tests {
    use std::collections::VecDeque;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Step {
        /// Send as much as this, as far as credit allows.
        Send(usize),
        /// The receiver gets the next message.
        Deliver,
        /// The receiver passes on the oldest data.
        Take,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0_usize..2 * DATA_BYTES_MAX).prop_map(Step::Send),
            Just(Step::Deliver),
            Just(Step::Take),
        ];
        vec(step, 0..2_000)
    }

    /// A message on the way: its number, and the size of its data or the credit that it gives back.
    type Message = (u64, Result<usize, u64>);

    /// Two sides, and what is on the way from the first to the second and back.
    struct Pair {
        now: Instant,
        sender: Flow,
        receiver: Flow,
        there: VecDeque<Message>,
        back: VecDeque<Message>,
        held: VecDeque<usize>,
    }

    impl Pair {
        fn new() -> Self {
            let now = Instant::now();
            Self {
                now,
                sender: Flow::new(now),
                receiver: Flow::new(now),
                there: VecDeque::new(),
                back: VecDeque::new(),
                held: VecDeque::new(),
            }
        }

        fn step(&mut self, step: Step) -> Result<(), Broken> {
            match step {
                Step::Send(bytes) => {
                    if let Some(room) = self.sender.room() {
                        let bytes = bytes.min(room);
                        self.sender.spend(bytes);
                        self.there.push_back((self.sender.number(self.now), Ok(bytes)));
                    }
                }
                Step::Deliver => {
                    if let Some((number, Ok(bytes))) = self.there.pop_front() {
                        self.receiver.received(number, self.now)?;
                        self.receiver.hold(bytes)?;
                        self.held.push_back(bytes);
                    }
                    if let Some((number, Err(credit))) = self.back.pop_front() {
                        self.sender.received(number, self.now)?;
                        self.sender.granted(credit)?;
                    }
                }
                Step::Take => {
                    let credit = self.held.pop_front().and_then(|bytes| self.receiver.take(bytes));
                    if let Some(credit) = credit {
                        self.back.push_back((self.receiver.number(self.now), Err(credit)));
                    }
                }
            }
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn no_more_is_on_the_way_than_the_window_and_it_always_continues(steps in steps()) {
            let mut pair = Pair::new();
            for step in steps {
                prop_assert_eq!(pair.step(step), Ok(()));
                let there: u64 = pair.there.iter().filter_map(|(_, data)| data.ok()).map(cost).sum();
                let held: u64 = pair.held.iter().copied().map(cost).sum();
                prop_assert!(there + held <= WINDOW_BYTES);
                prop_assert!(pair.there.len() + pair.held.len() <= MESSAGES_MAX);
            }
            while !(pair.there.is_empty() && pair.held.is_empty() && pair.back.is_empty()) {
                prop_assert_eq!(pair.step(Step::Deliver), Ok(()));
                prop_assert_eq!(pair.step(Step::Take), Ok(()));
            }
            prop_assert!(pair.sender.room().is_some(), "all was taken, so more may be sent");
        }

        #[test]
        fn a_lost_message_is_noticed_at_the_next_one(sent in 2_usize..50, lost in 0_usize..49) {
            let mut pair = Pair::new();
            let lost = lost.min(sent - 2);
            for _ in 0..sent {
                pair.step(Step::Send(1)).unwrap();
            }
            pair.there.remove(lost);
            for _ in 0..lost {
                prop_assert_eq!(pair.step(Step::Deliver), Ok(()));
            }
            let expected = Broken::Lost { expected: lost as u64, received: lost as u64 + 1 };
            prop_assert_eq!(pair.step(Step::Deliver), Err(expected));
        }
    }

    #[test]
    fn a_side_that_does_not_keep_to_the_credit_is_noticed() {
        let now = Instant::now();
        let mut flow = Flow::new(now);
        assert_eq!(flow.granted(1), Err(Broken::Overrun), "nothing was spent");
        assert_eq!(flow.hold(DATA_BYTES_MAX + 1), Err(Broken::Overrun), "a message is too large");
        let mut flow = Flow::new(now);
        let outcomes: Vec<_> = (0..=MESSAGES_MAX).map(|_| flow.hold(0)).collect();
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_err()).count(), 1, "one message too many");
    }

    #[test]
    fn silence_is_noticed_in_time() {
        let now = Instant::now();
        let mut flow = Flow::new(now);
        assert!(!flow.is_alive_due(now) && flow.is_alive_due(now + ALIVE_EVERY));
        flow.number(now + ALIVE_EVERY);
        assert!(!flow.is_alive_due(now + ALIVE_EVERY));
        assert_eq!(flow.check_silence(now + SILENCE_MAX), Err(Broken::Silent));
        flow.received(0, now + ALIVE_EVERY).unwrap();
        assert_eq!(flow.check_silence(now + SILENCE_MAX), Ok(()));
    }
}
