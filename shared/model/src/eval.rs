//! Evaluations: requests to the scheduler to reconsider one job.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::alloc::AllocMetric;
use crate::job::JobType;
use crate::text::{deserialize_str, string_enum};
use crate::{
    DeploymentId, EvalId, Index, JobKey, Map, Nanos, NodeId, Text, Timestamp, TraceContext, is_default,
};

string_enum! {
    /// Status of an evaluation (`docs/rules/scheduling.md` ).
    EvalStatus, "evaluation status" {
        /// The evaluation waits for a scheduler.
        Pending => "pending",
        /// The evaluation waits for capacity.
        Blocked => "blocked",
        /// The evaluation is done.
        Complete => "complete",
        /// The evaluation failed.
        Failed => "failed",
        /// The evaluation is superseded by another one.
        Canceled => "canceled",
    }
}

impl EvalStatus {
    /// Whether the status is final.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Failed | Self::Canceled)
    }
}

/// Declares the known triggers, each with its string in the API.
macro_rules! triggers {
    ($( $(#[$meta:meta])* $trigger:ident => $word:literal, )+) => {
        /// Why an evaluation was created.
        ///
        /// Every string is accepted. If a scheduler does not support the trigger, it fails the evaluation.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum EvalTrigger {
            $( $(#[$meta])* $trigger, )+
            /// An unknown trigger, which no scheduler supports.
            Other(Text),
        }

        impl EvalTrigger {
            /// The string that the API uses.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$trigger => $word, )+
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for EvalTrigger {
            fn from(word: &str) -> Self {
                match word {
                    $( $word => Self::$trigger, )+
                    _ => Self::Other(word.into()),
                }
            }
        }
    };
}

triggers! {
    /// A job was registered, or a user forced an evaluation.
    JobRegister => "job-register",
    /// A job was stopped or purged.
    JobDeregister => "job-deregister",
    /// A periodic job was launched.
    PeriodicJob => "periodic-job",
    /// A node is draining.
    NodeDrain => "node-drain",
    /// A node changed.
    NodeUpdate => "node-update",
    /// A user stopped an allocation.
    AllocStop => "alloc-stop",
    /// Periodic internal work of the reference implementation. Accepted, but never created.
    Scheduled => "scheduled",
    /// Former rolling updates of the reference implementation. Accepted, but never created.
    RollingUpdate => "rolling-update",
    /// A deployment can take its next step.
    DeploymentWatcher => "deployment-watcher",
    /// An earlier evaluation failed too often.
    FailedFollowUp => "failed-follow-up",
    /// Plans were refused too often.
    MaxPlanAttempts => "max-plan-attempts",
    /// An allocation failed.
    AllocFailure => "alloc-failure",
    /// Some allocations could not be placed.
    QueuedAllocs => "queued-allocs",
    /// Allocations were preempted.
    Preemption => "preemption",
    /// A job was scaled.
    JobScaling => "job-scaling",
    /// A node was disconnected for too long.
    MaxDisconnectTimeout => "max-disconnect-timeout",
    /// An allocation reconnected.
    Reconnect => "reconnect",
    /// The delay of a reschedule is over.
    AllocReschedule => "alloc-reschedule",
}

impl From<Text> for EvalTrigger {
    fn from(word: Text) -> Self {
        Self::from(&*word)
    }
}

impl fmt::Display for EvalTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for EvalTrigger {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for EvalTrigger {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_str(deserializer, "evaluation trigger", |word| Ok::<_, Infallible>(Self::from(word)))
    }
}

/// A request to the scheduler to reconsider one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Its id.
    pub id: EvalId,
    /// The job to reconsider.
    pub job: JobKey,
    /// 1 to 32767. Evaluations of a higher priority are dequeued first.
    pub priority: u16,
    /// Type of the job, which selects the scheduler.
    pub kind: JobType,
    /// Why it was created.
    pub trigger: EvalTrigger,
    /// Its status.
    pub status: EvalStatus,
    /// Human-readable reason for the status.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status_description: Text,
    /// The job's modify index when the evaluation was created, for information.
    #[serde(default, skip_serializing_if = "is_default")]
    pub job_modify_index: Index,
    /// The node that caused it, or that it is blocked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// Index of the change of that node, for information.
    #[serde(default, skip_serializing_if = "is_default")]
    pub node_modify_index: Index,
    /// The deployment that caused it, or that it created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_id: Option<DeploymentId>,
    /// How long it waits in the broker before it is ready.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait: Nanos,
    /// The time at which it becomes ready.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait_until: Timestamp,
    /// The evaluation that follows this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_eval: Option<EvalId>,
    /// The evaluation that this one follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_eval: Option<EvalId>,
    /// The blocked evaluation that waits for capacity for the allocations that this one could not place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_eval: Option<EvalId>,
    /// Metrics of the failed placements, by task group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed_groups: BTreeMap<Text, AllocMetric>,
    /// Intended changes, by task group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Box<PlanAnnotations>>,
    /// Whether the nodes of a computed class are feasible, for each class that was checked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub class_eligibility: BTreeMap<Text, bool>,
    /// Whether constraints depend on more than the computed class, so that any node may be feasible.
    #[serde(default, skip_serializing_if = "is_default")]
    pub escaped_class: bool,
    /// The quota that was exceeded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub quota_limit: Text,
    /// Missing resources that are not part of a node, such as `csi-volume:<namespace>:<id>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_resources: Vec<Text>,
    /// Whether the plan should be annotated (a dry run).
    #[serde(default, skip_serializing_if = "is_default")]
    pub annotate_plan: bool,
    /// Number of allocations still to be placed, by task group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub queued: Map<Text, u32>,
    /// Index of the snapshot that the scheduler last used.
    #[serde(default, skip_serializing_if = "is_default")]
    pub snapshot_index: Index,
    /// Index of the change set that created it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub create_index: Index,
    /// Index of the change set that last changed it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub modify_index: Index,
    /// Trace context of the request that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// When it was created.
    #[serde(default, skip_serializing_if = "is_default")]
    pub create_time: Timestamp,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub modify_time: Timestamp,
}

impl Evaluation {
    /// Creates a pending evaluation with the required fields; all others have their defaults.
    pub fn new(id: EvalId, job: JobKey, kind: JobType, priority: u16, trigger: EvalTrigger) -> Self {
        Self {
            id,
            job,
            priority,
            kind,
            trigger,
            status: EvalStatus::Pending,
            status_description: Text::default(),
            job_modify_index: Index::ZERO,
            node_id: None,
            node_modify_index: Index::ZERO,
            deployment_id: None,
            wait: Nanos::ZERO,
            wait_until: Timestamp::UNSET,
            next_eval: None,
            previous_eval: None,
            blocked_eval: None,
            failed_groups: BTreeMap::new(),
            annotations: None,
            class_eligibility: BTreeMap::new(),
            escaped_class: false,
            quota_limit: Text::default(),
            missing_resources: Vec::new(),
            annotate_plan: false,
            queued: Map::default(),
            snapshot_index: Index::ZERO,
            create_index: Index::ZERO,
            modify_index: Index::ZERO,
            trace: None,
            create_time: Timestamp::UNSET,
            modify_time: Timestamp::UNSET,
        }
    }
}

/// Human-readable summary of the intended changes of a plan.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanAnnotations {
    /// Number of changes by task group and kind.
    pub desired_updates: Map<Text, DesiredUpdates>,
    /// Allocations of other jobs that would be preempted.
    pub preempted: Vec<crate::AllocId>,
}

/// Number of allocations of a group, by kind of change.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the API's (`docs/rules/http-api.md` A.9)")]
pub struct DesiredUpdates {
    pub ignore: u64,
    pub place: u64,
    pub migrate: u64,
    pub stop: u64,
    pub in_place_update: u64,
    pub destructive_update: u64,
    pub canary: u64,
    pub preemptions: u64,
    pub disconnect: u64,
    pub reconnect: u64,
    pub reschedule_now: u64,
    pub reschedule_later: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_is_its_word_whether_known_or_not() {
        assert_eq!(EvalTrigger::from("node-drain"), EvalTrigger::NodeDrain);
        assert_eq!(EvalTrigger::from(Text::from("made-up")), EvalTrigger::Other("made-up".into()));
        for word in ["alloc-stop", "made-up", ""] {
            let trigger = EvalTrigger::from(word);
            assert_eq!(trigger.to_string(), word);
            let message = rmp_serde::to_vec(&trigger).unwrap();
            assert_eq!(message, rmp_serde::to_vec(word).unwrap());
            assert_eq!(rmp_serde::from_slice::<EvalTrigger>(&message).unwrap(), trigger);
        }
    }
}
