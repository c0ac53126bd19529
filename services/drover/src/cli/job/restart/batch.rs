//! The size of batches, and the pause between them.

use std::str::FromStr;
use std::time::Duration;

/// The size of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// A number of allocations; at least one.
    Count(usize),
    /// A percentage of all allocations.
    Percent(usize),
}

impl Size {
    /// The size for `total` allocations; at least one.
    pub(super) fn of(self, total: usize) -> usize {
        match self {
            Size::Count(count) => count.max(1),
            Size::Percent(percent) => (total * percent).div_ceil(100).max(1),
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = match text.strip_suffix('%') {
            Some(percent) => {
                percent.parse().ok().filter(|percent| (1..=100).contains(percent)).map(Size::Percent)
            }
            None => text.parse().ok().filter(|count| *count > 0).map(Size::Count),
        };
        size.ok_or_else(|| "expected a number of at least 1, or a percentage from 1% to 100%".to_owned())
    }
}

/// The pause between batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Until the user confirms.
    Ask,
    /// A fixed time.
    For(Duration),
}

impl FromStr for Wait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "ask" {
            return Ok(Wait::Ask);
        }
        let nanos = api_types::duration::parse(text).map_err(|error| format!("{error}, or ask"))?;
        let nanos =
            u64::try_from(nanos).map_err(|_| "expected a duration that is not negative".to_owned())?;
        Ok(Wait::For(Duration::from_nanos(nanos)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_or_shares() {
        let of = |text: &str, total| text.parse::<Size>().map(|size| size.of(total));
        assert_eq!(of("3", 10), Ok(3));
        assert_eq!(of("25%", 10), Ok(3));
        assert_eq!(of("1%", 10), Ok(1));
        assert_eq!(of("100%", 10), Ok(10));
        for wrong in ["0", "0%", "101%", "-1", "x", "%", ""] {
            assert!(of(wrong, 10).is_err(), "{wrong}");
        }
    }

    #[test]
    fn waits_are_durations_or_a_question() {
        assert_eq!("ask".parse(), Ok(Wait::Ask));
        assert_eq!("0s".parse(), Ok(Wait::For(Duration::ZERO)));
        assert_eq!("1m30s".parse(), Ok(Wait::For(Duration::from_secs(90))));
        assert!("-1s".parse::<Wait>().is_err());
        assert_eq!(
            "soon".parse::<Wait>().unwrap_err(),
            "invalid duration \"soon\": want numbers with units, such as 90s or 1h30m, or ask"
        );
    }
}
