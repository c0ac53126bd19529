//! What a drain of a node waits for, and what it leaves to its end (N-10).

use model::job::JobType;

use crate::views::{AllocRef, NodeRef};

impl<'a> NodeRef<'a> {
    /// Whether a drain of the node has nothing left to wait for: the node runs allocations of system jobs at most. An
    /// allocation that has to stop counts until it has stopped (N-10.3).
    pub fn is_drained(self) -> bool {
        let is_awaited = |alloc: AllocRef<'_>| {
            !alloc.client_status().is_terminal() && alloc.job().spec.kind != JobType::System
        };
        !self.allocs().any(is_awaited)
    }

    /// The allocations that a drain of the node marks at its end: those that should run and do not migrate yet (N-10.4,
    /// N-10.11).
    pub fn left_to_drain(self, ignore_system_jobs: bool) -> impl Iterator<Item = AllocRef<'a>> {
        self.allocs().filter(move |alloc| {
            let stays = ignore_system_jobs && alloc.job().spec.kind == JobType::System;
            alloc.may_migrate() && !stays
        })
    }
}

impl AllocRef<'_> {
    /// Whether it can be marked to migrate: it should run, and it is not marked yet.
    pub fn may_migrate(self) -> bool {
        !self.is_terminal() && self.transition().migrate != Some(true)
    }

    /// Whether its node drains.
    pub fn is_on_draining_node(self) -> bool {
        self.node().is_some_and(|node| node.server().drain.is_some())
    }
}
