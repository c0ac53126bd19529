//! Reading the API's optional members, where absent and empty mean the same.

/// A text that may be absent.
pub(crate) fn text(member: &Option<String>) -> &str {
    member.as_deref().unwrap_or_default()
}

/// A number that may be absent.
pub(crate) fn number(member: Option<i64>) -> i64 {
    member.unwrap_or_default()
}

/// A flag that may be absent.
pub(crate) fn flag(member: Option<bool>) -> bool {
    member.unwrap_or_default()
}

/// A list that may be absent.
pub(crate) fn items<T>(member: &Option<Vec<T>>) -> &[T] {
    member.as_deref().unwrap_or_default()
}
