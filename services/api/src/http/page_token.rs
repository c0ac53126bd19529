//! Tokens of pages in headers and parameters. Ids in a token may contain control characters, which no header can have at
//! all places. A token with one is sent percent-encoded after a percent sign, with which no plain token begins.

use super::{escape, unescape};

const ENCODED: char = '%';

/// The token as it is sent in a header.
pub(super) fn to_header(token: &str) -> String {
    if token.contains(char::is_control) { format!("{ENCODED}{}", escape(token)) } else { token.to_owned() }
}

/// The token that a client sends back.
pub(super) fn from_parameter(sent: &str) -> String {
    let encoded = sent.strip_prefix(ENCODED).and_then(|encoded| unescape(encoded, false));
    encoded.unwrap_or_else(|| sent.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_comes_back_as_it_was() {
        for token in ["default.a", "default.a%01", "7.default.\u{e9}", "default.a\n\u{7f}", "default.\t"] {
            let sent = to_header(token);
            assert!(!sent.contains(char::is_control), "{sent:?}");
            assert_eq!(from_parameter(&sent), token);
        }
        assert_eq!(from_parameter("%%zz"), "%%zz");
    }
}
