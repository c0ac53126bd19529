//! Points in time and durations as integers of nanoseconds. There is no clock here: callers pass `now`.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// A point in time in nanoseconds since the Unix epoch. 0 means unset, as in the integer fields of the API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The unset timestamp.
    pub const UNSET: Self = Self(0);

    /// Creates a timestamp from whole seconds since the epoch.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(Nanos::SECOND.0))
    }

    /// Whole seconds since the epoch, rounded down.
    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(Nanos::SECOND.0)
    }

    /// Whether the timestamp is set.
    pub const fn is_set(self) -> bool {
        self.0 != 0
    }
}

impl From<Option<api_types::Time>> for Timestamp {
    /// Converts both an absent time and the API's zero time to [`Timestamp::UNSET`].
    fn from(time: Option<api_types::Time>) -> Self {
        match time {
            Some(time) if !time.is_zero() => Self(time.unix_nanos()),
            Some(_) | None => Self::UNSET,
        }
    }
}

impl From<Timestamp> for Option<api_types::Time> {
    fn from(timestamp: Timestamp) -> Self {
        timestamp.is_set().then_some(api_types::Time::from_unix_nanos(timestamp.0))
    }
}

impl Add<Nanos> for Timestamp {
    type Output = Self;

    fn add(self, duration: Nanos) -> Self {
        Self(self.0.saturating_add(duration.0))
    }
}

impl Sub for Timestamp {
    type Output = Nanos;

    fn sub(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in nanoseconds. It may be negative where the API allows that: a drain deadline of -1 means "at once".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub i64);

impl Nanos {
    /// The zero duration.
    pub const ZERO: Self = Self(0);
    /// One millisecond.
    pub const MILLISECOND: Self = Self(1_000_000);
    /// One second.
    pub const SECOND: Self = Self(1_000_000_000);

    /// Creates a duration from whole seconds.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(Self::SECOND.0))
    }

    /// Creates a duration from whole minutes.
    pub const fn from_mins(mins: i64) -> Self {
        Self::from_secs(mins.saturating_mul(60))
    }

    /// Creates a duration from whole hours.
    pub const fn from_hours(hours: i64) -> Self {
        Self::from_mins(hours.saturating_mul(60))
    }
}

impl fmt::Display for Nanos {
    /// Formats a duration as Go does: `1h2m3.5s`, `15s`, `1.5ms`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let (unit, name) = match nanos {
            0 => return f.write_str("0s"),
            1..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let (hours, minutes) = (nanos / 3_600_000_000_000, nanos / 60_000_000_000 % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        let rest = nanos % 60_000_000_000;
        write!(f, "{}", rest / unit)?;
        let fraction = rest % unit;
        if fraction > 0 {
            let width = unit.ilog10() as usize;
            let digits = format!("{fraction:0width$}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str(name)
    }
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_print_as_in_go() {
        let cases = [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (2_000_000, "2ms"),
            (15_000_000_000, "15s"),
            (17_200_000_000, "17.2s"),
            (90_000_000_000, "1m30s"),
            (3_600_000_000_000, "1h0m0s"),
            (-5_000_000_000, "-5s"),
            (3_661_000_000_001, "1h1m1.000000001s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(Nanos(nanos).to_string(), text);
        }
    }

    #[test]
    fn the_zero_time_of_the_api_is_unset() {
        assert_eq!(Timestamp::from(Some(api_types::Time::ZERO)), Timestamp::UNSET);
        assert_eq!(Option::<api_types::Time>::from(Timestamp::UNSET), None);
    }

    #[test]
    fn arithmetic_stays_within_range() {
        assert_eq!(Timestamp(i64::MAX) + Nanos::SECOND, Timestamp(i64::MAX));
        assert_eq!(Timestamp::from_secs(-1).as_secs(), -1);
    }
}
