//! Ids, times and sizes in human notation (`docs/rules/cli.md` §2).

use jiff::Timestamp;

/// Length of a shortened id.
const SHORT: usize = 8;

/// An id, shortened unless `verbose`.
pub(crate) fn id(id: Option<&String>, verbose: bool) -> String {
    let id = id.map_or("", String::as_str);
    if verbose { id } else { id.get(..SHORT).unwrap_or(id) }.to_owned()
}

/// A time in nanoseconds since 1970, as `2006-01-02T15:04:05Z`; empty for 0.
pub(crate) fn moment(nanos: i64) -> String {
    match Timestamp::from_nanosecond(nanos.into()) {
        Ok(moment) if nanos > 0 => moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Ok(_) | Err(_) => String::new(),
    }
}

/// An optional time, like [`moment`].
pub(crate) fn time(time: Option<api_types::Time>) -> String {
    time.filter(|time| !time.is_zero()).map(|time| moment(time.unix_nanos())).unwrap_or_default()
}

/// How long ago a time was, or the time itself if `verbose`.
pub(crate) fn ago(nanos: i64, now: i64, verbose: bool) -> String {
    if verbose || nanos <= 0 {
        return moment(nanos);
    }
    format!("{} ago", duration(now.saturating_sub(nanos) / 1_000_000_000))
}

/// How far in the future a time is, or the time itself if `verbose`.
pub(crate) fn from_now(nanos: i64, now: i64, verbose: bool) -> String {
    if verbose || nanos <= 0 {
        return moment(nanos);
    }
    format!("{} from now", duration(nanos.saturating_sub(now) / 1_000_000_000))
}

/// A duration in its two largest units.
pub(crate) fn duration(secs: i64) -> String {
    let secs = secs.max(0);
    let parts = [(secs / 86_400, "d"), (secs / 3600 % 24, "h"), (secs / 60 % 60, "m"), (secs % 60, "s")];
    let from = parts.iter().position(|(amount, _)| *amount > 0).unwrap_or(3);
    let shown =
        parts[from..].iter().take(2).filter(|(amount, unit)| *amount > 0 || (from == 3 && *unit == "s"));
    shown.map(|(amount, unit)| format!("{amount}{unit}")).collect()
}

/// A length of time in nanoseconds, as Go prints it in whole seconds: `24h0m0s`.
pub(crate) fn span(nanos: i64) -> String {
    let secs = nanos.max(0) / 1_000_000_000;
    let (hours, minutes, secs) = (secs / 3600, secs / 60 % 60, secs % 60);
    match (hours, minutes) {
        (0, 0) => format!("{secs}s"),
        (0, _) => format!("{minutes}m{secs}s"),
        (_, _) => format!("{hours}h{minutes}m{secs}s"),
    }
}

/// A number of bytes, as `59 B` or `1.4 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let Some(last) = (0..UNITS.len()).rev().find(|unit| bytes >> (10 * (unit + 1)) > 0) else {
        return format!("{bytes} B");
    };
    let amount = bytes as f64 / (1_u64 << (10 * (last + 1))) as f64;
    if amount.fract() == 0.0 {
        format!("{amount} {}", UNITS[last])
    } else {
        format!("{amount:.1} {}", UNITS[last])
    }
}

/// An optional number.
pub(crate) fn number(number: Option<i64>) -> String {
    number.unwrap_or_default().to_string()
}

/// An optional text.
pub(crate) fn text(text: Option<&String>) -> String {
    text.cloned().unwrap_or_default()
}

/// The current time, in nanoseconds since 1970.
pub(crate) fn now() -> i64 {
    telemetry::clock::now().0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn ages_name_their_two_largest_units() {
        let age = |secs: i64| ago(1000 * 86_400 * SECOND, (1000 * 86_400 + secs) * SECOND, false);
        assert_eq!(age(0), "0s ago");
        assert_eq!(age(59), "59s ago");
        assert_eq!(age(312), "5m12s ago");
        assert_eq!(age(3600), "1h ago");
        assert_eq!(age(3 * 86_400 + 59), "3d ago");
        assert_eq!(age(-5), "0s ago", "clocks differ");
    }

    #[test]
    fn times_to_come_are_told_from_now() {
        let now = 1000 * 86_400 * SECOND;
        assert_eq!(from_now(now + 29 * SECOND, now, false), "29s from now");
        assert_eq!(from_now(now - SECOND, now, false), "0s from now");
        assert_eq!(from_now(1_136_214_245 * SECOND, 0, true), "2006-01-02T15:04:05Z");
        assert_eq!(from_now(0, now, false), "");
    }

    #[test]
    fn moments_are_told_in_full() {
        assert_eq!(moment(1_136_214_245 * SECOND), "2006-01-02T15:04:05Z");
        assert_eq!(moment(0), "");
        assert_eq!(ago(1_136_214_245 * SECOND, i64::MAX, true), "2006-01-02T15:04:05Z");
    }

    #[test]
    fn spans_are_those_of_go() {
        assert_eq!(span(0), "0s");
        assert_eq!(span(90 * SECOND), "1m30s");
        assert_eq!(span(24 * 3600 * SECOND), "24h0m0s");
    }

    #[test]
    fn bytes_are_counted_in_units_that_fit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(300 << 20), "300 MiB");
        assert_eq!(bytes(u64::MAX), "16 EiB");
    }

    #[test]
    fn ids_are_cut_to_eight_characters() {
        let long = "0a1b2c3d-0000-4000-8000-000000000000".to_owned();
        assert_eq!(id(Some(&long), false), "0a1b2c3d");
        assert_eq!(id(Some(&long), true), long);
        assert_eq!(id(None, false), "");
    }
}
