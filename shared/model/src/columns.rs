//! A column of allocation ids. Messages encode rows by column, with one list per field, so that a field name is written
//! once per message and not once per row.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::AllocId;

/// Allocation ids. They are serialized as one byte string of sixteen bytes per id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllocIds(pub Vec<AllocId>);

impl AllocIds {
    /// Marks a row without an id in a column that has ids for some rows only.
    pub const NONE: AllocId = AllocId::from_bytes([0; 16]);

    /// The id at `row`; `None` if the column is empty or has no id in that row.
    pub fn get(&self, row: usize) -> Option<AllocId> {
        self.0.get(row).copied().filter(|id| *id != Self::NONE)
    }

    /// Whether the column is empty. An empty column is omitted from messages.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl FromIterator<AllocId> for AllocIds {
    fn from_iter<I: IntoIterator<Item = AllocId>>(ids: I) -> Self {
        Self(ids.into_iter().collect())
    }
}

impl Serialize for AllocIds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::with_capacity(self.0.len() * 16);
        for id in &self.0 {
            bytes.extend_from_slice(id.as_bytes());
        }
        serializer.serialize_bytes(&bytes)
    }
}

impl<'de> Deserialize<'de> for AllocIds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::bytes::deserialize(deserializer, "ids of sixteen bytes each", |bytes| {
            let (ids, rest) = bytes.as_chunks::<16>();
            if rest.is_empty() {
                Ok(ids.iter().copied().map(AllocId::from_bytes).collect())
            } else {
                Err(format!("{} bytes are not a whole number of ids", bytes.len()))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_travel_as_one_byte_string() {
        let ids: AllocIds = (0..3).map(|n| AllocId::from_bytes([n; 16])).collect();
        let bytes = rmp_serde::to_vec(&ids).unwrap();
        assert_eq!(bytes.len(), 3 * 16 + 2);
        assert_eq!(rmp_serde::from_slice::<AllocIds>(&bytes).unwrap(), ids);
        assert_eq!(ids.get(0), None, "sixteen zero bytes are no id");
    }

    #[test]
    fn a_cut_column_is_refused() {
        let bytes = rmp_serde::to_vec(&PackedTooShort).unwrap();
        let error = rmp_serde::from_slice::<AllocIds>(&bytes).unwrap_err();
        assert!(error.to_string().contains("17 bytes are not a whole number of ids"), "{error}");
    }

    struct PackedTooShort;

    impl Serialize for PackedTooShort {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(&[7; 17])
        }
    }
}
