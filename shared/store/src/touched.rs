//! [`Touched`]: the objects that change sets touched, so that only the newest state of each is written. The caller supplies
//! that state.

use std::collections::BTreeSet;

use model::change::{
    AllocChange, Change, ChangeSet, Concern, DeploymentChange, EvalChange, JobChange, JobSubmissionChange,
    JobSummaryChange, LeaseChange, NodeChange, SchedulerConfigChange, SmallChange, UnblockedChange,
};
use model::cluster::Singleton;
use model::{AllocId, DeploymentId, EvalId, Index, JobKey, JobVersionKey, NodeId, SmallObject};
use state::UnblockKey;

/// The keys of objects that were created, changed or deleted.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) job_versions: BTreeSet<JobVersionKey>,
    /// Deleted jobs, with all the versions and sources that they had at the time.
    pub(crate) jobs_deleted: BTreeSet<JobKey>,
    /// Job versions whose sources were created, copied or deleted.
    pub(crate) submissions: BTreeSet<JobVersionKey>,
    pub(crate) summaries: BTreeSet<JobKey>,
    pub(crate) plans: BTreeSet<JobKey>,
    pub(crate) evals: BTreeSet<EvalId>,
    pub(crate) deployments: BTreeSet<DeploymentId>,
    /// Nodes of which anything changed.
    pub(crate) nodes: BTreeSet<NodeId>,
    /// The subset of `nodes` that registered or were deleted.
    pub(crate) nodes_registered: BTreeSet<NodeId>,
    /// Allocations of which anything changed: each once, with those of one plan next to each other.
    pub(crate) allocs: Vec<AllocId>,
    /// The subset of `allocs` whose shared part may have changed, or which were replaced as a whole: each once, ordered by
    /// id.
    pub(crate) allocs_replaced: Vec<AllocId>,
    pub(crate) scheduler_config: bool,
    pub(crate) small: SmallKeys,
    pub(crate) leases: BTreeSet<Singleton>,
    pub(crate) unblocked: BTreeSet<UnblockKey>,
    /// Unblock records before this index are deleted.
    pub(crate) unblocked_forgotten: Index,
}

impl Touched {
    pub(crate) fn by<'a>(sets: impl IntoIterator<Item = &'a ChangeSet>) -> Self {
        let mut touched = Self::default();
        sets.into_iter().flat_map(|set| &set.changes).for_each(|change| touched.add(change));
        touched.allocs.sort_unstable_by_key(|id| id.plan_order());
        touched.allocs_replaced.sort_unstable();
        for ids in [&mut touched.allocs, &mut touched.allocs_replaced] {
            ids.dedup();
        }
        touched
    }

    /// The number of rows to write in the tables that grow with load.
    pub(crate) fn rows(&self) -> usize {
        self.job_versions.len() + self.summaries.len() + self.evals.len() + self.allocs.len()
    }

    fn add(&mut self, change: &Change) {
        match change.concern() {
            Concern::Jobs(change) => self.add_job(change),
            Concern::JobSubmissions(change) => self.add_submission(change),
            Concern::JobSummaries(JobSummaryChange::JobSummary(summary)) => {
                self.summaries.insert(summary.job.clone());
            }
            Concern::Evals(change) => self.add_eval(change),
            Concern::Deployments(change) => self.add_deployment(change),
            Concern::Nodes(change) => self.add_node(change),
            Concern::Allocs(change) => self.add_alloc(change),
            Concern::SchedulerConfig(SchedulerConfigChange::SchedulerConfig(_)) => {
                self.scheduler_config = true;
            }
            Concern::Leases(LeaseChange::Lease(lease)) => {
                self.leases.insert(lease.service);
            }
            Concern::Unblocked(change) => self.add_unblocked(change),
            Concern::Small(change) => self.small.add(change),
        }
    }

    fn add_job(&mut self, change: JobChange<'_>) {
        match change {
            JobChange::Job(job) => {
                self.job_versions.insert(job.version_key());
            }
            JobChange::JobFields(fields) => {
                self.job_versions.insert(fields.key.clone());
            }
            JobChange::JobVersionsDeleted(keys) => self.job_versions.extend(keys.iter().cloned()),
            JobChange::JobDeleted(key) => {
                self.jobs_deleted.insert(key.clone());
                self.summaries.insert(key.clone());
                self.plans.insert(key.clone());
            }
        }
    }

    fn add_submission(&mut self, change: JobSubmissionChange<'_>) {
        match change {
            JobSubmissionChange::JobSubmission(submission) => {
                self.submissions.insert(submission.version.clone());
            }
            JobSubmissionChange::JobSubmissionCopied { to, .. } => {
                self.submissions.insert(to.clone());
            }
            JobSubmissionChange::JobSubmissionsDeleted(keys) => {
                self.submissions.extend(keys.iter().cloned());
            }
        }
    }

    fn add_eval(&mut self, change: EvalChange<'_>) {
        match change {
            EvalChange::Eval(eval) | EvalChange::EvalOutcome(eval) => {
                self.evals.insert(eval.id);
            }
            EvalChange::PlanApplied { job, eval_id } => {
                self.plans.insert(job.clone());
                self.evals.insert(*eval_id);
            }
            EvalChange::EvalsChanged(change) => self.evals.extend(&change.ids),
            EvalChange::EvalsDeleted(ids) => self.evals.extend(ids),
        }
    }

    fn add_deployment(&mut self, change: DeploymentChange<'_>) {
        match change {
            DeploymentChange::Deployment(deployment) => {
                self.deployments.insert(deployment.id);
            }
            DeploymentChange::DeploymentFields(fields) => {
                self.deployments.insert(fields.id);
            }
            DeploymentChange::DeploymentsDeleted(ids) => self.deployments.extend(ids),
        }
    }

    fn add_node(&mut self, change: NodeChange<'_>) {
        match change {
            NodeChange::Node(node) => {
                self.nodes.insert(node.id);
                self.nodes_registered.insert(node.id);
            }
            NodeChange::NodeServerSide { id, .. } => {
                self.nodes.insert(*id);
            }
            NodeChange::NodesChanged(change) => self.nodes.extend(&change.ids),
            NodeChange::NodesDeleted(ids) => {
                self.nodes.extend(ids);
                self.nodes_registered.extend(ids);
            }
        }
    }

    fn add_alloc(&mut self, change: AllocChange<'_>) {
        match change {
            AllocChange::AllocsPlaced(placements) => {
                self.allocs.extend(&placements.ids.0);
                // A replaced allocation gets the id of its successor.
                self.allocs.extend((0..placements.len()).filter_map(|row| placements.previous.get(row)));
            }
            AllocChange::AllocsChanged(change) => {
                self.allocs.extend(&change.ids.0);
                if change.common.is_some() {
                    self.allocs_replaced.extend(&change.ids.0);
                }
            }
            AllocChange::Alloc(alloc) => {
                self.allocs.push(alloc.id);
                self.allocs_replaced.push(alloc.id);
            }
            AllocChange::AllocsDeleted(ids) => {
                self.allocs.extend(&ids.0);
                self.allocs_replaced.extend(&ids.0);
            }
        }
    }

    fn add_unblocked(&mut self, change: UnblockedChange<'_>) {
        match change {
            UnblockedChange::Unblocked(unblocked) => {
                self.unblocked.extend(unblocked.classes.iter().cloned().map(UnblockKey::Class));
                self.unblocked.extend(unblocked.quotas.iter().cloned().map(UnblockKey::Quota));
                self.unblocked.extend(unblocked.resources.iter().cloned().map(UnblockKey::Resource));
            }
            UnblockedChange::UnblockedForgotten(before) => {
                self.unblocked_forgotten = self.unblocked_forgotten.max(*before);
            }
        }
    }
}

macro_rules! small_keys {
    ($( $one:ident, $all:ident: $small:ident { $put:ident, $deleted:ident } of $object:ty; )+) => {
        /// The keys of small objects that were created, changed or deleted, by object table.
        #[derive(Debug, Default)]
        pub(crate) struct SmallKeys {
            $( pub(crate) $all: BTreeSet<<$object as SmallObject>::Key>, )+
        }

        impl SmallKeys {
            fn add(&mut self, change: SmallChange<'_>) {
                match change {
                    $(
                        SmallChange::$small(write) => {
                            self.$all.insert(write.key().clone());
                        }
                    )+
                }
            }
        }
    };
}

model::for_each_small_object!(small_keys);
