//! Conversations: many messages in both directions between a service and the agent of a node. They arrive in the order in
//! which they were sent, or not at all; what they say shows a loss ([`wire::flow`]).
//!
//! The service opens a conversation with a request. The reply subject of that request receives all messages of the agent.

use std::time::Duration;

use async_nats::{StatusCode, Subscriber};
use futures::StreamExt as _;
use model::RequestId;
use tokio::sync::watch;
use wire::inbox::is_answered_at;
use wire::{Inbox, Subject, Wire};

use crate::call::RequestError;
use crate::connection::{Bus, Link};
use crate::envelope;
use crate::error::Error;
use crate::serve::Request;

/// The service's end of a conversation with an agent. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Conversation {
    bus: Bus,
    subject: Subject,
    id: RequestId,
    messages: Subscriber,
    link: watch::Receiver<Link>,
    /// How often the connection had been lost when the conversation was opened.
    lost: u64,
}

/// The agent's end of a conversation.
#[derive(Debug, Clone)]
pub struct Replies {
    bus: Bus,
    subject: String,
}

impl Bus {
    /// Opens a conversation on a subject of an agent. The agent is told that the sender waits `within` this time for the
    /// first message.
    ///
    /// # Errors
    /// If the message is too large, or there is no connection.
    pub async fn converse<Q: Wire>(
        &self,
        subject: Subject,
        opening: &Q,
        within: Duration,
    ) -> Result<Conversation, Error> {
        let reply = format!("{}.{:032x}", Inbox::of(self.role(), &subject), rand::random::<u128>());
        let link = self.link();
        let lost = link.borrow().lost;
        let messages = self.subscribe(&reply).await?;
        let id = self.new_request_id();
        let body = wire::encode(opening);
        let max = self.body_bytes_max();
        if body.len() > max {
            return Err(Error::TooLarge { bytes: body.len(), max });
        }
        if !self.is_connected() {
            return Err(Error::Disconnected);
        }
        let mut headers = envelope::headers::<Q>();
        envelope::add_request_headers(&mut headers, id, within);
        self.send(subject.to_string(), Some(reply), headers, body.into()).await?;
        Ok(Conversation { bus: self.clone(), subject, id, messages, link, lost })
    }
}

impl Conversation {
    /// The request id of the opening message, by which the agent knows the conversation.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// Sends a message to the agent.
    ///
    /// # Errors
    /// As [`Bus::publish`].
    pub async fn send<T: Wire>(&self, body: &T) -> Result<(), Error> {
        self.bus.publish(self.subject, body).await
    }

    /// Waits for the agent's next message. Cancel safe.
    ///
    /// # Errors
    /// If the agent refuses, is not there, or the connection to NATS was lost, with which messages may be lost.
    pub async fn next<T: Wire>(&mut self) -> Result<T, RequestError> {
        let Self { messages, link, lost, .. } = self;
        let lost = *lost;
        let message = tokio::select! {
            message = messages.next() => message.ok_or(RequestError::Disconnected)?,
            _ = link.wait_for(|link| link.lost > lost) => return Err(RequestError::Disconnected),
        };
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            return Err(RequestError::NoResponders);
        }
        envelope::answer(&message)?.map_err(RequestError::Refused)
    }
}

impl Request {
    /// Where the messages of a conversation go that this request opens; `None` if the request names no subject of its
    /// sender.
    pub fn replies(&self) -> Option<Replies> {
        let subject = self.reply_subject();
        is_answered_at(self.subject(), subject)
            .then(|| Replies { bus: self.bus().clone(), subject: subject.to_owned() })
    }
}

impl Replies {
    /// Sends a message to the service.
    ///
    /// # Errors
    /// If the message is too large, or there is no connection.
    pub async fn send<T: Wire>(&self, body: &T) -> Result<(), Error> {
        if !self.bus.is_connected() {
            return Err(Error::Disconnected);
        }
        self.bus.send(self.subject.clone(), None, envelope::headers::<T>(), wire::encode(body).into()).await
    }
}
