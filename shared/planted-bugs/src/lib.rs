//! Named bugs that the simulation plants, to check that it detects them. Without the feature `planted`, which only the
//! simulation enables, no bug can be planted and the compiler removes every check for one.

/// Declares the enum of bugs and the list of all its variants.
macro_rules! bugs {
    ($($(#[$doc:meta])+ $bug:ident,)+) => {
        /// A bug that the pure cores, or the simulation's own network, database and agents, have if it is planted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Bug {
            $($(#[$doc])+ $bug,)+
        }

        impl Bug {
            /// All bugs.
            pub const ALL: &[Self] = &[$(Self::$bug),+];
        }
    };
}

bugs! {
    /// The applier sends the outcomes of a batch although its commit failed.
    RepliesAfterFailedCommit,
    /// The applier treats a commit with an unknown outcome as successful.
    AssumesUnknownCommitted,
    /// The applier executes a command again that has already been committed.
    ReexecutesCommitted,
    /// The applier executes a repeated command again while the first copy is waiting to be committed.
    ReexecutesPending,
    /// The applier accepts commands from a deposed singleton.
    AcceptsOldEpochs,
    /// The applier accepts a plan although another plan for the same job was accepted after its snapshot.
    AcceptsConcurrentPlans,
    /// The applier completes an evaluation by an attempt whose snapshot is older than the evaluation.
    CompletesFromStaleSnapshot,
    /// The applier completes an evaluation although its plan was accepted only in part.
    CompletesAfterPartialPlan,
    /// The applier does not check that a node has capacity.
    OverfillsNodes,
    /// The applier accepts reports that are older than the recorded state.
    AcceptsOldReports,
    /// The applier creates no evaluations when a node fails.
    SkipsNodeFailureEvals,
    /// The applier ignores a second node failure while an evaluation for the first is pending.
    IgnoresSecondNodeFailure,
    /// The applier does not record that a node gained capacity.
    ForgetsCapacityGained,
    /// The applier takes the cluster's time from its own wall clock.
    TrustsHostClock,
    /// A broker that becomes active does not enqueue pending evaluations.
    ForgetsPendingEvals,
    /// The broker never unblocks evaluations that wait for capacity.
    NeverUnblocks,
    /// The broker ignores capacity that was gained before it learned of a blocked evaluation.
    MissesUnblocks,
    /// The broker does not enqueue an evaluation again after its lease has expired.
    LosesExpiredLeases,
    /// A node-tracker that becomes active starts no heartbeat timers.
    ForgetsTimers,
    /// The database accepts a commit of any epoch.
    SkipsEpochCheck,
    /// The applier answers a read from memory, without confirming the head in the database.
    ReadsFromMemory,
    /// A replica skips change sets that it missed.
    SkipsMissedChangeSets,
    /// A replica applies change sets of a database that lacks some of its own.
    MixesHistories,
    /// The applier does not believe replicas that have seen more than its database has.
    IgnoresLostWrites,
    /// Agents do not receive wakes.
    LosesWakes,
    /// An agent does not end the tasks whose state it cannot read, and starts them again.
    KeepsUnreadableTasks,
    /// The applier does not delete the registrations of services that end with their allocation or their node.
    KeepsEndedServices,
    /// The registrar of services does not send again what the servers have lost.
    NeverRepairsServices,
    /// A drainer that becomes active does not know the drains that have begun.
    ForgetsDrains,
    /// The drainer marks all allocations of a group at once.
    OverdrainsGroups,
    /// The drainer counts replacements as healthy before their agents do.
    IgnoresVerdicts,
    /// The applier ends a drain without marking the allocations that are left.
    LeavesAllocsBehind,
    /// A launcher that becomes active does not know the periodic jobs.
    ForgetsSchedules,
    /// The applier does not record for which moments it has launched a periodic job.
    ForgetsLaunches,
    /// The applier dispatches a job again under a token that was used before.
    IgnoresTokens,
    /// The applier does not limit the children of a job that run at once.
    IgnoresChildrenLimit,
    /// The applier never evaluates the children that it held back.
    NeverReleasesChildren,
    /// The deployment watcher does not promote canaries.
    NeverPromotes,
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants `bug` in the current thread; `None` removes the planted bug.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether `bug` is planted in the current thread. Always false without the feature `planted`.
#[inline]
pub fn is_planted(bug: Bug) -> bool {
    #[cfg(feature = "planted")]
    return PLANTED.get() == Some(bug);
    #[cfg(not(feature = "planted"))]
    {
        let _ = bug;
        false
    }
}
