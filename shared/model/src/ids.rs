//! Ids and indexes: what names an object, and where in the log it stands.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::text::Text;

/// Text that should have been a UUID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    /// Not the length of the hyphenated form.
    #[error("{what} id {value:?}: UUID must be 36 characters")]
    Length {
        /// What the id should have named.
        what: &'static str,
        /// The text as it came.
        value: String,
    },
    /// 36 characters that are no UUID.
    #[error("{what} id {value:?} is not a UUID")]
    Form {
        /// What the id should have named.
        what: &'static str,
        /// The text as it came.
        value: String,
    },
}

macro_rules! uuid_ids {
    ($( $(#[$meta:meta])* $name:ident, $what:literal; )+) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, derive_more::Display)]
            #[serde(transparent)]
            pub struct $name(pub Uuid);

            impl $name {
                /// An id from its sixteen bytes.
                pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                    Self(Uuid::from_bytes(bytes))
                }

                /// The sixteen bytes; they sort as the text does.
                pub const fn as_bytes(&self) -> &[u8; 16] {
                    self.0.as_bytes()
                }
            }

            impl std::fmt::Debug for $name {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    write!(f, "{}", self.0)
                }
            }

            impl std::str::FromStr for $name {
                type Err = InvalidId;

                fn from_str(text: &str) -> Result<Self, Self::Err> {
                    if text.len() != uuid::fmt::Hyphenated::LENGTH {
                        return Err(InvalidId::Length { what: $what, value: text.to_owned() });
                    }
                    Uuid::try_parse(text)
                        .map(Self)
                        .map_err(|_| InvalidId::Form { what: $what, value: text.to_owned() })
                }
            }
        )+
    };
}

uuid_ids! {
    /// Names an allocation.
    AllocId, "allocation";
    /// Names an evaluation.
    EvalId, "evaluation";
    /// Names a node; chosen by its agent.
    NodeId, "node";
    /// Names a deployment.
    DeploymentId, "deployment";
    /// Names a command, so that a repeat has no second effect (design §6). A UUIDv7 made from cluster time.
    RequestId, "request";
    /// Names one history of the database; another one after an operator accepted lost writes (design §4).
    HistoryId, "history";
    /// Names one running process of a service, for leases and announcements.
    ProcessId, "process";
    /// Names a dynamic host volume.
    HostVolumeId, "host volume";
    /// Names a claim of a sticky volume.
    VolumeClaimId, "volume claim";
}

/// A place in the log: rises by one with each change set. 0 is before the first.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    derive_more::Display,
)]
#[serde(transparent)]
pub struct Index(pub u64);

impl Index {
    /// Before the first change set.
    pub const ZERO: Self = Self(0);

    /// The index that follows.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Whether something was ever written under it.
    pub const fn is_set(self) -> bool {
        self.0 != 0
    }
}

/// How often a lease has changed hands; a command that carries an older one is refused (design §5).
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    derive_more::Display,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// Names a job: ids are unique within a namespace.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, derive_more::Display,
)]
#[display("{namespace}/{id}")]
pub struct JobKey {
    /// The namespace that the job lives in.
    pub namespace: Text,
    /// The job's id within it.
    pub id: Text,
}

impl JobKey {
    /// A key from its two parts.
    pub fn new(namespace: impl Into<Text>, id: impl Into<Text>) -> Self {
        Self { namespace: namespace.into(), id: id.into() }
    }
}

/// Names one version of one incarnation of a job.
///
/// The create index tells incarnations apart: a job that was purged and registered again starts over at version 0.
/// Sorts by job, then incarnation, then version, so that the last of a job is its current one.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, derive_more::Display,
)]
#[display("{job}@{create_index}.{version}")]
pub struct JobVersionKey {
    /// The job.
    pub job: JobKey,
    /// The index at which this incarnation was first registered.
    pub create_index: Index,
    /// Counts registrations of this incarnation that changed something, from 0.
    pub version: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_the_wrong_length_says_so() {
        let error = "abc".parse::<NodeId>().unwrap_err();
        assert_eq!(error.to_string(), r#"node id "abc": UUID must be 36 characters"#);
    }

    #[test]
    fn an_id_of_the_right_length_that_is_none_says_so() {
        let text = "z".repeat(36);
        assert!(matches!(text.parse::<AllocId>(), Err(InvalidId::Form { .. })));
    }

    #[test]
    fn ids_sort_as_their_text_does() {
        let mut ids: Vec<AllocId> =
            ["ffffffff-0000-4000-8000-000000000000", "0a000000-0000-4000-8000-000000000000"]
                .iter()
                .map(|text| text.parse().unwrap())
                .collect();
        ids.sort();
        assert_eq!(ids[0].to_string(), "0a000000-0000-4000-8000-000000000000");
    }
}
