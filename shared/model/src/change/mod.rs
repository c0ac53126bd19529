//! Change sets: the effects of one command on the state, as the log stores them and replicas apply them.
//!
//! A change set contains results. A replica stores them and updates its lookup tables, but never computes consequences, so
//! that processes of different versions cannot diverge (`docs/architecture/commit-path.md`). A change holds the new value of one object, or the new
//! values of some fields if many objects change in the same way. Whole objects contain their indexes and timestamps. The
//! shorter forms take the index and timestamp of the change set.

mod fields;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use fields::{
    AllocsChanged, ChildrenSummary, DeploymentFields, DeploymentProgress, EvalsChanged, JobFields,
    JobSummary, NodesChanged, Unblocked,
};

use crate::alloc::Allocation;
use crate::cluster::{Lease, SchedulerConfig};
use crate::columns::AllocIds;
use crate::deployment::Deployment;
use crate::eval::Evaluation;
use crate::job::{Job, JobSubmission};
use crate::node::{Node, NodeServerSide};
use crate::plan::Placements;
use crate::small_object::{ObjectWrite, SmallObject};
use crate::table::Table;
use crate::text::string_enum;
use crate::{DeploymentId, EvalId, Index, JobKey, JobVersionKey, NodeId, RequestId, Timestamp, TraceContext};

/// All changes of one command, under one index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeSet {
    /// Number of the change set in the log; rises by one with each change set.
    pub index: Index,
    /// Cluster time of the change set; never earlier than that of an earlier change set.
    pub at: Timestamp,
    /// Request id of the command.
    pub request_id: RequestId,
    /// Kind of command. Event streams name events after it.
    pub cause: Cause,
    /// Trace context of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// The encoded response to the command, which is sent again if the command is repeated.
    #[serde(default, with = "byte_string", skip_serializing_if = "Vec::is_empty")]
    pub result: Vec<u8>,
    /// The changes, in the order in which they are applied.
    pub changes: Vec<Change>,
}

string_enum! {
    /// The kind of command that caused a change set. Events in event streams are named after it (`docs/rules/http-api.md` §26).
    Cause, "cause" {
        /// A job was registered.
        JobRegistered => "JobRegistered",
        /// A job was stopped or purged.
        JobDeregistered => "JobDeregistered",
        /// A version of a job was tagged, or lost its tag, or was marked as stable.
        JobVersionUpdated => "JobVersionUpdated",
        /// A user requested an evaluation of a job.
        JobEvaluated => "JobEvaluated",
        /// The desired transitions of allocations were set.
        AllocTransition => "AllocTransition",
        /// A scheduler's plan was accepted, or its outcome that there is nothing to do.
        PlanResult => "PlanResult",
        /// Evaluations failed, were superseded, or were deleted by a user.
        EvaluationUpdated => "EvaluationUpdated",
        /// A node registered.
        NodeRegistration => "NodeRegistration",
        /// Nodes were deleted.
        NodeDeregistration => "NodeDeregistration",
        /// The scheduling eligibility of a node was changed.
        NodeEligibility => "NodeEligibility",
        /// The drain of nodes was started, changed or cancelled, or is complete.
        NodeDrain => "NodeDrain",
        /// The status of deployments changed.
        DeploymentStatusUpdate => "DeploymentStatusUpdate",
        /// A user promoted canaries.
        DeploymentPromotion => "DeploymentPromotion",
        /// A user set the health of allocations.
        DeploymentAllocHealth => "DeploymentAllocHealth",
        /// Garbage was collected.
        Garbage => "Garbage",
        /// The status of nodes changed: heartbeats arrived or were missed.
        NodeStatus => "NodeStatus",
        /// Nodes reported the state of their allocations.
        AllocationUpdated => "AllocationUpdated",
        /// A node pool was created or changed.
        NodePoolUpserted => "NodePoolUpserted",
        /// A node pool was deleted.
        NodePoolDeleted => "NodePoolDeleted",
        /// Agents registered or withdrew services of their allocations.
        ServiceRegistration => "ServiceRegistration",
        /// A user deleted the registration of a service.
        ServiceDeregistration => "ServiceDeregistration",
        /// A dynamic host volume was created or changed.
        HostVolumeRegistered => "HostVolumeRegistered",
        /// A dynamic host volume was deleted.
        HostVolumeDeleted => "HostVolumeDeleted",
        /// Settings of the cluster changed.
        Settings => "Settings",
        /// A singleton's lease changed hands.
        Lease => "Lease",
    }
}

/// Declares [`Change`], the table that each change concerns, and [`Concern`], by which followers match changes.
macro_rules! changes {
    (
        {
            $(
                $(#[$table_doc:meta])*
                $table:ident($view:ident) {
                    $(
                        $(#[$doc:meta])*
                        $change:ident
                        $( ($payload:ident: $type:ty) )?
                        $( { $( $(#[$field_doc:meta])* $field:ident: $field_type:ty ),+ $(,)? } )?
                    ),+ $(,)?
                }
            )+
        }
        $( $one:ident, $all:ident: $small:ident { $put:ident, $deleted:ident } of $object:ty; )+
    ) => {
        /// One change.
        ///
        /// A change is stored under the name of its variant. [`Self::concern`] sorts changes by what they concern.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub enum Change {
            $( $(
                $(#[$doc])*
                $change $( ($type) )? $( { $( $(#[$field_doc])* $field: $field_type ),+ } )?,
            )+ )+
            $(
                #[doc = concat!("An object of the table `", stringify!($all), "` was created or changed.")]
                $put(Box<$object>),
                #[doc = concat!("An object of the table `", stringify!($all), "` was deleted.")]
                $deleted(<$object as SmallObject>::Key),
            )+
        }

        $(
            $(#[$table_doc])*
            #[derive(Debug, Clone, Copy)]
            pub enum $view<'a> {
                $(
                    $(#[$doc])*
                    $change $( (&'a $type) )? $( { $( $(#[$field_doc])* $field: &'a $field_type ),+ } )?,
                )+
            }
        )+

        /// A change of a small object, by kind.
        #[derive(Debug, Clone, Copy)]
        pub enum SmallChange<'a> {
            $(
                #[doc = concat!("A change of the table `", stringify!($all), "`.")]
                $small(ObjectWrite<'a, $object>),
            )+
        }

        /// A change under the table that it concerns.
        ///
        /// A follower matches the tables that it follows and, of these, every change. So a new change does not compile
        /// until the followers of its table handle it, and a new kind of small object needs no change of a follower.
        #[derive(Debug, Clone, Copy)]
        pub enum Concern<'a> {
            $(
                $(#[$table_doc])*
                $table($view<'a>),
            )+
            /// A change of a small object.
            Small(SmallChange<'a>),
        }

        impl Change {
            /// The change under the table that it concerns.
            #[inline]
            pub fn concern(&self) -> Concern<'_> {
                match self {
                    $( $(
                        Self::$change $( ($payload) )? $( { $($field),+ } )? => {
                            Concern::$table($view::$change $( ($payload) )? $( { $($field),+ } )?)
                        }
                    )+ )+
                    $(
                        Self::$put(object) => Concern::Small(SmallChange::$small(ObjectWrite::Put(object))),
                        Self::$deleted(key) => Concern::Small(SmallChange::$small(ObjectWrite::Deleted(key))),
                    )+
                }
            }

            /// The table that the change concerns.
            #[inline]
            pub fn table(&self) -> Table {
                match self {
                    $( $( Self::$change { .. } => Table::$table, )+ )+
                    $( Self::$put(_) | Self::$deleted(_) => Table::$small, )+
                }
            }
        }

        impl<'a> SmallChange<'a> {
            /// The text by whose beginning the object is found ([`SmallObject::search_text`]).
            pub fn search_text(self) -> Cow<'a, str> {
                match self {
                    $( Self::$small(write) => <$object>::search_text(write.key()), )+
                }
            }
        }
    };
}

crate::for_each_small_object! {
    changes {
        /// A change of jobs and their versions.
        Jobs(JobChange) {
            /// A job version was created or replaced. The last version of the last incarnation is the current one.
            Job(job: Arc<Job>),
            /// Fields of a job version outside its specification changed.
            JobFields(fields: JobFields),
            /// A job was deleted, with all its versions, their sources and its summary.
            JobDeleted(key: JobKey),
            /// Old versions of a job were deleted.
            JobVersionsDeleted(keys: Vec<JobVersionKey>),
        }

        /// A change of the sources of job versions.
        JobSubmissions(JobSubmissionChange) {
            /// The source from which a job version was registered was stored.
            JobSubmission(submission: Box<JobSubmission>),
            /// A job version took over the source of another version, if there is one. The source itself is not
            /// repeated, because it may be large.
            JobSubmissionCopied {
                /// The version that has the source.
                from: JobVersionKey,
                /// The version that gets the same source. The specification changed to it at the change set's index.
                to: JobVersionKey,
            },
            /// Sources of job versions were deleted.
            JobSubmissionsDeleted(keys: Vec<JobVersionKey>),
        }

        /// A change of the summaries of jobs.
        JobSummaries(JobSummaryChange) {
            /// The counts of a job's allocations, or of its children, changed.
            JobSummary(summary: Arc<JobSummary>),
        }

        /// A change of evaluations.
        Evals(EvalChange) {
            /// An evaluation was created or replaced.
            Eval(eval: Arc<Evaluation>),
            /// A scheduler's outcome for an evaluation. It is stored like any other evaluation, but only this change
            /// ends the broker's lease. The evaluation's snapshot index is that of the attempt
            /// (`docs/architecture/evaluations.md`).
            EvalOutcome(eval: Arc<Evaluation>),
            /// A scheduler's plan for a job was accepted, in whole or in part. No plan from an older snapshot is
            /// accepted after it, and the next attempt on the evaluation needs a snapshot that includes it.
            PlanApplied {
                /// The job.
                job: JobKey,
                /// The evaluation.
                eval_id: EvalId,
            },
            /// Existing evaluations changed in the same way.
            EvalsChanged(changed: EvalsChanged),
            /// Evaluations were deleted.
            EvalsDeleted(ids: Vec<EvalId>),
        }

        /// A change of deployments.
        Deployments(DeploymentChange) {
            /// A deployment was created or replaced.
            Deployment(deployment: Arc<Deployment>),
            /// Fields of a deployment changed.
            DeploymentFields(fields: Box<DeploymentFields>),
            /// Deployments were deleted.
            DeploymentsDeleted(ids: Vec<DeploymentId>),
        }

        /// A change of nodes.
        Nodes(NodeChange) {
            /// A node registered, for the first time or again.
            Node(node: Box<Node>),
            /// The server side of a node changed.
            NodeServerSide {
                /// The node.
                id: NodeId,
                /// Its new server side.
                server: Box<NodeServerSide>,
            },
            /// Existing nodes changed in the same way.
            NodesChanged(changed: Box<NodesChanged>),
            /// Nodes were deleted.
            NodesDeleted(ids: Vec<NodeId>),
        }

        /// A change of allocations.
        Allocs(AllocChange) {
            /// Allocations were placed. Each allocation that they replace gets the id of its successor (N-8.3).
            AllocsPlaced(placements: Box<Placements>),
            /// Existing allocations changed in the same way.
            AllocsChanged(changed: Box<AllocsChanged>),
            /// One allocation was created or replaced. Used if no shorter form fits.
            Alloc(alloc: Box<Allocation>),
            /// Allocations were deleted.
            AllocsDeleted(ids: AllocIds),
        }

        /// A change of the scheduler configuration.
        SchedulerConfig(SchedulerConfigChange) {
            /// The scheduler configuration changed.
            SchedulerConfig(config: SchedulerConfig),
        }

        /// A change of leases.
        Leases(LeaseChange) {
            /// A singleton's lease changed hands.
            Lease(lease: Lease),
        }

        /// A change of the records of capacity that was gained.
        Unblocked(UnblockedChange) {
            /// Capacity was gained that blocked evaluations may wait for.
            Unblocked(unblocked: Unblocked),
            /// Records of capacity gained before this index were deleted.
            UnblockedForgotten(before: Index),
        }
    }
}

/// Serializes bytes as one byte string.
mod byte_string {
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        crate::bytes::deserialize(deserializer, "bytes", |bytes| Ok(bytes.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::NodePool;

    #[test]
    fn a_change_of_a_small_object_is_stored_under_its_name() {
        let pool = NodePool { name: "gpu".into(), ..NodePool::default() };
        let (put, deleted) = (Change::NodePool(Box::new(pool)), Change::NodePoolDeleted("gpu".into()));
        assert_eq!(serde_json::to_value(&put).unwrap(), json!({ "NodePool": { "name": "gpu" } }));
        assert_eq!(serde_json::to_value(&deleted).unwrap(), json!({ "NodePoolDeleted": "gpu" }));
        for change in [put, deleted] {
            let stored = rmp_serde::to_vec_named(&change).unwrap();
            assert_eq!(rmp_serde::from_slice::<Change>(&stored).unwrap(), change);
        }
    }

    #[test]
    fn names_in_stored_logs_stay_as_they_are() {
        macro_rules! names {
            ($( $one:ident, $all:ident: $small:ident { $put:ident, $deleted:ident } of $object:ty; )+) => {
                [$( [stringify!($all), stringify!($put), stringify!($deleted)] ),+]
            };
        }
        let names = crate::for_each_small_object!(names);
        for stored in [
            ["node_pools", "NodePool", "NodePoolDeleted"],
            ["namespaces", "Namespace", "NamespaceDeleted"],
            ["root_keys", "RootKey", "RootKeyDeleted"],
            ["host_volumes", "HostVolume", "HostVolumeDeleted"],
            ["csi_volumes", "CsiVolume", "CsiVolumeDeleted"],
            ["volume_claims", "VolumeClaim", "VolumeClaimDeleted"],
            ["service_registrations", "ServiceRegistration", "ServiceRegistrationDeleted"],
        ] {
            assert!(names.contains(&stored), "{stored:?}");
        }
    }

    #[test]
    fn a_change_is_found_under_its_table() {
        let deleted = Change::NodePoolDeleted("gpu".into());
        assert_eq!(deleted.table(), Table::NodePools);
        let Concern::Small(change) = deleted.concern() else { panic!("a node pool is a small object") };
        assert_eq!(change.search_text(), "gpu");
        let forgotten = Change::UnblockedForgotten(Index(7));
        assert_eq!(forgotten.table(), Table::Unblocked);
        let concern = forgotten.concern();
        assert!(matches!(concern, Concern::Unblocked(UnblockedChange::UnblockedForgotten(Index(7)))));
    }
}
