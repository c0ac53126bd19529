//! Slots: how many requests of each kind may last at the same time. Each kind has slots of its own, so that many requests of
//! one kind never keep out those of another. A slot is free again as soon as its request ends, or its client leaves.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Error;

/// Maximum number of blocking queries that wait for a change.
const BLOCKING_QUERIES_MAX: usize = 25_000;
/// Maximum number of lists that are being sent in pieces. Each keeps the state in memory from which it is rendered.
const LIST_STREAMS_MAX: usize = 1_024;
/// Maximum number of event streams.
const EVENT_STREAMS_MAX: usize = 512;
/// Maximum number of streams of this process's log.
const MONITORS_MAX: usize = 64;
/// Maximum number of responses that read or follow a file or the logs of a task.
const FILE_STREAMS_MAX: usize = 1_024;
/// Maximum number of commands for tasks that wait for their agent.
const TASK_COMMANDS_MAX: usize = 256;

/// A kind of request that may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotKind {
    BlockingQuery,
    ListStream,
    EventStream,
    Monitor,
    FileStream,
    TaskCommand,
}

impl SlotKind {
    const ALL: [Self; 6] = [
        Self::BlockingQuery,
        Self::ListStream,
        Self::EventStream,
        Self::Monitor,
        Self::FileStream,
        Self::TaskCommand,
    ];

    /// Number of slots, and the name of the kind in error texts.
    fn limit(self) -> (usize, &'static str) {
        match self {
            Self::BlockingQuery => (BLOCKING_QUERIES_MAX, "blocking queries"),
            Self::ListStream => (LIST_STREAMS_MAX, "long lists"),
            Self::EventStream => (EVENT_STREAMS_MAX, "event streams"),
            Self::Monitor => (MONITORS_MAX, "streams of its log"),
            Self::FileStream => (FILE_STREAMS_MAX, "streams of files and logs"),
            Self::TaskCommand => (TASK_COMMANDS_MAX, "commands for tasks"),
        }
    }
}

/// A slot, which is taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    _permit: OwnedSemaphorePermit,
}

/// The slots of a server.
#[derive(Debug)]
pub(crate) struct Slots([Arc<Semaphore>; SlotKind::ALL.len()]);

impl Default for Slots {
    fn default() -> Self {
        Self(SlotKind::ALL.map(|kind| Arc::new(Semaphore::new(kind.limit().0))))
    }
}

impl Slots {
    /// Takes a slot.
    ///
    /// # Errors
    /// A 429 if all slots of the kind are taken.
    pub(crate) fn take(&self, kind: SlotKind) -> Result<Slot, Error> {
        let slots = Arc::clone(&self.0[kind as usize]);
        slots.try_acquire_owned().map(|permit| Slot { _permit: permit }).map_err(|_| {
            let (max, name) = kind.limit();
            Error::too_many(format!(
                "this server serves at most {max} {name} at the same time, and has as many: end one, or use another server"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_slots_of_its_own() {
        let slots = Slots::default();
        for (at, kind) in SlotKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            let (max, name) = kind.limit();
            let taken: Vec<Slot> = (0..max).map(|_| slots.take(kind).unwrap()).collect();
            let error = slots.take(kind).unwrap_err();
            assert_eq!(error.status.as_u16(), 429);
            assert!(error.text.contains(&format!("at most {max} {name}")), "{}", error.text);
            drop(taken);
            assert!(slots.take(kind).is_ok());
        }
    }

    #[test]
    fn a_full_kind_keeps_out_no_other() {
        let slots = Slots::default();
        let monitors: Vec<Slot> = (0..MONITORS_MAX).map(|_| slots.take(SlotKind::Monitor).unwrap()).collect();
        assert!(slots.take(SlotKind::Monitor).is_err());
        for kind in SlotKind::ALL.into_iter().filter(|kind| *kind != SlotKind::Monitor) {
            assert!(slots.take(kind).is_ok(), "{kind:?}");
        }
        drop(monitors);
    }
}
