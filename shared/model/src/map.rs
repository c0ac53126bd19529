//! [`Map`]: an ordered map that is compact if it has few entries.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Index};

use litemap::LiteMap;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An ordered map, stored as a sorted list that takes no more memory than its entries. A `BTreeMap` allocates space for
/// eleven entries at the first insertion, and every replica holds millions of maps with a single entry. The cost of an
/// insertion is linear in the number of entries, so use it for few entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map<K, V>(LiteMap<K, V>);

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(LiteMap::new_vec())
    }
}

impl<K, V> Deref for Map<K, V> {
    type Target = LiteMap<K, V>;

    fn deref(&self) -> &LiteMap<K, V> {
        &self.0
    }
}

impl<K, V> DerefMut for Map<K, V> {
    fn deref_mut(&mut self) -> &mut LiteMap<K, V> {
        &mut self.0
    }
}

impl<K: Ord + Borrow<Q>, V, Q: Ord + ?Sized> Index<&Q> for Map<K, V> {
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        self.0.get(key).expect("indexing requires a key that is in the map")
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for Map<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: Ord, V> From<BTreeMap<K, V>> for Map<K, V> {
    fn from(entries: BTreeMap<K, V>) -> Self {
        entries.into_iter().collect()
    }
}

impl<K, V> IntoIterator for Map<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_tuple_vec().into_iter()
    }
}

impl<'a, K, V> IntoIterator for &'a Map<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = <&'a LiteMap<K, V> as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (&self.0).into_iter()
    }
}

impl<K: Serialize, V: Serialize> Serialize for Map<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> Deserialize<'de> for Map<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// Deserializes the entries. The implementation of `LiteMap` allocates as many entries as the message announces, which an
/// attacker can choose; this one limits the allocation.
struct Entries<K, V>(PhantomData<(K, V)>);

impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> Visitor<'de> for Entries<K, V> {
    type Value = Map<K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Map<K, V>, A::Error> {
        const CAPACITY_MAX: usize = 8;
        let mut map = LiteMap::with_capacity(entries.size_hint().unwrap_or(0).min(CAPACITY_MAX));
        let mut out_of_order = Vec::new();
        while let Some((key, value)) = entries.next_entry()? {
            out_of_order.extend(map.try_append(key, value));
        }
        map.extend(out_of_order);
        Ok(Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_and_told_by_key_whatever_their_order() {
        let map: Map<String, u32> = serde_json::from_str(r#"{"b": 2, "c": 3, "a": 1, "b": 4}"#).unwrap();
        assert_eq!(
            map,
            [("c".into(), 3), ("a".into(), 1), ("b".into(), 4)].into(),
            "the last of equal keys counts"
        );
        assert_eq!((map["a"], map.get("d")), (1, None));
        assert_eq!(serde_json::to_string(&map).unwrap(), r#"{"a":1,"b":4,"c":3}"#);
    }

    #[test]
    fn a_message_that_announces_more_than_it_has_is_refused() {
        // The header of a map of 2³² - 1 entries, without any entry.
        let error = rmp_serde::from_slice::<Map<String, u32>>(&[0xdf, 0xff, 0xff, 0xff, 0xff]).unwrap_err();
        assert!(
            error.to_string().contains("unexpected end") || error.to_string().contains("IO error"),
            "{error}"
        );
    }
}
