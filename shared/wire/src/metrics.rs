//! The metrics of a process, as it publishes them for the API processes
//! ([`Subject::ProcessMetrics`](crate::Subject::ProcessMetrics)).
//!
//! Series are stored in columns, one list for each field, separately for each kind of metric. Sums count from the start
//! of the process, so that a lost snapshot loses no data.

use model::{Epoch, Index, ProcessId, Text, Timestamp};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// Maximum number of series in one snapshot. The process leaves out the rest, and states how many it left out.
pub const SERIES_MAX: usize = 8_192;
/// Maximum number of bytes of one label value; longer values are truncated.
pub const LABEL_BYTES_MAX: usize = 256;

/// Maximum number of services of one process.
pub const SERVICES_MAX: usize = 16;

/// A snapshot of the metrics of a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessMetrics {
    /// Id of the process.
    pub process: ProcessId,
    /// Name of the service: the sub-command of the process.
    pub service: Text,
    /// Time of the snapshot, by the clock of the process.
    pub at: Timestamp,
    /// Number of the snapshot. It rises by one, so that receivers recognise snapshots that arrive out of order.
    pub sequence: u64,
    /// Whether this is the last snapshot before the process ends.
    #[serde(default)]
    pub is_last: bool,
    /// Who the process is, and how it does.
    #[serde(default)]
    pub info: ProcessInfo,
    /// The services for which this is the active process, with the epochs of their leases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<(Text, Epoch)>,
    /// Number of series that did not fit.
    #[serde(default)]
    pub left_out: u64,
    /// Names of the metrics. The columns refer to them by position.
    pub names: Vec<Text>,
    /// Counters.
    pub counters: Counters,
    /// Gauges.
    pub gauges: Gauges,
    /// Distributions.
    pub distributions: Distributions,
}

/// Who a process is and how it does, for the list of the cluster's processes. Receivers truncate texts to
/// [`LABEL_BYTES_MAX`], and leave out services beyond [`SERVICES_MAX`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessInfo {
    /// Name of its host.
    pub host: Text,
    /// Its id on the host.
    pub pid: u32,
    /// Version of the program.
    pub version: Text,
    /// When it started, by its clock.
    pub started: Timestamp,
    /// The services that it runs.
    pub services: Vec<Text>,
    /// Index of its replica; `None` until the replica is loaded.
    pub index: Option<Index>,
    /// The last head of the log that it knows of.
    pub head: Option<Index>,
    /// Its connection to NATS.
    pub nats: PartHealth,
    /// Its database.
    pub database: PartHealth,
}

/// Whether something that a process depends on works, as the process sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartHealth {
    /// Whether the process has found out.
    pub is_known: bool,
    /// What is wrong; `None` if nothing is.
    pub problem: Option<Text>,
}

/// Series of counters, one row each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Positions of the metrics' names.
    pub names: Vec<u16>,
    /// Label values, in the order of the metrics catalogue.
    pub labels: Vec<Vec<Text>>,
    /// Sums since the start of the process.
    pub values: Vec<u64>,
}

/// Series of gauges, one row each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gauges {
    /// Positions of the metrics' names.
    pub names: Vec<u16>,
    /// Label values.
    pub labels: Vec<Vec<Text>>,
    /// Current values.
    pub values: Vec<f64>,
}

/// Series of distributions, one row each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Distributions {
    /// Positions of the metrics' names.
    pub names: Vec<u16>,
    /// Label values.
    pub labels: Vec<Vec<Text>>,
    /// Number of observations in each bucket since the start of the process. The last bucket has no upper bound.
    pub buckets: Vec<Vec<u64>>,
    /// Sums of the observations.
    pub sums: Vec<f64>,
    /// Sums of the squared observations.
    pub squares: Vec<f64>,
    /// Smallest observation since the last snapshot; infinite if there was none.
    pub mins: Vec<f64>,
    /// Largest observation since the last snapshot.
    pub maxs: Vec<f64>,
}

kinds! {
    ProcessMetrics => "metrics.process",
}
