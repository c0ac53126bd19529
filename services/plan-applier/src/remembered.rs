//! Which commands were committed, so that a repeat is answered and not carried out again (design §6).
//!
//! Only what changed something is remembered: a refusal, or a command with nothing to do, is safe to judge again. The
//! answers themselves lie in the log.

use std::collections::{HashMap, VecDeque};

use model::{Index, Nanos, RequestId, Timestamp};

/// How long a request id is remembered at least: as long as the log is sure to have its answer. Callers give up after a
/// minute.
pub(crate) const REMEMBERED_FOR: Nanos = store::KEPT_MIN;

/// What is known of a request id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nothing: it is new.
    New,
    /// It was committed at this index.
    Committed(Index),
    /// It is older than what is remembered, so nobody can tell.
    TooOld,
}

/// The request ids of the last minutes.
#[derive(Debug, Default)]
pub struct Remembered {
    indexes: HashMap<RequestId, Index>,
    /// The same, the oldest first.
    by_age: VecDeque<(Timestamp, RequestId)>,
    /// From this moment on, every id that was committed is here.
    since: Timestamp,
}

impl Remembered {
    /// Begins with what the log keeps since `since`, the oldest first.
    pub fn new(since: Timestamp, committed: impl IntoIterator<Item = (RequestId, Index, Timestamp)>) -> Self {
        let mut remembered = Self { since, ..Self::default() };
        committed.into_iter().for_each(|(id, index, at)| remembered.note(id, index, at));
        remembered
    }

    /// A command was committed. Forgets what is old enough.
    pub fn note(&mut self, id: RequestId, index: Index, at: Timestamp) {
        self.indexes.insert(id, index);
        self.by_age.push_back((at, id));
        let until = Timestamp(at.0.saturating_sub(REMEMBERED_FOR.0));
        while let Some((at, id)) = self.by_age.front().copied().filter(|(at, _)| *at < until) {
            self.by_age.pop_front();
            self.indexes.remove(&id);
            self.since = Timestamp(at.0 + 1);
        }
    }

    /// What is known of a request id.
    pub(crate) fn find(&self, id: RequestId) -> Known {
        match self.indexes.get(&id) {
            Some(index) => Known::Committed(*index),
            // A command is committed after its id was made: one made before `since` may be among those forgotten.
            None if made_at(id).is_some_and(|made| made < self.since) => Known::TooOld,
            None => Known::New,
        }
    }
}

/// When a request id was made; `None` for one that is no UUIDv7.
fn made_at(id: RequestId) -> Option<Timestamp> {
    let (secs, nanos) = id.0.get_timestamp()?.to_unix();
    let nanos = i128::from(secs) * 1_000_000_000 + i128::from(nanos);
    i64::try_from(nanos).ok().map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60;

    /// An id made so many seconds after the epoch.
    fn made(secs: i64, number: u8) -> RequestId {
        let millis = u64::try_from(secs * 1000).unwrap();
        RequestId(uuid::Builder::from_unix_timestamp_millis(millis, &[number; 10]).into_uuid())
    }

    #[test]
    fn what_was_committed_is_known_until_it_is_old() {
        let at = |secs| Timestamp::from_secs(secs);
        let first = made(100, 1);
        let mut remembered = Remembered::new(Timestamp::UNSET, [(first, Index(1), at(100))]);
        assert_eq!(remembered.find(first), Known::Committed(Index(1)));
        assert_eq!(remembered.find(made(100, 2)), Known::New);

        remembered.note(made(101, 3), Index(2), at(100 + 10 * MINUTE));
        assert_eq!(remembered.find(first), Known::Committed(Index(1)), "ten minutes are kept");

        remembered.note(made(102, 4), Index(3), at(101 + 10 * MINUTE));
        assert_eq!(remembered.find(first), Known::TooOld);
        assert_eq!(remembered.find(made(100, 2)), Known::TooOld, "it might be among those forgotten");
        assert_eq!(remembered.find(made(101, 2)), Known::New);
    }

    #[test]
    fn ids_from_before_the_log_that_was_read_are_too_old() {
        let remembered = Remembered::new(Timestamp::from_secs(50), []);
        assert_eq!(remembered.find(made(49, 1)), Known::TooOld);
        assert_eq!(remembered.find(made(50, 1)), Known::New);
    }

    #[test]
    fn ids_without_a_time_are_never_too_old() {
        let id = RequestId::from_bytes([7; 16]);
        assert_eq!(Remembered::new(Timestamp::from_secs(50), []).find(id), Known::New);
    }
}
