//! The command that deletes garbage, and the request to collect it.

use model::change::Cause;
use model::{AllocId, DeploymentId, EvalId, JobKey, NodeId, Timestamp};
use serde::{Deserialize, Serialize};

use super::info::{Class, CommandBody, CommandInfo};
use crate::role::Role;

/// Maximum number of objects in one [`CollectGarbage`], so that a slice does not delay other commands.
pub const GARBAGE_SLICE_MAX: usize = 500;

/// Adds the command of this file to [`Command`](super::Command).
macro_rules! garbage_commands {
    ($($so_far:tt)*) => {
        collect! {
            $($so_far)*
            /// Deletes objects that are no longer needed.
            CollectGarbage(CollectGarbage),
        }
    };
}

/// Deletes objects that are no longer needed. Objects that are needed again are skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectGarbage {
    /// Objects that changed after this time are kept.
    pub before: Timestamp,
    /// The objects to delete.
    pub garbage: Garbage,
}

impl CommandBody for CollectGarbage {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::PlanApplier,
            class: Class::Rest,
            cause: Cause::Garbage,
            is_expensive: true,
            is_deferrable: true,
        }
    }
}

/// Objects of one kind that are no longer needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Garbage {
    /// Terminal allocations.
    Allocs {
        /// The allocations.
        ids: Vec<AllocId>,
        /// Whether their jobs are deleted next. If so, it does not matter that the record of completed batch work is
        /// lost.
        with_jobs: bool,
    },
    /// Evaluations that have no allocations left.
    Evals(Vec<EvalId>),
    /// Dead jobs that have no evaluations and no allocations left.
    Jobs(Vec<JobKey>),
    /// Terminal deployments.
    Deployments(Vec<DeploymentId>),
    /// Nodes that are down and have no live allocations.
    Nodes(Vec<NodeId>),
}

/// Requests that the active applier collects all garbage, regardless of its age. This is not a command: the
/// garbage that is found becomes commands. The response, [`GarbageCollectionStarted`], is sent when the collection starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForceGarbageCollection {}

/// The garbage collection has started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GarbageCollectionStarted {}

#[cfg(any(test, feature = "samples"))]
mod samples {
    use super::*;
    use crate::command::Sample;
    use crate::samples::{ALLOC, DEPLOYMENT, EVAL, NODE, NOW, job_key};

    impl Sample for CollectGarbage {
        fn samples() -> Vec<Self> {
            let garbage = [
                Garbage::Allocs { ids: vec![ALLOC], with_jobs: true },
                Garbage::Evals(vec![EVAL]),
                Garbage::Jobs(vec![job_key()]),
                Garbage::Deployments(vec![DEPLOYMENT]),
                Garbage::Nodes(vec![NODE]),
            ];
            garbage.map(|garbage| Self { before: NOW, garbage }).to_vec()
        }
    }
}
