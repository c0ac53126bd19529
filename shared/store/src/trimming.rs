//! What of the log is kept, and when a part of it ends (design §4, *Trimming*). Pure: facts in, what to do out.
//!
//! A part goes when the object tables have all of it, and its newest change set is old enough; or, if the log is larger
//! than it may be, no longer needed to remember requests by. If even that does not make it small enough, the applier is
//! to take no more commands for a while.

use model::{Index, Nanos, Timestamp};

use crate::partitions::{AHEAD, Part, Place};

/// The log always goes back this far, for requests are remembered by it and a load reads it (design §6).
pub const KEPT_MIN: Nanos = Nanos::from_mins(10);
/// A part ends with this share of the time or the bytes that are kept, so that what is kept is about what was asked for.
const PARTS: u64 = 16;

/// How much of the log is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// How far it goes back.
    pub(crate) keep: Nanos,
    /// The most bytes, at the cost of `keep`.
    pub(crate) bytes_max: u64,
}

/// How the log stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSize {
    /// What it takes of the disk.
    pub bytes: u64,
    /// The tables that it consists of, those on their way out and those ahead among them.
    pub parts: usize,
    /// Those that should have been taken away, but which somebody still reads.
    pub held_up: usize,
    /// The cluster's time at its oldest change set; unset if there is none.
    pub oldest: Timestamp,
    /// What has to be kept is more than there may be: no more commands until some of it is older.
    pub is_full: bool,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Whether the part that commits go to ends.
    pub(crate) end: bool,
    /// The parts that are to be taken away, as they should be tried.
    pub(crate) due: Vec<Part>,
    /// Whether what is kept is too much.
    pub(crate) is_full: bool,
}

/// Decides on `parts`, which are in the order of their numbers. `now` is the cluster's time.
pub(crate) fn decide(
    parts: &[Part],
    current: u64,
    projected: Index,
    now: Timestamp,
    limits: Limits,
) -> Decision {
    let (attached, mut due): (Vec<Part>, Vec<Part>) =
        parts.iter().partition(|part| part.place == Place::Attached);
    due.retain(|part| part.number < current);
    // No other part can be detached before the one that was begun; those that are already may hang on something else.
    due.sort_by_key(|part| part.place == Place::Detaching);

    let mut bytes: u64 = attached.iter().map(|part| part.bytes).sum();
    for part in attached.iter().filter(|part| part.number < current) {
        let goes = part.span.is_none_or(|span| {
            let age = now - span.last_at;
            let is_due = age >= limits.keep || (age >= KEPT_MIN && bytes > limits.bytes_max);
            is_due && span.last <= projected
        });
        if !goes {
            break;
        }
        bytes -= part.bytes;
        due.push(*part);
    }

    let next_is_there = |number| attached.iter().any(|part| part.number == number);
    let end = attached.iter().find(|part| part.number == current).is_some_and(|part| {
        let is_old =
            part.span.is_some_and(|span| (now - span.first_at).0 >= limits.keep.0 / PARTS.cast_signed());
        let is_big = part.span.is_some() && part.bytes >= limits.bytes_max / PARTS;
        is_old || is_big
    });
    Decision {
        end: end && (current + 1..=current + AHEAD).all(next_is_there),
        due,
        is_full: bytes > limits.bytes_max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partitions::Span;

    const MIB: u64 = 1 << 20;
    const HOUR: Limits = Limits { keep: Nanos::from_hours(1), bytes_max: 160 * MIB };

    fn minute(minute: i64) -> Timestamp {
        Timestamp::from_secs(1_000_000 + 60 * minute)
    }

    /// A part of 10 MiB with the change sets of these minutes, ten indexes a part.
    fn part(number: u64, from: i64, to: i64) -> Part {
        let span = Span { first_at: minute(from), last_at: minute(to), last: Index(10 * number) };
        Part { number, place: Place::Attached, bytes: 10 * MIB, span: Some(span) }
    }

    fn empty(number: u64) -> Part {
        Part { number, place: Place::Attached, bytes: 0, span: None }
    }

    fn at(place: Place, part: Part) -> Part {
        Part { place, ..part }
    }

    fn due(parts: &[Part], current: u64, projected: u64, now: i64, limits: Limits) -> Vec<u64> {
        let decision = decide(parts, current, Index(projected), minute(now), limits);
        decision.due.iter().map(|part| part.number).collect()
    }

    #[test]
    fn what_is_older_than_is_kept_goes_once_it_is_projected() {
        let parts = [part(1, 0, 4), part(2, 5, 9), part(3, 10, 70)];
        assert_eq!(due(&parts, 3, 30, 63, HOUR), [0; 0]);
        assert_eq!(due(&parts, 3, 30, 64, HOUR), [1]);
        assert_eq!(due(&parts, 3, 30, 69, HOUR), [1, 2]);
        assert_eq!(due(&parts, 3, 30, 999, HOUR), [1, 2], "never the one that commits go to");
        assert_eq!(due(&parts, 3, 19, 999, HOUR), [1], "nothing that is not projected");
        assert_eq!(due(&parts, 3, 9, 999, HOUR), [0; 0]);
    }

    #[test]
    fn a_log_that_is_too_large_goes_back_less_far_but_ten_minutes_always() {
        let parts = [part(1, 0, 4), part(2, 5, 9), part(3, 10, 14), part(4, 15, 19)];
        let small = |bytes_max| Limits { bytes_max, ..HOUR };
        assert_eq!(due(&parts, 4, 40, 20, small(40 * MIB)), [0; 0], "just so large");
        assert_eq!(due(&parts, 4, 40, 20, small(39 * MIB)), [1]);
        assert_eq!(due(&parts, 4, 40, 20, small(MIB)), [1, 2], "the third is only six minutes old");
        assert_eq!(due(&parts, 4, 40, 24, small(MIB)), [1, 2, 3]);
        assert_eq!(due(&parts, 4, 15, 24, small(MIB)), [1], "nothing that is not projected");
    }

    #[test]
    fn there_are_no_more_commands_while_what_must_be_kept_is_too_much() {
        let parts = [part(1, 0, 4), part(2, 5, 9), part(3, 10, 14)];
        let is_full = |now, projected, bytes_max| {
            decide(&parts, 3, Index(projected), minute(now), Limits { bytes_max, ..HOUR }).is_full
        };
        assert!(!is_full(14, 30, 30 * MIB));
        assert!(is_full(13, 30, 29 * MIB));
        assert!(!is_full(14, 30, 29 * MIB), "the first is ten minutes old, and goes");
        assert!(is_full(14, 9, 29 * MIB), "it would go, but for the projection");
    }

    #[test]
    fn whoever_holds_up_what_is_due_holds_up_no_command() {
        let bytes_max = 15 * MIB;
        let limits = Limits { bytes_max, ..HOUR };
        let parts = [
            at(Place::Detached, Part { span: None, ..part(1, 0, 4) }),
            at(Place::Detaching, Part { span: None, ..part(2, 5, 9) }),
            part(3, 10, 14),
            part(4, 15, 19),
        ];
        let decision = decide(&parts, 4, Index(40), minute(30), limits);
        assert!(!decision.is_full, "only the fourth has to be kept");
        assert_eq!(due(&parts, 4, 40, 30, limits), [1, 2, 3]);
        let parts =
            [at(Place::Detaching, part(1, 0, 4)), at(Place::Detached, part(2, 5, 9)), part(3, 10, 14)];
        assert_eq!(due(&parts, 3, 30, 14, HOUR), [2, 1], "the one that waits for readers last");
    }

    #[test]
    fn a_part_without_change_sets_goes_when_another_is_in_use() {
        let parts = [empty(0), part(1, 0, 4), empty(2)];
        assert_eq!(due(&parts, 1, 10, 4, HOUR), [0]);
        assert_eq!(due(&[empty(0), empty(1)], 0, 0, 999, HOUR), [0; 0]);
    }

    #[test]
    fn a_part_ends_when_it_is_old_or_big_and_the_next_are_there() {
        let ends = |parts: &[Part], now| decide(parts, 1, Index::ZERO, minute(now), HOUR).end;
        let small = Part { bytes: 10 * MIB - 1, ..part(1, 0, 0) };
        assert!(!ends(&[small, empty(2), empty(3)], 3));
        assert!(ends(&[small, empty(2), empty(3)], 4), "a sixteenth of an hour is over");
        assert!(ends(&[part(1, 0, 0), empty(2), empty(3)], 0), "a sixteenth of the bytes");
        assert!(!ends(&[part(1, 0, 0), empty(2)], 99));
        assert!(!ends(&[part(1, 0, 0), empty(2), at(Place::Detached, empty(3))], 99));
        assert!(!ends(&[empty(1), empty(2), empty(3)], 99), "nothing is in it");
    }
}
