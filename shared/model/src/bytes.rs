//! Deserialization of byte strings.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, SeqAccess, Visitor};

/// Deserializes a byte string and passes the bytes to `make`. Formats without byte strings (JSON) encode them as a list of
/// numbers, which is accepted as well. `what` describes the expected value in errors.
pub(crate) fn deserialize<'de, D, T>(
    deserializer: D,
    what: &'static str,
    make: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
{
    struct Bytes<F>(&'static str, F);

    impl<'de, T, F: FnOnce(&[u8]) -> Result<T, String>> Visitor<'de> for Bytes<F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<T, E> {
            (self.1)(bytes).map_err(E::custom)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
            self.visit_bytes(&from_list(list)?)
        }
    }

    deserializer.deserialize_bytes(Bytes(what, make))
}

/// Reads the bytes of a byte string that is encoded as a list of numbers.
pub(crate) fn from_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Vec<u8>, A::Error> {
    let mut bytes = Vec::new();
    while let Some(byte) = list.next_element()? {
        bytes.push(byte);
    }
    Ok(bytes)
}
