//! Requests: a message, and the answer to it.

use std::time::{Duration, Instant};

use async_nats::client::RequestErrorKind;
use async_nats::{HeaderMap, Message};
use bytes::Bytes;
use model::RequestId;
use telemetry::clock;
use tracing::Instrument as _;
use wire::{DecodeError, Inbox, Refusal, Role, Subject, Wire};

use crate::connection::Bus;
use crate::{envelope, span};

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// It was refused; asking again does not help before something else has changed.
    #[error("refused: {}", .0.message)]
    Refused(Refusal),
    /// Nobody listens on the subject; nothing was done.
    #[error("nobody is there to answer")]
    NoResponders,
    /// No answer came in time; what was asked for may have been done.
    #[error("no answer in time")]
    TimedOut,
    /// There was no connection to NATS for all of the time.
    #[error("not connected to NATS")]
    Disconnected,
    /// What came is not the answer; what was asked for may have been done.
    #[error("cannot read the answer")]
    Unreadable(#[from] DecodeError),
    /// The body does not fit a message; nothing was sent.
    #[error("{bytes} bytes do not fit a message of at most {max}")]
    TooLarge {
        /// The body's size.
        bytes: usize,
        /// What may be sent.
        max: usize,
    },
}

/// A request that is ready to be sent, as often as need be.
#[derive(Debug)]
pub(crate) struct Call {
    subject: String,
    /// Where a node answers; services answer in the connection's own inbox.
    inbox: Option<String>,
    id: RequestId,
    headers: HeaderMap,
    body: Bytes,
}

impl Call {
    pub(crate) fn new<Q: Wire>(role: Role, subject: Subject, id: RequestId, body: &Q) -> Self {
        Self {
            subject: subject.to_string(),
            inbox: subject.asked_node().map(|_| Inbox::of(role, &subject).to_string()),
            id,
            headers: envelope::headers::<Q>(),
            body: wire::encode(body).into(),
        }
    }

    /// The body's size.
    pub(crate) fn bytes(&self) -> usize {
        self.body.len()
    }
}

impl Bus {
    /// Asks a question, and waits for its answer. While there is no connection, it waits for one.
    ///
    /// # Errors
    /// If it is refused, or there is no answer `within` that time.
    pub async fn request<Q: Wire, A: Wire>(
        &self,
        subject: Subject,
        body: &Q,
        within: Duration,
    ) -> Result<A, RequestError> {
        self.request_as(subject, self.new_request_id(), body, within).await
    }

    /// The same under an id of the caller's, who asks again what may have been done already.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub async fn request_as<Q: Wire, A: Wire>(
        &self,
        subject: Subject,
        id: RequestId,
        body: &Q,
        within: Duration,
    ) -> Result<A, RequestError> {
        let span = span::send(subject, id);
        let call = span.in_scope(|| Call::new(self.role(), subject, id, body));
        span::body(&span, call.bytes());
        let deadline = clock::monotonic() + within;
        let answer = self.call(&call, within, deadline).instrument(span.clone()).await;
        span::answered(&span, &answer);
        answer
    }

    /// Sends a request once and waits for its answer `within` a time; whoever serves it is told that the answer is wanted
    /// until `deadline`, because somebody will ask again.
    pub(crate) async fn call<A: Wire>(
        &self,
        call: &Call,
        within: Duration,
        deadline: Instant,
    ) -> Result<A, RequestError> {
        let exchange = async {
            self.connected().await;
            let mut link = self.link();
            let lost = link.borrow().lost;
            tokio::select! {
                answered = self.exchange(call, deadline.saturating_duration_since(clock::monotonic())) => answered,
                // The answer goes with the connection.
                _ = link.wait_for(|link| link.lost > lost) => Err(RequestError::Disconnected),
            }
        };
        let message = match tokio::time::timeout(within, exchange).await {
            Ok(answered) => answered?,
            Err(_) if self.is_connected() => return Err(RequestError::TimedOut),
            Err(_) => return Err(RequestError::Disconnected),
        };
        envelope::answer(&message)?.map_err(RequestError::Refused)
    }

    async fn exchange(&self, call: &Call, remaining: Duration) -> Result<Message, RequestError> {
        let (bytes, max) = (call.bytes(), self.body_bytes_max());
        if bytes > max {
            return Err(RequestError::TooLarge { bytes, max });
        }
        let mut headers = call.headers.clone();
        envelope::ask(&mut headers, call.id, remaining);
        let mut request = async_nats::Request::new().headers(headers).payload(call.body.clone());
        if let Some(inbox) = &call.inbox {
            request = request.inbox(format!("{inbox}.{:016x}", rand::random::<u64>()));
        }
        let sent = self.client().send_request(call.subject.clone(), request);
        // Boxed, for the client's future takes kilobytes and would be a part of all those around it, several times.
        Box::pin(sent).await.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => RequestError::NoResponders,
            RequestErrorKind::TimedOut => RequestError::TimedOut,
            RequestErrorKind::MaxPayloadExceeded => RequestError::TooLarge { bytes, max },
            // The client has ended; `wire` makes no subject that is not valid.
            RequestErrorKind::InvalidSubject | RequestErrorKind::Other => RequestError::Disconnected,
        })
    }
}
