//! Compilation of regular expressions from clients, with error messages in the wording of Go's RE2.

use model::pattern::PatternCost;
use regex::{Regex, RegexBuilder};
use regex_syntax::ast::{ErrorKind, Span};

/// Maximum length of an expression in error messages, in bytes.
const SHOWN_BYTES_MAX: usize = 100;
/// Minimum memory of a transition, in bytes. An expression with more transitions than fit is refused before it is compiled.
const TRANSITION_BYTES_MIN: usize = 4;

/// The beginning of an expression, for error messages.
pub(crate) fn shortened(pattern: &str) -> &str {
    &pattern[..pattern.floor_char_boundary(SHOWN_BYTES_MAX)]
}

/// Compiles a regular expression. `bytes_max` limits the memory of the compiled program.
///
/// # Errors
/// An error message in RE2's wording, such as ``error parsing regexp: missing closing ]: `[` ``.
pub(crate) fn compile(pattern: &str, bytes_max: usize) -> Result<Regex, String> {
    let transitions_max = bytes_max / TRANSITION_BYTES_MIN;
    PatternCost::of(pattern, transitions_max as u64)
        .map_err(|error| format!("error parsing regexp: {error}"))?;
    let built = RegexBuilder::new(pattern).size_limit(bytes_max).dfa_size_limit(bytes_max).build();
    built.map_err(|error| {
        let message = match regex_syntax::Parser::new().parse(pattern) {
            Err(regex_syntax::Error::Parse(error)) => re2_message(error.kind(), pattern, *error.span()),
            _ => None,
        };
        // The message of the `regex` crate draws the expression on several lines. Its last line states the problem.
        let fallback =
            || error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        format!("error parsing regexp: {}", message.unwrap_or_else(fallback))
    })
}

fn re2_message(kind: &ErrorKind, pattern: &str, at: Span) -> Option<String> {
    let span_text = &pattern[at.start.offset..at.end.offset];
    let rest = &pattern[at.start.offset..];
    #[allow(clippy::wildcard_enum_match_arm, reason = "the text of the other errors is clear enough")]
    Some(match kind {
        ErrorKind::ClassUnclosed => format!("missing closing ]: `{rest}`"),
        ErrorKind::ClassRangeInvalid => format!("invalid character class range: `{span_text}`"),
        ErrorKind::GroupUnclosed => format!("missing closing ): `{pattern}`"),
        ErrorKind::GroupUnopened => format!("unexpected ): `{pattern}`"),
        ErrorKind::RepetitionMissing => {
            let operator = rest.chars().next().map(String::from).unwrap_or_default();
            format!("missing argument to repetition operator: `{operator}`")
        }
        ErrorKind::RepetitionCountInvalid => format!("invalid repeat count: `{span_text}`"),
        ErrorKind::EscapeUnexpectedEof => "trailing backslash at end of expression: ``".to_owned(),
        ErrorKind::EscapeUnrecognized => format!("invalid escape sequence: `{span_text}`"),
        ErrorKind::UnsupportedLookAround | ErrorKind::FlagUnrecognized => {
            format!("invalid or unsupported Perl syntax: `{rest}`")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named_as_clients_know_them() {
        let message = |pattern| compile(pattern, 1 << 20).unwrap_err();
        assert_eq!(message("["), "error parsing regexp: missing closing ]: `[`");
        assert_eq!(message("a[b-a]"), "error parsing regexp: invalid character class range: `b-a`");
        assert_eq!(message("(a"), "error parsing regexp: missing closing ): `(a`");
        assert_eq!(message("a)"), "error parsing regexp: unexpected ): `a)`");
        assert_eq!(message("*"), "error parsing regexp: missing argument to repetition operator: `*`");
        assert_eq!(message("\\"), "error parsing regexp: trailing backslash at end of expression: ``");
        assert_eq!(message("\\y"), "error parsing regexp: invalid escape sequence: `\\y`");
        assert!(message("a{2,1}").starts_with("error parsing regexp: invalid repeat count: `"));
        assert!(message("(?<a>x)(?<a>y)").contains("duplicate"));
        assert!(compile("^a.*$", 1 << 20).is_ok());
    }

    #[test]
    fn large_expressions_are_refused_before_they_are_compiled() {
        let message = |pattern: &str| compile(pattern, 256 << 10).unwrap_err();
        assert!(message("(a{1000}){1000}").contains("expands to more than 65536 transitions"));
        assert!(message(&r"(?i)[\p{L}&&\p{Lu}]".repeat(200)).contains("expands to more than"));
        assert!(message(&"a".repeat(5_000)).contains("5000 bytes"));
        assert!(compile(r"^\w+(-\w+)*$", 256 << 10).is_ok());
    }
}
