//! Answers that come back: NATS says at once when nobody listens any more where an answer goes, as after the kill of the
//! process that asked. One that is only cut off or stopped still listens, as far as NATS knows.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_nats::{StatusCode, Subscriber};
use futures::StreamExt;
use wire::Wire;

use crate::connection::{Bus, Error};
use crate::serve::Request;

/// How many answers are remembered: what comes back does so within the time that a message takes.
const SENT_MAX: usize = 4_096;

/// Answers requests, and remembers what each answer was about. Clones are the same one.
#[derive(Debug)]
pub struct Answers<K> {
    inbox: Arc<str>,
    sent: Arc<Mutex<Sent<K>>>,
}

/// What the answers that come back were about.
#[derive(Debug)]
pub struct Returned<K> {
    returned: Subscriber,
    sent: Arc<Mutex<Sent<K>>>,
}

/// The newest answers, by numbers that follow one another.
#[derive(Debug)]
struct Sent<K> {
    first: u64,
    about: VecDeque<Option<K>>,
}

impl Bus {
    /// For requests whose answers must not be lost with whoever asked.
    ///
    /// # Errors
    /// If it cannot be listened for what comes back.
    pub async fn answers<K>(&self) -> Result<(Answers<K>, Returned<K>), Error> {
        let inbox: Arc<str> = self.client().new_inbox().into();
        let subject = format!("{inbox}.*");
        let returned = self.subscribe(&subject).await?;
        let sent = Arc::new(Mutex::new(Sent { first: 0, about: VecDeque::new() }));
        Ok((Answers { inbox, sent: Arc::clone(&sent) }, Returned { returned, sent }))
    }
}

impl<K> Clone for Answers<K> {
    fn clone(&self) -> Self {
        Self { inbox: Arc::clone(&self.inbox), sent: Arc::clone(&self.sent) }
    }
}

impl<K> Answers<K> {
    /// Answers a request; if the answer comes back, [`Returned::next`] says what it was about.
    pub async fn send<T: Wire>(&self, request: Request, body: &T, about: K) {
        let number = self.sent.lock().unwrap_or_else(PoisonError::into_inner).add(about);
        request.answer_returnable(body, format!("{}.{number}", self.inbox)).await;
    }
}

impl<K> Returned<K> {
    /// What the next answer that came back was about; `None` when the connection has ended for good. May be cancelled
    /// without losing anything.
    pub async fn next(&mut self) -> Option<K> {
        loop {
            let message = self.returned.next().await?;
            let number = message.subject.rsplit('.').next().and_then(|number| number.parse().ok());
            if let (Some(StatusCode::NO_RESPONDERS), Some(number)) = (message.status, number)
                && let Some(about) = self.sent.lock().unwrap_or_else(PoisonError::into_inner).take(number)
            {
                return Some(about);
            }
        }
    }
}

impl<K> Sent<K> {
    fn add(&mut self, about: K) -> u64 {
        if self.about.len() == SENT_MAX {
            self.about.pop_front();
            self.first += 1;
        }
        self.about.push_back(Some(about));
        self.first + self.about.len() as u64 - 1
    }

    fn take(&mut self, number: u64) -> Option<K> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.about.get_mut(place)?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_remembered_each_once() {
        let mut sent = Sent { first: 0, about: VecDeque::new() };
        let numbers: Vec<u64> = (0..SENT_MAX + 2).map(|about| sent.add(about)).collect();
        assert_eq!((sent.take(numbers[1]), sent.take(numbers[2])), (None, Some(2)));
        assert_eq!((sent.take(numbers[2]), sent.take(SENT_MAX as u64 + 2)), (None, None));
    }
}
