//! Bytes, which the API encodes as base64 text (RFC 4648, standard alphabet, padded).

use std::fmt;

use ::base64::Engine;
use ::base64::engine::general_purpose::STANDARD;
use serde::de::{self, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that JSON contains as base64 text, such as a dispatch payload or an object's hash.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Base64(pub Vec<u8>);

impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Base64({})", STANDARD.encode(&self.0))
    }
}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&::base64::display::Base64Display::new(&self.0, &STANDARD))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut text = String::deserialize(deserializer)?;
        // Many encoders wrap lines, and Go's decoder ignores line breaks.
        text.retain(|c| !matches!(c, '\r' | '\n'));
        let bytes = STANDARD.decode(&text);
        bytes.map(Self).map_err(|_| de::Error::invalid_value(Unexpected::Str(&text), &"base64 text"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        let bytes = Base64(b"hello\xff".to_vec());
        let json = serde_json::to_string(&bytes).unwrap();
        assert_eq!(json, r#""aGVsbG//""#);
        assert_eq!(serde_json::from_str::<Base64>(&json).unwrap(), bytes);
        assert_eq!(serde_json::from_str::<Base64>(r#""""#).unwrap(), Base64::default());
    }

    #[test]
    fn takes_wrapped_lines() {
        assert_eq!(serde_json::from_str::<Base64>(r#""aGVs\r\nbG8=\n""#).unwrap().0, b"hello");
    }

    #[test]
    fn refuses_what_is_not_base64() {
        for json in [r#""aGVsbG8""#, r#""a-b_""#, r#""é""#, "7", "[1]"] {
            assert!(serde_json::from_str::<Base64>(json).is_err(), "{json}");
        }
    }
}
