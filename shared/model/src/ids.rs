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
            #[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, derive_more::Display)]
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

            impl Ord for $name {
                // As one number: comparing bytes is a call, and tables are searched by ids all the time.
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
    /// Names a key that the cluster signs with.
    RootKeyId, "root key";
}

impl Default for HistoryId {
    /// That of what no database holds.
    fn default() -> Self {
        Self::from_bytes([0; 16])
    }
}

impl AllocId {
    /// A number by which the allocations of one plan sort side by side, for the second halves of their ids are the same
    /// (schedulers make them so). What is done to many allocations is done faster in this order.
    #[inline]
    pub fn plan_order(self) -> u128 {
        self.0.as_u128().rotate_left(u64::BITS)
    }
}

impl EvalId {
    /// The id of an evaluation that a command makes: its `number`th, from 0.
    ///
    /// Whoever sends the command knows the id beforehand, and a command that is judged twice makes the same one. The
    /// bits are mixed, because people tell evaluations apart by the first few, which in request ids are the time.
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

/// Spreads every bit over all of the result (the finaliser of SplitMix64).
fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
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
    fn derived_ids_are_random_uuids_that_differ_from_the_first_digit_on() {
        let request = |n: u128| RequestId(Uuid::from_u128(0x0195_0000_0000_7000_8000_0000_0000_0000 + n));
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
