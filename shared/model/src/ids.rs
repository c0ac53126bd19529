//! Ids of objects, indexes of the log, epochs, and keys of jobs and job versions.

use serde::{Deserialize, Serialize};

use crate::text::Text;

/// A text is not a valid UUID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    /// The text does not have the length of a hyphenated UUID.
    #[error("{what} id {value:?}: UUID must be 36 characters")]
    Length {
        /// Kind of object that the id identifies.
        what: &'static str,
        /// The invalid text.
        value: String,
    },
    /// The text has 36 characters but is not a UUID.
    #[error("{what} id {value:?} is not a UUID")]
    Form {
        /// Kind of object that the id identifies.
        what: &'static str,
        /// The invalid text.
        value: String,
    },
}

/// Declares ids that are UUIDs. The id of a small object stands beside its type, other ids are in this module.
macro_rules! uuid_ids {
    ($( $(#[$meta:meta])* $name:ident, $what:literal; )+) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, derive_more::Display)]
            #[serde(transparent)]
            pub struct $name(pub uuid::Uuid);

            impl $name {
                /// Creates an id from its sixteen bytes.
                pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                    Self(uuid::Uuid::from_bytes(bytes))
                }

                /// The sixteen bytes. They have the same order as the text.
                pub const fn as_bytes(&self) -> &[u8; 16] {
                    self.0.as_bytes()
                }
            }

            impl Ord for $name {
                // Compares the ids as integers. A comparison of byte arrays is a function call, and searches in tables
                // compare ids very often.
                #[inline]
                fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                    self.0.as_u128().cmp(&other.0.as_u128())
                }
            }

            impl PartialOrd for $name {
                #[inline]
                fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                    Some(self.cmp(other))
                }
            }

            impl std::fmt::Debug for $name {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    write!(f, "{}", self.0)
                }
            }

            impl std::str::FromStr for $name {
                type Err = $crate::ids::InvalidId;

                fn from_str(text: &str) -> Result<Self, Self::Err> {
                    if text.len() != uuid::fmt::Hyphenated::LENGTH {
                        let value = text.to_owned();
                        return Err($crate::ids::InvalidId::Length { what: $what, value });
                    }
                    uuid::Uuid::try_parse(text)
                        .map(Self)
                        .map_err(|_| $crate::ids::InvalidId::Form { what: $what, value: text.to_owned() })
                }
            }
        )+
    };
}
pub(crate) use uuid_ids;

uuid_ids! {
    /// Id of an allocation.
    AllocId, "allocation";
    /// Id of an evaluation.
    EvalId, "evaluation";
    /// Id of a node, chosen by its agent.
    NodeId, "node";
    /// Id of a deployment.
    DeploymentId, "deployment";
    /// Id of a command: a UUIDv7 generated from cluster time. A command that is repeated under the same id has no second
    /// effect (`docs/architecture/commit-path.md`).
    RequestId, "request";
    /// Id of one history of the log. When an operator accepts lost writes, a new history begins (`docs/architecture/log.md`).
    HistoryId, "history";
    /// Id of one running process of a service, for leases and announcements.
    ProcessId, "process";
    /// Id of the scaling policy of a task group.
    ScalingPolicyId, "scaling policy";
}

impl Default for HistoryId {
    /// The history of a state that does not come from a database: all zeros.
    fn default() -> Self {
        Self::from_bytes([0; 16])
    }
}

impl AllocId {
    /// A sort key that places the allocations of one plan next to each other. Schedulers give all allocations of a plan
    /// the same second half of the id. Operations on many allocations are faster in this order.
    #[inline]
    pub fn plan_order(self) -> u128 {
        self.0.as_u128().rotate_left(u64::BITS)
    }
}

impl EvalId {
    /// The id of an evaluation that a command creates; `number` counts the evaluations of one command from 0.
    ///
    /// The sender of the command knows the id in advance, and a command that is executed twice creates the same id. The
    /// bits are mixed, because users distinguish evaluations by the first digits, and a request id begins with the time.
    pub fn derived(request: RequestId, number: u32) -> Self {
        let (high, low) = request.0.as_u64_pair();
        let high = mix(high ^ mix(low ^ mix(number.into())));
        let low = mix(low ^ high);
        Self(
            uuid::Builder::from_random_bytes(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
                .into_uuid(),
        )
    }
}

impl ScalingPolicyId {
    /// The id of the policy of a task group. It depends on nothing that an update of the job changes, so it stays the same
    /// until the job is purged (N-26.6). The id of a job that is registered again after that is another one.
    pub fn derived(job: &JobKey, create_index: Index, group: &str) -> Self {
        let [mut high, mut low] = [mix(create_index.0), mix(!create_index.0)];
        for text in [&*job.namespace, &*job.id, group] {
            for chunk in text.as_bytes().chunks(size_of::<u64>()) {
                let word = chunk.iter().fold(0, |word: u64, byte| (word << 8) | u64::from(*byte));
                high = mix(high ^ word);
                low = mix(low.rotate_left(17) ^ high ^ word);
            }
            // The lengths separate the texts.
            high = mix(high ^ text.len() as u64);
            low = mix(low ^ high);
        }
        let bytes = ((u128::from(high) << 64) | u128::from(low)).to_be_bytes();
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }
}

/// Mixes the bits, so that every input bit affects every output bit (the finalizer of SplitMix64).
fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The number of a change set in the log. Indexes rise by one with each change set; 0 is before the first.
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
    /// The index before the first change set.
    pub const ZERO: Self = Self(0);

    /// The following index.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Whether this is the index of a change set, that is, not [`Index::ZERO`].
    pub const fn is_set(self) -> bool {
        self.0 != 0
    }
}

/// The number of times that a lease has changed hands. A command with an older epoch is refused (`docs/architecture/leases.md`).
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

/// Identifies a job. Job ids are unique within a namespace.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, derive_more::Display,
)]
#[display("{namespace}/{id}")]
pub struct JobKey {
    /// The job's namespace.
    pub namespace: Text,
    /// The job's id within the namespace.
    pub id: Text,
}

impl JobKey {
    /// Creates a key from a namespace and an id.
    pub fn new(namespace: impl Into<Text>, id: impl Into<Text>) -> Self {
        Self { namespace: namespace.into(), id: id.into() }
    }
}

/// Identifies one version of one incarnation of a job.
///
/// The create index distinguishes incarnations: a job that is purged and registered again starts over at version 0.
/// Keys sort by job, then incarnation, then version, so that the last key of a job is its current version.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, derive_more::Display,
)]
#[display("{job}@{create_index}.{version}")]
pub struct JobVersionKey {
    /// The job.
    pub job: JobKey,
    /// The index at which this incarnation was first registered.
    pub create_index: Index,
    /// Number of the version. It starts at 0 and rises with each registration that changes the specification.
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
    fn derived_ids_are_random_uuids_that_differ_from_the_first_digit_on() {
        let request =
            |n: u128| RequestId(uuid::Uuid::from_u128(0x0195_0000_0000_7000_8000_0000_0000_0000 + n));
        let ids: Vec<EvalId> =
            (0..100).flat_map(|n| (0..3).map(move |number| EvalId::derived(request(n), number))).collect();
        let prefixes: std::collections::BTreeSet<String> =
            ids.iter().map(|id| id.to_string()[..8].to_owned()).collect();
        assert_eq!(prefixes.len(), ids.len());
        assert!(ids.iter().all(|id| id.0.get_version() == Some(uuid::Version::Random)));
        assert_eq!(EvalId::derived(request(7), 2), EvalId::derived(request(7), 2));
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
