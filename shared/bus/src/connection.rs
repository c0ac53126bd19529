//! The connection to NATS: its settings, its state, and sending.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_nats::client::{PublishError, PublishErrorKind};
use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, HeaderMap, ServerAddr, Subscriber};
use bytes::Bytes;
use model::{NodeId, RequestId};
use telemetry::clock;
use telemetry::metrics::catalogue::{BUS_CONNECTIONS_LOST, BUS_CONNECTIONS_MADE, BUS_SLOW_CONSUMER};
use tokio::sync::watch;
use wire::envelope::COMMAND_BYTES_MAX;
use wire::metrics::ProcessMetrics;
use wire::{Inbox, Role, Subject, Wire};

use crate::args::{Address, Args};
use crate::backoff::backoff;
use crate::contact::Contact;
use crate::diagnostics::Diagnostics;
use crate::envelope;
use crate::error::Error;
use crate::identity::{self, Identity};
use crate::lease_status::LeaseStatuses;
use crate::outgoing::{self, Outgoing, Room};
use crate::refusals::Refusals;

/// A server that sends nothing for two of these intervals is given up.
const PING_EVERY: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const RECONNECT_MIN: Duration = Duration::from_millis(100);
/// There are few servers, and all processes wait for each of them.
const SERVER_RECONNECT_MAX: Duration = Duration::from_secs(1);
/// There are thousands of agents, so even their first attempts are spread widely.
const AGENT_RECONNECT_MAX: Duration = Duration::from_secs(5);
/// Number of messages that may wait in memory for a subscription's task. Further messages are dropped. The task only
/// moves messages into a queue, but ten thousand nodes may send at once, and the sender of a dropped message waits
/// until its request times out.
const SUBSCRIPTION_MESSAGES_MAX: usize = 32_768;
/// How long sending waits for room in the client's queue.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a task that waits for a connection checks the state itself, because the event may be lost among many others.
const RECHECK_EVERY: Duration = Duration::from_millis(250);

/// A connection to NATS. Clones share it. It lasts as long as its clones, and reconnects by itself.
#[derive(Debug, Clone)]
pub struct Bus(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: Client,
    outgoing: Outgoing,
    link: watch::Receiver<Link>,
    contact: Contact,
    leases: LeaseStatuses,
    /// The settings that it was opened with.
    settings: Settings,
    /// The last metrics that this process has published.
    own_metrics: watch::Sender<Option<Arc<ProcessMetrics>>>,
    /// A subscription in the inbox of the role, to which nothing is sent.
    _inbox: Option<Subscriber>,
}

#[derive(Debug, Clone)]
struct Settings {
    args: Args,
    role: Role,
    agent_of: Option<NodeId>,
    refusals: Arc<Refusals>,
    /// Whether the process ends, with all of its connections.
    is_ending: Arc<AtomicBool>,
}

/// Yields each time that the connection is made again. Messages that were sent to this process before that are lost.
#[derive(Debug)]
pub struct Reconnections {
    link: watch::Receiver<Link>,
    made: u64,
}

impl Reconnections {
    /// Waits for the next reconnection; forever if the connection is closed for good.
    pub async fn next(&mut self) {
        match self.link.wait_for(|link| link.made > self.made).await.map(|link| link.made) {
            Ok(made) => self.made = made,
            Err(_) => std::future::pending().await,
        }
    }
}

/// State of the connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Link {
    /// How often the connection was made. Messages in transit when it was lost may be lost.
    pub(crate) made: u64,
    /// How often the connection was lost.
    pub(crate) lost: u64,
    /// When the connection was last lost.
    lost_at: Option<Instant>,
}

impl Bus {
    /// Connects a process of a service with this role, and waits until it is connected.
    ///
    /// # Errors
    /// If the settings cannot be used. A server that is not reachable yet is not an error: the call waits for it.
    pub async fn connect(args: &Args, role: Role) -> Result<Self, Error> {
        let (args, refusals, is_ending) = (args.clone(), Arc::default(), Arc::default());
        let settings = Settings { args, role, agent_of: None, refusals, is_ending };
        Self::open(settings, Contact::default(), LeaseStatuses::default()).await
    }

    /// Connects the agent of a node. Its credentials permit it to read only responses to its own node. Otherwise as
    /// [`Self::connect`].
    ///
    /// # Errors
    /// As [`Self::connect`], and if the credentials are those of another node.
    pub async fn connect_agent(args: &Args, node: NodeId) -> Result<Self, Error> {
        let (args, refusals, is_ending) = (args.clone(), Arc::default(), Arc::default());
        let settings = Settings { args, role: Role::Agent, agent_of: Some(node), refusals, is_ending };
        Self::open(settings, Contact::default(), LeaseStatuses::default()).await
    }

    /// The role of this process.
    pub fn role(&self) -> Role {
        self.0.settings.role
    }

    /// Opens another connection with the same settings. Traffic on this connection does not delay it. What this process
    /// knows of the applier and of its own leases is shared.
    pub(crate) async fn open_another(&self) -> Result<Self, Error> {
        let Inner { settings, contact, leases, .. } = &*self.0;
        Self::open(settings.clone(), contact.clone(), leases.clone()).await
    }

    async fn open(settings: Settings, contact: Contact, leases: LeaseStatuses) -> Result<Self, Error> {
        let Settings { args, role, agent_of, .. } = &settings;
        let agent_of = *agent_of;
        let identity = Identity::of(args, agent_of)?;
        let refusals = Arc::clone(&settings.refusals);
        let is_ending = Arc::clone(&settings.is_ending);
        let diagnostics = Arc::new(Diagnostics::new(identity.clone(), args.ca.clone(), refusals, is_ending));
        let inbox = agent_of.map_or(Inbox::Service(*role), Inbox::Node);
        let (link, link_state) = watch::channel(Link::default());
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
        let attempt_diagnostics = Arc::clone(&diagnostics);
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
            .client_capacity(outgoing::MESSAGES_MAX)
            .custom_inbox_prefix(inbox)
            .request_timeout(None)
            .retry_on_initial_connect()
            .reconnect_delay_callback(reconnect_delay)
            .reconnect_to_server_callback(move |servers, _| {
                attempt_diagnostics
                    .attempt_failed(servers.iter().find_map(|server| server.last_error.clone()));
                // `None` leaves the choice of the server to the client.
                std::future::ready(None)
            })
            .event_callback(move |event| {
                handle_event(&link, &diagnostics, event);
                async {}
            });
        if let Some(ca) = &args.ca {
            identity::check_authority(ca)?;
            options = options.add_root_certificates(ca.clone()).require_tls(true);
        }
        let servers: Vec<ServerAddr> = args.servers.iter().map(Address::server).collect();
        let client = options.connect(servers).await?;
        // NATS tells on each new connection whether it permits the responses to requests. Without this subscription, only
        // the first request would show it. An agent sends one at once.
        let inbox = match agent_of {
            Some(_) => None,
            None => Some(subscribed(&client, client.new_inbox()).await?),
        };
        let bus = Self(Arc::new(Inner {
            client,
            outgoing: Outgoing::default(),
            link: link_state,
            contact,
            leases,
            settings,
            own_metrics: watch::Sender::new(None),
            _inbox: inbox,
        }));
        tokio::spawn(check_max_payload(Arc::downgrade(&bus.0), bus.link()));
        bus.connected().await;
        // After a flush, the client has received the server's settings.
        let _ = bus.flush().await;
        Ok(bus)
    }

    /// Says that the process ends, and that NATS may end before it. The loss of the connection is no cause for a warning
    /// then.
    pub fn expect_end(&self) {
        self.0.settings.is_ending.store(true, Ordering::Relaxed);
    }

    /// The last head that the applier announced. [`feed::follow`](crate::feed::follow) must keep it up to date, because
    /// request ids are derived from it.
    pub fn contact(&self) -> Contact {
        self.0.contact.clone()
    }

    /// The leases of this process.
    pub fn leases(&self) -> &LeaseStatuses {
        &self.0.leases
    }

    /// A new request id: a UUIDv7 with the cluster's time ([`Contact::cluster_now`]).
    pub fn new_request_id(&self) -> RequestId {
        self.0.contact.new_request_id()
    }

    /// How long the connection has been lost; `None` while it is connected.
    pub fn outage(&self) -> Option<Duration> {
        if self.is_connected() {
            return None;
        }
        let lost_at = self.0.link.borrow().lost_at;
        Some(lost_at.map(|at| at.elapsed()).unwrap_or_default())
    }

    /// Describes the subjects that NATS does not permit to this process although most of its work depends on them;
    /// `None` if NATS refused none of them on the current connections.
    pub fn refused(&self) -> Option<String> {
        self.0.settings.refusals.describe()
    }

    /// The metrics that this process publishes ([`metrics::publish`](crate::metrics::publish)), also while NATS refuses
    /// them or is not connected.
    pub fn own_metrics(&self) -> watch::Receiver<Option<Arc<ProcessMetrics>>> {
        self.0.own_metrics.subscribe()
    }

    pub(crate) fn set_own_metrics(&self, metrics: Arc<ProcessMetrics>) {
        self.0.own_metrics.send_replace(Some(metrics));
    }

    /// Yields each time that the connection is made again, from now on.
    pub(crate) fn reconnections(&self) -> Reconnections {
        let link = self.link();
        let made = link.borrow().made;
        Reconnections { link, made }
    }

    /// Publishes a message that gets no response. It may be lost.
    ///
    /// # Errors
    /// If the message is too large, or there is no connection. Nothing is queued for later.
    pub async fn publish<T: Wire>(&self, subject: Subject, body: &T) -> Result<(), Error> {
        self.publish_with_headers(subject, envelope::headers::<T>(), body).await
    }

    /// The same with these headers.
    pub(crate) async fn publish_with_headers<T: Wire>(
        &self,
        subject: Subject,
        headers: HeaderMap,
        body: &T,
    ) -> Result<(), Error> {
        let body = Bytes::from(wire::encode(body));
        if !self.is_connected() {
            return Err(Error::Disconnected);
        }
        self.check_size(body.len())?;
        self.send(subject.to_string(), None, headers, body).await
    }

    /// Subscribes to a subject. Messages that are sent over this connection after this call reach the subscription. It
    /// is made again on every new connection.
    pub(crate) async fn subscribe(&self, subject: &str) -> Result<Subscriber, Error> {
        let subscriber = subscribed(self.client(), subject.to_owned()).await?;
        let _ = self.flush().await;
        Ok(subscriber)
    }

    /// Waits until all messages have been written to the network.
    ///
    /// # Errors
    /// If that takes more than some seconds.
    pub async fn flush(&self) -> Result<(), Error> {
        match tokio::time::timeout(SEND_TIMEOUT, self.client().flush()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Error::Disconnected),
        }
    }

    /// Puts a message into the client's queue. If `reply` is given, NATS reports there if nobody is subscribed to
    /// `subject`.
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
            let room = self.room(bytes).await;
            match reply {
                Some(reply) => client.publish_with_reply_and_headers(subject, reply, headers, body).await?,
                None => client.publish_with_headers(subject, headers, body).await?,
            }
            if let Some(room) = room {
                let client = client.clone();
                tokio::spawn(async move { room.free_after_flush(&client).await });
            }
            Ok::<(), PublishError>(())
        };
        match tokio::time::timeout(SEND_TIMEOUT, sending).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if error.kind() == PublishErrorKind::MaxPayloadExceeded => {
                Err(Error::TooLarge { bytes, max })
            }
            Ok(Err(_)) | Err(_) => Err(Error::Disconnected),
        }
    }

    /// Waits for room in the client's queue for a message with a body of `bytes` bytes.
    pub(crate) async fn room(&self, bytes: usize) -> Option<Room> {
        self.0.outgoing.room(bytes).await
    }

    /// Maximum size of a body that the server accepts.
    pub(crate) fn body_bytes_max(&self) -> usize {
        self.client().max_payload().saturating_sub(envelope::HEADERS_BYTES_MAX)
    }

    fn check_size(&self, bytes: usize) -> Result<(), Error> {
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
            let _ = tokio::time::timeout(RECHECK_EVERY, link.changed()).await;
        }
    }

    /// Receives each change of the connection's state.
    pub(crate) fn link(&self) -> watch::Receiver<Link> {
        let mut link = self.0.link.clone();
        link.mark_unchanged();
        link
    }
}

/// Subscribes to a subject.
async fn subscribed(client: &Client, subject: String) -> Result<Subscriber, Error> {
    client.subscribe(subject.clone()).await.map_err(|source| Error::Subscribe { subject, source })
}

/// Records an event of the client.
fn handle_event(link: &watch::Sender<Link>, diagnostics: &Diagnostics, event: Event) {
    match event {
        Event::Connected => {
            BUS_CONNECTIONS_MADE.add(1);
            diagnostics.connected();
            link.send_modify(|link| *link = Link { made: link.made + 1, ..*link });
        }
        Event::Disconnected => {
            BUS_CONNECTIONS_LOST.add(1);
            diagnostics.disconnected();
            let lost_at = Some(clock::monotonic());
            link.send_modify(|link| *link = Link { lost: link.lost + 1, lost_at, ..*link });
        }
        Event::SlowConsumer(_) => BUS_SLOW_CONSUMER.add(1),
        Event::ServerError(error) => diagnostics.server_error(&error.to_string()),
        // A failed attempt to connect. The client reports its reason before the next attempt.
        Event::ClientError(_) => {}
        Event::LameDuckMode => tracing::info!("the NATS server is about to stop"),
        Event::Draining | Event::Closed => {}
    }
}

/// Warns of each server that does not accept the largest command.
async fn check_max_payload(bus: std::sync::Weak<Inner>, mut link: watch::Receiver<Link>) {
    let mut made = 0;
    // Ends with the client, whose event callback owns the sender.
    while let Ok(now) = link.wait_for(|link| link.made > made).await.map(|link| *link) {
        made = now.made;
        let Some(bus) = bus.upgrade().map(Bus) else { return };
        // Only after a flush has the client certainly received the new server's settings.
        if bus.flush().await.is_err() {
            continue;
        }
        let found = bus.client().max_payload();
        if found < COMMAND_BYTES_MAX {
            tracing::warn!(
                found,
                needed = COMMAND_BYTES_MAX,
                "the NATS server refuses large commands; raise its max_payload to `needed`"
            );
        }
    }
}
