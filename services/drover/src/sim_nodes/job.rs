//! The part of a job that a simulated node uses. The rest is skipped when a job is decoded, which saves most of the
//! cost of wakes: a real agent decodes the whole job, but has a machine to itself.

use model::{Nanos, Text};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SimJob {
    pub(super) spec: SimSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SimSpec {
    #[serde(with = "packed")]
    pub(super) task_groups: Vec<SimGroup>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SimGroup {
    pub(super) name: Text,
    pub(super) update: Option<SimUpdate>,
    pub(super) tasks: Vec<SimTask>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SimUpdate {
    pub(super) min_healthy_time: Nanos,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SimTask {
    pub(super) name: Text,
}

/// A list that is packed in one byte string ([`model::job::TaskGroups`]).
mod packed {
    use serde::de::{DeserializeOwned, Error as _};
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        list: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&rmp_serde::to_vec_named(list).map_err(S::Error::custom)?)
    }

    pub(super) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<T>, D::Error> {
        let bytes = <&[u8]>::deserialize(deserializer)?;
        rmp_serde::from_slice(bytes).map_err(D::Error::custom)
    }
}
