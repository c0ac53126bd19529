//! Bugs that the simulation plants to see that it finds them. Without the feature `planted`, which only the simulation
//! switches on, none can be planted and the questions vanish when built.

/// Declares the bugs, and the list of all.
macro_rules! bugs {
    ($($(#[$doc:meta])+ $bug:ident,)+) => {
        /// A bug that the rules, or the simulation's own network and database, can have on demand.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Bug {
            $($(#[$doc])+ $bug,)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$bug),+];
        }
    };
}

bugs! {
    /// The applier says what it judged although the commit failed.
    SaysWhatWasNotWritten,
    /// The applier takes a commit whose outcome nobody knows for done.
    TakesUnknownForDone,
    /// The applier judges again what was committed already.
    ForgetsWhatWasCommitted,
    /// The applier judges a command that it has already, and that is not written yet.
    ForgetsWhatIsUnderWay,
    /// The applier heeds a singleton that was deposed.
    HeedsOldEpochs,
    /// The applier takes a plan although another for the same job was taken since its snapshot.
    TakesTwoPlansOfAJob,
    /// An attempt made from a snapshot older than its evaluation finishes that evaluation.
    LetsOldSnapshotsFinish,
    /// A plan that was taken in part finishes its evaluation.
    FinishesAfterAPart,
    /// The applier does not look whether a node has room.
    OverfillsNodes,
    /// The applier heeds reports that are older than what it knows.
    HeedsOldReports,
    /// A node that fails makes no evaluations.
    EvaluatesNobody,
    /// A second node failure while an evaluation of the first is pending does not touch that.
    ForgetsTheSecondFailure,
    /// Nobody notes that a node gained room.
    ForgetsRoomGained,
    /// A broker that takes over does not take up what is pending.
    ForgetsPendingEvals,
    /// The broker does not unblock what waits for room.
    UnblocksNobody,
    /// The broker does not look whether room was gained before it heard of a blocked evaluation.
    MissesUnblocks,
    /// What a worker was silent about for too long is handed out no more.
    LosesExpiredHandOuts,
    /// A tracker that takes over has no timers.
    ForgetsTimers,
    /// The database takes a commit of whatever epoch.
    CommitsWithoutItsEpoch,
    /// The applier answers a read from memory.
    ReadsFromMemory,
    /// A replica passes over change sets that it missed.
    PassesOverGaps,
    /// Agents do not hear that their work has changed.
    LosesWakeUps,
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug in this thread, or none.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether a bug is planted.
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
