//! Request bodies that contain more than the object itself.

use serde::{Deserialize, Serialize};

use crate::{Job, JobSubmission};

/// The body of a request to register a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobRegisterRequest {
    /// The job; required.
    pub job: Option<Job>,
    /// Whether to register only if the job's index is still `JobModifyIndex`.
    pub enforce_index: Option<bool>,
    /// The index to compare with; 0 if the job must not exist.
    pub job_modify_index: Option<u64>,
    /// Accepted for compatibility, without effect.
    pub policy_override: Option<bool>,
    /// Whether groups keep the count of the running version.
    pub preserve_counts: Option<bool>,
    /// Whether tasks keep the resources of the running version.
    pub preserve_resources: Option<bool>,
    /// Priority of the evaluation, 1 to 100; 0 for the job's priority.
    pub eval_priority: Option<i64>,
    /// The source from which the job was parsed.
    pub submission: Option<JobSubmission>,
    /// Region to register in. The query parameter takes precedence.
    pub region: Option<String>,
    /// Namespace to register in. The query parameter takes precedence.
    pub namespace: Option<String>,
    /// ACL token. The header takes precedence.
    #[serde(rename = "SecretID")]
    pub secret_id: Option<String>,
}

/// The body of a request to parse a job file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobParseRequest {
    /// Text of the job file.
    #[serde(rename = "JobHCL")]
    pub job_hcl: Option<String>,
    /// Text of a variable file.
    pub variables: Option<String>,
    /// Whether to fill in defaults.
    pub canonicalize: Option<bool>,
}
