//! Limits how often the same failure is logged. Pure: time comes from the caller.
//!
//! A failure that repeats is logged when it begins, then at most some times a minute, with the number of failures in
//! between. Two failures are the same if they are of the same kind; their texts may differ, because error texts contain
//! times, addresses and ids ([`kind_of`]).

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The interval in which the number of lines about a kind of failure is limited. A kind that has not occurred for as
/// long begins anew.
pub const INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of kinds that a limiter knows. While it knows as many, failures of other kinds are not logged.
const KINDS_MAX: usize = 64;
/// Maximum length of a kind that is made of an error's text, in bytes.
const KIND_BYTES_MAX: usize = 256;
/// Stands for a word that contains a digit.
const PLACEHOLDER: char = '#';

/// Limits the lines about repeated failures, by their kind `K`.
#[derive(Debug)]
pub struct Limiter<K> {
    lines_max: u32,
    kinds: HashMap<K, Failures>,
}

/// The failures of one kind.
#[derive(Debug)]
struct Failures {
    /// The first of the attempts.
    began: Instant,
    last: Instant,
    /// Number of failures since they began; 0 after a success.
    attempts: u64,
    /// Whether a line was logged since they began.
    is_logged: bool,
    /// Beginning of the interval in which lines are counted.
    interval: Instant,
    /// Number of lines in that interval.
    lines: u32,
    /// Number of failures since the last line.
    suppressed: u64,
}

/// The numbers that a line contains about a failure that has occurred before. All numbers are `None` for a first
/// failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repeats {
    /// Number of failures since they began.
    pub attempts: Option<u64>,
    /// Time since they began, in seconds.
    pub lasting_secs: Option<u64>,
    /// Number of failures since the last line, which were not logged.
    pub suppressed: Option<u64>,
}

impl<K: Eq + Hash> Limiter<K> {
    /// A limiter that permits `lines_max` lines about each kind in an [`INTERVAL`].
    pub fn new(lines_max: u32) -> Self {
        Self { lines_max, kinds: HashMap::new() }
    }

    /// Records a failure. Returns what to log about it; `None` if it should not be logged.
    pub fn failed(&mut self, kind: K, now: Instant) -> Option<Repeats> {
        if self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(&kind) {
            self.kinds.retain(|_, failures| !failures.are_past(now));
            if self.kinds.len() >= KINDS_MAX {
                return None;
            }
        }
        let failures = self.kinds.entry(kind).or_insert_with(|| Failures::new(now));
        failures.record(now, self.lines_max)
    }

    /// Records a success, which ends the failures of all kinds. Returns what to log about their end; `None` if there
    /// were none, or none that was logged.
    ///
    /// A failure that begins again within the same interval counts towards the same limit, so that an operation which
    /// fails every other time does not log twice for each attempt.
    pub fn succeeded(&mut self, now: Instant) -> Option<Repeats> {
        if self.kinds.is_empty() {
            return None;
        }
        let ended = self.kinds.values().filter(|failures| failures.attempts > 0);
        let (mut began, mut attempts, mut is_logged) = (now, 0, false);
        for failures in ended {
            began = began.min(failures.began);
            attempts += failures.attempts;
            is_logged |= failures.is_logged;
        }
        self.kinds.retain(|_, failures| {
            (failures.attempts, failures.is_logged) = (0, false);
            since(failures.interval, now) < INTERVAL
        });
        is_logged.then(|| Repeats::new(attempts, since(began, now), 0))
    }
}

impl Failures {
    fn new(now: Instant) -> Self {
        Self { began: now, last: now, attempts: 0, is_logged: false, interval: now, lines: 0, suppressed: 0 }
    }

    /// Whether the last failure was so long ago that another one begins anew.
    fn are_past(&self, now: Instant) -> bool {
        since(self.last, now) >= INTERVAL
    }

    fn record(&mut self, now: Instant, lines_max: u32) -> Option<Repeats> {
        if self.attempts == 0 || self.are_past(now) {
            (self.began, self.attempts, self.is_logged) = (now, 0, false);
        }
        if since(self.interval, now) >= INTERVAL {
            (self.interval, self.lines) = (now, 0);
        }
        self.last = now;
        self.attempts += 1;
        if self.lines >= lines_max {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        self.is_logged = true;
        let suppressed = std::mem::take(&mut self.suppressed);
        Some(Repeats::new(self.attempts, since(self.began, now), suppressed))
    }
}

impl Repeats {
    fn new(attempts: u64, lasting: Duration, suppressed: u64) -> Self {
        let is_first = attempts <= 1;
        Self {
            attempts: (!is_first).then_some(attempts),
            lasting_secs: (!is_first).then_some(lasting.as_secs()),
            suppressed: (suppressed > 0).then_some(suppressed),
        }
    }
}

/// The failures of an operation that is repeated until it succeeds, such as a write to the database. Each kind is
/// logged when it begins and then once in an [`INTERVAL`]. Threads share it.
#[derive(Debug)]
pub struct Outage(Mutex<Limiter<String>>);

impl Default for Outage {
    fn default() -> Self {
        Self(Mutex::new(Limiter::new(1)))
    }
}

impl Outage {
    /// Records a failed attempt. Returns what to log about it; `None` if it should not be logged.
    pub fn failed(&self, error: &str, now: Instant) -> Option<Repeats> {
        self.limiter().failed(kind_of(error), now)
    }

    /// Records a successful attempt. Returns what to log about the end of the outage; `None` if there was none.
    pub fn succeeded(&self, now: Instant) -> Option<Repeats> {
        self.limiter().succeeded(now)
    }

    fn limiter(&self) -> MutexGuard<'_, Limiter<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kind of an error, made of its text: every word with a digit in it is replaced, because it may be a time, an
/// address or an id.
pub fn kind_of(error: &str) -> String {
    let mut kind = String::new();
    let mut rest = error;
    while let Some(first) = rest.chars().next().filter(|_| kind.len() < KIND_BYTES_MAX) {
        let length = if is_in_word(first) {
            rest.find(|c| !is_in_word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(length);
        if word.bytes().any(|byte| byte.is_ascii_digit()) {
            kind.push(PLACEHOLDER);
        } else {
            kind.push_str(word);
        }
        rest = after;
    }
    kind.truncate(kind.floor_char_boundary(KIND_BYTES_MAX));
    kind
}

fn is_in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':')
}

fn since(then: Instant, now: Instant) -> Duration {
    now.saturating_duration_since(then)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const FIRST: Repeats = Repeats { attempts: None, lasting_secs: None, suppressed: None };

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn repeats(attempts: u64, lasting_secs: u64, suppressed: u64) -> Repeats {
        Repeats::new(attempts, secs(lasting_secs), suppressed)
    }

    #[test]
    fn a_failure_is_logged_at_once_and_then_once_a_minute_until_it_is_over() {
        let (outage, start) = (Outage::default(), clock::monotonic());
        assert_eq!(outage.succeeded(start), None);
        let attempt = Duration::from_millis(200);
        let mut lines = Vec::new();
        for number in 0..=750 {
            let at = start + attempt * number;
            lines.extend(outage.failed("connection refused", at).map(|repeats| (at - start, repeats)));
        }
        assert_eq!(
            lines,
            [(Duration::ZERO, FIRST), (secs(60), repeats(301, 60, 299)), (secs(120), repeats(601, 120, 299))]
        );
        assert_eq!(outage.succeeded(start + secs(151)), Some(repeats(751, 151, 0)));
        assert_eq!(outage.succeeded(start + secs(152)), None, "only once");
        assert_eq!(outage.failed("connection refused", start + secs(200)), Some(repeats(1, 0, 150)));
    }

    #[test]
    fn an_operation_that_fails_every_other_time_does_not_flood_either() {
        let (outage, start) = (Outage::default(), clock::monotonic());
        let mut lines = 0;
        for number in 0..3_000 {
            let at = start + Duration::from_millis(100) * number;
            let line = if number % 2 == 0 { outage.failed("no space", at) } else { outage.succeeded(at) };
            lines += u32::from(line.is_some());
        }
        assert_eq!(lines, 10, "a beginning and an end in each of five minutes");
    }

    #[test]
    fn another_kind_is_logged_at_once() {
        let (outage, now) = (Outage::default(), clock::monotonic());
        assert_eq!(outage.failed("connection refused", now), Some(FIRST));
        assert_eq!(outage.failed("the database system is starting up", now), Some(FIRST));
        assert_eq!(outage.failed("connection refused", now), None);
        assert_eq!(outage.succeeded(now + secs(3)), Some(repeats(3, 3, 0)), "the end is that of all kinds");
    }

    #[test]
    fn lines_are_limited_by_kind_and_say_what_was_left_out() {
        let (mut limiter, now) = (Limiter::new(3), clock::monotonic());
        let logged = (0..10).filter_map(|_| limiter.failed("a", now)).count();
        assert_eq!(logged, 3);
        assert_eq!(limiter.failed("b", now), Some(FIRST));
        assert_eq!(limiter.failed("a", now + INTERVAL / 2), None);
        assert_eq!(limiter.failed("a", now + INTERVAL), Some(repeats(12, 60, 8)));
        assert_eq!(limiter.failed("a", now + INTERVAL), Some(repeats(13, 60, 0)));
        assert_eq!(limiter.failed("b", now + INTERVAL * 9), Some(FIRST), "after a pause it begins anew");
    }

    #[test]
    fn a_limiter_forgets_old_kinds_and_is_bounded() {
        let (mut limiter, now) = (Limiter::new(1), clock::monotonic());
        let logged = (0..10 * KINDS_MAX).filter(|kind| limiter.failed(*kind, now).is_some()).count();
        assert_eq!((logged, limiter.kinds.len()), (KINDS_MAX, KINDS_MAX));
        assert_eq!(limiter.failed(KINDS_MAX, now + INTERVAL), Some(FIRST));
        assert_eq!(limiter.kinds.len(), 1);
    }

    #[test]
    fn texts_that_differ_in_numbers_are_of_one_kind() {
        let expired = |at: u64| {
            format!(
                "invalid peer certificate: certificate expired: verification time {at} (UNIX), but certificate is \
                 not valid after 1764000000 ({} seconds ago)",
                at - 1_764_000_000
            )
        };
        assert_eq!(kind_of(&expired(1_764_102_761)), kind_of(&expired(1_764_102_762)));
        assert_eq!(
            kind_of("10.0.0.7:5432: no index 7 of alloc 0af76519-16cd-43dd-8448-eb211c80319c"),
            "# no index # of alloc #"
        );
        assert_ne!(kind_of("connection refused"), kind_of("connection reset"));
        for long in ["ä ", "ä"] {
            let length = kind_of(&long.repeat(KIND_BYTES_MAX)).len();
            assert!((KIND_BYTES_MAX - 1..=KIND_BYTES_MAX).contains(&length), "{length}");
        }
        assert_eq!(kind_of(""), "");
    }
}
