//! What differs between two versions of a job, as people read it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How something changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DiffType {
    /// It is there on both sides, and differs.
    Edited,
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// Not at all.
    #[default]
    None,
}

/// Two versions of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobDiff {
    /// How the job changed.
    pub r#type: DiffType,
    /// The job's id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Single values of its own.
    pub fields: Option<Vec<FieldDiff>>,
    /// Blocks of its own.
    pub objects: Option<Vec<ObjectDiff>>,
    /// All of its groups, by name.
    pub task_groups: Option<Vec<TaskGroupDiff>>,
}

/// Two versions of a task group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskGroupDiff {
    /// How the group changed, in whatever way.
    pub r#type: DiffType,
    /// Its name.
    pub name: String,
    /// Single values.
    pub fields: Option<Vec<FieldDiff>>,
    /// Blocks.
    pub objects: Option<Vec<ObjectDiff>>,
    /// All of its tasks, by name.
    pub tasks: Option<Vec<TaskDiff>>,
    /// What becomes of how many allocations.
    pub updates: Option<BTreeMap<String, u64>>,
}

/// Two versions of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskDiff {
    /// How the task changed, in whatever way.
    pub r#type: DiffType,
    /// Its name.
    pub name: String,
    /// Single values.
    pub fields: Option<Vec<FieldDiff>>,
    /// Blocks.
    pub objects: Option<Vec<ObjectDiff>>,
    /// What the change brings about.
    pub annotations: Option<Vec<String>>,
}

/// Two versions of a block.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ObjectDiff {
    /// How it changed.
    pub r#type: DiffType,
    /// What kind of block it is.
    pub name: String,
    /// Single values, those that stay included.
    pub fields: Option<Vec<FieldDiff>>,
    /// Blocks in it.
    pub objects: Option<Vec<ObjectDiff>>,
}

/// Two values of a field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct FieldDiff {
    /// How it changed.
    pub r#type: DiffType,
    /// Its name.
    pub name: String,
    /// What it was; empty if it was not there.
    pub old: String,
    /// What it is; empty if it is not there.
    pub new: String,
    /// What the change brings about.
    pub annotations: Option<Vec<String>>,
}
