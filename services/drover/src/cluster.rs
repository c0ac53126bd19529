//! Several parts of a cluster in one process: servers, an agent, and where nobody brings them, a PostgreSQL and a
//! nats-server of their own.

use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::Presence;
use anyhow::{Context as _, anyhow, bail};
use bus::Bus;
use clap::Parser as _;
use model::{NodeId, ProcessId};
use private_servers::{Nats, Postgres};
use state::{Scope, WatchKey};
use store::roles::{self, Passwords, script};
use tokio_util::sync::CancellationToken;
use wire::feed::{AskHead, Head};
use wire::{Role, Subject};

use crate::agent_command::reachable;
use crate::health::{Parts, probe};
use crate::process::{Cluster, Process};
use crate::services;

/// How long to wait for the applier's answer, and before asking it again.
const PROBE: Duration = Duration::from_millis(200);
const PROBE_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// What a process is to run.
pub(crate) struct Setup {
    /// Where files are kept.
    pub(crate) dir: PathBuf,
    /// Where NATS is; a private one if not given.
    pub(crate) nats: Option<bus::Args>,
    /// Where the database is; a private one if not given.
    pub(crate) database: Option<store::Args>,
    pub(crate) servers: Option<Servers>,
    pub(crate) agent: Option<agent::Args>,
    /// Whether the agent's settings name the API's address already.
    pub(crate) is_advertised: bool,
    /// Whether it is a cluster for one person.
    pub(crate) is_dev: bool,
}

impl Setup {
    /// What the process runs.
    pub(crate) fn parts(&self) -> Parts {
        let servers = if self.servers.is_some() { Parts::SERVERS } else { Parts::AGENT };
        Parts { agent: self.agent.is_some(), ..servers }
    }

    /// Whether tasks or private servers end with the process.
    pub(crate) fn ends_others(&self) -> bool {
        let has_private_servers = self.servers.is_some() && (self.nats.is_none() || self.database.is_none());
        has_private_servers || self.agent.as_ref().is_some_and(|agent| agent.stop_tasks_on_exit)
    }
}

/// Everything but the agent.
pub(crate) struct Servers {
    pub(crate) api: api::Args,
    pub(crate) plan_applier: plan_applier::Args,
    pub(crate) eval_broker: eval_broker::Args,
    pub(crate) node_tracker: node_tracker::Args,
    pub(crate) deployment_watcher: deployment_watcher::Args,
    pub(crate) scheduler: scheduler::Args,
}

/// The database, as the services of one process log in to it.
struct Databases {
    applier: store::Args,
    /// For everybody but the plan applier, who share a replica of the whole state.
    others: store::Args,
}

impl Databases {
    /// All as whoever the settings name: the owner of the database, for the plan applier is among them.
    fn of_one_role(args: store::Args) -> Self {
        Self { applier: args.clone(), others: args }
    }

    /// With the roles of services, which are made in a private server and get new passwords whenever it starts.
    async fn with_roles(server: &Postgres) -> anyhow::Result<Self> {
        let passwords = Passwords::random();
        server.run_script(script("postgres", &passwords)).await?;
        let of = |role: roles::Role| {
            let password = passwords.of(role).expect("every role is given one");
            let url = server.url_as(&format!("{}:{password}", role.name()));
            Parsed::<store::Args>::of(&["--database-url", &url])
        };
        Ok(Self { applier: of(roles::Role::PlanApplier), others: of(roles::Role::Api) })
    }
}

/// Runs it until the process is to stop.
pub(crate) async fn run(process: Process, setup: Setup) -> anyhow::Result<()> {
    let Setup { dir, nats, database, servers, agent, is_advertised, is_dev } = setup;
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let dir = &std::path::absolute(dir)?;
    if let Some(nats) = &nats
        && servers.is_some()
        && agent.is_some()
        && nats.credentials.is_some()
        && nats.node_key.is_none()
    {
        bail!(
            "servers and an agent in one process need two identities for NATS: beside the credentials of the servers \
             name the key that signs for nodes (DROVER_NATS_NODE_KEY)"
        );
    }
    let Some(servers) = servers else {
        let (nats, agent) = nats.zip(agent).expect("a set-up without servers has an agent and its NATS");
        return services::agent(process, nats, agent).await;
    };
    // Before anything is started, so that an address in use is said at once.
    let server = api::Server::bind(servers.api.clone())?.beside(api::Beside {
        node: agent.as_ref().map(|agent| agent::node_id(agent, None)).transpose()?,
        workers: servers.scheduler.worker_count(),
        schedulers: servers.scheduler.schedulers.clone(),
        dev: is_dev,
    });
    let agent = agent.map(|agent| {
        let advertised =
            if is_advertised { agent.http_addr.clone() } else { reachable(server.addr()).to_string() };
        // One that has its servers to itself need not spread its heartbeats.
        agent::Args { http_addr: advertised, first_heartbeat_within_ms: 0, ..agent }
    });
    let stop = process.stop.clone();
    let starting = async {
        tokio::try_join!(
            async { if nats.is_none() { Nats::start(dir).await.map(Some) } else { Ok(None) } },
            async { if database.is_none() { Postgres::start(dir).await.map(Some) } else { Ok(None) } },
        )
    };
    let (own_nats, own_postgres) = tokio::select! {
        started = starting => started?,
        () = stop.cancelled() => return Ok(()),
    };
    let nats = own_nats.as_ref().map(private_nats).transpose()?.or(nats);
    let database = match &own_postgres {
        Some(own) => Some(Databases::with_roles(own).await?),
        None => database.map(Databases::of_one_role),
    };
    let mut process = process;
    if own_nats.is_some() && own_postgres.is_some() {
        process.id = kept_id(dir)?;
    }
    let infra = nats.zip(database).expect("who does not bring them has private ones");
    let result = everything(process, infra, servers, server, agent, dir).await;
    // In order, so that the next start has nothing to recover.
    let stopped = tokio::try_join!(
        async { if let Some(postgres) = own_postgres { postgres.stop().await } else { Ok(()) } },
        async { if let Some(nats) = own_nats { nats.stop().await } else { Ok(()) } },
    );
    result.and(stopped.map(drop).map_err(Into::into))
}

/// How to connect to a private nats-server: the servers with credentials of theirs, the agent with those that it signs.
fn private_nats(nats: &Nats) -> anyhow::Result<bus::Args> {
    let servers = vec![nats.url().parse().context("a private nats-server has a URL")?];
    let (credentials, node_key) = (nats.credentials(Role::Servers)?, nats.node_key()?);
    Ok(bus::Args { credentials, node_key, ..bus::Args::new(servers) })
}

/// All services, and an agent if there is to be one, until the process is to stop. The agent ends first: what it has to
/// tell then, servers must hear.
async fn everything(
    mut process: Process,
    (nats, database): (bus::Args, Databases),
    servers: Servers,
    server: api::Server,
    agent: Option<agent::Args>,
    dir: &Path,
) -> anyhow::Result<()> {
    let cluster = process.connect(&nats, Role::Servers, Scope::ALL).await?;
    let (id, stop, end) = (process.id, process.stop.clone(), CancellationToken::new());
    let (bus, replica) = (|| cluster.bus.clone(), || cluster.replica.clone());
    let applier =
        plan_applier::run(servers.plan_applier, database.applier, bus(), replica(), id, end.clone());
    process.start("plan-applier", applier);
    process.follow(&cluster, &database.others, Duration::ZERO).await?;

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
        Some(agent) => {
            let node = agent::node_id(&agent, None)?;
            let boot = boot(&cluster, node);
            registered = Some((node, boot));
            let nats = nats.clone();
            let bus = bus();
            let presence = Presence::default();
            process.health.set_presence(presence.clone());
            let connecting = async move {
                applier_answers(&bus).await;
                Bus::connect_agent(&nats, node).await
            };
            process.start("agent", async move {
                let ended = agent::run_connecting(agent, connecting, presence, stop).await;
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
        // The API names a leader once it has heard of one, which the first announcement after that may bring.
        while cluster.bus.contact().head().is_none() {
            tokio::time::sleep(PROBE_AGAIN_AFTER).await;
        }
        announce(address, dir);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = process.wait() => ended,
        () = ready => Ok(()),
    }
}

/// Waits until the cluster can be written to. Before that, whoever asks waits longer to ask again.
async fn applier_answers(bus: &Bus) {
    let probe = || bus.request::<AskHead, Head>(Subject::Probe, &AskHead {}, PROBE);
    while probe().await.is_err() {
        tokio::time::sleep(PROBE_AGAIN_AFTER).await;
    }
}

/// Which boot of the node's agent is known, if any is.
fn boot(cluster: &Cluster, node: NodeId) -> Option<u32> {
    cluster.replica.snapshot().node(node).map(|node| node.spec().boot)
}

/// Waits until jobs can be placed on the node, in another boot than the one that was known before.
async fn is_ready(cluster: &Cluster, node: NodeId, before: Option<u32>) {
    let mut watch = cluster.replica.watch([WatchKey::Node(node)]);
    while boot(cluster, node) == before
        || !cluster.replica.snapshot().node(node).is_some_and(|node| node.is_ready())
    {
        watch.changed().await;
    }
}

/// The id of the process that has a directory's private servers: always the same one, since there can be but one. So it
/// takes up the leases that the one before it held, without waiting until they are over.
fn kept_id(dir: &Path) -> anyhow::Result<ProcessId> {
    let file = dir.join("process-id");
    match std::fs::read_to_string(&file) {
        Ok(text) => text.trim().parse().map_err(|_| anyhow!("no id in {}", file.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let id = ProcessId::from_bytes(telemetry::clock::random_bytes());
            std::fs::write(&file, id.to_string())
                .with_context(|| format!("cannot write {}", file.display()))?;
            Ok(id)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Says what people wait for. If nobody reads it, there is nobody to tell.
fn announce(address: SocketAddr, dir: &Path) {
    let (address, dir) = (reachable(address), dir.display());
    let text = format!("Drover is up at http://{address}; its files are in {dir}.\nCtrl-C stops it.");
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Settings as if somebody had given these flags and no others.
#[derive(clap::Parser)]
pub(crate) struct Parsed<A: clap::Args> {
    #[command(flatten)]
    args: A,
}

impl<A: clap::Args> Parsed<A> {
    /// For flags that are known to be good; what is wrong then is the environment, and ends the process.
    pub(crate) fn of(flags: &[&str]) -> A {
        Self::try_of(flags).unwrap_or_else(|error| error.exit())
    }

    pub(crate) fn try_of(flags: &[&str]) -> Result<A, clap::Error> {
        Self::try_parse_from(["drover"].iter().chain(flags)).map(|parsed| parsed.args)
    }
}
