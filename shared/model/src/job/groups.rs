//! [`TaskGroups`]: most of a job's specification, which most who follow the state never look into.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, SeqAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::TaskGroup;
use crate::invalid::Invalid;
use crate::mirror::Member;

/// The groups of a job: a list that is unpacked when it is first looked at.
///
/// In messages they are one byte string with their MessagePack form in it, which is passed on as it came: whoever stores or
/// forwards a job neither reads nor writes its groups anew, and keeps a quarter of what they take unpacked.
///
/// # Panics
/// Whoever looks at bytes that are no groups panics. [`Self::check`] tells it before, where jobs come in.
#[derive(Clone)]
pub struct TaskGroups {
    /// As they came; `None` where they were made or changed here, and then they are unpacked.
    packed: Option<Box<[u8]>>,
    unpacked: OnceLock<Vec<TaskGroup>>,
}

/// Bytes that are no packed groups.
#[derive(Debug, thiserror::Error)]
#[error("task groups that cannot be read")]
pub struct UnreadableGroups(#[from] rmp_serde::decode::Error);

impl TaskGroups {
    /// Unpacks what came packed, for those who cannot be sure that it is what it should be.
    ///
    /// # Errors
    /// If it is something else, or of a version that this program does not know.
    pub fn check(&self) -> Result<&[TaskGroup], UnreadableGroups> {
        if let Some(groups) = self.unpacked.get() {
            return Ok(groups);
        }
        let groups = rmp_serde::from_slice(self.packed.as_deref().unwrap_or_default())?;
        Ok(self.unpacked.get_or_init(|| groups))
    }

    /// Whether there are none, without unpacking them: a list without anything in it is never kept packed.
    fn are_none(&self) -> bool {
        self.unpacked.get().is_some_and(Vec::is_empty)
    }
}

impl Deref for TaskGroups {
    type Target = [TaskGroup];

    fn deref(&self) -> &[TaskGroup] {
        self.check().expect("what comes in is checked")
    }
}

impl DerefMut for TaskGroups {
    fn deref_mut(&mut self) -> &mut [TaskGroup] {
        self.to_mut()
    }
}

impl TaskGroups {
    /// The list itself, to be changed.
    pub fn to_mut(&mut self) -> &mut Vec<TaskGroup> {
        let _: &[TaskGroup] = self;
        self.packed = None;
        self.unpacked.get_mut().expect("they were looked at")
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
        if self.are_none() || other.are_none() {
            return self.are_none() && other.are_none();
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
                self.check().map_err(S::Error::custom)?.serialize(serializer)
            }
            Some(packed) => serializer.serialize_bytes(packed),
            None => serializer.serialize_bytes(&rmp_serde::to_vec_named(&**self).map_err(S::Error::custom)?),
        }
    }
}

impl<'de> Deserialize<'de> for TaskGroups {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Groups;

        impl<'de> Visitor<'de> for Groups {
            type Value = TaskGroups;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("task groups, packed or as a list")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<TaskGroups, E> {
                Ok(TaskGroups { packed: Some(bytes.into()), unpacked: OnceLock::new() })
            }

            // As JSON has them, and records of older versions.
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<TaskGroups, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(TaskGroups::from)
            }
        }

        deserializer.deserialize_any(Groups)
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
    fn what_came_packed_is_passed_on_unread_and_is_the_same_when_it_is_looked_at() {
        let came = packed(&groups());
        let passed_on = packed(&came);
        assert!(came.unpacked.get().is_none() && came == passed_on);
        assert_eq!((&came, came.len(), &*came[0].name), (&groups(), 1, "web"));
        assert_eq!(rmp_serde::to_vec_named(&came).unwrap(), rmp_serde::to_vec_named(&groups()).unwrap());
    }

    #[test]
    fn what_is_changed_is_packed_anew() {
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
    fn json_shows_what_is_in_them() {
        let json = serde_json::to_value(packed(&groups())).unwrap();
        assert_eq!(json, serde_json::json!([{ "name": "web", "count": 3 }]));
        assert_eq!(serde_json::from_value::<TaskGroups>(json).unwrap(), groups());
    }

    #[test]
    fn no_groups_are_left_out() {
        let spec = JobSpec { id: "empty".into(), ..JobSpec::default() };
        let read: JobSpec = rmp_serde::from_slice(&rmp_serde::to_vec_named(&spec).unwrap()).unwrap();
        assert_eq!(read, spec);
    }

    #[test]
    fn bytes_that_are_no_groups_are_told_before_anybody_looks() {
        for bytes in [&b""[..], b"\xc1", b"\x91\x01"] {
            let damaged = TaskGroups { packed: Some(bytes.into()), unpacked: OnceLock::new() };
            assert!(damaged.check().is_err(), "{bytes:?}");
            assert_eq!(format!("{damaged:?}"), "<task groups that cannot be read>");
        }
    }
}
