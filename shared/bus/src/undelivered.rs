//! Detects responses that cannot be delivered. If nobody is subscribed to the reply subject, for instance because the
//! requesting process was killed, NATS reports that immediately. A process that is only cut off or stopped is still
//! subscribed as far as NATS knows.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_nats::{StatusCode, Subscriber};
use futures::StreamExt;
use wire::Wire;

use crate::connection::Bus;
use crate::error::Error;
use crate::serve::Request;

/// Maximum number of recent responses that are tracked. An undeliverable response is reported within the time that a
/// message takes.
const SENT_MAX: usize = 4_096;

/// Sends responses, and records a key for each, by which an undeliverable response is recognised. Clones share the
/// records.
#[derive(Debug)]
pub struct TrackedResponses<K> {
    inbox: Arc<str>,
    sent: Arc<Mutex<Sent<K>>>,
}

/// Yields the keys of responses that could not be delivered.
#[derive(Debug)]
pub struct Undelivered<K> {
    undelivered: Subscriber,
    sent: Arc<Mutex<Sent<K>>>,
}

/// The keys of the newest responses, by consecutive numbers.
#[derive(Debug)]
struct Sent<K> {
    first: u64,
    keys: VecDeque<Option<K>>,
}

impl Bus {
    /// Returns a pair for responses whose loss must be noticed if the requesting process ends.
    ///
    /// # Errors
    /// If the subscription to undeliverable responses fails.
    pub async fn answers<K>(&self) -> Result<(TrackedResponses<K>, Undelivered<K>), Error> {
        let inbox: Arc<str> = self.client().new_inbox().into();
        let subject = format!("{inbox}.*");
        let undelivered = self.subscribe(&subject).await?;
        let sent = Arc::new(Mutex::new(Sent { first: 0, keys: VecDeque::new() }));
        Ok((TrackedResponses { inbox, sent: Arc::clone(&sent) }, Undelivered { undelivered, sent }))
    }
}

impl<K> Clone for TrackedResponses<K> {
    fn clone(&self) -> Self {
        Self { inbox: Arc::clone(&self.inbox), sent: Arc::clone(&self.sent) }
    }
}

impl<K> TrackedResponses<K> {
    /// Responds to a request. If the response cannot be delivered, [`Undelivered::next`] yields `key`.
    pub async fn send<T: Wire>(&self, request: Request, body: &T, key: K) {
        let number = self.sent.lock().unwrap_or_else(PoisonError::into_inner).add(key);
        request.answer_tracked(body, format!("{}.{number}", self.inbox)).await;
    }
}

impl<K> Undelivered<K> {
    /// The key of the next response that could not be delivered; `None` when the connection is closed for good. Cancel
    /// safe.
    pub async fn next(&mut self) -> Option<K> {
        loop {
            let message = self.undelivered.next().await?;
            let number = message.subject.rsplit('.').next().and_then(|number| number.parse().ok());
            if let (Some(StatusCode::NO_RESPONDERS), Some(number)) = (message.status, number)
                && let Some(key) = self.sent.lock().unwrap_or_else(PoisonError::into_inner).take(number)
            {
                return Some(key);
            }
        }
    }
}

impl<K> Sent<K> {
    fn add(&mut self, key: K) -> u64 {
        if self.keys.len() == SENT_MAX {
            self.keys.pop_front();
            self.first += 1;
        }
        self.keys.push_back(Some(key));
        self.first + self.keys.len() as u64 - 1
    }

    fn take(&mut self, number: u64) -> Option<K> {
        let position = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.keys.get_mut(position)?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_tracked_and_reported_once() {
        let mut sent = Sent { first: 0, keys: VecDeque::new() };
        let numbers: Vec<u64> = (0..SENT_MAX + 2).map(|key| sent.add(key)).collect();
        assert_eq!((sent.take(numbers[1]), sent.take(numbers[2])), (None, Some(2)));
        assert_eq!((sent.take(numbers[2]), sent.take(SENT_MAX as u64 + 2)), (None, None));
    }
}
