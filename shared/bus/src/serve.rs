//! Serving: receiving requests on a subject, and responding to them.

use std::sync::atomic::{AtomicUsize, Ordering};
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
use telemetry::repeats::{Limiter, Repeats};
use tokio::sync::{Semaphore, mpsc};
use tracing::{Instrument as _, Span};
use wire::inbox::is_answered_at;
use wire::{DecodeError, Refusal, RefusalKind, Role, Subject, Wire};

use crate::connection::Bus;
use crate::error::Error;
use crate::{envelope, span};

/// Maximum number of requests in the queue of a service. Further requests are dropped, and their senders repeat them
/// after a timeout. The queue is large enough for all nodes of a large cluster at once.
const QUEUE_MAX: usize = 32_768;
/// Maximum size of the bodies of the requests in the queue of a service and of those that it is handling, in bytes. A
/// request that finds less room is dropped, unless it is the only one. Sixteen of the largest commands fit.
const QUEUE_BYTES_MAX: usize = 128 << 20;
/// Every message that cannot be decoded or is not permitted is counted, but for each subject and reason only so many are
/// logged in a minute.
const REFUSED_LINES_MAX: u32 = 1;

/// Messages on a subject, in the order of their arrival. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Requests {
    queue: mpsc::Receiver<Request>,
    served: Arc<ServedSubject>,
}

/// A subject that is served.
#[derive(Debug)]
struct ServedSubject {
    subject: String,
    refused: Mutex<Limiter<&'static str>>,
    /// The size of the bodies of all requests that exist.
    held_bytes: AtomicUsize,
}

/// A received message, usually a request that expects a response. Responding to a message that expects no response does
/// nothing.
#[derive(Debug)]
pub struct Request {
    bus: Bus,
    served: Arc<ServedSubject>,
    message: Message,
    /// The size of the body, until it is discarded.
    held_bytes: usize,
    id: RequestId,
    deadline: Instant,
}

impl Bus {
    /// Serves a subject, or all subjects that match a pattern. Every process that serves it receives every message.
    ///
    /// # Errors
    /// If the subject is not valid.
    pub async fn serve(&self, subject: impl Into<String>) -> Result<Requests, Error> {
        let subject = subject.into();
        let subscriber = self.subscribe(&subject).await?;
        let (queue, requests) = Queue::new(self.clone(), &subject);
        tokio::spawn(queue.fill(subscriber));
        Ok(requests)
    }
}

/// The queue of messages for a service. It records the arrival time of each message.
#[derive(Debug)]
pub(crate) struct Queue {
    bus: Bus,
    sender: mpsc::Sender<Request>,
    served: Arc<ServedSubject>,
}

impl Queue {
    /// Creates the queue of a subject, and its receiving end. Responses are sent over `bus`.
    pub(crate) fn new(bus: Bus, subject: &str) -> (Self, Requests) {
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        let refused = Mutex::new(Limiter::new(REFUSED_LINES_MAX));
        let held_bytes = AtomicUsize::new(0);
        let served = Arc::new(ServedSubject { subject: subject.to_owned(), refused, held_bytes });
        (Self { bus, sender, served: Arc::clone(&served) }, Requests { queue, served })
    }

    /// Whether the receiving end was dropped.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Waits until the receiving end is dropped.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }

    /// Adds a message. A message that finds the queue full is dropped.
    pub(crate) fn put(&self, message: Message) {
        let bytes = message.payload.len();
        let is_queued = self.served.has_room(bytes) && {
            let request = Request::new(self.bus.clone(), Arc::clone(&self.served), message);
            self.sender.try_send(request).is_ok()
        };
        if !is_queued {
            BUS_DROPPED.add_with(1, &[&self.served.subject]);
        }
    }

    /// Moves messages from a subscription into the queue.
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
    /// The next message whose sender still waits; `None` when the connection is closed for good. Cancel safe.
    pub async fn next(&mut self) -> Option<Request> {
        loop {
            let request = self.queue.recv().await?;
            if self.is_waited_for(&request) {
                return Some(request);
            }
        }
    }

    /// The next message whose sender still waits, if one has already arrived.
    pub(crate) fn next_now(&mut self) -> Option<Request> {
        loop {
            let request = self.queue.try_recv().ok()?;
            if self.is_waited_for(&request) {
                return Some(request);
            }
        }
    }

    /// Returns all messages that have arrived, at least one, including those whose senders do not wait any more; none
    /// when the connection is closed for good. Cancel safe.
    pub(crate) async fn all(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        self.queue.recv_many(&mut requests, QUEUE_MAX).await;
        requests
    }

    /// Handles each request in its own task, at most `concurrency` at once, until the connection is closed for good.
    pub async fn each<F>(mut self, concurrency: usize, answer: impl Fn(Request) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let permits = Arc::new(Semaphore::new(concurrency));
        while let Some(request) = self.next().await {
            // Fails only if the semaphore is closed, which does not happen.
            let permit = Arc::clone(&permits).acquire_owned().await;
            let (span, trace) = (request.span(), request.trace());
            let answering = telemetry::traces::follow(trace, answer(request).instrument(span));
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
    fn new(bus: Bus, served: Arc<ServedSubject>, message: Message) -> Self {
        if message.reply.is_some() {
            RPC_REQUEST.add(1);
        }
        let id = envelope::request_id(&message).unwrap_or_else(|| bus.new_request_id());
        let deadline = clock::monotonic() + envelope::deadline(&message);
        let held_bytes = message.payload.len();
        served.held_bytes.fetch_add(held_bytes, Ordering::Relaxed);
        Self { bus, served, message, held_bytes, id, deadline }
    }

    /// The subject of the message.
    pub fn subject(&self) -> &str {
        &self.message.subject
    }

    /// The subject for the response; empty if no response is expected.
    pub fn reply_subject(&self) -> &str {
        self.message.reply.as_deref().unwrap_or_default()
    }

    /// The connection that the message came by.
    pub(crate) fn bus(&self) -> &Bus {
        &self.bus
    }

    /// The request id, which a repeat shares. If the sender gave none, an id generated here.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// How long the sender still waits; at most ten minutes.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(clock::monotonic())
    }

    /// Whether the sender still waits.
    pub fn is_waited_for(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// The address of the applier's database, if the message announces a head.
    pub(crate) fn database(&self) -> Option<&str> {
        envelope::database(&self.message)
    }

    /// The trace that the message belongs to.
    pub fn trace(&self) -> Option<TraceContext> {
        envelope::trace(&self.message)
    }

    /// A span for handling the message, as part of its trace; disabled if it belongs to no trace.
    pub fn span(&self) -> Span {
        let Some(trace) = self.trace().filter(|_| telemetry::traces::are_exported()) else {
            return Span::none();
        };
        let span = span::process(self.subject(), self.id, self.payload().len());
        telemetry::adopt(&span, &trace);
        span
    }

    /// Whether the message is of kind `T`.
    pub fn is<T: Wire>(&self) -> bool {
        envelope::kind(&self.message) == T::KIND
    }

    /// Decodes the body.
    ///
    /// # Errors
    /// If the message is of another kind, or cannot be decoded. The caller should then refuse it
    /// ([`Self::refuse_unreadable`]).
    pub fn body<T: Wire>(&self) -> Result<T, DecodeError> {
        envelope::body(&self.message)
    }

    /// Decodes the body. A message that cannot be decoded is refused.
    pub async fn read<T: Wire>(self) -> Option<(Self, T)> {
        match self.body() {
            Ok(body) => Some((self, body)),
            Err(error) => {
                self.refuse_unreadable(&error).await;
                None
            }
        }
    }

    /// Responds with the result of `work` on the body, or refuses the request.
    pub async fn answer_with<Q: Wire, A: Wire>(self, work: impl AsyncFnOnce(Q) -> Result<A, Refusal>) {
        let Some((request, body)) = self.read::<Q>().await else { return };
        request.answer_or_refuse(work(body).await).await;
    }

    /// The encoded body.
    pub fn payload(&self) -> &Bytes {
        &self.message.payload
    }

    /// Discards the body, once it was decoded. A request that waits long for its response then takes little memory.
    pub fn discard_payload(&mut self) {
        self.message.payload = Bytes::new();
        self.release();
    }

    fn release(&mut self) {
        self.served.held_bytes.fetch_sub(std::mem::take(&mut self.held_bytes), Ordering::Relaxed);
    }

    /// Sends a response.
    pub async fn answer<T: Wire>(self, body: &T) {
        self.reply::<T>(wire::encode(body), None).await;
    }

    /// Sends a response or a refusal.
    pub async fn answer_or_refuse<T: Wire>(self, outcome: Result<T, Refusal>) {
        match outcome {
            Ok(body) => self.answer(&body).await,
            Err(refusal) => self.refuse(refusal).await,
        }
    }

    /// Sends a response. If nobody is subscribed to the reply subject, NATS reports that on the subject `undelivered`.
    pub(crate) async fn answer_tracked<T: Wire>(self, body: &T, undelivered: String) {
        self.reply::<T>(wire::encode(body), Some(undelivered)).await;
    }

    /// Refuses the request. If the current span is that of the request, the span is marked as failed.
    pub async fn refuse(self, refusal: Refusal) {
        if self.trace().is_some() {
            span::record_refusal(&Span::current(), &refusal);
        }
        self.reply::<Refusal>(wire::encode(&refusal), None).await;
    }

    /// Refuses a request that cannot be decoded. This is counted and logged.
    pub async fn refuse_unreadable(self, error: &DecodeError) {
        BUS_UNREADABLE.add_with(1, &[&self.served.subject]);
        RPC_REQUEST_ERROR.add(1);
        let message = telemetry::chain(error);
        if let Some(Repeats { suppressed, .. }) = self.served.refused(RefusalKind::Invalid) {
            let (subject, error) = (self.subject(), &*message);
            tracing::warn!(subject, error, suppressed, "cannot decode a message");
        }
        self.refuse(Refusal { kind: RefusalKind::Invalid, message: message.into() }).await;
    }

    /// Refuses a request that the sender's role does not permit. This is counted and logged. `what` names the request.
    pub async fn refuse_forbidden(self, what: &str) {
        BUS_FORBIDDEN.add_with(1, &[&self.served.subject]);
        RPC_REQUEST_ERROR.add(1);
        let role = Subject::role_of(self.subject()).map_or("unknown", Role::as_str);
        let message = format!("the role {role} may not send {what}");
        if let Some(Repeats { suppressed, .. }) = self.served.refused(RefusalKind::Forbidden) {
            tracing::warn!(
                subject = self.subject(),
                what,
                suppressed,
                "refused a request that the sender's role does not permit"
            );
        }
        self.refuse(Refusal { kind: RefusalKind::Forbidden, message: message.into() }).await;
    }

    async fn reply<T: Wire>(self, body: Vec<u8>, undelivered: Option<String>) {
        let Some(reply) = &self.message.reply else { return };
        if !is_answered_at(self.subject(), reply) {
            // Regular clients do not send such a reply subject. The receiver could publish there, because NATS permits
            // it to publish in other senders' inboxes.
            BUS_FOREIGN_REPLIES.add_with(1, &[&self.served.subject]);
            return;
        }
        let sent = self.bus.send(reply.to_string(), undelivered, envelope::headers::<T>(), body.into()).await;
        match sent {
            Ok(()) => {}
            Err(error @ Error::TooLarge { .. }) => {
                tracing::error!(
                    subject = self.subject(),
                    kind = T::KIND,
                    error = telemetry::chain(&error),
                    "cannot send a response"
                );
                let refusal = Refusal {
                    kind: RefusalKind::Invalid,
                    message: format!("the response is too large: {error}").into(),
                };
                let headers = envelope::headers::<Refusal>();
                let _ = self.bus.send(reply.to_string(), None, headers, wire::encode(&refusal).into()).await;
            }
            // The loss of the connection was already logged, and the sender repeats its request.
            Err(_) => {}
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.release();
    }
}

impl ServedSubject {
    /// Whether a request with a body of this size may be added. Only the task that receives messages adds requests.
    fn has_room(&self, bytes: usize) -> bool {
        let held = self.held_bytes.load(Ordering::Relaxed);
        held == 0 || held + bytes <= QUEUE_BYTES_MAX
    }

    /// Records that a message was refused. Returns what to log about it; `None` if it should not be logged.
    fn refused(&self, reason: RefusalKind) -> Option<Repeats> {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.failed(reason.as_str(), clock::monotonic())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_room_for_so_many_bytes_and_for_one_of_any_size() {
        let refused = Mutex::new(Limiter::new(REFUSED_LINES_MAX));
        let served = ServedSubject { subject: "it".to_owned(), refused, held_bytes: AtomicUsize::new(0) };
        assert!(served.has_room(QUEUE_BYTES_MAX + 1), "nothing else is there");
        served.held_bytes.store(QUEUE_BYTES_MAX - 10, Ordering::Relaxed);
        assert!(served.has_room(10) && !served.has_room(11));
    }
}
