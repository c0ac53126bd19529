//! A minimal implementation of version constraints for the checker.

use std::cmp::Ordering;

/// A version such as `1.2.3-beta.1`. The part after a plus is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    numbers: Vec<u64>,
    /// How many numbers were written.
    written: usize,
    prerelease: Vec<String>,
}

/// Whether a version meets a list of conditions. With `strict`, versions are ordered by SemVer alone.
pub(super) fn holds(version: &str, conditions: &str, strict: bool) -> bool {
    let Some(version) = parse(version) else { return false };
    conditions.split(',').all(|condition| condition_holds(&version, condition.trim(), strict))
}

fn condition_holds(version: &Version, condition: &str, strict: bool) -> bool {
    let operators = ["~>", "!=", ">=", "<=", ">", "<", "="];
    let operator = operators.into_iter().find(|operator| condition.starts_with(operator));
    let Some(bound) = parse(condition[operator.map_or(0, str::len)..].trim()) else { return false };
    let order = compare(version, &bound);
    let comparable = strict || may_compare(version, &bound);
    match operator {
        None | Some("=") => order.is_eq(),
        Some("!=") => order.is_ne(),
        Some(">") => comparable && order.is_gt(),
        Some("<") => comparable && order.is_lt(),
        Some(">=") => comparable && order.is_ge(),
        Some("<=") => comparable && order.is_le(),
        // `~>`
        Some(_) => {
            let fixed = bound.written.saturating_sub(1);
            !strict
                && comparable
                && (bound.prerelease.is_empty() || !version.prerelease.is_empty())
                && order.is_ge()
                && version.numbers[..fixed] == bound.numbers[..fixed]
        }
    }
}

/// A pre-release is only compared with another pre-release of the same version.
fn may_compare(version: &Version, bound: &Version) -> bool {
    match (version.prerelease.is_empty(), bound.prerelease.is_empty()) {
        (true, _) => true,
        (false, true) => false,
        (false, false) => version.numbers == bound.numbers,
    }
}

fn parse(text: &str) -> Option<Version> {
    let text = text.trim().trim_start_matches(['v', 'V']).split('+').next()?;
    let (numbers, prerelease) = match text.split_once('-') {
        Some((numbers, prerelease)) => (numbers, prerelease.split('.').map(str::to_owned).collect()),
        None => (text, Vec::new()),
    };
    let mut numbers = numbers.split('.').map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>()?;
    let written = numbers.len();
    numbers.resize(written.max(3), 0);
    Some(Version { numbers, written, prerelease })
}

fn compare(left: &Version, right: &Version) -> Ordering {
    let numbers = left.numbers.cmp(&right.numbers);
    numbers.then_with(|| match (left.prerelease.is_empty(), right.prerelease.is_empty()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            let parts = left
                .prerelease
                .iter()
                .zip(&right.prerelease)
                .map(|(left, right)| compare_identifiers(left, right));
            let longer = left.prerelease.len().cmp(&right.prerelease.len());
            parts.fold(Ordering::Equal, Ordering::then).then(longer)
        }
    })
}

fn compare_identifiers(left: &str, right: &str) -> Ordering {
    match (left.parse::<u64>(), right.parse::<u64>()) {
        (Ok(left), Ok(right)) => left.cmp(&right),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => left.cmp(right),
    }
}
