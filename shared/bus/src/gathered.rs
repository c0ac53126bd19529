//! Small messages that come thick and fast and are in no hurry, over a connection of their own that is looked at now and
//! then.
//!
//! A connection wakes its task for whatever arrives, which costs far more than reading a message. This one has a runtime
//! that stands still between two looks, while NATS and the kernel keep what comes: one read then brings it all.
//!
//! Whoever concludes something from silence must know that it could have heard. So this connection also speaks to itself:
//! what it said comes back the way that everything comes, and waits as everything does until it is dealt with
//! ([`Hearing`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use async_nats::{HeaderMap, Subscriber};
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use telemetry::clock;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::{unconstrained, yield_now};

use crate::connection::{Bus, Error, Reconnections};
use crate::serve::{Queue, Request, Requests};

/// How many steps the connection is driven at each look. The first finds that there is something, the second reads it, and
/// the third is for what that led to.
const STEPS: u32 = 3;
/// How often the connection speaks to itself.
const ECHO_EVERY: Duration = Duration::from_millis(500);

/// A subject that is served by looking at it every so often.
#[derive(Debug)]
pub struct Gathered {
    /// What was sent to it.
    pub requests: GatheredRequests,
    /// Each time that something may have been missed, because the connection was lost and made again.
    pub reconnections: Reconnections,
    /// Whether anything could be heard.
    pub hearing: Hearing,
}

/// Messages that were gathered, in the order in which they came. Dropping it ends the subscription.
#[derive(Debug)]
pub struct GatheredRequests {
    requests: Requests,
    /// Where the connection's words to itself come from.
    echo_subject: String,
    hearing: Hearing,
    /// The last word among the requests that are being dealt with.
    word: Option<Request>,
}

impl GatheredRequests {
    /// All that came since they were asked for last, at least one; none when the connection has ended for good. May be
    /// cancelled without losing anything.
    ///
    /// Also those whose senders do not wait for an answer any more: that they were sent says something, however long
    /// they waited here. Whoever asks for more has dealt with those before ([`Hearing`]).
    pub async fn next_many(&mut self) -> Vec<Request> {
        loop {
            if let Some(word) = self.word.take() {
                self.hearing.hear(word.payload());
            }
            let mut requests = self.requests.all().await;
            if requests.is_empty() {
                return requests;
            }
            self.word = requests.extract_if(.., |request| request.subject() == self.echo_subject).last();
            if !requests.is_empty() {
                return requests;
            }
        }
    }
}

/// Until when all that was sent has been heard and dealt with. Clones share it.
#[derive(Debug, Clone)]
pub struct Hearing(Arc<Heard>);

#[derive(Debug)]
struct Heard {
    began: Instant,
    /// When the newest word was said that has come back; in milliseconds after the beginning.
    said: AtomicU64,
}

impl Hearing {
    fn begin() -> Self {
        Self(Arc::new(Heard { began: clock::monotonic(), said: AtomicU64::new(0) }))
    }

    /// For how long messages may have been sent that are not heard and dealt with yet, be it because NATS or this process
    /// stands still or is late, or the connection is lost. About half a second where all is well.
    pub fn deaf_for(&self) -> Duration {
        self.0.began.elapsed().saturating_sub(Duration::from_millis(self.0.said.load(Ordering::Relaxed)))
    }

    /// A word to say now.
    fn word(&self) -> Bytes {
        let millis = u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Bytes::copy_from_slice(&millis.to_be_bytes())
    }

    fn hear(&self, word: &[u8]) {
        if let Ok(millis) = word.try_into() {
            self.0.said.fetch_max(u64::from_be_bytes(millis), Ordering::Relaxed);
        }
    }
}

impl Bus {
    /// Serves a subject, as [`Bus::serve`] does, but over a connection of its own, and looks only every so often at what
    /// has come.
    ///
    /// # Errors
    /// If it is no subject.
    pub async fn serve_gathered(
        &self,
        subject: impl Into<String>,
        every: Duration,
    ) -> Result<Gathered, Error> {
        let subject = subject.into();
        let (queue, requests) = Queue::new(self.clone(), &subject);
        let (ready, is_ready) = oneshot::channel();
        let bus = self.clone();
        let gather = move || {
            let begin = async {
                tokio::select! {
                    begun = Listener::begin(&bus, &subject) => begun,
                    () = queue.closed() => Err(Error::Disconnected),
                }
            };
            let begun = Builder::new_current_thread().enable_all().build().map_err(Error::Thread);
            let begun = begun.and_then(|runtime| Ok((runtime.block_on(begin)?, runtime)));
            match begun {
                // Neither can be told to somebody who does not wait any more; then the queue is closed, too.
                Err(error) => drop(ready.send(Err(error))),
                Ok((listener, runtime)) => {
                    let Listener { bus, hearing, echo_subject, .. } = &listener;
                    drop(ready.send(Ok((bus.reconnections(), hearing.clone(), echo_subject.clone()))));
                    listener.run(&runtime, &queue, every);
                }
            }
        };
        thread::Builder::new().name("bus-gathered".to_owned()).spawn(gather).map_err(Error::Thread)?;
        let begun = is_ready.await.map_err(|_| Error::Disconnected)??;
        let (reconnections, hearing, echo_subject) = begun;
        let requests = GatheredRequests { requests, echo_subject, hearing: hearing.clone(), word: None };
        Ok(Gathered { requests, reconnections, hearing })
    }
}

/// A subscription with a connection and a thread of its own.
struct Listener {
    bus: Bus,
    subscriber: Subscriber,
    /// What the connection says to itself, and where.
    echo: Subscriber,
    echo_subject: String,
    hearing: Hearing,
}

impl Listener {
    async fn begin(beside: &Bus, subject: &str) -> Result<Self, Error> {
        let bus = beside.open_another().await?;
        let subscriber = bus.subscribe(subject).await?;
        let echo_subject = bus.client().new_inbox();
        let echo = bus.subscribe(&echo_subject).await?;
        Ok(Self { bus, subscriber, echo, echo_subject, hearing: Hearing::begin() })
    }

    /// Looks at the connection every so often, until nobody is interested or it was closed for good.
    fn run(mut self, runtime: &Runtime, queue: &Queue, every: Duration) {
        let mut spoke = None;
        while !queue.is_closed() {
            let speaks = spoke.is_none_or(|at: Instant| at.elapsed() >= ECHO_EVERY);
            if speaks {
                spoke = Some(clock::monotonic());
            }
            // Without a budget, which is for tasks that share a thread.
            let goes_on = runtime.block_on(unconstrained(async {
                if speaks {
                    self.speak().await;
                }
                self.listen(queue).await
            }));
            if !goes_on {
                return;
            }
            thread::sleep(every);
        }
    }

    /// Says a word to itself. Without a connection it would be kept until there is one, and be too old then.
    async fn speak(&self) {
        if self.bus.is_connected() {
            let word = self.hearing.word();
            // What cannot be said does not come back, either.
            let _ = self.bus.send(self.echo_subject.clone(), None, HeaderMap::new(), word).await;
        }
    }

    /// Lets the connection do what it has to, and takes what came. Whether more may come.
    async fn listen(&mut self, queue: &Queue) -> bool {
        for _ in 0..STEPS {
            yield_now().await;
            while let Some(next) = self.subscriber.next().now_or_never() {
                let Some(message) = next else { return false };
                queue.put(message);
            }
        }
        // What was sent before these words has been put into the queue.
        while let Some(Some(message)) = self.echo.next().now_or_never() {
            queue.put(message);
        }
        true
    }
}
