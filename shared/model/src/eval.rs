//! Evaluations: one look of a scheduler at one job.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::alloc::AllocMetric;
use crate::job::JobType;
use crate::text::{read_word, words};
use crate::{
    DeploymentId, EvalId, Index, JobKey, Map, Nanos, NodeId, Text, Timestamp, TraceContext, is_default,
};

words! {
    /// Where an evaluation stands (`spec/scheduling.md` ).
    EvalStatus, "evaluation status" {
        /// Waits for a scheduler.
        Pending => "pending",
        /// Waits for room.
        Blocked => "blocked",
        /// Done.
        Complete => "complete",
        /// Given up.
        Failed => "failed",
        /// Made needless by another.
        Canceled => "canceled",
    }
}

impl EvalStatus {
    /// Whether nothing more will come of it.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Failed | Self::Canceled)
    }
}

/// Declares the triggers that there are, each with its word.
macro_rules! triggers {
    ($( $(#[$meta:meta])* $trigger:ident => $word:literal, )+) => {
        /// What made an evaluation.
        ///
        /// Made from a word, of which none is refused: what a scheduler does not accept it says when it gets there.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum EvalTrigger {
            $( $(#[$meta])* $trigger, )+
            /// None of these; no scheduler accepts it.
            Other(Text),
        }

        impl EvalTrigger {
            /// The API's word for it.
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
    /// A job was registered, or forced to be looked at.
    JobRegister => "job-register",
    /// A job was stopped or purged.
    JobDeregister => "job-deregister",
    /// A periodic job was launched.
    PeriodicJob => "periodic-job",
    /// A node drains.
    NodeDrain => "node-drain",
    /// A node changed.
    NodeUpdate => "node-update",
    /// A user stopped an allocation.
    AllocStop => "alloc-stop",
    /// The reference's periodic core work; accepted, never made.
    Scheduled => "scheduled",
    /// The reference's former rolling updates; accepted, never made.
    RollingUpdate => "rolling-update",
    /// A deployment moves on.
    DeploymentWatcher => "deployment-watcher",
    /// An earlier evaluation failed too often.
    FailedFollowUp => "failed-follow-up",
    /// Plans were refused too often.
    MaxPlanAttempts => "max-plan-attempts",
    /// An allocation failed.
    AllocFailure => "alloc-failure",
    /// Not everything found room.
    QueuedAllocs => "queued-allocs",
    /// Allocations had to make room.
    Preemption => "preemption",
    /// A job was scaled.
    JobScaling => "job-scaling",
    /// A disconnected node stayed away too long.
    MaxDisconnectTimeout => "max-disconnect-timeout",
    /// An allocation was heard of again.
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
        read_word(deserializer, "evaluation trigger", |word| Ok::<_, Infallible>(Self::from(word)))
    }
}

/// One look of a scheduler at one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Its id.
    pub id: EvalId,
    /// The job to look at.
    pub job: JobKey,
    /// 1 to 32767; the highest come first.
    pub priority: u16,
    /// Which scheduler looks.
    pub kind: JobType,
    /// What made it.
    pub trigger: EvalTrigger,
    /// Where it stands.
    pub status: EvalStatus,
    /// The same in words.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status_description: Text,
    /// The job's modify index when it was made; for people.
    #[serde(default, skip_serializing_if = "is_default")]
    pub job_modify_index: Index,
    /// The node that made it, or that it is blocked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// The index of what happened to that node; for people.
    #[serde(default, skip_serializing_if = "is_default")]
    pub node_modify_index: Index,
    /// The deployment that made it, or that it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_id: Option<DeploymentId>,
    /// How long it waits in the broker before it is ready.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait: Nanos,
    /// The moment before which it is not ready.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait_until: Timestamp,
    /// The evaluation that follows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_eval: Option<EvalId>,
    /// The evaluation that it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_eval: Option<EvalId>,
    /// The evaluation that waits for room for what it could not place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_eval: Option<EvalId>,
    /// What could not be placed, by task group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed_groups: BTreeMap<Text, AllocMetric>,
    /// What it set out to do, by task group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Box<PlanAnnotations>>,
    /// Whether nodes of a computed class could serve, of each class that was looked at.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub class_eligibility: BTreeMap<Text, bool>,
    /// Whether constraints look at more than the class, so that any node may serve.
    #[serde(default, skip_serializing_if = "is_default")]
    pub escaped_class: bool,
    /// The quota that was used up.
    #[serde(default, skip_serializing_if = "is_default")]
    pub quota_limit: Text,
    /// What is missing that no node brings, such as `csi-volume:<namespace>:<id>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_resources: Vec<Text>,
    /// Whether the plan should be annotated (a dry run).
    #[serde(default, skip_serializing_if = "is_default")]
    pub annotate_plan: bool,
    /// Allocations wanted but not placed, by task group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub queued: Map<Text, u32>,
    /// The index of the snapshot that a scheduler last looked at.
    #[serde(default, skip_serializing_if = "is_default")]
    pub snapshot_index: Index,
    /// The index that made it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub create_index: Index,
    /// The last index that changed it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub modify_index: Index,
    /// The trace of what made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// When it was made.
    #[serde(default, skip_serializing_if = "is_default")]
    pub create_time: Timestamp,
    /// When it changed last.
    #[serde(default, skip_serializing_if = "is_default")]
    pub modify_time: Timestamp,
}

impl Evaluation {
    /// A pending evaluation with nothing but what every one has.
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

/// What a plan sets out to do, for people.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanAnnotations {
    /// Counts by task group.
    pub desired_updates: Map<Text, DesiredUpdates>,
    /// Allocations of other jobs that would have to make room.
    pub preempted: Vec<crate::AllocId>,
}

/// How many allocations of a group have what in store.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the API's (`spec/http-api.md` A.9)")]
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
