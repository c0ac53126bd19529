//! How far a stream has been collected, and what of a repeated entry is missing in the files. Pure.

use serde::{Deserialize, Serialize};

use crate::disk::logs::Place;

/// How far a stream has been collected. The engine can repeat its entries from a time on, and several entries may have the
/// same time, so they are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// The time of the last entry, in nanoseconds since 1970.
    pub(super) nanos: i64,
    /// The number of entries with that time so far.
    pub(super) entries: u64,
    /// Where the last entry ends in the files.
    pub(super) place: Place,
}

/// Follows the entries of a stream, and finds those that were written before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cursor {
    position: Position,
    /// Where the engine repeats entries from; `None` when it no longer does.
    repeated: Option<Repeated>,
    /// The number of bytes that are in the files, but not recorded as such: they were written just before a collector was
    /// killed, and are the first that come after the recorded entries.
    surplus: u64,
}

/// The entries that come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Repeated {
    /// All before this time.
    until_nanos: i64,
    /// And so many of this time.
    entries: u64,
}

impl Cursor {
    /// Continues at a recorded position. `surplus` is the number of bytes that are in the files behind it.
    pub(super) fn new(position: Position, surplus: u64) -> Self {
        Self { position, repeated: None, surplus }
    }

    /// The position. Its place is the one at the beginning.
    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// Whether bytes are in the files whose entry has not come again.
    pub(super) fn is_behind(&self) -> bool {
        self.surplus > 0
    }

    /// Expects the entries again, from the time that it returns.
    pub(super) fn resume(&mut self) -> i64 {
        let Position { nanos, entries, .. } = self.position;
        self.repeated = Some(Repeated { until_nanos: nanos, entries });
        nanos
    }

    /// Takes the next entry, and returns the part of it that is not in the files.
    pub(super) fn advance<'a>(&mut self, nanos: i64, entry: &'a [u8]) -> &'a [u8] {
        if let Some(repeated) = &mut self.repeated {
            if nanos < repeated.until_nanos {
                return &[];
            }
            if nanos == repeated.until_nanos && repeated.entries > 0 {
                repeated.entries -= 1;
                return &[];
            }
            if repeated.entries > 0 {
                // The engine has lost entries, and may have lost those that are in the files but not recorded.
                self.surplus = 0;
            }
            // Only new entries follow, even if the clock is set back.
            self.repeated = None;
        }
        if nanos == self.position.nanos {
            self.position.entries += 1;
        } else {
            self.position.nanos = nanos;
            self.position.entries = 1;
        }
        let known = usize::try_from(self.surplus).unwrap_or(usize::MAX).min(entry.len());
        self.surplus -= known as u64;
        &entry[known..]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(number: usize) -> String {
        format!("entry {number}\n")
    }

    proptest! {
        /// A collector is killed at any moment: after any number of entries, in the middle of one, and with a record that is
        /// older than the files.
        #[test]
        fn no_output_is_lost_or_doubled(
            steps in prop::collection::vec(0i64..3, 1..20),
            recorded in 0usize..20,
            written in 0usize..20,
            part in 0usize..8,
            from_earlier in 0i64..3,
        ) {
            let times: Vec<i64> = steps.iter().scan(100, |time, step| { *time += step; Some(*time) }).collect();
            let recorded = recorded.min(times.len());
            let written = written.clamp(recorded, times.len());
            let all: String = (0..times.len()).map(entry).collect();

            let mut first = Cursor::new(Position::default(), 0);
            for (number, time) in times.iter().enumerate().take(recorded) {
                let unwritten = first.advance(*time, entry(number).as_bytes()).to_vec();
                prop_assert_eq!(unwritten, entry(number).into_bytes());
            }
            let recorded_bytes: usize = (0..recorded).map(|number| entry(number).len()).sum();
            let mut file: String = (0..written).map(entry).collect();
            if written < times.len() {
                file.push_str(&entry(written)[..part.min(entry(written).len())]);
            }

            let mut second = Cursor::new(first.position(), (file.len() - recorded_bytes) as u64);
            let from = second.resume() - from_earlier;
            for (number, time) in times.iter().enumerate().filter(|(_, time)| **time >= from) {
                let unwritten = second.advance(*time, entry(number).as_bytes()).to_vec();
                file.push_str(std::str::from_utf8(&unwritten).unwrap());
            }
            prop_assert_eq!(file, all);
        }
    }

    #[test]
    fn new_entries_are_complete_when_the_engine_has_lost_old_ones() {
        let mut cursor = Cursor::new(Position { nanos: 100, entries: 1, ..Position::default() }, 3);
        cursor.resume();
        assert!(cursor.is_behind());
        assert_eq!(cursor.advance(200, b"later"), b"later");
        assert!(!cursor.is_behind());
    }

    #[test]
    fn entries_after_a_clock_was_set_back_are_new() {
        let mut cursor = Cursor::new(Position::default(), 0);
        cursor.advance(100, b"a");
        cursor.resume();
        assert_eq!(cursor.advance(100, b"a"), b"");
        assert_eq!(cursor.advance(101, b"b"), b"b");
        assert_eq!(cursor.advance(50, b"c"), b"c");
        assert_eq!(cursor.position(), Position { nanos: 50, entries: 1, ..Position::default() });
    }
}
