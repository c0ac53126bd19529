//! [`Outgoing`]: limits the bytes of messages that wait in the client's queue until they are written to the network.
//!
//! The client limits their number only. While NATS does not read, or the connection is lost, large messages would take as
//! much memory as senders produce.

use std::sync::Arc;

use async_nats::Client;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of messages in the client's queue. Further senders wait.
pub(crate) const MESSAGES_MAX: usize = 2_048;
/// Messages below this size count by their number only.
const LARGE_BYTES_MIN: usize = 64 << 10;
/// Maximum size of all larger messages in the client's queue, in bytes. Further senders wait.
const LARGE_BYTES_MAX: usize = 64 << 20;

/// The room for large messages in the queue of a client.
#[derive(Debug)]
pub(crate) struct Outgoing(Arc<Semaphore>);

/// The room of one large message. It becomes free when this is dropped.
#[derive(Debug)]
pub(crate) struct Room(OwnedSemaphorePermit);

impl Default for Outgoing {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LARGE_BYTES_MAX)))
    }
}

impl Outgoing {
    /// Waits for room for a message; `None` for a message that needs none.
    pub(crate) async fn room(&self, bytes: usize) -> Option<Room> {
        if bytes < LARGE_BYTES_MIN {
            return None;
        }
        let permits = u32::try_from(bytes.min(LARGE_BYTES_MAX)).unwrap_or(u32::MAX);
        // Fails only if the semaphore is closed, which does not happen.
        Arc::clone(&self.0).acquire_many_owned(permits).await.ok().map(Room)
    }
}

impl Room {
    /// Frees the room when everything in the client's queue has been written to the network.
    pub(crate) async fn free_after_flush(self, client: &Client) {
        // Fails if the client has ended. Then its queue is gone.
        let _ = client.flush().await;
        drop(self.0);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn large_messages_wait_for_room_and_small_ones_need_none() {
        let outgoing = Outgoing::default();
        let room = |bytes| outgoing.room(bytes).now_or_never();
        let half = room(LARGE_BYTES_MAX / 2).expect("there is room");
        let _other = room(LARGE_BYTES_MAX / 2).expect("there is room");
        assert!(room(LARGE_BYTES_MIN).is_none(), "it waits");
        assert!(room(LARGE_BYTES_MIN - 1).expect("it does not wait").is_none());
        drop(half);
        assert!(room(LARGE_BYTES_MAX / 2).is_some());
    }

    #[test]
    fn a_message_of_any_size_gets_through() {
        let outgoing = Outgoing::default();
        assert!(outgoing.room(2 * LARGE_BYTES_MAX).now_or_never().is_some());
    }
}
