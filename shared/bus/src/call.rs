//! Requests and their responses.

use std::time::{Duration, Instant};

use async_nats::client::RequestErrorKind;
use async_nats::{HeaderMap, Message};
use bytes::Bytes;
use model::RequestId;
use telemetry::clock;
use tracing::{Instrument as _, Span};
use wire::{DecodeError, Inbox, Refusal, Role, Subject, Wire};

use crate::connection::Bus;
use crate::{envelope, span};

/// The reason why a request got no response.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The request was refused. Repeating it does not help until something else has changed.
    #[error("refused: {}", .0.message)]
    Refused(Refusal),
    /// No process is subscribed to the subject. Nothing was done.
    #[error("no process responds")]
    NoResponders,
    /// No response arrived in time. The request may have been carried out.
    #[error("no response in time")]
    TimedOut,
    /// There was no connection to NATS during the whole time.
    #[error("not connected to NATS")]
    Disconnected,
    /// The response is not the expected message. The request may have been carried out.
    #[error("cannot decode the response")]
    Unreadable(#[from] DecodeError),
    /// The body is too large for a message. Nothing was sent.
    #[error("the message has {bytes} bytes; the maximum is {max}")]
    TooLarge {
        /// Size of the body.
        bytes: usize,
        /// Maximum size.
        max: usize,
    },
}

/// A request that can be sent, once or repeatedly.
#[derive(Debug)]
pub(crate) struct Call {
    subject: String,
    /// The inbox for a node's response. Responses of services arrive in the connection's own inbox.
    inbox: Option<String>,
    id: RequestId,
    headers: HeaderMap,
    body: Bytes,
}

impl Call {
    pub(crate) fn new<Q: Wire>(role: Role, subject: Subject, id: RequestId, body: &Q) -> Self {
        Self {
            subject: subject.to_string(),
            inbox: subject.responder_node().map(|_| Inbox::of(role, &subject).to_string()),
            id,
            headers: envelope::headers::<Q>(),
            body: wire::encode(body).into(),
        }
    }

    /// Size of the body.
    pub(crate) fn bytes(&self) -> usize {
        self.body.len()
    }
}

impl Bus {
    /// Sends a request, and waits for its response. If there is no connection, it waits for one.
    ///
    /// # Errors
    /// If the request is refused, or gets no response `within` that time.
    pub async fn request<Q: Wire, A: Wire>(
        &self,
        subject: Subject,
        body: &Q,
        within: Duration,
    ) -> Result<A, RequestError> {
        self.request_as(subject, self.new_request_id(), body, within).await
    }

    /// Sends a request under an id of the caller, who may be repeating a request that was already carried out.
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
        span::record_body_size(&span, call.bytes());
        let deadline = clock::monotonic() + within;
        let answer = self.call(&call, within, deadline).instrument(span.clone()).await;
        record_outcome(&span, &answer);
        answer
    }

    /// Sends a request once, and waits for its response `within` a time. The receiver is told that the sender waits
    /// until `deadline`, because the sender will repeat the request until then.
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
                response = self.exchange(call, deadline.saturating_duration_since(clock::monotonic())) => response,
                // A response cannot arrive any more on a lost connection.
                _ = link.wait_for(|link| link.lost > lost) => Err(RequestError::Disconnected),
            }
        };
        let message = match tokio::time::timeout(within, exchange).await {
            Ok(response) => response?,
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
        envelope::add_request_headers(&mut headers, call.id, remaining);
        let mut request = async_nats::Request::new().headers(headers).payload(call.body.clone());
        if let Some(inbox) = &call.inbox {
            request = request.inbox(format!("{inbox}.{:016x}", rand::random::<u64>()));
        }
        let room = self.room(bytes).await;
        // Boxed, because the client's future takes kilobytes, and every future that awaits it would contain it.
        let mut sent = Box::pin(self.client().send_request(call.subject.clone(), request));
        let answer = match room {
            None => sent.await,
            Some(room) => tokio::select! {
                // The request enters the client's queue when its future is first polled.
                biased;
                answer = &mut sent => answer,
                () = room.free_after_flush(self.client()) => sent.await,
            },
        };
        answer.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => RequestError::NoResponders,
            RequestErrorKind::TimedOut => RequestError::TimedOut,
            RequestErrorKind::MaxPayloadExceeded => RequestError::TooLarge { bytes, max },
            // The client has ended. `wire` creates only valid subjects.
            RequestErrorKind::InvalidSubject | RequestErrorKind::Other => RequestError::Disconnected,
        })
    }
}

/// Records the outcome of a request in its span.
fn record_outcome<A>(span: &Span, outcome: &Result<A, RequestError>) {
    let Err(error) = outcome else { return };
    let kind = match error {
        RequestError::Refused(refusal) => return span::record_refusal(span, refusal),
        RequestError::NoResponders => "no_responders",
        RequestError::TimedOut => "timeout",
        RequestError::Disconnected => "disconnected",
        RequestError::Unreadable(_) => "unreadable",
        RequestError::TooLarge { .. } => "too_large",
    };
    telemetry::traces::fail(span, kind, &telemetry::chain(error));
}
