//! Byte strings in messages: one run of bytes instead of a list of numbers.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, SeqAccess, Visitor};

/// Reads a byte string, or the list of numbers that formats without byte strings (JSON) make of one.
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

/// The bytes of such a list.
pub(crate) fn from_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Vec<u8>, A::Error> {
    let mut bytes = Vec::new();
    while let Some(byte) = list.next_element()? {
        bytes.push(byte);
    }
    Ok(bytes)
}
