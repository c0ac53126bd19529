//! A table of times for people: what was measured, beside what it should be.

use std::time::Duration;

/// The head of a table in milliseconds.
pub fn head() -> String {
    let [median, min, p99, max, hold, aim] = ["median", "min", "p99", "max", "hold", "aim"];
    format!("{:<44} {median:>8} {min:>8} {p99:>8} {max:>8} {hold:>9} {aim:>5}", "")
}

/// A line of it.
pub fn line(what: &str, mut times: Vec<Duration>, hold: &str, aim: &str) -> String {
    times.sort_unstable();
    let at = |share: usize| times.get((times.len() * share / 100).min(times.len().saturating_sub(1)));
    let millis = |time: Option<&Duration>| {
        time.map_or_else(String::new, |time| format!("{:.1}", time.as_secs_f64() * 1e3))
    };
    let [median, min, p99, max] = [at(50), at(0), at(99), at(100)].map(millis);
    format!("{what:<44} {median:>8} {min:>8} {p99:>8} {max:>8} {hold:>9} {aim:>5}")
}
