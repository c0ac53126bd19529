//! [`TaskGroups`]: the task groups of a job, decoded only when they are first used.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, SeqAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::TaskGroup;
use crate::invalid::Invalid;
use crate::messagepack;
use crate::mirror::Member;

/// The task groups of a job: a list that is decoded on first use. Most services never use the groups of most jobs.
///
/// A message contains the list as one byte string with its MessagePack encoding, which is stored and forwarded unchanged.
/// A process that only stores or forwards a job neither decodes nor encodes its groups, and they take a quarter of the
/// memory of the decoded form.
///
/// # Panics
/// Every access panics if the bytes are not valid. Services that receive jobs call [`Self::check`] first.
#[derive(Clone)]
pub struct TaskGroups {
    /// The encoded form, as it was received. `None` if the list was created or changed in this process; the list is then
    /// decoded.
    packed: Option<Box<[u8]>>,
    unpacked: OnceLock<Vec<TaskGroup>>,
}

/// Bytes are not encoded task groups.
#[derive(Debug, thiserror::Error)]
#[error("cannot decode task groups")]
pub struct UnreadableGroups(#[from] rmp_serde::decode::Error);

impl TaskGroups {
    /// Decodes the groups and returns them. Call it once on groups from an untrusted source.
    ///
    /// # Errors
    /// If the bytes are not valid, or were encoded by a version that this program does not know.
    pub fn check(&self) -> Result<&[TaskGroup], UnreadableGroups> {
        if let Some(groups) = self.unpacked.get() {
            return Ok(groups);
        }
        let groups = messagepack::from_slice(self.packed.as_deref().unwrap_or_default())?;
        Ok(self.unpacked.get_or_init(|| groups))
    }

    /// Length of the encoded form in bytes; 0 if the list was created or changed in this process.
    pub fn encoded_bytes(&self) -> usize {
        self.packed.as_deref().map_or(0, <[u8]>::len)
    }

    // The three conversions below have no type parameters, so they are compiled once, in this crate. In the generic
    // functions that call them they would be compiled for every format, in each crate that encodes or decodes jobs.

    fn pack(&self) -> Result<Vec<u8>, rmp_serde::encode::Error> {
        rmp_serde::to_vec_named(&**self)
    }

    fn to_json(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(self.check().map_err(serde_json::Error::custom)?)
    }

    fn from_list(list: Vec<Value>) -> Result<Self, serde_json::Error> {
        Vec::<TaskGroup>::deserialize(Value::Array(list)).map(Self::from)
    }

    /// Whether the list is empty, without decoding it. An empty list is never stored encoded.
    fn is_known_empty(&self) -> bool {
        self.unpacked.get().is_some_and(Vec::is_empty)
    }
}

impl Deref for TaskGroups {
    type Target = [TaskGroup];

    fn deref(&self) -> &[TaskGroup] {
        self.check().expect("services check task groups when they receive them")
    }
}

impl DerefMut for TaskGroups {
    fn deref_mut(&mut self) -> &mut [TaskGroup] {
        self.to_mut()
    }
}

impl TaskGroups {
    /// Returns the decoded list for modification.
    pub fn to_mut(&mut self) -> &mut Vec<TaskGroup> {
        let _: &[TaskGroup] = self;
        self.packed = None;
        self.unpacked.get_mut().expect("the groups were decoded above")
    }
}

impl From<Vec<TaskGroup>> for TaskGroups {
    fn from(groups: Vec<TaskGroup>) -> Self {
        Self { packed: None, unpacked: groups.into() }
    }
}

impl Default for TaskGroups {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl fmt::Debug for TaskGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.check() {
            Ok(groups) => groups.fmt(f),
            Err(error) => write!(f, "<{error}>"),
        }
    }
}

impl PartialEq for TaskGroups {
    fn eq(&self, other: &Self) -> bool {
        if self.is_known_empty() || other.is_known_empty() {
            return self.is_known_empty() && other.is_known_empty();
        }
        self.packed.is_some() && self.packed == other.packed || **self == **other
    }
}

impl<'a> IntoIterator for &'a TaskGroups {
    type Item = &'a TaskGroup;
    type IntoIter = std::slice::Iter<'a, TaskGroup>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut TaskGroups {
    type Item = &'a mut TaskGroup;
    type IntoIter = std::slice::IterMut<'a, TaskGroup>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl Serialize for TaskGroups {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.packed {
            _ if serializer.is_human_readable() => {
                self.to_json().map_err(S::Error::custom)?.serialize(serializer)
            }
            Some(packed) => serializer.serialize_bytes(packed),
            None => serializer.serialize_bytes(&self.pack().map_err(S::Error::custom)?),
        }
    }
}

impl<'de> Deserialize<'de> for TaskGroups {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct GroupsVisitor;

        impl<'de> Visitor<'de> for GroupsVisitor {
            type Value = TaskGroups;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("task groups, packed or as a list")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<TaskGroups, E> {
                Ok(TaskGroups { packed: Some(bytes.into()), unpacked: OnceLock::new() })
            }

            // The form in JSON, and in records of older versions.
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<TaskGroups, A::Error> {
                let list = Vec::deserialize(SeqAccessDeserializer::new(list))?;
                TaskGroups::from_list(list).map_err(de::Error::custom)
            }
        }

        deserializer.deserialize_any(GroupsVisitor)
    }
}

impl Member<Vec<api_types::TaskGroup>> for TaskGroups {
    fn read(api: Option<Vec<api_types::TaskGroup>>) -> Result<Self, Invalid> {
        Vec::<TaskGroup>::read(api).map(Self::from)
    }

    fn write(&self) -> Option<Vec<api_types::TaskGroup>> {
        self.to_vec().write()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobSpec;

    fn groups() -> TaskGroups {
        vec![TaskGroup { name: "web".into(), count: 3, ..TaskGroup::default() }].into()
    }

    fn packed(groups: &TaskGroups) -> TaskGroups {
        rmp_serde::from_slice(&rmp_serde::to_vec_named(groups).unwrap()).unwrap()
    }

    #[test]
    fn received_groups_are_forwarded_without_decoding_them() {
        let received = packed(&groups());
        let forwarded = packed(&received);
        assert!(received.unpacked.get().is_none() && received == forwarded);
        assert_eq!((&received, received.len(), &*received[0].name), (&groups(), 1, "web"));
        assert_eq!(rmp_serde::to_vec_named(&received).unwrap(), rmp_serde::to_vec_named(&groups()).unwrap());
    }

    #[test]
    fn changed_groups_are_encoded_again() {
        let mut changed = packed(&groups());
        changed[0].count = 4;
        assert_eq!(packed(&changed)[0].count, 4);
        changed.to_mut().clear();
        assert_eq!(changed, TaskGroups::default());
    }

    #[test]
    fn records_of_older_versions_have_a_list() {
        #[derive(Serialize)]
        struct Older {
            task_groups: Vec<TaskGroup>,
        }
        let older = rmp_serde::to_vec_named(&Older { task_groups: groups().to_vec() }).unwrap();
        assert_eq!(rmp_serde::from_slice::<JobSpec>(&older).unwrap().task_groups, groups());
    }

    #[test]
    fn json_contains_the_decoded_groups() {
        let json = serde_json::to_value(packed(&groups())).unwrap();
        assert_eq!(json, serde_json::json!([{ "name": "web", "count": 3 }]));
        assert_eq!(serde_json::from_value::<TaskGroups>(json).unwrap(), groups());
    }

    #[test]
    fn an_empty_list_is_left_out() {
        let spec = JobSpec { id: "empty".into(), ..JobSpec::default() };
        let read: JobSpec = rmp_serde::from_slice(&rmp_serde::to_vec_named(&spec).unwrap()).unwrap();
        assert_eq!(read, spec);
    }

    #[test]
    fn invalid_bytes_are_reported_by_check() {
        for bytes in [&b""[..], b"\xc1", b"\x91\x01"] {
            let damaged = TaskGroups { packed: Some(bytes.into()), unpacked: OnceLock::new() };
            assert!(damaged.check().is_err(), "{bytes:?}");
            assert_eq!(format!("{damaged:?}"), "<cannot decode task groups>");
        }
    }
}
