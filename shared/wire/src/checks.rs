//! Messages between the API and an agent about the checks of an allocation, on
//! [`Subject::AgentStats`](crate::Subject::AgentStats).
//!
//! Results are current values, so a lost request can be repeated. An allocation may have more checks than a message can
//! hold: a response has the first ones after a given id, and says whether there are more. A request for an unknown
//! allocation is refused as `NotFound`.

use model::{AllocId, Text, Timestamp};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// Maximum size of the texts in one response, in bytes. One check may exceed it.
pub const CHECKS_BYTES_MAX: usize = 256 << 10;

/// Requests the results of an allocation's checks. The response is [`AllocChecks`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAllocChecks {
    /// The allocation.
    pub alloc: AllocId,
    /// Only checks with ids after this one; empty is all.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub after: Text,
}

/// The checks of an allocation, in the order of their ids.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocChecks {
    /// The checks.
    pub checks: Vec<CheckState>,
    /// Whether there are more, after the last of these.
    #[serde(default)]
    pub more: bool,
}

/// A check with its last result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckState {
    /// Id of the check.
    pub id: Text,
    /// `healthiness` or `readiness`.
    pub mode: Text,
    /// `pending`, `success` or `failure`.
    pub status: Text,
    /// Status code of an HTTP response; 0 without a response.
    pub status_code: u16,
    /// What the check found, for people.
    pub output: Text,
    /// Time of the result.
    pub at: Timestamp,
    /// Name of the allocation.
    pub group: Text,
    /// The task of the service; empty for a service of the group.
    pub task: Text,
    /// Name of the service.
    pub service: Text,
    /// Name of the check.
    pub check: Text,
}

impl CheckState {
    /// Size of the texts, in bytes.
    pub fn text_bytes(&self) -> usize {
        let Self { id, mode, status, output, group, task, service, check, status_code: _, at: _ } = self;
        [id, mode, status, output, group, task, service, check].iter().map(|text| text.len()).sum()
    }
}

kinds! {
    GetAllocChecks => "checks.ask-alloc",
    AllocChecks => "checks.alloc",
}
