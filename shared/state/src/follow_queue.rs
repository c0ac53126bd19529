//! [`FollowQueue`]: the events of a replica that not all of its followers have received yet.
//!
//! Followers read at their own pace. An event leaves the queue when every follower has received it. The oldest events leave
//! it earlier if there are too many, or if they are too large together; a follower that has not received them is told so.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Maximum number of events in the queue. At 250 commits a second this is four seconds. Each queued step keeps the part of
/// its state in memory that the next state does not share. A follower that loses events begins again from the newest
/// state, which is expensive if the state is large, so a short lag must not cause that.
const EVENTS_MAX: usize = 1024;
/// Maximum size of the encoded change sets in the queue, in bytes. One event may be larger.
const BYTES_MAX: usize = 256 << 20;

/// Events for any number of followers.
#[derive(Debug)]
pub(crate) struct FollowQueue<E> {
    state: Mutex<QueueState<E>>,
    grown: Notify,
}

#[derive(Debug)]
struct QueueState<E> {
    /// The number of the first event. Events are numbered consecutively.
    first: u64,
    events: VecDeque<Queued<E>>,
    /// The size of all events.
    bytes: usize,
    /// The number of the next event of each follower.
    next: BTreeMap<u64, u64>,
    last_follower: u64,
}

#[derive(Debug)]
struct Queued<E> {
    event: E,
    bytes: usize,
}

/// What a follower finds in the queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<E> {
    Event(E),
    /// It has received everything.
    Nothing,
    /// Events have left the queue that it has not received.
    Lagged,
}

/// The place of one follower in the queue.
#[derive(Debug)]
pub(crate) struct Subscription<E> {
    queue: Arc<FollowQueue<E>>,
    follower: u64,
}

impl<E> Default for FollowQueue<E> {
    fn default() -> Self {
        let state = QueueState {
            first: 0,
            events: VecDeque::new(),
            bytes: 0,
            next: BTreeMap::new(),
            last_follower: 0,
        };
        Self { state: Mutex::new(state), grown: Notify::new() }
    }
}

impl<E> FollowQueue<E> {
    /// A place in the queue behind all events.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Subscription<E> {
        let mut state = self.lock();
        state.last_follower += 1;
        let (follower, end) = (state.last_follower, state.end());
        state.next.insert(follower, end);
        drop(state);
        Subscription { queue: Arc::clone(self), follower }
    }

    /// Whether there are followers.
    pub(crate) fn is_followed(&self) -> bool {
        !self.lock().next.is_empty()
    }

    /// Adds an event, of change sets with a size of `bytes`. Without followers, it is discarded.
    pub(crate) fn send(&self, event: E, bytes: usize) {
        let mut state = self.lock();
        if state.next.is_empty() {
            return;
        }
        state.events.push_back(Queued { event, bytes });
        state.bytes += bytes;
        let mut dropped = Vec::new();
        while state.events.len() > EVENTS_MAX || (state.bytes > BYTES_MAX && state.events.len() > 1) {
            dropped.extend(state.pop());
        }
        drop(state);
        // The events hold states, which take a while to drop. Nobody waits for the lock meanwhile.
        drop(dropped);
        self.grown.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<E>> {
        // No method panics in the middle of a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E> QueueState<E> {
    /// The number of the event that is added next.
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    fn pop(&mut self) -> Option<E> {
        let Queued { event, bytes } = self.events.pop_front()?;
        self.first += 1;
        self.bytes -= bytes;
        Some(event)
    }

    /// Removes the events that every follower has received.
    fn remove_received(&mut self) -> Vec<E> {
        let needed = self.next.values().min().copied().unwrap_or_else(|| self.end());
        let mut removed = Vec::new();
        while self.first < needed {
            removed.extend(self.pop());
        }
        removed
    }
}

impl<E: Clone> Subscription<E> {
    /// Waits for the next event; `None` if events have left the queue that were not received.
    pub(crate) async fn next(&self) -> Option<E> {
        loop {
            // From here on, no event is missed.
            let grown = self.queue.grown.notified();
            match self.next_now() {
                Next::Event(event) => return Some(event),
                Next::Lagged => return None,
                Next::Nothing => grown.await,
            }
        }
    }

    /// The next event, if there is one already.
    pub(crate) fn next_now(&self) -> Next<E> {
        let mut state = self.queue.lock();
        let (first, end) = (state.first, state.end());
        let Some(next) = state.next.get_mut(&self.follower) else { return Next::Lagged };
        if *next < first {
            return Next::Lagged;
        }
        if *next == end {
            return Next::Nothing;
        }
        let position = (*next - first) as usize;
        *next += 1;
        let event = state.events[position].event.clone();
        let received = state.remove_received();
        drop(state);
        drop(received);
        Next::Event(event)
    }
}

impl<E> Drop for Subscription<E> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.next.remove(&self.follower);
        let received = state.remove_received();
        drop(state);
        drop(received);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Arc<FollowQueue<u64>> {
        Arc::default()
    }

    fn waiting(queue: &FollowQueue<u64>) -> (usize, usize) {
        let state = queue.lock();
        (state.events.len(), state.bytes)
    }

    #[test]
    fn an_event_stays_until_every_follower_has_it() {
        let queue = queue();
        queue.send(1, 10);
        let (one, two) = (queue.subscribe(), queue.subscribe());
        queue.send(2, 10);
        queue.send(3, 10);
        assert_eq!((one.next_now(), one.next_now()), (Next::Event(2), Next::Event(3)));
        assert_eq!((one.next_now(), waiting(&queue)), (Next::Nothing, (2, 20)));
        assert_eq!((two.next_now(), waiting(&queue)), (Next::Event(2), (1, 10)));
        drop(two);
        assert_eq!(waiting(&queue), (0, 0));
        assert!(queue.is_followed());
        drop(one);
        queue.send(4, 10);
        assert!(!queue.is_followed() && waiting(&queue) == (0, 0));
    }

    #[test]
    fn waiting_events_are_bounded_in_number_and_size() {
        let queue = queue();
        let (quick, slow) = (queue.subscribe(), queue.subscribe());
        for number in 0..=EVENTS_MAX as u64 {
            queue.send(number, 1);
            assert_eq!(quick.next_now(), Next::Event(number));
        }
        assert_eq!((slow.next_now(), waiting(&queue).0), (Next::Lagged, EVENTS_MAX));
        drop(slow);

        let slow = queue.subscribe();
        queue.send(1, BYTES_MAX + 1);
        assert_eq!(waiting(&queue).0, 1, "one event may have any size");
        queue.send(2, 1);
        assert_eq!((slow.next_now(), waiting(&queue)), (Next::Lagged, (1, 1)));
        assert_eq!(quick.next_now(), Next::Lagged);
    }
}
