//! What a process has recorded of its metrics, as it publishes it for the API processes
//! ([`Subject::ProcessMetrics`](crate::Subject::ProcessMetrics)).
//!
//! Series stand in columns, one list a field, by the kind of their metrics. Sums are counted from the start of the process, so
//! that a lost snapshot loses nothing.

use model::{Epoch, ProcessId, Text, Timestamp};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// The most series that one snapshot holds; a process leaves out the rest, and says how many these are.
pub const SERIES_MAX: usize = 8_192;
/// The most bytes of one label's value; longer ones are cut.
pub const LABEL_BYTES_MAX: usize = 256;

/// What a process has recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessMetrics {
    /// The process.
    pub process: ProcessId,
    /// What it calls itself: its sub-command.
    pub service: Text,
    /// When this was recorded, by its clock.
    pub at: Timestamp,
    /// Rises with each snapshot of the process, so that one that was overtaken is recognised.
    pub sequence: u64,
    /// Whether the process ends with this one.
    #[serde(default)]
    pub is_last: bool,
    /// The services for which it is the active process, with the epochs of their leases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<(Text, Epoch)>,
    /// How many series found no room.
    #[serde(default)]
    pub left_out: u64,
    /// The names of the metrics, to which columns refer by position.
    pub names: Vec<Text>,
    /// Counters.
    pub counters: Counters,
    /// Gauges.
    pub gauges: Gauges,
    /// Distributions.
    pub distributions: Distributions,
}

/// Series of counters, a row each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Positions of the names.
    pub names: Vec<u16>,
    /// Values of the labels, in the order of the catalogue of metrics.
    pub labels: Vec<Vec<Text>>,
    /// Sums since the process began.
    pub values: Vec<u64>,
}

/// Series of gauges, a row each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gauges {
    /// Positions of the names.
    pub names: Vec<u16>,
    /// Values of the labels.
    pub labels: Vec<Vec<Text>>,
    /// Their values.
    pub values: Vec<f64>,
}

/// Series of distributions, a row each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Distributions {
    /// Positions of the names.
    pub names: Vec<u16>,
    /// Values of the labels.
    pub labels: Vec<Vec<Text>>,
    /// How many observations lie in each bucket, the last of which has no upper bound, since the process began.
    pub buckets: Vec<Vec<u64>>,
    /// What the observations add up to.
    pub sums: Vec<f64>,
    /// What their squares add up to.
    pub squares: Vec<f64>,
    /// The smallest observations since the last snapshot; infinite where there were none.
    pub mins: Vec<f64>,
    /// The largest observations since the last snapshot.
    pub maxs: Vec<f64>,
}

kinds! {
    ProcessMetrics => "metrics.process",
}
