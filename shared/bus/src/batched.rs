//! Receives small, frequent, low-priority messages in batches, over a separate connection that is polled at intervals.
//!
//! An ordinary connection wakes its task for every message, which costs far more than reading the message. The runtime
//! of this connection stands still between two polls, while NATS and the kernel buffer the messages. One read then
//! brings all of them.
//!
//! A receiver that draws conclusions from missing messages must know whether it could have received them. So this
//! connection also sends messages to itself. These echoes come back the way all messages come, and wait in the same
//! queue until they are handled ([`EchoMonitor`]).

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

use crate::connection::{Bus, Reconnections};
use crate::error::Error;
use crate::serve::{Queue, Request, Requests};

/// Number of times that the connection is driven at each poll: the first detects data, the second reads it, and the
/// third handles the follow-up work.
const STEPS: u32 = 3;
/// Interval at which the connection sends an echo to itself.
const ECHO_EVERY: Duration = Duration::from_millis(500);

/// A subject whose messages are received in batches.
#[derive(Debug)]
pub struct Batched {
    /// The messages.
    pub requests: BatchedRequests,
    /// Yields each time that messages may have been lost, because the connection was lost and made again.
    pub reconnections: Reconnections,
    /// Shows whether messages could be received.
    pub echo_monitor: EchoMonitor,
}

/// Batches of messages, in the order of their arrival. Dropping it ends the subscription.
#[derive(Debug)]
pub struct BatchedRequests {
    requests: Requests,
    /// The subject of the connection's echoes.
    echo_subject: String,
    echo_monitor: EchoMonitor,
    /// The last echo among the messages that are being handled.
    echo: Option<Request>,
}

impl BatchedRequests {
    /// Returns all messages since the last call, at least one; none when the connection is closed for good. Cancel
    /// safe.
    ///
    /// It also returns messages whose senders do not wait for a response any more: their arrival carries information,
    /// however long they waited here. Each call confirms that the messages of the call before are handled
    /// ([`EchoMonitor`]).
    pub async fn next_many(&mut self) -> Vec<Request> {
        loop {
            if let Some(echo) = self.echo.take() {
                self.echo_monitor.echo_received(echo.payload());
            }
            let mut requests = self.requests.all().await;
            if requests.is_empty() {
                return requests;
            }
            self.echo = requests.extract_if(.., |request| request.subject() == self.echo_subject).last();
            if !requests.is_empty() {
                return requests;
            }
        }
    }
}

/// The time up to which all messages were received and handled, measured by echoes. Clones share it.
#[derive(Debug, Clone)]
pub struct EchoMonitor(Arc<EchoState>);

#[derive(Debug)]
struct EchoState {
    start: Instant,
    /// Send time of the newest echo that has come back, in milliseconds after `start`.
    last_echo_ms: AtomicU64,
}

impl EchoMonitor {
    fn start() -> Self {
        Self(Arc::new(EchoState { start: clock::monotonic(), last_echo_ms: AtomicU64::new(0) }))
    }

    /// The length of the period up to now from which messages may not have been received and handled yet, because NATS
    /// or this process stands still or is slow, or because the connection is lost. About half a second in normal
    /// operation.
    pub fn receive_lag(&self) -> Duration {
        let last_echo = Duration::from_millis(self.0.last_echo_ms.load(Ordering::Relaxed));
        self.0.start.elapsed().saturating_sub(last_echo)
    }

    /// The payload of an echo that is sent now.
    fn echo(&self) -> Bytes {
        let millis = u64::try_from(self.0.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        Bytes::copy_from_slice(&millis.to_be_bytes())
    }

    fn echo_received(&self, payload: &[u8]) {
        if let Ok(millis) = payload.try_into() {
            self.0.last_echo_ms.fetch_max(u64::from_be_bytes(millis), Ordering::Relaxed);
        }
    }
}

impl Bus {
    /// Serves a subject as [`Bus::serve`] does, but over a separate connection that is polled at the interval `every`.
    ///
    /// # Errors
    /// If the subject is not valid.
    pub async fn serve_batched(&self, subject: impl Into<String>, every: Duration) -> Result<Batched, Error> {
        let subject = subject.into();
        let (queue, requests) = Queue::new(self.clone(), &subject);
        let (ready, is_ready) = oneshot::channel();
        let bus = self.clone();
        let receive = move || {
            let start = async {
                tokio::select! {
                    started = Listener::start(&bus, &subject) => started,
                    () = queue.closed() => Err(Error::Disconnected),
                }
            };
            let started = Builder::new_current_thread().enable_all().build().map_err(Error::Thread);
            let started = started.and_then(|runtime| Ok((runtime.block_on(start)?, runtime)));
            match started {
                // Sending fails if the caller does not wait any more. Then the queue is closed, too.
                Err(error) => drop(ready.send(Err(error))),
                Ok((listener, runtime)) => {
                    let Listener { bus, echo_monitor, echo_subject, .. } = &listener;
                    drop(ready.send(Ok((bus.reconnections(), echo_monitor.clone(), echo_subject.clone()))));
                    listener.run(&runtime, &queue, every);
                }
            }
        };
        thread::Builder::new().name("bus-batched".to_owned()).spawn(receive).map_err(Error::Thread)?;
        let started = is_ready.await.map_err(|_| Error::Disconnected)??;
        let (reconnections, echo_monitor, echo_subject) = started;
        let requests =
            BatchedRequests { requests, echo_subject, echo_monitor: echo_monitor.clone(), echo: None };
        Ok(Batched { requests, reconnections, echo_monitor })
    }
}

/// A subscription with its own connection and thread.
struct Listener {
    bus: Bus,
    subscriber: Subscriber,
    /// Receives the connection's echoes.
    echo: Subscriber,
    echo_subject: String,
    echo_monitor: EchoMonitor,
}

impl Listener {
    async fn start(base: &Bus, subject: &str) -> Result<Self, Error> {
        let bus = base.open_another().await?;
        let subscriber = bus.subscribe(subject).await?;
        let echo_subject = bus.client().new_inbox();
        let echo = bus.subscribe(&echo_subject).await?;
        Ok(Self { bus, subscriber, echo, echo_subject, echo_monitor: EchoMonitor::start() })
    }

    /// Polls the connection until the queue is closed or the connection is closed for good.
    fn run(mut self, runtime: &Runtime, queue: &Queue, every: Duration) {
        let mut echo_sent = None;
        while !queue.is_closed() {
            let echo_is_due = echo_sent.is_none_or(|at: Instant| at.elapsed() >= ECHO_EVERY);
            if echo_is_due {
                echo_sent = Some(clock::monotonic());
            }
            // Without tokio's budget, which is for tasks that share a thread.
            let is_open = runtime.block_on(unconstrained(async {
                if echo_is_due {
                    self.send_echo().await;
                }
                self.receive(queue).await
            }));
            if !is_open {
                return;
            }
            thread::sleep(every);
        }
    }

    /// Sends an echo. Without a connection, the client would queue the echo until there is one, and its time would be
    /// too old by then.
    async fn send_echo(&self) {
        if self.bus.is_connected() {
            let echo = self.echo_monitor.echo();
            // An echo that cannot be sent does not come back either, so the error needs no handling.
            let _ = self.bus.send(self.echo_subject.clone(), None, HeaderMap::new(), echo).await;
        }
    }

    /// Drives the connection, and puts what arrived into the queue. Returns `false` when the connection is closed for
    /// good.
    async fn receive(&mut self, queue: &Queue) -> bool {
        for _ in 0..STEPS {
            yield_now().await;
            while let Some(next) = self.subscriber.next().now_or_never() {
                let Some(message) = next else { return false };
                queue.put(message);
            }
        }
        // Messages that were sent before this echo are already in the queue.
        while let Some(Some(message)) = self.echo.next().now_or_never() {
            queue.put(message);
        }
        true
    }
}
