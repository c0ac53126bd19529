//! Parsing of ids and id prefixes from paths and from the parameter `prefix` (http-api §3, §9.4).

use std::ops::RangeInclusive;
use std::str::FromStr;

use model::ids::InvalidId;

use super::Error;

/// Number of characters of a UUID, four of which are hyphens.
const UUID_CHARS: usize = 36;
/// Number of hyphens of a UUID.
const UUID_HYPHENS: usize = 4;
/// Number of bytes of a UUID.
const UUID_BYTES: usize = 16;

/// Parses an id. `lookup` is how the error begins, which depends on the route.
///
/// # Errors
/// A 500 if the id is malformed, not a 404 (http-api §9.4).
pub(crate) fn parse_id<T: FromStr<Err = InvalidId>>(lookup: &str, id: &str) -> Result<T, Error> {
    id.parse().map_err(|error| {
        let problem = match error {
            InvalidId::Length { .. } => "UUID must be 36 characters".to_owned(),
            InvalidId::Form { .. } => form_problem(id).unwrap_or_else(|| format!("Invalid UUID: {id:?}")),
        };
        index_error(lookup, &problem)
    })
}

/// Range of the ids that begin with `prefix`. `lookup` is how the error begins, which depends on the route.
///
/// # Errors
/// If no id can begin with `prefix`.
pub(crate) fn prefix_range(lookup: &str, prefix: &str) -> Result<RangeInclusive<[u8; UUID_BYTES]>, Error> {
    let failed = |problem: &str| Err(index_error(lookup, problem));
    if prefix.len() > UUID_CHARS {
        return failed(&format!(
            "Invalid UUID length. UUID have {UUID_CHARS} characters; got {}",
            prefix.len()
        ));
    }
    if let Some(problem) = form_problem(prefix) {
        return failed(&problem);
    }
    let digits: Vec<u32> = digits(prefix).filter_map(|digit| char::from(digit).to_digit(16)).collect();
    if digits.len() > 2 * UUID_BYTES {
        return failed("Invalid UUID: too many digits");
    }
    let (mut first, mut last) = ([0; UUID_BYTES], [u8::MAX; UUID_BYTES]);
    for (pair, (first, last)) in digits.chunks_exact(2).zip(first.iter_mut().zip(&mut last)) {
        let byte = pair.iter().fold(0, |byte, digit| byte << 4 | digit);
        let byte = u8::try_from(byte).expect("two hexadecimal digits are a byte");
        (*first, *last) = (byte, byte);
    }
    Ok(first..=last)
}

/// The bytes of an id or a prefix, without hyphens.
fn digits(text: &str) -> impl Iterator<Item = u8> {
    text.bytes().filter(|byte| *byte != b'-')
}

/// What is wrong with the hyphens and digits of an id or a prefix, in the order in which the reference looks at them
/// (http-api §9.4). Bytes that cannot be printed are named by their number alone.
fn form_problem(text: &str) -> Option<String> {
    let hyphens = text.matches('-').count();
    if hyphens > UUID_HYPHENS {
        return Some(format!("UUID should have maximum of {UUID_HYPHENS} \"-\"; got {hyphens}"));
    }
    if !digits(text).count().is_multiple_of(2) {
        return Some("Input (without hyphens) must be even length".to_owned());
    }
    let wrong = char::from(digits(text).find(|byte| !byte.is_ascii_hexdigit())?);
    let code = u32::from(wrong);
    let shown = if wrong.is_control() { String::new() } else { format!(" '{wrong}'") };
    Some(format!("Invalid UUID: encoding/hex: invalid byte: U+{code:04X}{shown}"))
}

fn index_error(lookup: &str, problem: &str) -> Error {
    Error::failed(format!("{lookup}index error: {problem}"))
}

#[cfg(test)]
mod tests {
    use model::AllocId;

    use super::*;

    #[test]
    fn invalid_ids_are_errors_and_not_missing_objects() {
        let error = parse_id::<AllocId>("alloc lookup failed: ", "abc").unwrap_err();
        assert_eq!(error.status.as_u16(), 500);
        assert_eq!(error.text, "alloc lookup failed: index error: UUID must be 36 characters");
        let text = |id: &str| parse_id::<AllocId>("", id).unwrap_err().text;
        assert_eq!(
            text(&"z".repeat(36)),
            "index error: Invalid UUID: encoding/hex: invalid byte: U+007A 'z'"
        );
        assert_eq!(
            text("0000000000000-00000000000-0000000000"),
            "index error: Invalid UUID: \"0000000000000-00000000000-0000000000\"",
            "only the hyphens are at wrong places"
        );
        assert_eq!(
            text("0-0-0-0-0-00000000000000000000000000"),
            "index error: UUID should have maximum of 4 \"-\"; got 5"
        );
        assert!(parse_id::<AllocId>("alloc lookup failed: ", "00000000-0000-4000-8000-000000000000").is_ok());
    }

    #[test]
    fn a_beginning_stands_for_a_range() {
        let range = prefix_range("alloc lookup failed: ", "0a0B-c1").unwrap();
        assert_eq!(range.start()[..4], [0x0a, 0x0b, 0xc1, 0]);
        assert_eq!(range.end()[..4], [0x0a, 0x0b, 0xc1, 0xff]);
        assert_eq!(prefix_range("alloc lookup failed: ", "").unwrap(), [0; 16]..=[255; 16]);
        let whole = "00000000-0000-4000-8000-000000000000";
        let range = prefix_range("alloc lookup failed: ", whole).unwrap();
        assert_eq!(range.start(), range.end());
    }

    #[test]
    fn no_id_begins_so() {
        let text = |prefix: &str| prefix_range("node lookup failed: ", prefix).unwrap_err().text;
        assert_eq!(
            text("abc"),
            "node lookup failed: index error: Input (without hyphens) must be even length"
        );
        assert_eq!(
            text("zz"),
            "node lookup failed: index error: Invalid UUID: encoding/hex: invalid byte: U+007A 'z'"
        );
        assert_eq!(
            text("00000000-0000-4000-8000-000000000000ff"),
            "node lookup failed: index error: Invalid UUID length. UUID have 36 characters; got 38"
        );
        assert_eq!(
            text("0-0-0-0-0-"),
            "node lookup failed: index error: UUID should have maximum of 4 \"-\"; got 5"
        );
        assert_eq!(
            prefix_range("", "abc").unwrap_err().text,
            "index error: Input (without hyphens) must be even length"
        );
        assert!(text(&"0".repeat(36)).ends_with("too many digits"));
        assert!(text("\u{e9}\u{e9}").ends_with("invalid byte: U+00C3 'Ã'"));
        assert!(text("\u{1}\u{1}").ends_with("invalid byte: U+0001"));
    }
}
