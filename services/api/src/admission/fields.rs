//! Accessors for optional members of the API's objects. An absent member equals an empty one.

/// The text; empty if it is absent.
pub(crate) fn text(member: &Option<String>) -> &str {
    member.as_deref().unwrap_or_default()
}

/// The number; 0 if it is absent.
pub(crate) fn number(member: Option<i64>) -> i64 {
    member.unwrap_or_default()
}

/// The flag; false if it is absent.
pub(crate) fn flag(member: Option<bool>) -> bool {
    member.unwrap_or_default()
}

/// The list; empty if it is absent.
pub(crate) fn items<T>(member: &Option<Vec<T>>) -> &[T] {
    member.as_deref().unwrap_or_default()
}

/// Maximum length of an identifier, in bytes.
const IDENTIFIER_BYTES_MAX: usize = 128;

/// Whether a text is an identifier: letters, digits, dashes and underscores.
pub(crate) fn is_identifier(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=IDENTIFIER_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_allowed)
}
