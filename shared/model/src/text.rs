//! The type of shared text, string enumerations of the API, quoting, and glob patterns.

use std::fmt::{self, Write as _};

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// Immutable text. A short text, such as most names, is stored inline. A longer one is shared, and a clone only increments
/// a reference count.
pub type Text = smol_str::SmolStr;

/// Quotes `text` in double quotes and escapes non-printable characters with backslashes, as messages quote names and
/// errors (A-10.4).
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted += "\\n",
            '\r' => quoted += "\\r",
            '\t' => quoted += "\\t",
            c if c.is_ascii_control() => {
                write!(quoted, "\\x{:02x}", u32::from(c)).expect("writing to a string cannot fail");
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether the whole `text` matches `pattern`, in which `*` matches any run of characters (R-5.1).
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The leftmost match of each part leaves the longest rest for the following parts.
    for part in middle.split('*') {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(end)
}

/// A string is not a value of the enumeration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} {value:?}: expected one of {expected}")]
pub struct UnknownValue {
    /// Name of the enumeration, for instance `node status`.
    pub what: &'static str,
    /// The invalid string.
    pub value: String,
    /// The valid strings, separated by commas.
    pub expected: String,
}

/// Deserializes a string and passes it to `parse` without copying it. `what` describes the expected value in errors.
pub(crate) fn deserialize_str<'de, D, T, E>(
    deserializer: D,
    what: &'static str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    E: fmt::Display,
{
    struct ParseVisitor<F>(&'static str, F);

    impl<T, E: fmt::Display, F: FnOnce(&str) -> Result<T, E>> Visitor<'_> for ParseVisitor<F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<R: Error>(self, text: &str) -> Result<T, R> {
            (self.1)(text).map_err(R::custom)
        }
    }

    deserializer.deserialize_str(ParseVisitor(what, parse))
}

/// Declares an enumeration whose values are strings in the API (`docs/rules/http-api.md` Appendix B).
///
/// `as_str`, `Display`, `FromStr` and serde all use the same string, so that logs, tables, messages and API responses
/// agree.
macro_rules! string_enum {
    (
        $(#[$meta:meta])*
        $name:ident, $what:literal {
            $( $(#[$variant_meta:meta])* $variant:ident => $word:literal ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant ),+
        }

        impl $name {
            /// All values, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The string that the API uses.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $word ),+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::text::UnknownValue;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $( $word => Ok(Self::$variant), )+
                    _ => Err($crate::text::UnknownValue {
                        what: $what,
                        value: text.to_owned(),
                        expected: [$($word),+].join(", "),
                    }),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::text::deserialize_str(deserializer, $what, str::parse)
            }
        }
    };
}
pub(crate) use string_enum;

#[cfg(test)]
mod tests {
    #![allow(unreachable_pub, reason = "`string_enum!` declares public enumerations")]

    use super::{matches_pattern, quoted};

    string_enum! {
        /// A colour.
        Colour, "colour" {
            /// The colour red.
            Red => "red",
            /// The colour blue.
            Blue => "blue",
        }
    }

    #[test]
    fn quotes_and_what_does_not_print_is_escaped() {
        assert_eq!(quoted("it's \"ü\"\n\u{1b}[0m\\"), r#""it's \"ü\"\n\x1b[0m\\""#);
    }

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        for (pattern, text) in [("*", ""), ("dc1", "dc1"), ("dc*", "dc"), ("*c*2", "dc12"), ("a*b*b", "abb")]
        {
            assert!(matches_pattern(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("", "a"), ("dc", "dc1"), ("dc*", "adc"), ("*1", "dc12"), ("a*b*b", "ab")] {
            assert!(!matches_pattern(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_word_is_read_back() {
        for colour in Colour::ALL {
            assert_eq!(colour.as_str().parse(), Ok(*colour));
        }
    }

    #[test]
    fn a_wrong_word_names_the_right_ones() {
        let error = "green".parse::<Colour>().unwrap_err();
        assert_eq!(error.to_string(), r#"invalid colour "green": expected one of red, blue"#);
    }
}
