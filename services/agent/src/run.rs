//! Starts and stops the parts of the agent in order. Allocations of the previous run continue before the agent
//! contacts the servers.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bus::Bus;
use model::node::NodeSpec;
use model::{AllocId, NodeId, Text};
use telemetry::{chain, clock};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use wire::Subject;

use crate::alloc::allocs::{Allocs, AllocsCommand};
use crate::cgroups::Cgroups;
use crate::checks;
use crate::checks::core::Restart;
use crate::context::{Context, renderings};
use crate::devices::nvidia::Nvidia;
use crate::devices::{DevicePlugin, Devices};
use crate::disk::dirs::build_parent;
use crate::disk::secrets::{Storage, unmount_all};
use crate::disk::store::Store;
use crate::dns::Dns;
use crate::driver;
use crate::driver::docker::create::NodeNames;
use crate::driver::running::RunningTasks;
use crate::networks::Networks;
use crate::node::config::{Args, Config};
use crate::node::data_dir::DataDir;
use crate::node::facts::NodeFacts;
use crate::node::fingerprint::{
    Machine, is_same, node_spec, with_attributes, with_devices, with_meta, with_volumes,
};
use crate::node::host_env::HostEnv;
use crate::node::identity::Identity;
use crate::node::meta::NodeMeta;
use crate::node::presence::Presence;
use crate::reports::actor::Reporter;
use crate::requests::meta::MetaRequests;
use crate::requests::stats::{self, Stats};
use crate::requests::volumes;
use crate::requests::{exec, files, tasks};
use crate::servers::contact::Contact;
use crate::servers::follow::WorkFollower;
use crate::servers::leave::Leaving;
use crate::services::Services;
use crate::services::consul::{Attributes, Consul};
use crate::services::directory;
use crate::services::registrar::Registrar;
use crate::starts::Starts;
use crate::task::commands::{TaskAction, TaskSelector, TasksCommand};
use crate::volumes::HostVolumes;

/// How often the node is fingerprinted again.
const FINGERPRINT_INTERVAL: Duration = Duration::from_secs(60);
/// The capacity of the channel for commands to the allocations.
const COMMANDS_MAX: usize = 16;
/// The capacity of the channel for events of allocations. Allocations wait while it is full.
const EVENTS_MAX: usize = 1_024;
/// The capacity of the channel for restarts by checks. Further ones are tried again later.
const RESTARTS_MAX: usize = 256;

/// How long the agent's start waits for lost host volumes to be created again.
const VOLUMES_RESTORE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the last reports may take when the agent ends.
const LAST_REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the agent with its data directory. The allocations of the previous run continue while the agent connects.
/// `presence` shows the node's registration.
///
/// Tasks keep running after the agent stops, unless the settings say otherwise. When `leave` is cancelled,
/// the agent drains its node, if the settings ask for it, and stops.
///
/// # Errors
/// If the settings or the data directory cannot be used, or the connection cannot be set up.
pub async fn run_connecting(
    args: Args,
    data_dir: DataDir,
    connecting: impl Future<Output = Result<Bus, bus::Error>>,
    presence: Presence,
    stop: CancellationToken,
    leave: CancellationToken,
) -> anyhow::Result<()> {
    Box::pin(run_parts(args, data_dir, connecting, presence, stop, leave)).await
}

async fn run_parts(
    args: Args,
    data_dir: DataDir,
    connecting: impl Future<Output = Result<Bus, bus::Error>>,
    presence: Presence,
    stop: CancellationToken,
    leave: CancellationToken,
) -> anyhow::Result<()> {
    let store = data_dir.store().clone();
    let config = Config::new(args)?;
    build_parent(&config.allocs_dir()).with_context(|| {
        format!("cannot create the directory for allocations {}", config.allocs_dir().display())
    })?;
    let identity = Identity::begin_boot(&store).context("cannot read or create the agent's identity")?;
    let machine = Arc::new(Machine::detect(&config.allocs_dir()));
    let dns = config.dns.clone().map(|settings| Dns::bind(settings, &config.networks.bridge)).transpose()?;
    let networks = Networks::new(config.networks.clone(), config.networks_dir())
        .with_name_server(dns.as_ref().and_then(|dns| dns.on_bridge));
    let detected = networks.detect().await;
    let node = NodeNames {
        id: identity.node.to_string(),
        name: config.node_name.as_deref().unwrap_or(machine.host_name()).to_owned(),
    };
    let cgroups = Cgroups::detect(&config.cgroup_parent, &config.reserved.cores);
    let drivers = driver::all(&config.drivers, node, cgroups.is_some());
    let devices = devices(&config);
    let now = clock::now();
    let meta = Arc::new(NodeMeta::load(&store, config.meta.clone()));
    let spec = node_spec(&config, &identity, &machine, &drivers, &detected, cgroups.as_ref(), now);
    let spec = with_devices(spec, devices.fingerprint().await);
    let host_volumes = load_volumes(&store, &config, &identity).await;
    let spec = with_volumes(spec, host_volumes.found());
    let spec = Arc::new(with_meta(spec, meta.current().all()));
    tracing::info!(node.id = %identity.node, node.name = &*spec.name, boot = identity.boot, "agent starting");

    let consul = config.consul.as_ref().map(Consul::new).transpose()?;
    let consul_attributes = consul.as_ref().map(Consul::attributes);
    let (contacted, contacted_receiver) = watch::channel(false);
    let context = Arc::new(Context {
        node: NodeFacts::new(&config, &identity, &spec, &meta.current()),
        host_env: HostEnv::read(&config.env_allowlist, &config.env_denylist),
        secrets: Storage::detect(),
        networks,
        checks: Arc::default(),
        services: Services { consul, ..Services::default() },
        volumes: Arc::clone(&host_volumes),
        running: RunningTasks::default(),
        drivers,
        cgroups,
        devices,
        starts: Starts::new(config.limits.concurrent_starts_max),
        store,
        renderings: renderings(),
        contacted: contacted_receiver,
        config,
    });
    let contact_state = presence.contact_state();
    let (events, mut event_receiver) = mpsc::channel(EVENTS_MAX);
    let (commands, command_receiver) = mpsc::channel(COMMANDS_MAX);
    let known = context.store.allocs().context("cannot read the allocations of the previous run")?;
    let lost_networks = remove_lost_networks(Arc::clone(&context), known.into_iter().collect());
    let lost_networks = tokio::spawn(lost_networks);
    let mut allocs = Allocs::new(Arc::clone(&context), events, contacted, contact_state.subscribe());
    let mut reports = allocs.restore().context("cannot read the allocations of the previous run")?;
    let node = identity.node;
    remove_left_cgroups(&context, node);
    let allocs = tokio::spawn(allocs.run(command_receiver));

    // Dropping the set at the end of this function aborts its tasks.
    let mut services = JoinSet::new();
    let (restarts, restart_receiver) = mpsc::channel(RESTARTS_MAX);
    let (store, running) = (context.store.clone(), context.running.clone());
    services.spawn(checks::runner::run(Arc::clone(&context.checks), store, running, restarts));
    services.spawn(restart_tasks(restart_receiver, commands.clone()));
    let mut reporting = JoinSet::new();
    if let Some(consul) = &context.services.consul {
        // Consul is on this machine, and does not wait for the servers.
        services.spawn(consul.clone().fingerprint());
        services.spawn(consul.clone().run(node));
        services.spawn(consul.clone().follow_checks(Arc::clone(&context.checks)));
        services.spawn(consul.clone().report_checks(Arc::clone(&context.checks)));
    }
    if let Some(dns) = dns {
        // Other names are answered at once, and those of services as soon as the servers can be asked.
        let directory = context.services.directory.clone();
        dns.run(directory, Arc::clone(&context.checks), node, &mut services);
    }
    tokio::pin!(connecting);
    let connected = loop {
        tokio::select! {
            bus = &mut connecting => break Some(bus?),
            // Allocations must not wait for the reporter to start.
            Some(event) = event_receiver.recv() => reports.handle(event),
            () = stop.cancelled() => break None,
            () = leave.cancelled() => break None,
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
        reporting.spawn(reporter.run(event_receiver, contact_state.subscribe()));
        let wake_requests = bus.serve(Subject::AgentWake(identity.node).to_string()).await?;
        let (wake_sender, wakes) = WorkFollower::wake_channel();
        services.spawn(WorkFollower::listen(wake_requests, contact_state.clone(), wake_sender));
        let file_requests = bus.serve(Subject::AgentFiles(identity.node).to_string()).await?;
        services.spawn(files::serve(Arc::clone(&context), file_requests));
        let task_requests = bus.serve(Subject::AgentTasks(identity.node).to_string()).await?;
        services.spawn(tasks::serve(task_requests, commands.clone()));
        let exec_requests = bus.serve(Subject::AgentExec(identity.node).to_string()).await?;
        services.spawn(exec::serve(Arc::clone(&context), exec_requests));
        let stats_requests = bus.serve(Subject::AgentStats(identity.node).to_string()).await?;
        let stats =
            Arc::new(Stats::new(Arc::clone(&context), Arc::clone(&machine), contact_state.subscribe()));
        let node_unknown = Arc::new(Notify::new());
        let spec = Arc::new(watch::Sender::new(spec));
        let meta_requests = MetaRequests { meta: Arc::clone(&meta), spec: Arc::clone(&spec) };
        services.spawn(stats::serve(stats, meta_requests, stats_requests));
        let volume_requests = bus.serve(Subject::AgentVolumes(identity.node).to_string()).await?;
        services.spawn(volumes::serve(Arc::clone(&host_volumes), Arc::clone(&spec), volume_requests));
        let contact = Contact {
            bus: bus.clone(),
            identity: identity.clone(),
            spec: spec.subscribe(),
            contact_state: contact_state.clone(),
            node_unknown: Arc::clone(&node_unknown),
            all_reported,
            first_within: context.config.first_heartbeat_within,
        };
        services.spawn(contact.run());
        let registrar = Registrar {
            bus: bus.clone(),
            identity: identity.clone(),
            datacenter: context.node.datacenter.clone(),
            registry: context.services.cluster.clone(),
            contact_state: contact_state.subscribe(),
        };
        services.spawn(registrar.run());
        let directory = directory::Follower {
            bus: bus.clone(),
            identity: identity.clone(),
            directory: context.services.directory.clone(),
            contact_state: contact_state.subscribe(),
        };
        services.spawn(directory.run());
        // Nothing new is set up before, so that only what was lost is removed.
        tokio::select! {
            removed = lost_networks => removed?,
            () = stop.cancelled() => {}
        }
        let leaving = Leaving { bus: bus.clone(), identity: identity.clone() };
        let allocs = commands.clone();
        let follow =
            WorkFollower { bus, identity: identity.clone(), contact_state, node_unknown, allocs, wakes };
        services.spawn(follow.run());
        let refresh =
            refresh_fingerprint(Arc::clone(&context), identity, machine, meta, spec, consul_attributes);
        services.spawn(refresh);
        tokio::select! {
            () = stop.cancelled() => {}
            () = leaving.drain_after(&leave, context.config.leave) => {}
        }
    }

    if context.config.stop_tasks_on_exit {
        let (done, all_ended) = oneshot::channel();
        if commands.send(AllocsCommand::StopAll(done)).await.is_ok() {
            let _ = all_ended.await;
        }
        // No task needs the mounts any more, and a data directory that contains mounts could not be removed.
        if let Err(error) = unmount_all(&context.config.allocs_dir()) {
            tracing::warn!(error = chain(&error), "cannot unmount the secrets of tasks");
        }
    }
    services.shutdown().await;
    drop(commands);
    allocs.await?;
    // The reporter's inbox is closed: it sends the remaining reports and ends.
    if timeout(LAST_REPORT_TIMEOUT, reporting.join_all()).await.is_err() {
        tracing::warn!("stopped without reporting the last allocation states");
    }
    if let Some(cgroups) = &context.cgroups {
        cgroups.leave(node);
    }
    drop(data_dir);
    tracing::info!("agent stopped");
    Ok(())
}

/// Restarts tasks that failing checks want restarted. Nobody waits for the restarts.
async fn restart_tasks(mut restarts: mpsc::Receiver<Restart>, commands: mpsc::Sender<AllocsCommand>) {
    while let Some(Restart { alloc, task, reason }) = restarts.recv().await {
        let (done, _) = oneshot::channel();
        let command = TasksCommand {
            selector: TaskSelector::running(task),
            action: TaskAction::RestartFailed { reason },
            done,
        };
        if commands.send(AllocsCommand::Tasks { alloc, command }).await.is_err() {
            return;
        }
    }
}

/// Removes the networks of allocations of which nothing else is left. The known ones are left to their runners.
async fn remove_lost_networks(context: Arc<Context>, known: BTreeSet<AllocId>) {
    context.networks.remove_others(&known).await;
}

/// Removes the control groups of allocations that the agent does not know any more, with what still runs in them. The rest
/// of the agent does not wait for it.
fn remove_left_cgroups(context: &Context, node: NodeId) {
    let Some(cgroups) = &context.cgroups else { return };
    let left = cgroups.leftovers(node).and_then(|mut left| {
        for known in context.store.allocs()? {
            left.remove(&known);
        }
        Ok(left)
    });
    let left = left.unwrap_or_else(|error| {
        tracing::warn!(error = chain(&error), "cannot look for cgroups that allocations have left behind");
        BTreeSet::new()
    });
    let cgroups = cgroups.clone();
    tokio::task::spawn_blocking(move || {
        for alloc in left {
            match cgroups.remove_alloc(alloc) {
                Ok(()) => {
                    tracing::info!(alloc.id = %alloc, "removed the cgroups of an allocation that is gone")
                }
                Err(error) => tracing::warn!(
                    alloc.id = %alloc, error = chain(&error),
                    "cannot remove the cgroups of an allocation that is gone"
                ),
            }
        }
    });
}

/// The host volumes of the node, restored from the agent's disk.
async fn load_volumes(store: &Store, config: &Config, identity: &Identity) -> Arc<HostVolumes> {
    let volumes =
        HostVolumes::load(store, config.volumes.clone(), identity.node, Text::clone(&config.node_pool));
    volumes.detect_plugins().await;
    // Tasks of the previous run wait for it, and so do the servers for the node.
    if timeout(VOLUMES_RESTORE_TIMEOUT, volumes.restore()).await.is_err() {
        tracing::warn!("host volumes that were lost are not restored in time; the node does not offer them");
    }
    Arc::new(volumes)
}

fn devices(config: &Config) -> Devices {
    let ignored = config.limits.nvidia_ignored.clone();
    let nvidia = config.limits.nvidia_smi.clone().map(|program| Nvidia::new(program, ignored));
    Devices::new(nvidia.into_iter().map(|plugin| Box::new(plugin) as Box<dyn DevicePlugin>).collect())
}

/// Fingerprints the node periodically and registers changes.
async fn refresh_fingerprint(
    context: Arc<Context>,
    identity: Identity,
    machine: Arc<Machine>,
    meta: Arc<NodeMeta>,
    spec: Arc<watch::Sender<Arc<NodeSpec>>>,
    mut consul: Option<watch::Receiver<Attributes>>,
) {
    let mut ticks = interval(FINGERPRINT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = changed(&mut consul) => {}
        }
        let attributes = consul.as_mut().map(|consul| consul.borrow_and_update().clone()).unwrap_or_default();
        let volumes = Arc::clone(&context.volumes);
        let (context, identity, machine) = (Arc::clone(&context), identity.clone(), Arc::clone(&machine));
        let detected = context.networks.detect().await;
        let devices = context.devices.fingerprint().await;
        let fingerprint = move || {
            let (drivers, cgroups) = (&context.drivers, context.cgroups.as_ref());
            let spec =
                node_spec(&context.config, &identity, &machine, drivers, &detected, cgroups, clock::now());
            with_attributes(with_devices(spec, devices), attributes)
        };
        let Ok(found) = tokio::task::spawn_blocking(fingerprint).await else { return };
        spec.send_if_modified(|current| {
            // A request may have changed the volumes or the metadata meanwhile.
            let found = with_meta(with_volumes(found, volumes.found()), meta.current().all());
            let changed = !is_same(current, &found);
            if changed {
                *current = Arc::new(found);
            }
            changed
        });
    }
}

/// Waits for a change of what the node shows of Consul.
async fn changed(consul: &mut Option<watch::Receiver<Attributes>>) {
    if let Some(consul) = consul
        && consul.changed().await.is_ok()
    {
        return;
    }
    // Nothing will change any more.
    std::future::pending().await
}
