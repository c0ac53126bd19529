//! Versions and what is asked of them, in as few words as the checker needs.

use std::cmp::Ordering;

/// `1.2.3-beta.1`, without what follows a plus.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    numbers: Vec<u64>,
    /// How many numbers were written.
    written: usize,
    before: Vec<String>,
}

/// Whether a version is what a list of conditions asks for; `strict` is the order of SemVer and nothing else.
pub(super) fn holds(version: &str, conditions: &str, strict: bool) -> bool {
    let Some(version) = parse(version) else { return false };
    conditions.split(',').all(|condition| one_holds(&version, condition.trim(), strict))
}

fn one_holds(version: &Version, condition: &str, strict: bool) -> bool {
    let operators = ["~>", "!=", ">=", "<=", ">", "<", "="];
    let operator = operators.into_iter().find(|operator| condition.starts_with(operator));
    let Some(bound) = parse(condition[operator.map_or(0, str::len)..].trim()) else { return false };
    let order = compare(version, &bound);
    let may = strict || may_be_compared(version, &bound);
    match operator {
        None | Some("=") => order.is_eq(),
        Some("!=") => order.is_ne(),
        Some(">") => may && order.is_gt(),
        Some("<") => may && order.is_lt(),
        Some(">=") => may && order.is_ge(),
        Some("<=") => may && order.is_le(),
        // `~>`
        Some(_) => {
            let fixed = bound.written.saturating_sub(1);
            !strict
                && may
                && (bound.before.is_empty() || !version.before.is_empty())
                && order.is_ge()
                && version.numbers[..fixed] == bound.numbers[..fixed]
        }
    }
}

/// One that comes before its version is compared only with another one of the same version.
fn may_be_compared(version: &Version, bound: &Version) -> bool {
    match (version.before.is_empty(), bound.before.is_empty()) {
        (true, _) => true,
        (false, true) => false,
        (false, false) => version.numbers == bound.numbers,
    }
}

fn parse(text: &str) -> Option<Version> {
    let text = text.trim().trim_start_matches(['v', 'V']).split('+').next()?;
    let (numbers, before) = match text.split_once('-') {
        Some((numbers, before)) => (numbers, before.split('.').map(str::to_owned).collect()),
        None => (text, Vec::new()),
    };
    let mut numbers = numbers.split('.').map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>()?;
    let written = numbers.len();
    numbers.resize(written.max(3), 0);
    Some(Version { numbers, written, before })
}

fn compare(left: &Version, right: &Version) -> Ordering {
    let numbers = left.numbers.cmp(&right.numbers);
    numbers.then_with(|| match (left.before.is_empty(), right.before.is_empty()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            let parts = left.before.iter().zip(&right.before).map(|(left, right)| part(left, right));
            let longer = left.before.len().cmp(&right.before.len());
            parts.fold(Ordering::Equal, Ordering::then).then(longer)
        }
    })
}

fn part(left: &str, right: &str) -> Ordering {
    match (left.parse::<u64>(), right.parse::<u64>()) {
        (Ok(left), Ok(right)) => left.cmp(&right),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => left.cmp(right),
    }
}
