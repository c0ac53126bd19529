//! Tables of results for people: the measured value, the limit that must hold, the aim, and the value recorded for the
//! reference.
#![allow(clippy::print_stdout, reason = "tables are printed")]

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

/// Environment variable with the path of a file to which every table is appended, so that the tables of several
/// benchmarks can be printed as one.
const LINES: &str = "BENCH_TABLE";

/// Begins a table.
pub fn section(title: &str) {
    let [measured, range, limit, aim, reference, cpu] =
        ["measured", "from … to", "limit", "aim", "reference", "CPU s/1000"];
    print_line(&format!(
        "\n{title}\n{:<58} {measured:>10} {range:>20} {limit:>9} {aim:>9} {reference:>14} {cpu:>10}",
        ""
    ));
}

/// Prints a remark below a line.
pub fn remark(text: &str) {
    print_line(&format!("  {text}"));
}

/// Shows the progress of a long measurement in a line that the next output replaces.
#[allow(clippy::print_stderr, reason = "progress is not part of the table")]
pub fn progress(what: &str, done: u64, of: u64) {
    const CLEAR: &str = "\r\x1b[K";
    if io::stderr().is_terminal() {
        if done < of { eprint!("{CLEAR}{what}: {done} of {of}") } else { eprint!("{CLEAR}") }
    }
}

/// A line of a table.
#[derive(Debug, Clone)]
#[must_use = "a line has to be printed"]
pub struct Line {
    what: String,
    /// In ascending order.
    measured: Vec<f64>,
    limits: [Option<f64>; 2],
    is_least: bool,
    reference: String,
    cost: Option<f64>,
}

impl Line {
    /// A line with measurements of the same quantity. The median counts. `what` includes the unit.
    pub fn of(what: impl Into<String>, mut measured: Vec<f64>) -> Self {
        measured.sort_unstable_by(f64::total_cmp);
        let (limits, is_least, reference, cost) = ([None; 2], false, String::new(), None);
        Self { what: what.into(), measured, limits, is_least, reference, cost }
    }

    /// A line with times in milliseconds. The median counts.
    pub fn millis(what: impl Into<String>, times: &[Duration]) -> Self {
        Self::of(what, times.iter().map(|time| time.as_secs_f64() * 1e3).collect())
    }

    /// Sets the limit that must hold and the aim, where smaller is better.
    pub fn at_most(self, limit: f64, aim: impl Into<Option<f64>>) -> Self {
        Self { limits: [Some(limit), aim.into()], is_least: false, ..self }
    }

    /// Sets the limit that must hold and the aim, where greater is better.
    pub fn at_least(self, limit: f64, aim: impl Into<Option<f64>>) -> Self {
        Self { limits: [Some(limit), aim.into()], is_least: true, ..self }
    }

    /// Sets the value that was recorded for the reference.
    pub fn reference(self, text: &str) -> Self {
        Self { reference: text.to_owned(), ..self }
    }

    /// Sets the processor time of a thousand placements, in seconds.
    pub fn cost(self, seconds: Option<f64>) -> Self {
        Self { cost: seconds, ..self }
    }

    /// Prints the line. A value that violates its limit has an exclamation mark.
    pub fn print(self) {
        print_line(&self.text());
    }

    fn text(&self) -> String {
        let median = self.measured.get(self.measured.len() / 2).copied();
        let misses =
            |limit: f64| median.is_some_and(|it| if self.is_least { it < limit } else { it > limit });
        let mark = if self.limits[0].is_some_and(misses) { "!" } else { "" };
        let range = match &self.measured[..] {
            [first, .., last] => format!("{} … {}", number(*first), number(*last)),
            _ => String::new(),
        };
        let sign = if self.is_least { "≥" } else { "≤" };
        let limit =
            |limit: Option<f64>| limit.map_or_else(String::new, |it| format!("{sign} {}", number(it)));
        let [limit, aim] = self.limits.map(limit);
        let mut text = format!("{:<58} {:>10}", self.what, median.map(number).unwrap_or_default() + mark);
        let cost = self.cost.map_or_else(String::new, |cost| format!("{cost:.3}"));
        let rest = write!(text, " {range:>20} {limit:>9} {aim:>9} {:>14} {cost:>10}", self.reference);
        rest.expect("writing to a string succeeds");
        text.trim_end().to_owned()
    }
}

/// Returns the value below which `percent` of the times lie, or nothing if there are none.
pub fn percentile(mut times: Vec<Duration>, percent: usize) -> Vec<Duration> {
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    times.get((times.len() * percent / 100).min(last)).copied().into_iter().collect()
}

/// Formats a number with a useful number of digits.
pub(super) fn number(it: f64) -> String {
    match it.abs() {
        it if it >= 1_000.0 || it == it.trunc() => grouped(it),
        it if it >= 10.0 => format!("{it:.1}"),
        it => format!("{it:.2}"),
    }
}

fn grouped(it: f64) -> String {
    let digits = format!("{it:.0}");
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).expect("digits"));
    groups.collect::<Vec<_>>().join(",")
}

fn print_line(text: &str) {
    println!("{text}");
    if let Some(file) = std::env::var_os(LINES) {
        let file = OpenOptions::new().create(true).append(true).open(file);
        file.and_then(|mut file| writeln!(file, "{text}")).expect("the table can be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_whether_it_holds() {
        let text = |line: Line| line.text().split_whitespace().collect::<Vec<_>>().join(" ");
        let slow = Line::of("slow (ms)", vec![20.0, 10.5, 1234.4]).at_most(15.0, 1.5).reference("11,500");
        assert_eq!(text(slow), "slow (ms) 20! 10.5 … 1,234 ≤ 15 ≤ 1.50 11,500");
        let many = Line::of("many (1/s)", vec![50_000.0]).at_least(40_000.0, None).cost(Some(0.1234));
        assert_eq!(text(many), "many (1/s) 50,000 ≥ 40,000 0.123");
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(times.clone(), 99), [Duration::from_millis(199)]);
        assert_eq!(percentile(times, 100), [Duration::from_millis(200)]);
        assert!(percentile(Vec::new(), 50).is_empty());
    }
}
