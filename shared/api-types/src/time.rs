//! Points in time, which the API encodes as RFC 3339 text. Points in time of integer type are plain `i64` fields.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The zero time of the Go clients, which stands for *unset*.
const ZERO_TEXT: &str = "0001-01-01T00:00:00Z";
/// [`ZERO_TEXT`] in seconds since the Unix epoch.
const ZERO_UNIX_SECONDS: i64 = -62_135_596_800;

/// A point in time in nanoseconds since the Unix epoch, or [`Time::ZERO`].
///
/// Written in UTC with `Z` and no trailing zeros in the fraction; read with any offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// `0001-01-01T00:00:00Z`, which clients send for *unset*. It compares less than every other time.
    pub const ZERO: Self = Self(i64::MIN);

    /// The time `nanos` nanoseconds after the Unix epoch. `i64::MIN` is [`Time::ZERO`].
    pub const fn from_unix_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the Unix epoch. The value is meaningless for [`Time::ZERO`]; check [`Time::is_zero`] first.
    pub const fn unix_nanos(self) -> i64 {
        self.0
    }

    /// Whether this is [`Time::ZERO`], which stands for *unset*.
    pub const fn is_zero(self) -> bool {
        self.0 == Self::ZERO.0
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str(ZERO_TEXT);
        }
        let time = Timestamp::from_nanosecond(self.0.into())
            .expect("jiff spans far more than 64 bits of nanoseconds");
        write!(f, "{time}")
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Time({self})")
    }
}

/// A text is neither an RFC 3339 time between the years 1678 and 2261 nor [`Time::ZERO`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an RFC 3339 time from 1678 to 2261")]
pub struct ParseTimeError {
    text: String,
}

impl FromStr for Time {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseTimeError { text: text.to_owned() };
        let time: Timestamp = text.parse().map_err(|_| error())?;
        if time.as_second() == ZERO_UNIX_SECONDS && time.subsec_nanosecond() == 0 {
            return Ok(Self::ZERO);
        }
        i64::try_from(time.as_nanosecond()).map(Self).map_err(|_| error())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TimeVisitor)
    }
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = Time;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an RFC 3339 time from 1678 to 2261")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Time, E> {
        text.parse().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> String {
        text.parse::<Time>().unwrap().to_string()
    }

    #[test]
    fn reads_any_offset_and_writes_utc() {
        assert_eq!(written("2026-01-01T01:30:00+01:30"), "2026-01-01T00:00:00Z");
        assert_eq!(written("2025-12-31T16:00:00.5-08:00"), "2026-01-01T00:00:00.5Z");
        assert_eq!("2026-01-01T00:00:00Z".parse(), Ok(Time::from_unix_nanos(1_767_225_600_000_000_000)));
    }

    #[test]
    fn trims_the_fraction() {
        assert_eq!(written("2026-01-01T00:00:00.120000000Z"), "2026-01-01T00:00:00.12Z");
        assert_eq!(written("2026-01-01T00:00:00.000000001Z"), "2026-01-01T00:00:00.000000001Z");
        assert_eq!(written("2026-01-01T00:00:00.000Z"), "2026-01-01T00:00:00Z");
    }

    #[test]
    fn zero_is_not_the_epoch() {
        assert_eq!(ZERO_TEXT.parse(), Ok(Time::ZERO));
        assert_eq!("0001-01-01T02:00:00+02:00".parse(), Ok(Time::ZERO));
        assert_eq!(Time::ZERO.to_string(), ZERO_TEXT);
        assert_eq!(Time::from_unix_nanos(0).to_string(), "1970-01-01T00:00:00Z");
        assert!(Time::ZERO.is_zero() && !Time::from_unix_nanos(0).is_zero());
    }

    #[test]
    fn refuses_what_is_no_time_or_out_of_range() {
        for text in [
            "",
            "now",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-13-01T00:00:00Z",
            "0001-01-01T00:00:01Z",
            "2300-01-01T00:00:00Z",
        ] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Time>("1767225600").is_err());
    }

    proptest! {
        #[test]
        fn round_trips(nanos in any::<i64>()) {
            let time = Time::from_unix_nanos(nanos);
            let json = serde_json::to_string(&time).unwrap();
            prop_assert_eq!(serde_json::from_str::<Time>(&json).unwrap(), time);
        }
    }
}
