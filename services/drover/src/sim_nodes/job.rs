//! As much of a job as a simulated node looks at. The rest is passed over when it is read, which is most of what wakes cost: an
//! agent reads all of it, but has a machine for itself.

use model::{Nanos, Text};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SimJob {
    pub(super) spec: SimSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SimSpec {
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
