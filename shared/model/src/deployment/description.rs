//! Descriptions of the statuses of deployments, byte for byte as the API shows them (N-12.4, N-12.5, R-7.8).

/// The deployment is in progress.
pub const RUNNING: &str = "Deployment is running";
/// The deployment waits for a user to promote its canaries.
pub const RUNNING_MANUAL: &str = "Deployment is running but requires manual promotion";
/// The deployment promotes its canaries once they are healthy.
pub const RUNNING_AUTOMATIC: &str = "Deployment is running pending automatic promotion";
/// A user paused the deployment.
pub const PAUSED: &str = "Deployment is paused";
/// The deployment succeeded.
pub const SUCCESSFUL: &str = "Deployment completed successfully";
/// The job was stopped.
pub const STOPPED_JOB: &str = "Cancelled because job is stopped";
/// A newer version of the job was registered.
pub const NEWER_JOB: &str = "Cancelled due to newer version of job";
/// An allocation became unhealthy and may not be replaced, or a user said that it is unhealthy.
pub const UNHEALTHY: &str = "Failed due to unhealthy allocations";
/// A group missed its progress deadline.
pub const LATE: &str = "Failed due to progress deadline";
/// A user failed the deployment.
pub const MARKED: &str = "Deployment marked as failed";
/// The deployment is done in this region and waits for other regions.
pub const BLOCKED: &str = "Deployment is complete but waiting for peer region";
/// The deployment's region may not start yet.
pub const PENDING: &str = "Deployment is pending, waiting for peer region";

/// Follows the description of a failed deployment whose job has no version to return to.
pub const NO_STABLE_VERSION: &str = " - no stable job version to auto revert to";

/// Follows the description of a failed deployment whose job returns to an older version.
pub fn rolling_back(version: u64) -> String {
    format!(" - rolling back to job version {version}")
}

/// Follows the description of a failed deployment whose job's stable version has the specification that failed.
pub fn same_specification(version: u64) -> String {
    format!(" - not rolling back to stable job version {version} as current job has same specification")
}
