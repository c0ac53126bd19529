//! Human-readable differences between two versions of a job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How something changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DiffType {
    /// Present in both versions, with different values.
    Edited,
    /// Present in the new version only.
    Added,
    /// Present in the old version only.
    Deleted,
    /// Equal in both versions.
    #[default]
    None,
}

/// Difference between two versions of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobDiff {
    /// How the job changed.
    pub r#type: DiffType,
    /// The job's id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Scalar fields of the job.
    pub fields: Option<Vec<FieldDiff>>,
    /// Blocks of the job.
    pub objects: Option<Vec<ObjectDiff>>,
    /// All of its groups, by name.
    pub task_groups: Option<Vec<TaskGroupDiff>>,
}

/// Difference between two versions of a task group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskGroupDiff {
    /// How the group changed, including its fields, blocks and tasks.
    pub r#type: DiffType,
    /// Its name.
    pub name: String,
    /// Scalar fields.
    pub fields: Option<Vec<FieldDiff>>,
    /// Blocks.
    pub objects: Option<Vec<ObjectDiff>>,
    /// All of its tasks, by name.
    pub tasks: Option<Vec<TaskDiff>>,
    /// Number of allocations by kind of update.
    pub updates: Option<BTreeMap<String, u64>>,
}

/// Difference between two versions of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskDiff {
    /// How the task changed, including its fields and blocks.
    pub r#type: DiffType,
    /// Its name.
    pub name: String,
    /// Scalar fields.
    pub fields: Option<Vec<FieldDiff>>,
    /// Blocks.
    pub objects: Option<Vec<ObjectDiff>>,
    /// Consequences of the change, such as `forces create`.
    pub annotations: Option<Vec<String>>,
}

/// Difference between two versions of a block.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ObjectDiff {
    /// How it changed.
    pub r#type: DiffType,
    /// Kind of block.
    pub name: String,
    /// Scalar fields, including unchanged ones.
    pub fields: Option<Vec<FieldDiff>>,
    /// Nested blocks.
    pub objects: Option<Vec<ObjectDiff>>,
}

/// Difference between two values of a field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct FieldDiff {
    /// How it changed.
    pub r#type: DiffType,
    /// Its name.
    pub name: String,
    /// Old value; empty if there was none.
    pub old: String,
    /// New value; empty if there is none.
    pub new: String,
    /// Consequences of the change, such as `forces create`.
    pub annotations: Option<Vec<String>>,
}
