//! The specification of an allocation: the servers' view of it, as the agent keeps it.

use std::sync::Arc;

use model::alloc::{AllocCommon, AllocatedResources, alloc_name};
use model::job::{Job, Task, TaskGroup};
use model::{AllocId, HistoryId, Text};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use wire::node::{WorkAlloc, WorkAllocs, WorkIndex};

/// An allocation with its common share and its job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AllocSpec {
    /// The history that the allocation's index belongs to.
    #[serde(default)]
    pub(crate) history: HistoryId,
    /// The allocation's own fields.
    pub(crate) work: WorkAlloc,
    /// The fields that it shares with other allocations of its placement.
    pub(crate) common: Arc<AllocCommon>,
    /// The job version that it runs. Its groups have been checked to be readable.
    #[serde(deserialize_with = "readable_job")]
    pub(crate) job: Arc<Job>,
}

impl AllocSpec {
    /// Unpacks the allocations in an answer. Allocations with a missing reference or an unreadable job are returned by id.
    pub(crate) fn unpack(answer: WorkAllocs, history: HistoryId) -> (Vec<Self>, Vec<AllocId>) {
        let (mut specs, mut broken) = (Vec::new(), Vec::new());
        for work in &answer.allocs {
            match answer.shared(work) {
                Some((common, job)) if job.spec.task_groups.check().is_ok() => {
                    let (common, job) = (Arc::clone(common), Arc::clone(job));
                    specs.push(Self { history, work: work.clone(), common, job });
                }
                Some(_) | None => broken.push(work.id),
            }
        }
        (specs, broken)
    }

    /// The allocation's id.
    pub(crate) fn id(&self) -> AllocId {
        self.work.id
    }

    /// The index at which the servers last changed it.
    pub(crate) fn index(&self) -> WorkIndex {
        WorkIndex { history: self.history, index: self.work.alloc_modify_index }
    }

    /// The allocation's name: `<job id>.<group>[<n>]`.
    pub(crate) fn name(&self) -> Text {
        alloc_name(&self.common.name_stem, self.work.name_index)
    }

    /// The task group. An allocation whose job lacks it cannot run.
    pub(crate) fn group(&self) -> Option<&TaskGroup> {
        self.job.spec.group(&self.common.task_group).map(|(_, group)| group)
    }

    /// The task of this name in the group.
    pub(crate) fn task(&self, name: &str) -> Option<&Task> {
        self.group()?.tasks.iter().find(|task| &*task.name == name)
    }

    /// The resources that the allocation was assigned.
    pub(crate) fn resources(&self) -> AllocatedResources {
        self.common.resources.with(&self.work.assigned.unpack().unwrap_or_default())
    }

    /// Whether its tasks should run, according to the servers.
    pub(crate) fn should_run(&self) -> bool {
        !self.work.desired_status.is_terminal() && !self.work.client_status.is_terminal()
    }

    /// Whether it should stop without a shutdown delay.
    pub(crate) fn skips_shutdown_delay(&self) -> bool {
        self.work.desired_transition.no_shutdown_delay == Some(true)
    }
}

/// Deserializes a job and checks that its groups are readable.
fn readable_job<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Job>, D::Error> {
    let job = Arc::<Job>::deserialize(deserializer)?;
    job.spec.task_groups.check().map_err(D::Error::custom)?;
    Ok(job)
}
