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
    id.parse().map_err(|error| match error {
        InvalidId::Length { .. } => index_error(lookup, "UUID must be 36 characters"),
        // What is wrong is what would be wrong with a prefix.
        InvalidId::Form { .. } => match prefix_range(lookup, id) {
            Err(problem) => problem,
            Ok(_) => index_error(lookup, &format!("Invalid UUID: {id:?}")),
        },
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
    let hyphens = prefix.matches('-').count();
    if hyphens > UUID_HYPHENS {
        return failed(&format!("UUID should have maximum of {UUID_HYPHENS} \"-\"; got {hyphens}"));
    }
    // Like the reference, this looks at bytes and not at characters.
    let digits: Vec<u8> = prefix.bytes().filter(|byte| *byte != b'-').collect();
    if !digits.len().is_multiple_of(2) {
        return failed("Input (without hyphens) must be even length");
    }
    let mut values = Vec::with_capacity(digits.len());
    for digit in digits {
        values.push(match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return failed(&format!("Invalid UUID: encoding/hex: invalid byte: {}", code_point(digit))),
        });
    }
    if values.len() > 2 * UUID_BYTES {
        return failed("Invalid UUID: too many digits");
    }
    let (mut first, mut last) = ([0; UUID_BYTES], [u8::MAX; UUID_BYTES]);
    for ((pair, first), last) in values.chunks_exact(2).zip(&mut first).zip(&mut last) {
        let byte = pair.iter().fold(0_u8, |byte, value| (byte << 4) | *value);
        (*first, *last) = (byte, byte);
    }
    Ok(first..=last)
}

/// A byte as Go's format `%#U` shows it: the number, and the character if it is a printable one.
fn code_point(byte: u8) -> String {
    let (number, char) = (u32::from(byte), char::from(byte));
    match byte {
        b' '..=b'~' | 0xa1..=0xac | 0xae.. => format!("U+{number:04X} '{char}'"),
        _ => format!("U+{number:04X}"),
    }
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
        let error = parse_id::<AllocId>("", &"z".repeat(36)).unwrap_err();
        assert_eq!(error.text, "index error: Invalid UUID: encoding/hex: invalid byte: U+007A 'z'");
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
        assert!(text("\u{e9}").ends_with("invalid byte: U+00C3 '\u{c3}'"), "two bytes (http-api §9.4)");
        assert!(text("\u{1}0").ends_with("invalid byte: U+0001"));
    }
}
