//! Publishes the change feed: the applier's last step after each commit.

use bytes::Bytes;
use fail::fail_point;
use model::{HistoryId, Index, RequestId};
use wire::Subject;
use wire::envelope::{CHANGE_SET_BYTES_MAX, CHANGES_BYTES_MAX};
use wire::feed::{Changes, Committer, Head};

use crate::connection::Bus;
use crate::envelope;
use crate::error::Error;

/// Change sets that were committed together.
#[derive(Debug, Clone, Copy)]
pub struct Commit<'a> {
    /// The history of the log.
    pub history: HistoryId,
    /// Who has committed them.
    pub by: Option<Committer>,
    /// The request of the change set before them, if it is known.
    pub previous: Option<RequestId>,
    /// Index of the first one.
    pub first: Index,
    /// The change sets, encoded as in the log.
    pub sets: &'a [Bytes],
}

/// Publishes the change feed. Used by the active applier.
#[derive(Debug, Clone)]
pub struct Publisher {
    bus: Bus,
    /// Host, port and name of the database that the applier writes.
    database: String,
}

impl Publisher {
    /// Creates a publisher that uses this connection. `database` is the address of the applier's database, without
    /// secrets. Announcements carry it, for messages of processes that read another one.
    pub fn new(bus: Bus, database: String) -> Self {
        Self { bus, database }
    }

    /// Publishes committed change sets. A loss is harmless, because replicas detect the gap.
    ///
    /// # Errors
    /// If there is no connection.
    pub async fn publish(&self, commit: Commit<'_>) -> Result<(), Error> {
        for changes in split(commit) {
            self.bus.publish(Subject::Changes, &changes).await?;
        }
        fail_point!("feed.published");
        Ok(())
    }

    /// Announces the head. All change sets up to it must have been published before.
    ///
    /// # Errors
    /// If there is no connection.
    pub async fn announce(&self, head: &Head) -> Result<(), Error> {
        let mut headers = envelope::headers::<Head>();
        envelope::add_database_header(&mut headers, &self.database);
        self.bus.publish_with_headers(Subject::Head, headers, head).await
    }
}

/// Distributes the change sets over the minimum number of messages. Those that are too large for a message become
/// `None`.
fn split(commit: Commit<'_>) -> Vec<Changes> {
    let Commit { history, by, previous, first, sets } = commit;
    let mut messages: Vec<Changes> = Vec::new();
    let mut room = 0;
    for (index, set) in (first.0..).map(Index).zip(sets) {
        let included = (set.len() <= CHANGE_SET_BYTES_MAX).then(|| set.clone());
        let bytes = included.as_ref().map_or(0, Bytes::len) + SET_HEAD_BYTES;
        match messages.last_mut() {
            Some(changes) if bytes <= room => changes.sets.push(included),
            // What is before the later messages is known by the applier that has committed it.
            Some(_) | None => {
                let previous = previous.filter(|_| messages.is_empty());
                messages.push(Changes { history, by, previous, first: index, sets: vec![included] });
                room = CHANGES_BYTES_MAX;
            }
        }
        room = room.saturating_sub(bytes);
    }
    messages
}

/// Size of a change set in a message beyond its own bytes.
const SET_HEAD_BYTES: usize = 5;

#[cfg(test)]
mod tests {
    use model::{Epoch, ProcessId};

    use super::*;

    const HISTORY: HistoryId = HistoryId::from_bytes([1; 16]);

    fn commit() -> Commit<'static> {
        Commit { history: HISTORY, by: None, previous: None, first: Index(7), sets: &[] }
    }

    fn shape(sizes: &[usize]) -> Vec<(u64, Vec<Option<usize>>)> {
        let sets: Vec<Bytes> = sizes.iter().map(|size| vec![0; *size].into()).collect();
        let messages = split(Commit { sets: &sets, ..commit() });
        let length = |set: &Option<Bytes>| set.as_ref().map(Bytes::len);
        messages.iter().map(|changes| (changes.first.0, changes.sets.iter().map(length).collect())).collect()
    }

    #[test]
    fn a_message_takes_as_many_as_fit() {
        const MAX: usize = CHANGE_SET_BYTES_MAX;
        const HALF: usize = CHANGES_BYTES_MAX / 2 - SET_HEAD_BYTES;
        assert_eq!(shape(&[]), []);
        assert_eq!(shape(&[1, 2, 3]), [(7, vec![Some(1), Some(2), Some(3)])]);
        assert_eq!(shape(&[HALF, HALF, 1]), [(7, vec![Some(HALF), Some(HALF)]), (9, vec![Some(1)])]);
        assert_eq!(shape(&[MAX, MAX, 1]), [(7, vec![Some(MAX)]), (8, vec![Some(MAX), Some(1)])]);
    }

    #[test]
    fn one_that_is_too_large_is_announced() {
        const OVER: usize = CHANGE_SET_BYTES_MAX + 1;
        assert_eq!(shape(&[1, OVER, 2]), [(7, vec![Some(1), None, Some(2)])]);
    }

    #[test]
    fn a_full_message_fits_what_nats_takes_by_default() {
        let many = vec![Bytes::from(vec![0; 100]); CHANGES_BYTES_MAX / 50];
        let one = vec![Bytes::from(vec![0; CHANGE_SET_BYTES_MAX]); 3];
        let by = Committer {
            epoch: Epoch(u64::MAX),
            applier: ProcessId::from_bytes([0xff; 16]),
            began: Index(u64::MAX),
        };
        let previous = Some(RequestId::from_bytes([0xff; 16]));
        let split = |sets: &[Bytes]| split(Commit { by: Some(by), previous, sets, ..commit() });
        for changes in split(&many).iter().chain(&split(&one)) {
            assert!(wire::encode(changes).len() <= CHANGES_BYTES_MAX + 200);
        }
    }
}
