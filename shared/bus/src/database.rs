//! Whether the database that a process reads is the one that the plan applier writes. Pure: heads and times come from the
//! caller.
//!
//! An applier announces the head only after its database has confirmed that it is still the applier. So if the database
//! of this process has another history, epoch or applier than the announcement, or an earlier index, either the process
//! reads a different database, or a new applier has taken over meanwhile. In the second case the deposed applier stops
//! announcing. So if contradicting announcements continue, the process reads a different database.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Epoch, HistoryId, ProcessId};
use wire::feed::Head;

use crate::continuity::LostChangeSet;

/// How long a database must have contradicted the announcements of an applier before it counts as another one. So long
/// after its last announcement, an applier counts as gone.
const CONTRADICTED_MIN: Duration = Duration::from_secs(3);
/// How often a database that agrees is read again, because a new connection may lead to another server.
const READ_EVERY: Duration = Duration::from_secs(10);

/// Whether a process reads the database that the plan applier writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DatabaseMatch {
    /// The database has not been compared with an announcement yet.
    #[default]
    Unknown,
    /// It is the database that the applier writes.
    Same,
    /// The applier writes another database.
    Other(Arc<OtherDatabase>),
    /// The applier's database lacks a change set that this process has seen.
    WentBack(Arc<LostChangeSet>),
}

impl DatabaseMatch {
    /// Whether what this process knows is not the state that the applier writes: another database, or one that went back.
    pub fn is_other(&self) -> bool {
        self.contradiction().is_some()
    }

    /// What is wrong, and what to do about it; `None` if nothing is.
    pub fn contradiction(&self) -> Option<String> {
        match self {
            Self::Unknown | Self::Same => None,
            Self::Other(other) => Some(other.to_string()),
            Self::WentBack(lost) => Some(lost.to_string()),
        }
    }
}

/// The database of a process and the different database of the applier. The text names both, and says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherDatabase {
    own: LocatedHead,
    applier: LocatedHead,
}

/// The head of a log, and the address of the database that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocatedHead {
    pub(crate) head: Head,
    /// Host, port and name of the database; `None` if an applier does not announce it.
    pub(crate) address: Option<Arc<str>>,
}

/// The time of one applier as the active one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reign {
    history: HistoryId,
    epoch: Epoch,
    applier: ProcessId,
}

/// Compares the database of a process with the announcements of appliers.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    result: DatabaseMatch,
    /// The reign that the database agreed with, and the time of that announcement.
    agreed: Option<(Reign, Instant)>,
    contradiction: Option<Contradiction>,
}

/// Announcements of one reign that the database contradicts.
#[derive(Debug, Clone, Copy)]
struct Contradiction {
    reign: Reign,
    first: Instant,
    last: Instant,
}

impl From<&Head> for Reign {
    fn from(head: &Head) -> Self {
        Self { history: head.history, epoch: head.epoch, applier: head.applier }
    }
}

impl Comparison {
    /// Records an announcement that arrived at `at`. Returns whether the database has to be read and compared with it.
    pub(crate) fn announced(&mut self, announced: &Head, at: Instant) -> bool {
        let reign = Reign::from(announced);
        let is_known = self.agreed.is_some_and(|(agreed, read_at)| {
            agreed == reign && at.saturating_duration_since(read_at) < READ_EVERY
        });
        if is_known {
            self.agrees(at);
        }
        !is_known
    }

    /// Compares an announcement that arrived at `at` with the head of the process's own database, read after that.
    pub(crate) fn compare(&mut self, announced: LocatedHead, own: LocatedHead, at: Instant) {
        let reign = Reign::from(&announced.head);
        if Reign::from(&own.head) == reign && own.head.index >= announced.head.index {
            self.agreed = Some((reign, at));
            return self.agrees(at);
        }
        // From now on, the database is read at every announcement.
        self.agreed = self.agreed.filter(|(agreed, _)| *agreed != reign);
        let earlier = self.contradiction.filter(|earlier| earlier.reign == reign);
        let first = earlier.map_or(at, |earlier| earlier.first);
        self.contradiction = Some(Contradiction { reign, first, last: at });
        if at.saturating_duration_since(first) >= CONTRADICTED_MIN {
            self.result = DatabaseMatch::Other(Arc::new(OtherDatabase { own, applier: announced }));
        }
    }

    /// Handles an announcement that the database agrees with. The announcement proves nothing while an applier of
    /// another database announces itself as well.
    fn agrees(&mut self, at: Instant) {
        let is_disputed = self
            .contradiction
            .is_some_and(|contradiction| at.saturating_duration_since(contradiction.last) < CONTRADICTED_MIN);
        if !is_disputed {
            self.contradiction = None;
            self.result = DatabaseMatch::Same;
        }
    }

    /// The result so far. [`DatabaseMatch::Other`] remains until an announcement agrees with the process's own
    /// database.
    pub(crate) fn result(&self) -> &DatabaseMatch {
        &self.result
    }
}

impl fmt::Display for OtherDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { own, applier } = self;
        write!(
            f,
            "this process uses the database {own}, but the plan applier writes {applier}: set DROVER_DATABASE_URL to the \
             right one in every service, and restart those that had the other one"
        )
    }
}

impl fmt::Display for LocatedHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Head { history, index, epoch, .. } = self.head;
        let address = self.address.as_deref().unwrap_or("at an unknown address");
        write!(f, "{address} (history {history}, index {index}, epoch {epoch})")
    }
}

#[cfg(test)]
mod tests {
    use model::{Index, Timestamp};
    use telemetry::clock;

    use super::*;

    fn head(history: u8, epoch: u64, index: u64) -> Head {
        Head {
            history: HistoryId::from_bytes([history; 16]),
            index: Index(index),
            at: Timestamp::from_secs(1_767_225_600),
            epoch: Epoch(epoch),
            applier: ProcessId::from_bytes([epoch as u8; 16]),
            began: None,
        }
    }

    fn located(address: &str, head: Head) -> LocatedHead {
        LocatedHead { head, address: Some(address.into()) }
    }

    /// A process that reads one database.
    struct Scene {
        comparison: Comparison,
        begin: Instant,
        reads: usize,
    }

    impl Scene {
        fn new() -> Self {
            Self { comparison: Comparison::default(), begin: clock::monotonic(), reads: 0 }
        }

        /// An announcement after some seconds. `own` is the head of the process's database then.
        fn hear(&mut self, secs: u64, announced: Head, own: Head) -> &DatabaseMatch {
            let at = self.begin + Duration::from_secs(secs);
            if self.comparison.announced(&announced, at) {
                self.reads += 1;
                self.comparison.compare(
                    located("new:5432/drover", announced),
                    located("old:5432/drover", own),
                    at,
                );
            }
            self.comparison.result()
        }
    }

    #[test]
    fn the_database_is_read_once_for_each_applier_and_then_rarely() {
        let mut scene = Scene::new();
        assert_eq!(scene.comparison.result(), &DatabaseMatch::Unknown);
        for secs in 0..10 {
            assert_eq!(scene.hear(secs, head(1, 1, 5), head(1, 1, 7)), &DatabaseMatch::Same);
        }
        assert_eq!(scene.reads, 1);
        scene.hear(10, head(1, 1, 9), head(1, 1, 9));
        assert_eq!(scene.reads, 2);
        scene.hear(11, head(1, 2, 9), head(1, 2, 9));
        assert_eq!(scene.reads, 3, "another applier");
    }

    #[test]
    fn a_database_that_keeps_contradicting_the_applier_is_another_one() {
        for own in [head(2, 1, 5), head(1, 1, 5), head(1, 3, 5), head(1, 2, 4)] {
            let mut scene = Scene::new();
            for secs in 0..3 {
                assert_eq!(scene.hear(secs, head(1, 2, 5), own), &DatabaseMatch::Unknown, "{own:?}");
            }
            assert!(scene.hear(3, head(1, 2, 5), own).is_other(), "{own:?}");
        }
    }

    #[test]
    fn the_error_names_both_databases_and_says_what_to_do() {
        let mut scene = Scene::new();
        scene.hear(0, head(1, 2, 616), head(2, 7, 611));
        let DatabaseMatch::Other(other) = scene.hear(3, head(1, 2, 616), head(2, 7, 611)) else {
            panic!("it is another database")
        };
        let text = other.to_string();
        let own = "uses the database old:5432/drover (history 02020202-0202-0202-0202-020202020202, index 611, epoch 7)";
        let applier =
            "writes new:5432/drover (history 01010101-0101-0101-0101-010101010101, index 616, epoch 2)";
        assert!(text.contains(own) && text.contains(applier), "{text}");
        assert!(text.contains("DROVER_DATABASE_URL"), "{text}");
    }

    #[test]
    fn a_failover_or_an_accepted_database_is_not_another_database() {
        let mut scene = Scene::new();
        scene.hear(0, head(1, 1, 5), head(1, 1, 5));
        // The announcement was under way when another applier took over.
        assert_eq!(scene.hear(11, head(1, 1, 5), head(1, 2, 5)), &DatabaseMatch::Same);
        // Much later, the same happens at the next failover.
        assert_eq!(scene.hear(40, head(1, 2, 5), head(1, 3, 5)), &DatabaseMatch::Same);
        assert_eq!(scene.hear(41, head(1, 3, 5), head(1, 3, 5)), &DatabaseMatch::Same);
        // An operator accepts the database.
        assert_eq!(scene.hear(52, head(1, 3, 5), head(2, 4, 5)), &DatabaseMatch::Same);
        assert_eq!(scene.hear(53, head(2, 5, 5), head(2, 5, 5)), &DatabaseMatch::Same);
    }

    #[test]
    fn another_database_is_reported_until_only_its_own_applier_announces() {
        let mut scene = Scene::new();
        let (own, other) = (head(1, 1, 5), head(2, 9, 5));
        scene.hear(0, own, own);
        // Both appliers are active.
        for secs in 1..4 {
            scene.hear(secs, other, own);
            assert_eq!(scene.hear(secs, own, own), &DatabaseMatch::Same);
        }
        assert!(scene.hear(4, other, own).is_other());
        assert!(scene.hear(6, own, own).is_other(), "the other one may still be active");
        assert_eq!(scene.hear(7, own, own), &DatabaseMatch::Same);
    }
}
