//! Permits: how many requests of each kind may last at the same time. Each kind has permits of its own, so that many
//! requests of one kind never keep out those of another. A permit is free again as soon as its request ends, or its client
//! leaves.

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
/// Maximum number of commands that run in tasks for users of this server.
const EXEC_SESSIONS_MAX: usize = 512;

/// A kind of request that may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PermitKind {
    BlockingQuery,
    ListStream,
    EventStream,
    Monitor,
    FileStream,
    TaskCommand,
    Exec,
}

impl PermitKind {
    const ALL: [Self; 7] = [
        Self::BlockingQuery,
        Self::ListStream,
        Self::EventStream,
        Self::Monitor,
        Self::FileStream,
        Self::TaskCommand,
        Self::Exec,
    ];

    /// Number of permits, and the name of the kind in error texts.
    fn limit(self) -> (usize, &'static str) {
        match self {
            Self::BlockingQuery => (BLOCKING_QUERIES_MAX, "blocking queries"),
            Self::ListStream => (LIST_STREAMS_MAX, "long lists"),
            Self::EventStream => (EVENT_STREAMS_MAX, "event streams"),
            Self::Monitor => (MONITORS_MAX, "streams of its log"),
            Self::FileStream => (FILE_STREAMS_MAX, "streams of files and logs"),
            Self::TaskCommand => (TASK_COMMANDS_MAX, "commands for tasks"),
            Self::Exec => (EXEC_SESSIONS_MAX, "commands in tasks"),
        }
    }
}

/// A permit, which is taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    _permit: OwnedSemaphorePermit,
}

/// The permits of a server.
#[derive(Debug)]
pub(crate) struct Permits([Arc<Semaphore>; PermitKind::ALL.len()]);

impl Default for Permits {
    fn default() -> Self {
        Self(PermitKind::ALL.map(|kind| Arc::new(Semaphore::new(kind.limit().0))))
    }
}

impl Permits {
    /// Takes a permit.
    ///
    /// # Errors
    /// A 429 if all permits of the kind are taken.
    pub(crate) fn take(&self, kind: PermitKind) -> Result<Permit, Error> {
        let permits = Arc::clone(&self.0[kind as usize]);
        permits.try_acquire_owned().map(|permit| Permit { _permit: permit }).map_err(|_| {
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
        let permits = Permits::default();
        for (at, kind) in PermitKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            let (max, name) = kind.limit();
            let taken: Vec<Permit> = (0..max).map(|_| permits.take(kind).unwrap()).collect();
            let error = permits.take(kind).unwrap_err();
            assert_eq!(error.status.as_u16(), 429);
            assert!(error.text.contains(&format!("at most {max} {name}")), "{}", error.text);
            drop(taken);
            assert!(permits.take(kind).is_ok());
        }
    }

    #[test]
    fn a_full_kind_keeps_out_no_other() {
        let permits = Permits::default();
        let monitors: Vec<Permit> =
            (0..MONITORS_MAX).map(|_| permits.take(PermitKind::Monitor).unwrap()).collect();
        assert!(permits.take(PermitKind::Monitor).is_err());
        for kind in PermitKind::ALL.into_iter().filter(|kind| *kind != PermitKind::Monitor) {
            assert!(permits.take(kind).is_ok(), "{kind:?}");
        }
        drop(monitors);
    }
}
