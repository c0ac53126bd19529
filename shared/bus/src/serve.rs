//! Serving: requests that come in on a subject, and answers to them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::{Message, Subscriber};
use bytes::Bytes;
use futures::StreamExt;
use model::{RequestId, TraceContext};
use telemetry::clock;
use telemetry::metrics::catalogue::{
    BUS_DROPPED, BUS_EXPIRED, BUS_FORBIDDEN, BUS_FOREIGN_REPLIES, BUS_UNREADABLE, RPC_REQUEST,
    RPC_REQUEST_ERROR,
};
use tokio::sync::{Semaphore, mpsc};
use tracing::{Instrument as _, Span};
use wire::inbox::is_answered_at;
use wire::{DecodeError, Refusal, RefusalKind, Role, Subject, Wire};

use crate::connection::{Bus, Error};
use crate::{envelope, span};

/// How many requests wait for a service; more are dropped, and their senders ask again once theirs have timed out. Enough
/// for all nodes of a large cluster at once.
const QUEUE_MAX: usize = 32_768;
/// Messages that cannot be read or may not be sent are all counted, but no more than one in this time is logged for a
/// subject.
const REFUSED_LOGGED_EVERY: Duration = Duration::from_secs(60);

/// Messages that come in on a subject, in the order in which they came. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Requests {
    queue: mpsc::Receiver<Request>,
    served: Arc<Served>,
}

/// A subject that is served.
#[derive(Debug)]
struct Served {
    subject: String,
    refused_logged: Mutex<Option<Instant>>,
}

/// A message that came in, which most often is to be answered. Those that nobody waits for come in here as well;
/// answering them does nothing.
#[derive(Debug)]
pub struct Request {
    bus: Bus,
    served: Arc<Served>,
    message: Message,
    id: RequestId,
    deadline: Instant,
}

impl Bus {
    /// Serves a subject, or all that a wildcard names. Every process that serves it gets every message.
    ///
    /// # Errors
    /// If it is no subject.
    pub async fn serve(&self, subject: impl Into<String>) -> Result<Requests, Error> {
        let subject = subject.into();
        let subscriber = self.subscribe(&subject).await?;
        let (queue, requests) = Queue::new(self.clone(), &subject);
        tokio::spawn(queue.fill(subscriber));
        Ok(requests)
    }
}

/// Where messages wait for a service, which notes when each came.
#[derive(Debug)]
pub(crate) struct Queue {
    bus: Bus,
    sender: mpsc::Sender<Request>,
    served: Arc<Served>,
}

impl Queue {
    /// The queue of a subject, and its other end. What is answered goes over `bus`.
    pub(crate) fn new(bus: Bus, subject: &str) -> (Self, Requests) {
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        let served = Arc::new(Served { subject: subject.to_owned(), refused_logged: Mutex::new(None) });
        (Self { bus, sender, served: Arc::clone(&served) }, Requests { queue, served })
    }

    /// Whether nobody takes anything out any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Waits until then.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }

    /// Puts a message into it; one that finds no room is dropped.
    pub(crate) fn put(&self, message: Message) {
        let request = Request::new(self.bus.clone(), Arc::clone(&self.served), message);
        if self.sender.try_send(request).is_err() {
            BUS_DROPPED.add_with(1, &[&self.served.subject]);
        }
    }

    /// Moves to it what a subscription brings.
    async fn fill(self, mut subscriber: Subscriber) {
        loop {
            tokio::select! {
                message = subscriber.next() => match message {
                    Some(message) => self.put(message),
                    None => return,
                },
                () = self.closed() => return,
            }
        }
    }
}

impl Requests {
    /// The next message whose sender still waits; `None` when the connection has ended for good. May be cancelled
    /// without losing anything.
    pub async fn next(&mut self) -> Option<Request> {
        loop {
            let request = self.queue.recv().await?;
            if self.is_waited_for(&request) {
                return Some(request);
            }
        }
    }

    /// The next message whose sender still waits, if one has come.
    pub(crate) fn next_now(&mut self) -> Option<Request> {
        loop {
            let request = self.queue.try_recv().ok()?;
            if self.is_waited_for(&request) {
                return Some(request);
            }
        }
    }

    /// All messages that have come, at least one, also those whose senders do not wait any more; none when the connection
    /// has ended for good. May be cancelled without losing anything.
    pub(crate) async fn all(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        self.queue.recv_many(&mut requests, QUEUE_MAX).await;
        requests
    }

    /// Answers each of them in a task of its own, at most so many at once, until the connection has ended for good.
    pub async fn each<F>(mut self, at_once: usize, answer: impl Fn(Request) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let under_way = Arc::new(Semaphore::new(at_once));
        while let Some(request) = self.next().await {
            // Fails once it is closed, which nobody does.
            let permit = Arc::clone(&under_way).acquire_owned().await;
            let span = request.span();
            let answering = answer(request).instrument(span);
            tokio::spawn(async move {
                answering.await;
                drop(permit);
            });
        }
    }

    fn is_waited_for(&self, request: &Request) -> bool {
        let is_waited_for = request.is_waited_for();
        if !is_waited_for {
            BUS_EXPIRED.add_with(1, &[&self.served.subject]);
        }
        is_waited_for
    }
}

impl Request {
    fn new(bus: Bus, served: Arc<Served>, message: Message) -> Self {
        if message.reply.is_some() {
            RPC_REQUEST.add(1);
        }
        let id = envelope::request_id(&message).unwrap_or_else(|| bus.new_request_id());
        let deadline = clock::monotonic() + envelope::deadline(&message);
        Self { bus, served, message, id, deadline }
    }

    /// The subject that it was sent to.
    pub fn subject(&self) -> &str {
        &self.message.subject
    }

    /// The subject that its answer goes to; empty if nobody waits for one.
    pub fn reply_subject(&self) -> &str {
        self.message.reply.as_deref().unwrap_or_default()
    }

    /// Its id, which a repeat has, too; one made here if the sender gave none.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// How long the sender still waits; ten minutes at most.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(clock::monotonic())
    }

    /// Whether the sender still waits.
    pub fn is_waited_for(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// The trace that it is part of.
    pub fn trace(&self) -> Option<TraceContext> {
        envelope::trace(&self.message)
    }

    /// A span for the work on it, as part of its trace; disabled if it belongs to none.
    pub fn span(&self) -> Span {
        let Some(trace) = self.trace().filter(|_| telemetry::traces::are_exported()) else {
            return Span::none();
        };
        let span = span::process(self.subject(), self.id, self.payload().len());
        telemetry::adopt(&span, &trace);
        span
    }

    /// Whether it is a message of this kind.
    pub fn is<T: Wire>(&self) -> bool {
        envelope::kind(&self.message) == T::KIND
    }

    /// Its body.
    ///
    /// # Errors
    /// If it is another kind of message, or not to be read: then it is to be refused ([`Self::refuse_unreadable`]).
    pub fn body<T: Wire>(&self) -> Result<T, DecodeError> {
        envelope::body(&self.message)
    }

    /// Its body; a message that cannot be read is refused.
    pub async fn read<T: Wire>(self) -> Option<(Self, T)> {
        match self.body() {
            Ok(body) => Some((self, body)),
            Err(error) => {
                self.refuse_unreadable(&error).await;
                None
            }
        }
    }

    /// Answers it with what comes of its body, or refuses it.
    pub async fn answer_with<Q: Wire, A: Wire>(self, work: impl AsyncFnOnce(Q) -> Result<A, Refusal>) {
        let Some((request, asked)) = self.read::<Q>().await else { return };
        request.answer_or_refuse(work(asked).await).await;
    }

    /// Its body as it came.
    pub fn payload(&self) -> &Bytes {
        &self.message.payload
    }

    /// Answers it.
    pub async fn answer<T: Wire>(self, body: &T) {
        self.reply::<T>(wire::encode(body), None).await;
    }

    /// Answers it, or refuses it.
    pub async fn answer_or_refuse<T: Wire>(self, outcome: Result<T, Refusal>) {
        match outcome {
            Ok(body) => self.answer(&body).await,
            Err(refusal) => self.refuse(refusal).await,
        }
    }

    /// Answers it; NATS says to `unheard` if nobody listens for the answer.
    pub(crate) async fn answer_returnable<T: Wire>(self, body: &T, unheard: String) {
        self.reply::<T>(wire::encode(body), Some(unheard)).await;
    }

    /// Refuses it. If the current span is that of the work on it, that has failed.
    pub async fn refuse(self, refusal: Refusal) {
        if self.trace().is_some() {
            span::refused(&Span::current(), &refusal);
        }
        self.reply::<Refusal>(wire::encode(&refusal), None).await;
    }

    /// Refuses it because it cannot be read, which is counted and logged.
    pub async fn refuse_unreadable(self, error: &DecodeError) {
        BUS_UNREADABLE.add_with(1, &[&self.served.subject]);
        RPC_REQUEST_ERROR.add(1);
        let message = telemetry::chain(error);
        if self.served.is_to_log() {
            tracing::warn!(subject = self.subject(), error = message, "cannot read a message");
        }
        self.refuse(Refusal { kind: RefusalKind::Invalid, message: message.into() }).await;
    }

    /// Refuses it because its sender's role may not ask for it, which is counted and logged. `what` names what was asked
    /// for.
    pub async fn refuse_forbidden(self, what: &str) {
        BUS_FORBIDDEN.add_with(1, &[&self.served.subject]);
        RPC_REQUEST_ERROR.add(1);
        let role = Subject::role_of(self.subject()).map_or("unknown", Role::as_str);
        let message = format!("the role {role} may not send {what}");
        if self.served.is_to_log() {
            tracing::warn!(subject = self.subject(), what, "refused what the sender's role does not permit");
        }
        self.refuse(Refusal { kind: RefusalKind::Forbidden, message: message.into() }).await;
    }

    async fn reply<T: Wire>(self, body: Vec<u8>, unheard: Option<String>) {
        let Some(reply) = &self.message.reply else { return };
        if !is_answered_at(self.subject(), reply) {
            // No client of ours asks so, and NATS permits whoever answers to publish in other senders' inboxes.
            BUS_FOREIGN_REPLIES.add_with(1, &[&self.served.subject]);
            return;
        }
        let sent = self.bus.send(reply.to_string(), unheard, envelope::headers::<T>(), body.into()).await;
        match sent {
            Ok(()) => {}
            Err(error @ Error::TooLarge { .. }) => {
                tracing::error!(
                    subject = self.subject(),
                    kind = T::KIND,
                    error = telemetry::chain(&error),
                    "cannot send an answer"
                );
                let refusal = Refusal {
                    kind: RefusalKind::Invalid,
                    message: format!("the answer is too large: {error}").into(),
                };
                let headers = envelope::headers::<Refusal>();
                let _ = self.bus.send(reply.to_string(), None, headers, wire::encode(&refusal).into()).await;
            }
            // The loss of the connection was logged, and whoever waits asks again.
            Err(_) => {}
        }
    }
}

impl Served {
    fn is_to_log(&self) -> bool {
        let now = clock::monotonic();
        let mut logged = self.refused_logged.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = logged.is_none_or(|logged| now.duration_since(logged) >= REFUSED_LOGGED_EVERY);
        if is_due {
            *logged = Some(now);
        }
        is_due
    }
}
