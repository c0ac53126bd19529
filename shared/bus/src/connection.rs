//! The connection to NATS: its settings, how it stands, and sending.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_nats::client::PublishErrorKind;
use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, HeaderMap, ServerAddr, Subscriber};
use bytes::Bytes;
use model::{NodeId, RequestId};
use telemetry::clock;
use telemetry::metrics::catalogue::{BUS_CONNECTIONS_LOST, BUS_CONNECTIONS_MADE, BUS_SLOW_CONSUMER};
use tokio::sync::watch;
use wire::envelope::COMMAND_BYTES_MAX;
use wire::{Inbox, Role, Subject, Wire};

use crate::args::{Address, Args};
use crate::backoff::backoff;
use crate::contact::Contact;
use crate::envelope;
use crate::identity::{self, Identity};
use crate::trouble::Trouble;

/// A server that has not been heard of for two of these is given up.
const PING_EVERY: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const RECONNECT_MIN: Duration = Duration::from_millis(100);
/// Of servers there are few, and all wait for each of them.
const SERVER_RECONNECT_MAX: Duration = Duration::from_secs(1);
/// Of agents there are thousands, so even their first attempts are spread widely.
const AGENT_RECONNECT_MAX: Duration = Duration::from_secs(5);
/// How many messages wait in memory for a subscription's task; more are dropped. The task only sorts them into a queue, but
/// ten thousand nodes may speak at once, and whoever is not heard waits until his request has timed out.
const SUBSCRIPTION_MESSAGES_MAX: usize = 32_768;
/// How long a message may wait for room in the connection's own queue.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// How often whoever waits for a connection looks by himself: the news of it may be lost in a flood of others.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Why something could not be sent or set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file with credentials, a key or a certificate cannot be read.
    #[error("cannot read {what} from {path}")]
    File {
        /// What should be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: std::io::Error,
    },
    /// A file with credentials or a key can be read and is something else.
    #[error("{path} holds no {what}")]
    Identity {
        /// What should be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: nats_auth::Error,
    },
    /// The file with an authority's certificate holds none.
    #[error("{path} holds no certificate: expected PEM text with BEGIN CERTIFICATE")]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// An agent with the credentials of another node.
    #[error("the NATS credentials in {path} are those of {found}, and this agent is node {node}")]
    ForeignNode {
        /// The file.
        path: PathBuf,
        /// Whom they were issued for.
        found: String,
        /// The agent's node.
        node: NodeId,
    },
    /// The client refuses its settings.
    #[error("cannot set up the NATS client")]
    Connect(#[from] async_nats::ConnectError),
    /// The client refuses the subject, or has ended.
    #[error("cannot subscribe to {subject}")]
    Subscribe {
        /// What was to be subscribed to.
        subject: String,
        /// What is wrong.
        #[source]
        source: async_nats::SubscribeError,
    },
    /// The body does not fit a message.
    #[error("{bytes} bytes do not fit a message of at most {max}")]
    TooLarge {
        /// The body's size.
        bytes: usize,
        /// What NATS takes, less the headers.
        max: usize,
    },
    /// The machine has no thread for a connection.
    #[error("cannot begin a thread for a connection to NATS")]
    Thread(#[source] std::io::Error),
    /// There is no connection to NATS; nothing was sent.
    #[error("not connected to NATS")]
    Disconnected,
}

/// A connection to NATS; clones share it. It lasts as long as they do, and reconnects by itself.
#[derive(Debug, Clone)]
pub struct Bus(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: Client,
    link: watch::Receiver<Link>,
    contact: Contact,
    /// How it was opened.
    settings: Settings,
}

#[derive(Debug, Clone)]
struct Settings {
    args: Args,
    role: Role,
    agent_of: Option<NodeId>,
}

/// Tells of each time that the connection is made again: whatever was sent to this process before that is lost.
#[derive(Debug)]
pub struct Reconnections {
    link: watch::Receiver<Link>,
    made: u64,
}

impl Reconnections {
    /// Waits for the next one; for ever if the connection was closed for good.
    pub async fn next(&mut self) {
        match self.link.wait_for(|link| link.made > self.made).await.map(|link| link.made) {
            Ok(made) => self.made = made,
            Err(_) => std::future::pending().await,
        }
    }
}

/// How the connection stands.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Link {
    /// How often it was made; what was on its way when it broke may be lost.
    pub(crate) made: u64,
    /// How often it was lost.
    pub(crate) lost: u64,
    /// When it was lost last.
    lost_at: Option<Instant>,
}

impl Bus {
    /// Connects a server's process, which speaks in this role; waits until it is connected.
    ///
    /// # Errors
    /// If the settings cannot be used. A server that is not there yet is waited for.
    pub async fn connect(args: &Args, role: Role) -> Result<Self, Error> {
        Self::open(Settings { args: args.clone(), role, agent_of: None }).await
    }

    /// Connects the agent of a node, whose credentials let it read only answers to its own node; otherwise as
    /// [`Self::connect`].
    ///
    /// # Errors
    /// As [`Self::connect`], and if the credentials are those of another node.
    pub async fn connect_agent(args: &Args, node: NodeId) -> Result<Self, Error> {
        Self::open(Settings { args: args.clone(), role: Role::Agent, agent_of: Some(node) }).await
    }

    /// The role that this process speaks in.
    pub fn role(&self) -> Role {
        self.0.settings.role
    }

    /// Another connection with the same settings, which nothing that is sent over this one can hold up.
    pub(crate) async fn open_another(&self) -> Result<Self, Error> {
        Self::open(self.0.settings.clone()).await
    }

    async fn open(settings: Settings) -> Result<Self, Error> {
        let Settings { args, role, agent_of } = &settings;
        let agent_of = *agent_of;
        let identity = Identity::of(args, agent_of)?;
        let trouble = Arc::new(Trouble::new(identity.clone(), args.ca.clone()));
        let inbox = agent_of.map_or(Inbox::Service(*role), Inbox::Node);
        let (link, seen) = watch::channel(Link::default());
        let is_first = AtomicBool::new(true);
        let reconnect_delay = move |attempt: usize| {
            if is_first.swap(false, Ordering::Relaxed) {
                return Duration::ZERO;
            }
            match agent_of {
                Some(_) => rand::random_range(RECONNECT_MIN..=AGENT_RECONNECT_MAX),
                None => {
                    let attempt = u32::try_from(attempt - 1).unwrap_or(u32::MAX);
                    backoff(attempt, RECONNECT_MIN, SERVER_RECONNECT_MAX)
                }
            }
        };
        let attempts = Arc::clone(&trouble);
        let options = match identity {
            Identity::Url => Address::log_in(&args.servers, ConnectOptions::new()),
            Identity::Credentials(_) | Identity::NodeKey { .. } => {
                ConnectOptions::with_auth_callback(move |nonce| std::future::ready(identity.log_in(&nonce)))
            }
        };
        let mut options = options
            .name(role.as_str())
            .ping_interval(PING_EVERY)
            .connection_timeout(CONNECT_TIMEOUT)
            .subscription_capacity(SUBSCRIPTION_MESSAGES_MAX)
            .custom_inbox_prefix(inbox)
            .request_timeout(None)
            .retry_on_initial_connect()
            .reconnect_delay_callback(reconnect_delay)
            .reconnect_to_server_callback(move |servers, _| {
                attempts.remember(servers.iter().find_map(|server| server.last_error.clone()));
                // The client chooses.
                std::future::ready(None)
            })
            .event_callback(move |event| {
                notice(&link, &trouble, event);
                async {}
            });
        if let Some(ca) = &args.ca {
            identity::check_authority(ca)?;
            options = options.add_root_certificates(ca.clone()).require_tls(true);
        }
        let servers: Vec<ServerAddr> = args.servers.iter().map(Address::server).collect();
        let client = options.connect(servers).await?;
        let bus = Self(Arc::new(Inner { client, link: seen, contact: Contact::default(), settings }));
        tokio::spawn(check_size(Arc::downgrade(&bus.0), bus.link()));
        bus.connected().await;
        // What the server said of itself has been taken in when this is done.
        let _ = bus.flush().await;
        Ok(bus)
    }

    /// What is known of the applier; [`feed::follow`](crate::feed::follow) is to keep it up to date, since ids of requests
    /// are made from it.
    pub fn contact(&self) -> Contact {
        self.0.contact.clone()
    }

    /// A new id for a request: a UUIDv7 of the cluster's time ([`Contact::cluster_now`]).
    pub fn new_request_id(&self) -> RequestId {
        self.0.contact.new_request_id()
    }

    /// How long the connection has been lost; `None` while there is one.
    pub fn outage(&self) -> Option<Duration> {
        if self.is_connected() {
            return None;
        }
        let lost_at = self.0.link.borrow().lost_at;
        Some(lost_at.map(|at| at.elapsed()).unwrap_or_default())
    }

    /// Tells of each time that the connection is made again, from now on.
    pub(crate) fn reconnections(&self) -> Reconnections {
        let link = self.link();
        let made = link.borrow().made;
        Reconnections { link, made }
    }

    /// Sends a message that nobody answers. It may be lost.
    ///
    /// # Errors
    /// If it is too large, or there is no connection; nothing is kept for later.
    pub async fn publish<T: Wire>(&self, subject: Subject, body: &T) -> Result<(), Error> {
        let body = Bytes::from(wire::encode(body));
        if !self.is_connected() {
            return Err(Error::Disconnected);
        }
        self.fits(body.len())?;
        self.send(subject.to_string(), None, envelope::headers::<T>(), body).await
    }

    /// Subscribes to a subject. What is sent over this connection from here on finds the subscription; it is made again on
    /// every new connection.
    pub(crate) async fn subscribe(&self, subject: &str) -> Result<Subscriber, Error> {
        let subscriber = self.client().subscribe(subject.to_owned()).await;
        let subscriber =
            subscriber.map_err(|source| Error::Subscribe { subject: subject.to_owned(), source })?;
        let _ = self.flush().await;
        Ok(subscriber)
    }

    /// Waits until what was sent has left this process.
    ///
    /// # Errors
    /// If it could not leave within seconds.
    pub async fn flush(&self) -> Result<(), Error> {
        match tokio::time::timeout(SEND_TIMEOUT, self.client().flush()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Error::Disconnected),
        }
    }

    /// Puts a message that fits into the connection's queue. Where it names a subject for answers, NATS says there if nobody
    /// listens.
    pub(crate) async fn send(
        &self,
        subject: String,
        reply: Option<String>,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(), Error> {
        let max = self.body_bytes_max();
        let bytes = body.len();
        let client = self.client();
        let sending = async {
            match reply {
                Some(reply) => client.publish_with_reply_and_headers(subject, reply, headers, body).await,
                None => client.publish_with_headers(subject, headers, body).await,
            }
        };
        match tokio::time::timeout(SEND_TIMEOUT, sending).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if error.kind() == PublishErrorKind::MaxPayloadExceeded => {
                Err(Error::TooLarge { bytes, max })
            }
            Ok(Err(_)) | Err(_) => Err(Error::Disconnected),
        }
    }

    /// The largest body that the server takes.
    pub(crate) fn body_bytes_max(&self) -> usize {
        self.client().max_payload().saturating_sub(envelope::HEADERS_BYTES_MAX)
    }

    fn fits(&self, bytes: usize) -> Result<(), Error> {
        let max = self.body_bytes_max();
        if bytes > max { Err(Error::TooLarge { bytes, max }) } else { Ok(()) }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client().connection_state() == State::Connected
    }

    /// Waits for a connection.
    pub(crate) async fn connected(&self) {
        let mut link = self.link();
        while !self.is_connected() {
            let _ = tokio::time::timeout(LOOK_EVERY, link.changed()).await;
        }
    }

    /// Told whenever the connection is made or lost.
    pub(crate) fn link(&self) -> watch::Receiver<Link> {
        let mut link = self.0.link.clone();
        link.mark_unchanged();
        link
    }
}

/// Keeps account of what the client says of the connection.
fn notice(link: &watch::Sender<Link>, trouble: &Trouble, event: Event) {
    match event {
        Event::Connected => {
            BUS_CONNECTIONS_MADE.add(1);
            tracing::info!("connected to NATS");
            trouble.connected();
            link.send_modify(|link| *link = Link { made: link.made + 1, ..*link });
        }
        Event::Disconnected => {
            BUS_CONNECTIONS_LOST.add(1);
            tracing::warn!("lost the connection to NATS, trying to get it back");
            let lost_at = Some(clock::monotonic());
            link.send_modify(|link| *link = Link { lost: link.lost + 1, lost_at, ..*link });
        }
        Event::SlowConsumer(_) => BUS_SLOW_CONSUMER.add(1),
        Event::ServerError(error) => trouble.server_said(&error.to_string()),
        // A failed attempt; its reason is known with the next one.
        Event::ClientError(_) => {}
        Event::LameDuckMode => tracing::info!("the NATS server is about to stop"),
        Event::Draining | Event::Closed => {}
    }
}

/// Warns of each server that does not take the largest command.
async fn check_size(bus: std::sync::Weak<Inner>, mut link: watch::Receiver<Link>) {
    let mut made = 0;
    // Ends with the client, whose callback has the sender.
    while let Ok(now) = link.wait_for(|link| link.made > made).await.map(|link| *link) {
        made = now.made;
        let Some(bus) = bus.upgrade().map(Bus) else { return };
        // Only after the flush is what the new server said of itself sure to be taken in.
        if bus.flush().await.is_err() {
            continue;
        }
        let found = bus.client().max_payload();
        if found < COMMAND_BYTES_MAX {
            tracing::warn!(
                found,
                needed = COMMAND_BYTES_MAX,
                "the NATS server refuses large commands: raise its max_payload to what is needed"
            );
        }
    }
}
