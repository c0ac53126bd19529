//! Starting and stopping all of it in order: what an earlier run left goes on first, before anybody is asked.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bus::Bus;
use model::node::NodeSpec;
use model::{NodeId, Text};
use telemetry::clock;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use wire::Subject;

use crate::allocs::{Allocs, Order};
use crate::config::{Args, Config, state_dir};
use crate::contact::Contact;
use crate::context::{Context, host_env};
use crate::driver::Drivers;
use crate::driver::mock::{self, Mock};
use crate::driver::raw_exec::{self, RawExec};
use crate::files;
use crate::fingerprint::{Machine, is_same, node_spec};
use crate::follow::Follow;
use crate::identity::Identity;
use crate::presence::Presence;
use crate::reporter::Reporter;
use crate::stats::Stats;
use crate::store::Store;
use crate::task::dirs::build_parent;
use crate::task::names::NodeFacts;

/// How often the node is looked at again.
const FINGERPRINT_EVERY: Duration = Duration::from_secs(60);
/// How many orders wait for the allocations.
const ORDERS_MAX: usize = 16;
/// How many states wait for the reporter; allocations wait for room.
const TOLD_MAX: usize = 1_024;

/// How long the last report may take when the agent ends.
const LAST_REPORT_WITHIN: Duration = Duration::from_secs(2);

/// The id of the node that an agent with these settings is on. If it is the first time, the id is the one that the agent's
/// credentials were `issued_for`, or a new one.
///
/// # Errors
/// If the data directory cannot be used, or is that of another node than the credentials are for.
pub fn node_id(args: &Args, issued_for: Option<NodeId>) -> anyhow::Result<NodeId> {
    let store = open_store(args)?;
    let node = Identity::node(&store, issued_for).context("cannot read or make the node's id")?;
    match issued_for {
        Some(issued_for) if issued_for != node => bail!(
            "the NATS credentials are those of node {issued_for}, and the data directory {} is that of node {node}: use the \
             credentials of this node, or an empty data directory for the other one",
            args.data_dir.display()
        ),
        Some(_) | None => Ok(node),
    }
}

fn open_store(args: &Args) -> anyhow::Result<Store> {
    // Made by itself: what is made on the way to the state directory is as closed as that.
    std::fs::create_dir_all(&args.data_dir)
        .with_context(|| format!("cannot make the data directory {}", args.data_dir.display()))?;
    let dir = state_dir(&std::path::absolute(&args.data_dir)?);
    Store::open(&dir).with_context(|| format!("cannot use the state directory {}", dir.display()))
}

/// Runs the agent over a connection that is there already.
///
/// # Errors
/// If its settings or its data directory cannot be used.
pub async fn run(args: Args, bus: Bus, stop: CancellationToken) -> anyhow::Result<()> {
    run_connecting(args, std::future::ready(Ok(bus)), Presence::default(), stop).await
}

/// Runs the agent. What an earlier run left goes on while it connects. How it stands with the servers shows in `presence`.
///
/// Tasks run on when it stops, unless the settings say that they end with it.
///
/// # Errors
/// If its settings or its data directory cannot be used, or the connection cannot be set up.
pub async fn run_connecting(
    args: Args,
    connecting: impl Future<Output = Result<Bus, bus::Error>>,
    presence: Presence,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    Box::pin(work(args, connecting, presence, stop)).await
}

async fn work(
    args: Args,
    connecting: impl Future<Output = Result<Bus, bus::Error>>,
    presence: Presence,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let store = open_store(&args)?;
    let config = Config::new(args)?;
    build_parent(&config.allocs_dir()).with_context(|| {
        format!("cannot use the allocations' directory {}", config.allocs_dir().display())
    })?;
    let identity = Identity::begin_boot(&store).context("cannot read or make the agent's identity")?;
    let machine = Arc::new(Machine::look(&config.allocs_dir()));
    let drivers = drivers(&config);
    let spec = Arc::new(node_spec(&config, &identity, &machine, &drivers, clock::now()));
    tracing::info!(node.id = %identity.node, node.name = &*spec.name, boot = identity.boot, "agent starts");

    let (contacted, seen) = watch::channel(false);
    let context = Arc::new(Context {
        node: facts(&config, &identity, &spec),
        host_env: host_env(&config.env_denylist),
        drivers,
        store,
        contacted: seen,
        config,
    });
    let standing = presence.standing();
    let (told, mut inbox) = mpsc::channel(TOLD_MAX);
    let (orders, asked) = mpsc::channel(ORDERS_MAX);
    let mut allocs = Allocs::new(Arc::clone(&context), told, contacted, standing.subscribe());
    let mut reports = allocs.restore().context("cannot read what an earlier run left")?;
    let allocs = tokio::spawn(allocs.run(asked));

    // Ends with this function, whatever the way.
    let mut services = JoinSet::new();
    let mut reporting = JoinSet::new();
    tokio::pin!(connecting);
    let connected = loop {
        tokio::select! {
            bus = &mut connecting => break Some(bus?),
            // Allocations must not wait for somebody to listen.
            Some(told) = inbox.recv() => reports.take(told),
            () = stop.cancelled() => break None,
        }
    };
    if let Some(bus) = connected {
        let all_reported = Arc::new(Notify::new());
        let reporter = Reporter::new(
            bus.clone(),
            Arc::clone(&context),
            identity.clone(),
            reports,
            Arc::clone(&all_reported),
        );
        reporting.spawn(reporter.run(inbox, standing.subscribe()));
        let wakes = bus.serve(Subject::AgentWake(identity.node).to_string()).await?;
        let (to_follow, news) = Follow::news();
        services.spawn(Follow::listen(wakes, standing.clone(), to_follow));
        let requests = bus.serve(Subject::AgentFiles(identity.node).to_string()).await?;
        services.spawn(files::serve(Arc::clone(&context), requests));
        let wishes = bus.serve(Subject::AgentTasks(identity.node).to_string()).await?;
        services.spawn(crate::orders::serve(wishes, orders.clone()));
        let questions = bus.serve(Subject::AgentStats(identity.node).to_string()).await?;
        let stats = Arc::new(Stats::new(Arc::clone(&context), Arc::clone(&machine), standing.subscribe()));
        services.spawn(crate::stats::serve(stats, questions));
        let unknown = Arc::new(Notify::new());
        let spec = watch::Sender::new(spec);
        let contact = Contact {
            bus: bus.clone(),
            identity: identity.clone(),
            spec: spec.subscribe(),
            standing: standing.clone(),
            unknown: Arc::clone(&unknown),
            all_reported,
            first_within: context.config.first_heartbeat_within,
        };
        services.spawn(contact.run());
        let allocs = orders.clone();
        let follow = Follow { bus, identity: identity.clone(), standing, unknown, allocs, news };
        services.spawn(follow.run());
        services.spawn(look_again(Arc::clone(&context), identity, machine, spec));
        stop.cancelled().await;
    }

    if context.config.stop_tasks_on_exit {
        let (done, all_ended) = oneshot::channel();
        if orders.send(Order::StopAll(done)).await.is_ok() {
            let _ = all_ended.await;
        }
    }
    services.shutdown().await;
    drop(orders);
    allocs.await?;
    // Nobody tells the reporter anything any more: it sends what it knows, and ends.
    if timeout(LAST_REPORT_WITHIN, reporting.join_all()).await.is_err() {
        tracing::warn!("ended without having reported how the last allocations fare");
    }
    tracing::info!("agent ended");
    Ok(())
}

fn drivers(config: &Config) -> Drivers {
    let mut drivers = Drivers::default();
    if let Some(settings) = &config.raw_exec {
        drivers = drivers.with(raw_exec::NAME, RawExec::new(settings.clone(), config.executor.clone()));
    }
    if config.mock_driver {
        drivers = drivers.with(mock::NAME, Mock);
    }
    drivers
}

fn facts(config: &Config, identity: &Identity, spec: &NodeSpec) -> NodeFacts {
    NodeFacts {
        id: Some(identity.node),
        name: Text::clone(&spec.name),
        datacenter: Text::clone(&spec.datacenter),
        region: Text::clone(&config.region),
        class: Text::clone(&spec.node_class),
        pool: Text::clone(&spec.node_pool),
        attributes: spec.attributes.clone(),
        meta: spec.meta.clone(),
    }
}

/// Looks at the node again from time to time; what has changed is registered.
async fn look_again(
    context: Arc<Context>,
    identity: Identity,
    machine: Arc<Machine>,
    spec: watch::Sender<Arc<NodeSpec>>,
) {
    let mut ticks = interval(FINGERPRINT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let (context, identity, machine) = (Arc::clone(&context), identity.clone(), Arc::clone(&machine));
        let look = move || node_spec(&context.config, &identity, &machine, &context.drivers, clock::now());
        let Ok(found) = tokio::task::spawn_blocking(look).await else { return };
        spec.send_if_modified(|known| {
            let changed = !is_same(known, &found);
            if changed {
                *known = Arc::new(found);
            }
            changed
        });
    }
}
