//! The HTTP API: implements Nomad's HTTP interface (`docs/rules/http-api.md`) with this process's replica and the applier's
//! commands.
//!
//! `routes` holds the table of all routes and their handlers, and `serve` brings each request to its handler. `http` holds
//! what the handlers share: parameters, consistency, blocking queries, pages, limits, errors. `outage` finds out what is down
//! when nothing can be served. `shapes` holds the JSON objects of responses. `admission` checks a job before it is registered.
//! `agent_client` sends requests to agents: files, logs, resource usage and task commands. `exec` serves the WebSockets of
//! commands in tasks. `filter` evaluates the filter expressions of lists. `events` produces the event stream.
//! `cluster_metrics` merges the metrics of all processes. The API keeps no authoritative state of its own: reads come from the
//! replica, writes are commands.

mod admission;
mod agent_client;
mod cluster_metrics;
mod events;
mod exec;
mod filter;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod http;
mod outage;
mod regexp;
mod routes;
mod serve;
mod settings;
mod shapes;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use actix_web::web::{self, Data};
use actix_web::{App, HttpServer};
use anyhow::Context as _;
use bus::{Bus, Contact};
use model::job::JobType;
use model::{NodeId, ProcessId};
use socket2::SockRef;
use state::Replica;
use telemetry::metrics::catalogue::{AGENT_HTTP_CONNECTIONS, API_CONNECTIONS};
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wire::command::{Command, CommandError, Done};
use wire::{Refusal, RefusalKind};

use self::cluster_metrics::Metrics;
use self::events::RecentChanges;
use self::http::{
    Background, Error, FailureLog, HeadClient, Memory, Origins, Permits, Query, REQUEST_MEMORY_MAX,
    RESPONSE_MEMORY_MAX, ResponseCache, Spans, head_client,
};
pub use self::settings::Args;
use self::settings::Limits;

/// Maximum number of connections in the accept queue of the listening socket.
const BACKLOG: u32 = 4_096;
/// Maximum number of threads that serve requests.
const WORKERS_MAX: usize = 512;
/// Maximum number of open connections. Further clients wait in the accept queue.
const CONNECTIONS_MAX: usize = 32_768;
/// Time in which the first request of a connection must arrive, up to its body.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which an idle connection is closed.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// Time after which a connection is closed if its client takes nothing of what is sent to it.
const UNSENT_MAX: Duration = Duration::from_secs(40);
/// Time that requests in progress have to finish when the process stops.
const SHUTDOWN_SECS: u64 = 3;
/// Time after which the server ends although requests are in progress. The HTTP server looks once a second whether they have
/// ended, and cannot end them by itself if one occupies its thread.
const SHUTDOWN_MAX: Duration = Duration::from_millis(1_000 * SHUTDOWN_SECS + 250);

/// The HTTP server, listening but not serving yet.
#[derive(Debug)]
pub struct Server {
    limits: Limits,
    args: Args,
    listener: std::net::TcpListener,
    addr: SocketAddr,
    colocated: Colocated,
}

/// The other roles of the process that runs the API, which some routes report.
#[derive(Debug, Clone, Default)]
pub struct Colocated {
    /// Id of the node if the process also runs an agent.
    pub node: Option<NodeId>,
    /// Number of scheduler worker threads.
    pub workers: usize,
    /// Job types that the workers schedule.
    pub schedulers: Vec<JobType>,
    /// Whether the process is a development cluster (`drover dev`).
    pub dev: bool,
    /// Directory in which the process keeps its data; empty if it keeps none beyond its end.
    pub data_dir: String,
}

impl Server {
    /// Binds the address and starts to listen.
    ///
    /// # Errors
    /// If the address cannot be bound or listened on.
    pub fn bind(args: Args) -> anyhow::Result<Self> {
        let listen = |addr: SocketAddr| {
            let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            socket.set_reuseaddr(true)?;
            // The connections inherit it.
            SockRef::from(&socket).set_tcp_user_timeout(Some(UNSENT_MAX))?;
            socket.bind(addr)?;
            socket.listen(BACKLOG)?.into_std()
        };
        let listener =
            listen(args.http_addr).with_context(|| format!("cannot listen on {}", args.http_addr))?;
        let addr = listener.local_addr().context("cannot read the listening address")?;
        Ok(Self { limits: args.limits(), args, listener, addr, colocated: Colocated::default() })
    }

    /// Sets the other roles of the process.
    #[must_use]
    pub fn with_colocated(self, colocated: Colocated) -> Self {
        Self { colocated, ..self }
    }

    /// Address that the server listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves requests until `stop` is cancelled.
    ///
    /// # Errors
    /// If the HTTP server fails.
    pub async fn run(
        self,
        bus: Bus,
        replica: Arc<Replica>,
        contact: Contact,
        process: ProcessId,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let Self { limits, args, listener, addr, colocated } = self;
        let cores = || available_parallelism().map_or(1, usize::from);
        let workers = args.http_workers.unwrap_or_else(cores).clamp(1, WORKERS_MAX);
        let parts =
            Parts { limits, args, addr, colocated, bus, replica, contact, process, stop: stop.clone() };
        let (api, tasks) = parts.start();
        let app = move || App::new().app_data(Data::clone(&api)).default_service(web::to(serve::serve));
        let server = HttpServer::new(app)
            .workers(workers)
            .max_connections(CONNECTIONS_MAX.div_ceil(workers))
            .client_request_timeout(HEAD_TIMEOUT)
            .keep_alive(KEEP_ALIVE)
            .on_connect(|_, extensions| drop(extensions.insert(Connection::opened())))
            // Without half-closed connections, the server notices a client that disconnects during a blocking query or a
            // log stream.
            .h1_allow_half_closed(false)
            .shutdown_timeout(SHUTDOWN_SECS)
            .disable_signals()
            .listen(listener)
            .context("cannot start the HTTP server")?
            .run();
        let handle = server.handle();
        tracing::info!(%addr, "serving HTTP");
        let stopping = async {
            stop.cancelled().await;
            handle.stop(true).await;
        };
        let serving = async { tokio::join!(server, stopping).0 };
        let served = until_deadline(serving, &stop, SHUTDOWN_MAX).await;
        tasks.iter().for_each(JoinHandle::abort);
        served.context("the HTTP server failed")
    }
}

/// What the context of requests is made of.
struct Parts {
    limits: Limits,
    args: Args,
    addr: SocketAddr,
    colocated: Colocated,
    bus: Bus,
    replica: Arc<Replica>,
    contact: Contact,
    process: ProcessId,
    stop: CancellationToken,
}

impl Parts {
    /// Makes the context, and starts the tasks that it depends on.
    fn start(self) -> (Data<Api>, [JoinHandle<()>; 3]) {
        let Self { limits, args, addr, colocated, bus, replica, contact, process, stop } = self;
        let (head_client, head_requests) = head_client(bus.clone());
        let recent_changes = Arc::<RecentChanges>::default();
        let metrics = Arc::new(Metrics::new(args.published_metrics()));
        let tasks = [
            tokio::spawn(head_requests),
            tokio::spawn(Arc::clone(&recent_changes).follow(Arc::clone(&replica))),
            tokio::spawn(Arc::clone(&metrics).collect(bus.clone(), Arc::clone(&replica))),
        ];
        let response_memory = Memory::new(RESPONSE_MEMORY_MAX);
        let api = Data::new(Api {
            limits,
            rules: args.rules(),
            origins: Origins::new(&args.http_allowed_hosts, &args.http_allowed_origins, addr),
            background: Arc::default(),
            permits: Permits::default(),
            request_memory: Memory::new(REQUEST_MEMORY_MAX),
            head_client,
            response_cache: Arc::new(ResponseCache::new(response_memory.clone())),
            response_memory,
            recent_changes,
            metrics,
            spans: Spans::default(),
            failure_log: FailureLog::default(),
            bus,
            replica,
            contact,
            process,
            addr,
            colocated,
            args,
            stop,
        });
        (api, tasks)
    }
}

/// Waits until the server has ended, but after `stop` is cancelled not longer than `deadline`.
async fn until_deadline(
    serving: impl Future<Output = std::io::Result<()>>,
    stop: &CancellationToken,
    deadline: Duration,
) -> std::io::Result<()> {
    let expired = async {
        stop.cancelled().await;
        tokio::time::sleep(deadline).await;
    };
    tokio::select! {
        served = serving => served,
        () = expired => {
            let within_ms = deadline.as_millis();
            tracing::warn!(within_ms, "requests in progress did not end in time, and are cut off");
            Ok(())
        }
    }
}

/// Listens and serves until `stop` is cancelled.
///
/// # Errors
/// If the address cannot be listened on, or the HTTP server fails.
pub async fn run(
    args: Args,
    bus: Bus,
    replica: Arc<Replica>,
    contact: Contact,
    process: ProcessId,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    Server::bind(args)?.run(bus, replica, contact, process, stop).await
}

/// Number of open connections of all API servers in this process.
static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);

/// Guard that counts one open connection until it is dropped.
struct Connection;

impl Connection {
    fn opened() -> Self {
        record_connections(CONNECTIONS.fetch_add(1, Ordering::Relaxed) + 1);
        Self
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        record_connections(CONNECTIONS.fetch_sub(1, Ordering::Relaxed) - 1);
    }
}

fn record_connections(connections: usize) {
    API_CONNECTIONS.set(connections as f64);
    AGENT_HTTP_CONNECTIONS.set(connections as f64);
}

/// Context of every request, shared by all worker threads.
#[derive(Debug)]
struct Api {
    args: Args,
    limits: Limits,
    rules: admission::Rules,
    origins: Origins,
    background: Arc<Background>,
    permits: Permits,
    request_memory: Memory,
    response_memory: Memory,
    bus: Bus,
    replica: Arc<Replica>,
    contact: Contact,
    head_client: HeadClient,
    response_cache: Arc<ResponseCache>,
    recent_changes: Arc<RecentChanges>,
    metrics: Arc<Metrics>,
    spans: Spans,
    failure_log: FailureLog,
    process: ProcessId,
    addr: SocketAddr,
    colocated: Colocated,
    stop: CancellationToken,
}

impl Api {
    /// Sends a command to the applier, on behalf of a request with these parameters.
    ///
    /// # Errors
    /// With the status and text of http-api §9. This includes commands whose outcome is unknown.
    async fn command(&self, query: &Query, command: &Command) -> Result<Done, Error> {
        self.check_region(query)?;
        self.bus
            .command(command, self.limits.leader_timeout)
            .await
            .map_err(|error| self.command_error(&error))
    }

    /// Like [`Self::command`], for routes that tell what was refused by the status: 404 for what does not exist, 400 for
    /// what is not valid.
    ///
    /// # Errors
    /// Those of [`Self::command`], with these statuses.
    async fn command_by_kind(&self, query: &Query, command: &Command) -> Result<Done, Error> {
        self.check_region(query)?;
        self.bus.command(command, self.limits.leader_timeout).await.map_err(|error| {
            let CommandError::Refused(Refusal { kind, message }) = &error else {
                return self.command_error(&error);
            };
            match kind {
                RefusalKind::NotFound => Error::not_found(&**message),
                RefusalKind::Invalid => Error::bad_request(&**message),
                RefusalKind::Conflict
                | RefusalKind::NotReady
                | RefusalKind::Outdated
                | RefusalKind::Deposed
                | RefusalKind::Forbidden
                | RefusalKind::OutcomeUnknown => self.command_error(&error),
            }
        })
    }

    /// Converts the failure of a command into the error for the client.
    fn command_error(&self, error: &CommandError) -> Error {
        match error {
            CommandError::Refused(Refusal { kind, message }) => match kind {
                RefusalKind::NotFound | RefusalKind::Conflict | RefusalKind::Invalid => {
                    Error::failed(&**message)
                }
                RefusalKind::NotReady
                | RefusalKind::Outdated
                | RefusalKind::Deposed
                | RefusalKind::Forbidden
                | RefusalKind::OutcomeUnknown => Error::unavailable(&**message),
            },
            CommandError::Unavailable { .. } => {
                let (_, is_known) = self.contact(true);
                if !is_known {
                    return self.no_leader();
                }
                Error::unavailable(format!("{error}; the command may have been executed nevertheless"))
            }
            CommandError::Unreadable(_) => Error::unavailable(telemetry::chain(error)),
            CommandError::TooLarge { .. } => Error::too_large(error.to_string()),
        }
    }
}
