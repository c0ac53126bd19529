//! Texts of a job file in messages: in quotes, and shortened.

/// Maximum number of characters of a text in a message.
const CHARS_MAX: usize = 100;

/// A text in quotes, of which only the beginning is shown if it is long.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(CHARS_MAX) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}… ({} bytes)", &text[..end], text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_of_a_long_text_is_shown() {
        assert_eq!(quoted("a\"b"), "\"a\\\"b\"");
        assert_eq!(quoted(&"é".repeat(100)), format!("\"{}\"", "é".repeat(100)));
        assert_eq!(quoted(&"é".repeat(101)), format!("\"{}\"… (202 bytes)", "é".repeat(100)));
    }
}
