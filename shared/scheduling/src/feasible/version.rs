//! Versions in constraints: lenient parsing, and two sets of comparison rules (`docs/rules/scheduling.md` ).

use std::cmp::Ordering;

/// A version such as `v1.2.3-beta1+ent`. Build metadata is validated and dropped, because it is not compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    /// At least three; missing ones are 0.
    segments: Vec<u64>,
    /// Number of segments in the text.
    written: usize,
    /// The text after the hyphen; empty for a release.
    pre_release: String,
}

const SEGMENTS_MIN: usize = 3;

impl Version {
    /// Parses a version; `None` if the text is not a version. The hyphen before a pre-release is optional.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (numbers, rest) = text.split_at(end);
        let mut segments = numbers.split('.').map(|n| n.parse().ok()).collect::<Option<Vec<u64>>>()?;
        let written = segments.len();
        segments.resize(written.max(SEGMENTS_MIN), 0);
        let (pre_release, build) = match rest.split_once('+') {
            Some((pre_release, build)) => (pre_release, Some(build)),
            None => (rest, None),
        };
        let hyphenless = pre_release.strip_prefix('-').unwrap_or(pre_release);
        let lacks_text = rest.starts_with('-') && hyphenless.is_empty();
        if lacks_text
            || !is_dotted(hyphenless)
            || build.is_some_and(|build| build.is_empty() || !is_dotted(build))
        {
            return None;
        }
        Some(Self { segments, written, pre_release: hyphenless.to_owned() })
    }

    fn is_pre_release(&self) -> bool {
        !self.pre_release.is_empty()
    }

    fn compare(&self, other: &Self) -> Ordering {
        let length = self.segments.len().max(other.segments.len());
        let padded = |version: &Self| -> Vec<u64> {
            version.segments.iter().copied().chain(std::iter::repeat(0)).take(length).collect()
        };
        padded(self)
            .cmp(&padded(other))
            .then_with(|| compare_pre_releases(&self.pre_release, &other.pre_release))
    }

    fn has_segments_of(&self, other: &Self) -> bool {
        self.segments == other.segments
    }
}

/// Whether the text is empty, or consists of parts of letters, digits, hyphens and tildes, separated by dots.
fn is_dotted(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '~')
    };
    text.is_empty() || text.split('.').all(is_part)
}

/// A release comes after its pre-releases. Pre-releases are compared part by part, numbers before words.
fn compare_pre_releases(left: &str, right: &str) -> Ordering {
    match (left.is_empty(), right.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut left, mut right) = (left.split('.'), right.split('.'));
    loop {
        let ordering = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(left), Some(right)) => match (left.parse::<u64>(), right.parse::<u64>()) {
                (Ok(left), Ok(right)) => left.cmp(&right),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => left.cmp(right),
            },
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
}

/// Rules of comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Rules of the operator `version`: ranges exclude pre-releases unless they name one, and `~>` is allowed.
    Version,
    /// Rules of the operator `semver`: SemVer ordering only.
    Semver,
}

/// A list of bounds such as `>= 1.2, < 2`, all of which a version must satisfy.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    rules: Rules,
    bounds: Vec<(Operator, Version)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Pessimistic,
}

impl Bounds {
    /// Parses a list of bounds; `None` if some part is not valid under the rules.
    pub(crate) fn parse(text: &str, rules: Rules) -> Option<Self> {
        let bounds = text.split(',').map(|bound| parse_bound(bound.trim(), rules));
        Some(Self { rules, bounds: bounds.collect::<Option<_>>()? })
    }

    /// The first part of a list of bounds that is not valid under the rules, as it is written.
    pub(crate) fn malformed(text: &str, rules: Rules) -> Option<&str> {
        text.split(',').find(|bound| parse_bound(bound.trim(), rules).is_none())
    }

    /// Whether the version that a node reports is within all bounds.
    pub(crate) fn admit(&self, version: &str) -> bool {
        let Some(version) = Version::parse(version) else { return false };
        self.bounds.iter().all(|(operator, bound)| match self.rules {
            Rules::Version => admits(*operator, bound, &version),
            Rules::Semver => orders(*operator, version.compare(bound)),
        })
    }
}

fn parse_bound(text: &str, rules: Rules) -> Option<(Operator, Version)> {
    const OPERATORS: [(&str, Operator); 7] = [
        ("~>", Operator::Pessimistic),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
        ("=", Operator::Equal),
    ];
    let known = OPERATORS.iter().find_map(|(word, operator)| Some((text.strip_prefix(word)?, *operator)));
    let (version, operator) = known.unwrap_or((text, Operator::Equal));
    if rules == Rules::Semver && operator == Operator::Pessimistic {
        return None;
    }
    Some((operator, Version::parse(version.trim_start())?))
}

fn orders(operator: Operator, ordering: Ordering) -> bool {
    match operator {
        Operator::Equal => ordering.is_eq(),
        Operator::NotEqual => ordering.is_ne(),
        Operator::Less => ordering.is_lt(),
        Operator::LessOrEqual => ordering.is_le(),
        Operator::Greater => ordering.is_gt(),
        Operator::GreaterOrEqual | Operator::Pessimistic => ordering.is_ge(),
    }
}

/// Whether a version satisfies one bound under the rules of `version`.
fn admits(operator: Operator, bound: &Version, version: &Version) -> bool {
    let in_range = orders(operator, version.compare(bound));
    let comparable = match (version.is_pre_release(), bound.is_pre_release()) {
        (true, false) => false,
        (true, true) => version.has_segments_of(bound),
        (false, true) => operator != Operator::Pessimistic,
        (false, false) => true,
    };
    match operator {
        Operator::Equal | Operator::NotEqual => in_range,
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            comparable && in_range
        }
        Operator::Pessimistic => {
            let fixed = bound.written.saturating_sub(1);
            // The version may have fewer segments than the bound.
            let segments = version.segments.iter().chain(std::iter::repeat(&0));
            comparable && in_range && segments.take(fixed).eq(bound.segments.iter().take(fixed))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(version: &str, bounds: &str, rules: Rules) -> bool {
        Bounds::parse(bounds, rules).is_some_and(|bounds| bounds.admit(version))
    }

    #[test]
    fn the_examples_of_the_rules() {
        let version = |version, bounds| admit(version, bounds, Rules::Version);
        assert!(!version("1.3.0-beta1", ">= 0.6.1"));
        assert!(!version("1.7.0-alpha1", ">= 1.6.0-beta1"));
        assert!(version("1.3.0-beta1+ent", "= 1.3.0-beta1"));
        assert!(version("1.2.3", "~> 1.0"));
        assert!(!version("2.0.0", "~> 1.0"));
        assert!(version("1.2.9", "~> 1.2.3") && !version("1.3.0", "~> 1.2.3"));
        assert!(version("v1.4", ">= 1.2, < 2"));
        assert!(admit("1.3.0-beta1", ">= 0.6.1", Rules::Semver));
        assert!(!admit("1.7.0-beta", ">= 1.7.0", Rules::Semver));
    }

    #[test]
    fn a_version_may_have_fewer_segments_than_its_bound() {
        assert!(!admit("2", "~> 1.2.3.4.5", Rules::Version));
        assert!(admit("1.2.3", "~> 1.2.3.0.0", Rules::Version));
        assert!(!admit("1.2.4", "~> 1.2.3.0.0", Rules::Version));
    }

    #[test]
    fn the_first_malformed_bound_is_found_as_it_is_written() {
        assert_eq!(Bounds::malformed(">= 1.2, < 2", Rules::Version), None);
        assert_eq!(Bounds::malformed(">= 1.2, < x , y", Rules::Version), Some(" < x "));
        assert_eq!(Bounds::malformed("", Rules::Version), Some(""));
        assert_eq!(Bounds::malformed("~> 1.2", Rules::Version), None);
        assert_eq!(Bounds::malformed("~> 1.2", Rules::Semver), Some("~> 1.2"));
        assert_eq!(Bounds::malformed(">= 1.x", Rules::Semver), Some(">= 1.x"));
    }

    #[test]
    fn an_invalid_version_is_within_no_bounds() {
        for wrong in ["", "x", "1.", "1..2", "1.2-", "1.2+", "1.2-a_b"] {
            assert!(!admit(wrong, ">= 0", Rules::Version), "{wrong}");
            assert!(Bounds::parse(&format!("> {wrong}"), Rules::Version).is_none(), "{wrong}");
        }
        assert!(Bounds::parse("~> 1.0", Rules::Semver).is_none());
    }

    #[test]
    fn pre_releases_are_ordered_part_by_part() {
        let ordered =
            ["1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0"];
        for pair in ordered.windows(2) {
            assert!(admit(pair[0], &format!("< {}", pair[1]), Rules::Semver), "{pair:?}");
        }
    }
}
