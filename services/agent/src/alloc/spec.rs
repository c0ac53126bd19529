//! What the servers want of an allocation, as the agent holds and keeps it.

use std::sync::Arc;

use model::alloc::{AllocCommon, AllocatedResources, alloc_name};
use model::job::{Job, Task, TaskGroup};
use model::{AllocId, HistoryId, Text};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use wire::node::{WorkAlloc, WorkAllocs, WorkIndex};

/// One allocation with all that it shares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AllocSpec {
    /// The history that its index belongs to.
    #[serde(default)]
    pub(crate) history: HistoryId,
    /// What is its own.
    pub(crate) work: WorkAlloc,
    /// What it shares with others of its placement.
    pub(crate) common: Arc<AllocCommon>,
    /// The version of the job that it runs; its groups can be read.
    #[serde(deserialize_with = "readable")]
    pub(crate) job: Arc<Job>,
}

impl AllocSpec {
    /// Takes the allocations out of an answer; those that point at what is not in it, or at a job that cannot be read, are left
    /// out and named.
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

    /// Its id.
    pub(crate) fn id(&self) -> AllocId {
        self.work.id
    }

    /// When the servers changed it last.
    pub(crate) fn index(&self) -> WorkIndex {
        WorkIndex { history: self.history, index: self.work.alloc_modify_index }
    }

    /// Its name: `<job id>.<group>[<n>]`.
    pub(crate) fn name(&self) -> Text {
        alloc_name(&self.common.name_stem, self.work.name_index)
    }

    /// Its task group; a job without it cannot run.
    pub(crate) fn group(&self) -> Option<&TaskGroup> {
        self.job.spec.group(&self.common.task_group).map(|(_, group)| group)
    }

    /// One of its group's tasks.
    pub(crate) fn task(&self, name: &str) -> Option<&Task> {
        self.group()?.tasks.iter().find(|task| &*task.name == name)
    }

    /// What it gets of the node.
    pub(crate) fn resources(&self) -> AllocatedResources {
        self.common.resources.with(&self.work.assigned.unpack().unwrap_or_default())
    }

    /// Whether its tasks should run, as far as the servers know.
    pub(crate) fn should_run(&self) -> bool {
        !self.work.desired_status.is_terminal() && !self.work.client_status.is_terminal()
    }

    /// Whether it is asked to stop without waiting first.
    pub(crate) fn skips_shutdown_delay(&self) -> bool {
        self.work.desired_transition.no_shutdown_delay == Some(true)
    }
}

/// Reads a job of which every part can be read.
fn readable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Job>, D::Error> {
    let job = Arc::<Job>::deserialize(deserializer)?;
    job.spec.task_groups.check().map_err(D::Error::custom)?;
    Ok(job)
}
