//! Several parts of a cluster in one process: the servers, an agent, and a private PostgreSQL and nats-server where the
//! settings name no existing ones.

use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::{DataDir, Presence};
use anyhow::{Context as _, anyhow, bail};
use bus::Bus;
use clap::Parser as _;
use model::{NodeId, ProcessId};
use private_servers::{Nats, Postgres, PostgresOptions};
use state::{Scope, WatchKey};
use store::roles::{self, Passwords, script};
use tokio_util::sync::CancellationToken;
use wire::feed::{GetHead, Head};
use wire::{Role, Subject};

use crate::address::reachable;
use crate::health::{Parts, probe};
use crate::process::{Cluster, Process};
use crate::services;

/// How long to wait for the applier's answer to one probe, and how long to pause before the next.
const PROBE_TIMEOUT: Duration = Duration::from_millis(200);
const PROBE_INTERVAL: Duration = Duration::from_millis(20);

/// The parts that a process runs, and their settings.
pub(crate) struct Setup {
    /// The directory for all files.
    pub(crate) dir: PathBuf,
    /// How to connect to NATS. If absent, the process starts a private nats-server.
    pub(crate) nats: Option<bus::Args>,
    /// How to connect to the database. If absent, the process starts a private PostgreSQL.
    pub(crate) database: Option<store::Args>,
    pub(crate) servers: Option<Servers>,
    pub(crate) agent: Option<agent::Args>,
    /// Whether the agent's settings already contain the API's address.
    pub(crate) is_advertised: bool,
    /// Whether it is a development cluster.
    pub(crate) is_dev: bool,
    /// Whether the files are deleted when the process ends. A private PostgreSQL then need not flush what it writes.
    pub(crate) is_ephemeral: bool,
}

impl Setup {
    /// The services that the process runs.
    pub(crate) fn parts(&self) -> Parts {
        let servers = if self.servers.is_some() { Parts::SERVERS } else { Parts::AGENT };
        Parts { agent: self.agent.is_some(), ..servers }
    }

    /// Whether tasks or private servers stop with the process.
    pub(crate) fn stops_children(&self) -> bool {
        let has_private_servers = self.servers.is_some() && (self.nats.is_none() || self.database.is_none());
        has_private_servers || self.agent.as_ref().is_some_and(|agent| agent.stop_tasks_on_exit)
    }
}

/// The arguments of every service except the agent.
pub(crate) struct Servers {
    pub(crate) api: api::Args,
    pub(crate) plan_applier: plan_applier::Args,
    pub(crate) eval_broker: eval_broker::Args,
    pub(crate) node_tracker: node_tracker::Args,
    pub(crate) deployment_watcher: deployment_watcher::Args,
    pub(crate) scheduler: scheduler::Args,
}

/// How the services of one process log in to the database.
struct Databases {
    applier: store::Args,
    /// For all services but the plan applier. They share a replica of the whole state.
    others: store::Args,
}

impl Databases {
    /// Uses one role for all services. It must be the owner of the database, because the plan applier is among them.
    fn of_one_role(args: store::Args) -> Self {
        Self { applier: args.clone(), others: args }
    }

    /// Uses roles of services. Creates them in a private server, with new passwords at each start.
    async fn with_roles(server: &Postgres, is_ephemeral: bool) -> anyhow::Result<Self> {
        let passwords = Passwords::random();
        server.run_script(script("postgres", &passwords)).await?;
        let of = |role: roles::Role| {
            let password = passwords.of(role).expect("every role has a password");
            let url = server.url_as(&format!("{}:{password}", role.name()));
            let args = Parsed::<store::Args>::of(&["--database-url", &url]);
            store::Args { allow_unsafe_database: args.allow_unsafe_database || is_ephemeral, ..args }
        };
        Ok(Self { applier: of(roles::Role::PlanApplier), others: of(roles::Role::Api) })
    }
}

/// Runs the set-up until the process is stopped.
pub(crate) async fn run(process: Process, setup: Setup) -> anyhow::Result<()> {
    let Setup { dir, nats, database, servers, agent, is_advertised, is_dev, is_ephemeral } = setup;
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let dir = &std::path::absolute(dir)?;
    if let Some(nats) = &nats
        && servers.is_some()
        && agent.is_some()
        && nats.credentials.is_some()
        && nats.node_key.is_none()
    {
        bail!(
            "servers and an agent in one process need two identities for NATS: besides the credentials of the servers, \
             set the key that signs credentials of nodes (DROVER_NATS_NODE_KEY)"
        );
    }
    let Some(servers) = servers else {
        let (nats, agent) = nats.zip(agent).expect("a set-up without servers has an agent and its NATS");
        return services::agent(process, nats, agent).await;
    };
    // Binds before it starts anything, so that an address in use is reported at once.
    let server = api::Server::bind(servers.api.clone())?;
    let data_dir = match &agent {
        Some(agent) => Some(DataDir::open(agent).await?),
        None => None,
    };
    let server = server.with_colocated(api::Colocated {
        node: data_dir.as_ref().map(|data_dir| data_dir.node_id(None)).transpose()?,
        workers: servers.scheduler.worker_count(),
        schedulers: servers.scheduler.schedulers.clone(),
        dev: is_dev,
        data_dir: if is_dev || is_ephemeral { String::new() } else { dir.display().to_string() },
    });
    let agent = agent.map(|agent| {
        let advertised =
            if is_advertised { agent.http_addr.clone() } else { reachable(server.addr()).to_string() };
        // An agent with its own servers need not spread its first heartbeat over time.
        agent::Args { http_addr: advertised, first_heartbeat_within_ms: 0, ..agent }
    });
    let stop = process.stop.clone();
    let starting = async {
        tokio::try_join!(
            async { if nats.is_none() { Nats::start(dir).await.map(Some) } else { Ok(None) } },
            async {
                let options =
                    PostgresOptions { survives_power_loss: !is_ephemeral, ..PostgresOptions::default() };
                if database.is_none() { Postgres::start_with(dir, options).await.map(Some) } else { Ok(None) }
            },
        )
    };
    let (own_nats, own_postgres) = tokio::select! {
        started = starting => started?,
        () = stop.cancelled() => return Ok(()),
    };
    let nats = own_nats.as_ref().map(private_nats).transpose()?.or(nats);
    let database = match &own_postgres {
        Some(own) => Some(Databases::with_roles(own, is_ephemeral).await?),
        None => database.map(Databases::of_one_role),
    };
    let mut process = process;
    if own_nats.is_some() && own_postgres.is_some() {
        process.id = persistent_id(dir)?;
        tracing::info!(process = %process.id, "continues under the process id of its directory");
    }
    let infra = nats.zip(database).expect("NATS and the database are given or private");
    let running = run_services(process, infra, servers, server, agent.zip(data_dir), dir);
    let result = Box::pin(running).await;
    // Stops both cleanly, so that the next start needs no recovery.
    let stopped = tokio::try_join!(
        async { if let Some(postgres) = own_postgres { postgres.stop().await } else { Ok(()) } },
        async { if let Some(nats) = own_nats { nats.stop().await } else { Ok(()) } },
    );
    result.and(stopped.map(drop).map_err(Into::into))
}

/// How to connect to a private nats-server. The servers use credentials of their own; the agent uses credentials that
/// the process signs.
fn private_nats(nats: &Nats) -> anyhow::Result<bus::Args> {
    let servers = vec![nats.url().parse().context("a private nats-server has a URL")?];
    let (credentials, node_key) = (nats.credentials(Role::Servers)?, nats.node_key()?);
    Ok(bus::Args { credentials, node_key, ..bus::Args::new(servers) })
}

/// Runs all services, and an agent if there is one, until the process is stopped. The agent stops first, so that the
/// servers still receive its last reports.
async fn run_services(
    mut process: Process,
    (nats, database): (bus::Args, Databases),
    servers: Servers,
    server: api::Server,
    agent: Option<(agent::Args, DataDir)>,
    dir: &Path,
) -> anyhow::Result<()> {
    let cluster = process.connect(&nats, Role::Servers, Scope::ALL).await?;
    let (id, stop, end) = (process.id, process.stop.clone(), CancellationToken::new());
    let (bus, replica) = (|| cluster.bus.clone(), || cluster.replica.clone());
    let prepared = process.unless_stopped(services::prepared_database(&database.applier)).await?;
    let applier = plan_applier::run(servers.plan_applier, prepared, bus(), replica(), id, end.clone());
    process.start("plan-applier", applier);
    // While the state is loaded, nothing else has to end before the applier.
    let ending = tokio::spawn({
        let (stop, end) = (stop.clone(), end.clone());
        async move {
            stop.cancelled().await;
            end.cancel();
        }
    });
    process.follow(&cluster, &database.others, Duration::ZERO).await?;
    ending.abort();

    let broker = eval_broker::run(servers.eval_broker, bus(), replica(), id, end.clone());
    process.start("eval-broker", broker);
    let tracker = node_tracker::run(servers.node_tracker, bus(), replica(), id, end.clone());
    process.start("node-tracker", tracker);
    let watcher = deployment_watcher::run(servers.deployment_watcher, bus(), replica(), id, end.clone());
    process.start("deployment-watcher", watcher);
    process.start("scheduler", scheduler::run(servers.scheduler, bus(), replica(), id, end.clone()));
    let address = server.addr();
    tokio::spawn(probe::api(process.health.clone(), reachable(address)));
    process.start("api", server.run(bus(), replica(), cluster.bus.contact(), id, end.clone()));

    let mut registered = None;
    match agent {
        None => process.start("end of the servers", async move {
            stop.cancelled().await;
            end.cancel();
            Ok(())
        }),
        Some((agent, data_dir)) => {
            let node = data_dir.node_id(None)?;
            let boot = boot(&cluster, node);
            registered = Some((node, boot));
            let nats = nats.clone();
            let bus = bus();
            let (presence, leave) = (Presence::default(), process.leaving());
            process.health.set_presence(presence.clone());
            let connecting = async move {
                applier_answers(&bus).await;
                Bus::connect_agent(&nats, node).await
            };
            process.start("agent", async move {
                let ended = agent::run_connecting(agent, data_dir, connecting, presence, stop, leave).await;
                end.cancel();
                ended
            });
        }
    }
    let ready = async {
        match registered {
            Some((node, boot)) => is_ready(&cluster, node, boot).await,
            None => applier_answers(&cluster.bus).await,
        }
        // The API names a leader once it has received an announcement of the head, which may follow the applier's answer.
        while cluster.bus.contact().head().is_none() {
            tokio::time::sleep(PROBE_INTERVAL).await;
        }
        announce(address, dir);
        std::future::pending::<()>().await;
    };
    let result = tokio::select! {
        ended = process.wait() => ended,
        () = ready => Ok(()),
    };
    // A private NATS ends next.
    cluster.bus.expect_end();
    result
}

/// Waits until the plan applier answers. Requests before that would fail, and be retried only after a longer pause.
async fn applier_answers(bus: &Bus) {
    let probe = || bus.request::<GetHead, Head>(Subject::Probe, &GetHead {}, PROBE_TIMEOUT);
    while probe().await.is_err() {
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
}

/// The boot number of the node's agent in the replica, if the node is known.
fn boot(cluster: &Cluster, node: NodeId) -> Option<u32> {
    cluster.replica.snapshot().node(node).map(|node| node.spec().boot)
}

/// Waits until jobs can be placed on the node and its boot number is not `before`.
async fn is_ready(cluster: &Cluster, node: NodeId, before: Option<u32>) {
    let mut watch = cluster.replica.watch([WatchKey::Node(node)]);
    while boot(cluster, node) == before
        || !cluster.replica.snapshot().node(node).is_some_and(|node| node.is_ready())
    {
        watch.changed().await;
    }
}

/// The process id that a directory's private servers run under. It is the same at each start, because only one process at
/// a time can use the directory. So a new process takes over the leases of the previous one without waiting for them to
/// expire.
fn persistent_id(dir: &Path) -> anyhow::Result<ProcessId> {
    let file = dir.join("process-id");
    match std::fs::read_to_string(&file) {
        Ok(text) => text.trim().parse().map_err(|_| anyhow!("no process id in {}", file.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let id = ProcessId::from_bytes(telemetry::clock::random_bytes());
            std::fs::write(&file, id.to_string())
                .with_context(|| format!("cannot write {}", file.display()))?;
            Ok(id)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Prints the address of the cluster once it is ready. A failure to print is ignored.
fn announce(address: SocketAddr, dir: &Path) {
    let (address, dir) = (reachable(address), dir.display());
    let text = format!("Drover is up at http://{address}; its files are in {dir}.\nCtrl-C stops it.");
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Arguments as parsed from given flags alone.
#[derive(clap::Parser)]
pub(crate) struct Parsed<A: clap::Args> {
    #[command(flatten)]
    args: A,
}

impl<A: clap::Args> Parsed<A> {
    /// Parses flags that are known to be valid. An error then comes from an environment variable, and ends the process.
    pub(crate) fn of(flags: &[&str]) -> A {
        Self::try_of(flags).unwrap_or_else(|error| error.exit())
    }

    pub(crate) fn try_of(flags: &[&str]) -> Result<A, clap::Error> {
        Self::try_parse_from(["drover"].iter().chain(flags)).map(|parsed| parsed.args)
    }
}
