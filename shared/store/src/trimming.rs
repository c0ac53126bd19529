//! How much of the log is kept, and when its current partition is closed (`docs/architecture/log.md`). Pure: partitions and
//! limits go in, a decision comes out.
//!
//! A partition is due when the object tables contain all of it and its newest change set is older than the limit. If the
//! log is larger than its limit, a partition is due as soon as it is no longer needed for the request log. If the log is
//! too large even then, the applier has to refuse commands for a while.

use model::{Index, Nanos, Timestamp};

/// The log always goes back at least this far: the request log is read from it, and so is the end of a load (`docs/architecture/commit-path.md`).
pub const LOG_KEEP_MIN: Nanos = Nanos::from_mins(10);
/// How many empty partitions exist after the current one.
pub(crate) const AHEAD: u64 = 2;
/// About how many partitions hold the log that is kept: one is closed when it reaches this fraction of the retention time
/// or of the maximum size. So the log that is kept is close to what was asked for.
const PARTS_KEPT: u64 = 16;

/// Limits of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// How far the log goes back.
    pub(crate) keep: Nanos,
    /// Maximum size in bytes. It takes precedence over `keep`.
    pub(crate) bytes_max: u64,
}

/// One partition of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) number: u64,
    pub(crate) attachment: Attachment,
    /// Its size on disk.
    pub(crate) bytes: u64,
    /// The change sets in it; `None` if it is empty or no longer readable through the log.
    pub(crate) span: Option<Span>,
}

/// Whether a partition belongs to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// It is attached to the log.
    Attached,
    /// Detaching it was interrupted. At most one partition is in this state.
    Detaching,
    /// It is a separate table, which remains to be dropped.
    Detached,
}

/// The change sets in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first_at: Timestamp,
    pub(crate) last_at: Timestamp,
    pub(crate) last: Index,
}

/// The size and age of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSize {
    /// Size on disk.
    pub bytes: u64,
    /// The number of its tables, including empty ones ahead of the current partition and those that remain to be dropped.
    pub parts: usize,
    /// The number of partitions that are due but could not be dropped because a transaction still reads them.
    pub held_up: usize,
    /// The cluster's time at its oldest change set; unset if the log is empty.
    pub oldest: Timestamp,
    /// Whether the part of the log that must be kept is larger than the limit. Commands are refused until some of it is
    /// older.
    pub is_full: bool,
}

/// What to do with the partitions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Whether to close the current partition.
    pub(crate) close: bool,
    /// The partitions to drop, in the order in which to try them.
    pub(crate) due: Vec<Part>,
    /// Whether the part of the log that must be kept is larger than the limit.
    pub(crate) is_full: bool,
}

/// Decides about `parts`, which are ordered by number. `now` is the cluster's time.
pub(crate) fn decide(
    parts: &[Part],
    current: u64,
    projected: Index,
    now: Timestamp,
    limits: Limits,
) -> Decision {
    let (attached, mut due): (Vec<Part>, Vec<Part>) =
        parts.iter().partition(|part| part.attachment == Attachment::Attached);
    due.retain(|part| part.number < current);
    // No other partition can be detached before the one whose detaching has begun. Detached ones come first, because they
    // may be blocked by other transactions than that one.
    due.sort_by_key(|part| part.attachment == Attachment::Detaching);

    let mut bytes: u64 = attached.iter().map(|part| part.bytes).sum();
    for part in attached.iter().filter(|part| part.number < current) {
        let is_removable = part.span.is_none_or(|span| {
            let age = now - span.last_at;
            let is_due = age >= limits.keep || (age >= LOG_KEEP_MIN && bytes > limits.bytes_max);
            is_due && span.last <= projected
        });
        if !is_removable {
            break;
        }
        bytes -= part.bytes;
        due.push(*part);
    }

    let exists = |number| attached.iter().any(|part| part.number == number);
    let should_close = attached.iter().find(|part| part.number == current).is_some_and(|part| {
        let is_old =
            part.span.is_some_and(|span| (now - span.first_at).0 >= limits.keep.0 / PARTS_KEPT.cast_signed());
        let is_big = part.span.is_some() && part.bytes >= limits.bytes_max / PARTS_KEPT;
        is_old || is_big
    });
    Decision {
        close: should_close && (current + 1..=current + AHEAD).all(exists),
        due,
        is_full: bytes > limits.bytes_max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const HOUR: Limits = Limits { keep: Nanos::from_hours(1), bytes_max: 160 * MIB };

    fn minute(minute: i64) -> Timestamp {
        Timestamp::from_secs(1_000_000 + 60 * minute)
    }

    /// A partition of 10 MiB with change sets from these minutes, and ten indexes.
    fn part(number: u64, from: i64, to: i64) -> Part {
        let span = Span { first_at: minute(from), last_at: minute(to), last: Index(10 * number) };
        Part { number, attachment: Attachment::Attached, bytes: 10 * MIB, span: Some(span) }
    }

    fn empty(number: u64) -> Part {
        Part { number, attachment: Attachment::Attached, bytes: 0, span: None }
    }

    fn with(attachment: Attachment, part: Part) -> Part {
        Part { attachment, ..part }
    }

    fn due(parts: &[Part], current: u64, projected: u64, now: i64, limits: Limits) -> Vec<u64> {
        let decision = decide(parts, current, Index(projected), minute(now), limits);
        decision.due.iter().map(|part| part.number).collect()
    }

    #[test]
    fn old_rows_are_trimmed_once_projected() {
        let parts = [part(1, 0, 4), part(2, 5, 9), part(3, 10, 70)];
        assert_eq!(due(&parts, 3, 30, 63, HOUR), [0; 0]);
        assert_eq!(due(&parts, 3, 30, 64, HOUR), [1]);
        assert_eq!(due(&parts, 3, 30, 69, HOUR), [1, 2]);
        assert_eq!(due(&parts, 3, 30, 999, HOUR), [1, 2], "never the current partition");
        assert_eq!(due(&parts, 3, 19, 999, HOUR), [1], "only what is projected");
        assert_eq!(due(&parts, 3, 9, 999, HOUR), [0; 0]);
    }

    #[test]
    fn a_log_that_is_too_large_goes_back_less_far_but_ten_minutes_always() {
        let parts = [part(1, 0, 4), part(2, 5, 9), part(3, 10, 14), part(4, 15, 19)];
        let small = |bytes_max| Limits { bytes_max, ..HOUR };
        assert_eq!(due(&parts, 4, 40, 20, small(40 * MIB)), [0; 0], "exactly the limit");
        assert_eq!(due(&parts, 4, 40, 20, small(39 * MIB)), [1]);
        assert_eq!(due(&parts, 4, 40, 20, small(MIB)), [1, 2], "the third is only six minutes old");
        assert_eq!(due(&parts, 4, 40, 24, small(MIB)), [1, 2, 3]);
        assert_eq!(due(&parts, 4, 15, 24, small(MIB)), [1], "only what is projected");
    }

    #[test]
    fn there_are_no_more_commands_while_what_must_be_kept_is_too_much() {
        let parts = [part(1, 0, 4), part(2, 5, 9), part(3, 10, 14)];
        let is_full = |now, projected, bytes_max| {
            decide(&parts, 3, Index(projected), minute(now), Limits { bytes_max, ..HOUR }).is_full
        };
        assert!(!is_full(14, 30, 30 * MIB));
        assert!(is_full(13, 30, 29 * MIB));
        assert!(!is_full(14, 30, 29 * MIB), "the first is ten minutes old and is dropped");
        assert!(is_full(14, 9, 29 * MIB), "the projection does not contain it yet");
    }

    #[test]
    fn delayed_trimming_delays_no_command() {
        let bytes_max = 15 * MIB;
        let limits = Limits { bytes_max, ..HOUR };
        let parts = [
            with(Attachment::Detached, Part { span: None, ..part(1, 0, 4) }),
            with(Attachment::Detaching, Part { span: None, ..part(2, 5, 9) }),
            part(3, 10, 14),
            part(4, 15, 19),
        ];
        let decision = decide(&parts, 4, Index(40), minute(30), limits);
        assert!(!decision.is_full, "only the fourth has to be kept");
        assert_eq!(due(&parts, 4, 40, 30, limits), [1, 2, 3]);
        let parts = [
            with(Attachment::Detaching, part(1, 0, 4)),
            with(Attachment::Detached, part(2, 5, 9)),
            part(3, 10, 14),
        ];
        assert_eq!(due(&parts, 3, 30, 14, HOUR), [2, 1], "the one that is being detached comes last");
    }

    #[test]
    fn a_part_without_change_sets_goes_when_another_is_in_use() {
        let parts = [empty(0), part(1, 0, 4), empty(2)];
        assert_eq!(due(&parts, 1, 10, 4, HOUR), [0]);
        assert_eq!(due(&[empty(0), empty(1)], 0, 0, 999, HOUR), [0; 0]);
    }

    #[test]
    fn a_part_ends_when_it_is_old_or_big_and_the_next_are_there() {
        let closes = |parts: &[Part], now| decide(parts, 1, Index::ZERO, minute(now), HOUR).close;
        let small = Part { bytes: 10 * MIB - 1, ..part(1, 0, 0) };
        assert!(!closes(&[small, empty(2), empty(3)], 3));
        assert!(closes(&[small, empty(2), empty(3)], 4), "a sixteenth of an hour is over");
        assert!(closes(&[part(1, 0, 0), empty(2), empty(3)], 0), "a sixteenth of the bytes");
        assert!(!closes(&[part(1, 0, 0), empty(2)], 99));
        assert!(!closes(&[part(1, 0, 0), empty(2), with(Attachment::Detached, empty(3))], 99));
        assert!(!closes(&[empty(1), empty(2), empty(3)], 99), "nothing is in it");
    }
}
