//! The applier against a real PostgreSQL and nats-server: acknowledged commands are durable, executed once, and published;
//! another applier continues where one stopped.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

use std::sync::Arc;
use std::time::Duration;

use bus::Bus;
use clap::Parser;
use model::cluster::Singleton;
use model::job::{JobSpec, Task, TaskGroup};
use model::{Index, JobKey, Nanos, ProcessId};
use private_servers::{Nats, Postgres};
use state::{Replica, Scope, State, Table, WatchKey};
use store::{Database, Tail, Writer};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wire::command::{Command, CommandError, DeregisterJob, EvaluateJob, RegisterJob, RenewLease, TakeLease};
use wire::feed::{Changes, GetHead, Head};
use wire::{RefusalKind, Role, Subject};

const WITHIN: Duration = Duration::from_secs(20);

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    args: plan_applier::Args,
}

/// A database and a connection to NATS, for one or several appliers.
struct World {
    nats: Nats,
    args: plan_applier::Args,
    store: store::Args,
    bus: Bus,
}

struct Applier {
    replica: Arc<Replica>,
    stop: CancellationToken,
    running: JoinHandle<anyhow::Result<()>>,
}

async fn connect(nats: &Nats, role: Role) -> Bus {
    let credentials = nats.credentials(role).unwrap();
    let args = bus::Args { credentials, ..bus::Args::new(vec![nats.url().parse().unwrap()]) };
    Bus::connect(&args, role).await.unwrap()
}

impl World {
    async fn new() -> Self {
        let nats = Nats::temporary().await.unwrap();
        let database = Postgres::shared().await.unwrap().new_database().await.unwrap();
        let Cli { store, args } =
            Cli::parse_from(["test", "--allow-unsafe-database", "--database-url", &database]);
        let bus = connect(&nats, Role::Servers).await;
        Self { nats, args, store, bus }
    }

    async fn applier(&self, number: u8) -> Applier {
        self.applier_at(number, State::default()).await
    }

    /// The first applier, after it has added the cluster's signing key, so that a test's own command is committed next.
    async fn first_applier(&self) -> Applier {
        let applier = self.applier(1).await;
        let mut watch = applier.replica.watch([WatchKey::Table(Table::RootKeys)]);
        while applier.replica.snapshot().root_keys().next().is_none() {
            watch.changed().await;
        }
        drop(watch);
        applier
    }

    /// An applier whose replica is at a given state.
    async fn applier_at(&self, number: u8, state: State) -> Applier {
        let bus = connect(&self.nats, Role::PlanApplier).await;
        let replica = Arc::new(Replica::new(state));
        let stop = CancellationToken::new();
        let process = ProcessId::from_bytes([number; 16]);
        let prepared = plan_applier::prepare(&self.store).await.unwrap();
        let run =
            plan_applier::run(self.args.clone(), prepared, bus, Arc::clone(&replica), process, stop.clone());
        Applier { replica, stop, running: tokio::spawn(run) }
    }

    async fn database(&self) -> Database {
        Database::connect(&self.store).await.unwrap()
    }

    async fn done(&self, command: &Command) -> wire::command::Done {
        self.bus.command(command, WITHIN).await.unwrap()
    }
}

fn job(id: &str) -> Command {
    let task = Task { name: "task".into(), driver: "raw_exec".into(), ..Task::default() };
    let group = TaskGroup { name: "group".into(), count: 1, tasks: vec![task], ..TaskGroup::default() };
    let spec = JobSpec {
        namespace: "default".into(),
        id: id.into(),
        name: id.into(),
        datacenters: vec!["*".into()],
        node_pool: "default".into(),
        priority: 50,
        task_groups: vec![group].into(),
        ..JobSpec::default()
    };
    Command::RegisterJob(Box::new(RegisterJob {
        spec: Arc::new(spec),
        source: None,
        enforce_index: None,
        eval_priority: None,
        preserve_counts: false,
        preserve_resources: false,
    }))
}

fn evaluate(id: &str) -> Command {
    Command::EvaluateJob(EvaluateJob { job: JobKey::new("default", id), force_reschedule: false })
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_commands_are_durable_and_published() {
    let world = World::new().await;
    let mut feed = world.bus.serve(Subject::Changes.to_string()).await.unwrap();
    let applier = world.first_applier().await;

    let registered = world.done(&job("one")).await;
    assert!(registered.written);
    let Tail::Page { rows, head, .. } =
        world.database().await.changes_after(Index(registered.index.0 - 1), 1).await.unwrap()
    else {
        panic!("nothing is trimmed");
    };
    assert_eq!((rows[0].index, head.index), (registered.index, registered.index));
    assert!(applier.replica.snapshot().job(&JobKey::new("default", "one")).is_some());

    // The bootstrap and the job, in one message each or in one together.
    let mut published = Index::ZERO;
    while published < registered.index {
        let changes: Changes = feed.next().await.unwrap().body().unwrap();
        assert_eq!(changes.first, published.next());
        published = Index(published.0 + changes.sets.len() as u64);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_has_no_second_effect() {
    let world = World::new().await;
    let applier = world.first_applier().await;
    let id = world.bus.new_request_id();
    let first = world.bus.command_as(id, &job("one"), WITHIN).await.unwrap();
    let evaluated = world.done(&evaluate("one")).await;
    let again = world.bus.command_as(id, &job("one"), WITHIN).await.unwrap();
    assert_eq!(again, first);
    assert_eq!(applier.replica.snapshot().index(), evaluated.index);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_applier_goes_on_where_one_ended() {
    let world = World::new().await;
    let first = world.first_applier().await;
    let id = world.bus.new_request_id();
    let registered = world.bus.command_as(id, &job("one"), WITHIN).await.unwrap();

    let second = world.applier(2).await;
    first.stop.cancel();
    first.running.await.unwrap().unwrap();
    let evaluated = world.done(&evaluate("one")).await;
    assert_eq!(evaluated.index, registered.index.next());
    assert_eq!(
        world.bus.command_as(id, &job("one"), WITHIN).await.unwrap(),
        registered,
        "the new applier has the request log"
    );
    let head: Head = world.bus.request(Subject::GetHead, &GetHead {}, WITHIN).await.unwrap();
    assert_eq!(
        (head.index, head.epoch.0, head.applier),
        (evaluated.index, 2, ProcessId::from_bytes([2; 16]))
    );
    second.stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_told_and_change_nothing() {
    let world = World::new().await;
    let applier = world.first_applier().await;
    let before = world.done(&job("one")).await.index;
    match world.bus.command(&evaluate("other"), WITHIN).await {
        Err(CommandError::Refused(refusal)) => assert_eq!(refusal.kind, RefusalKind::NotFound),
        other => panic!("{other:?}"),
    }
    assert_eq!(applier.replica.snapshot().index(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_commands_at_once_get_indexes_without_gaps() {
    let world = World::new().await;
    let _applier = world.first_applier().await;
    let first = world.done(&job("job-0")).await.index;
    let jobs: Vec<_> = (1..200)
        .map(|number| {
            let bus = world.bus.clone();
            tokio::spawn(
                async move { bus.command(&job(&format!("job-{number}")), WITHIN).await.unwrap().index },
            )
        })
        .collect();
    let mut indexes = Vec::new();
    for job in jobs {
        indexes.push(job.await.unwrap().0);
    }
    indexes.sort_unstable();
    assert_eq!(indexes, (first.0 + 1..first.0 + 200).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tables_follow_the_log() {
    let world = World::new().await;
    let _applier = world.first_applier().await;
    world.done(&job("one")).await;
    let purge = DeregisterJob {
        job: JobKey::new("default", "one"),
        purge: true,
        eval_priority: None,
        no_shutdown_delay: false,
    };
    let last = world.done(&Command::DeregisterJob(purge)).await.index;
    let database = world.database().await;
    loop {
        let loaded = database.load(Scope::ALL).await.unwrap();
        assert_eq!(loaded.state.index(), last);
        if loaded.projected == last {
            assert!(loaded.state.job(&JobKey::new("default", "one")).is_none());
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applier_that_is_behind_the_log_loads_the_state() {
    let world = World::new().await;
    let first = world.first_applier().await;
    world.done(&job("one")).await;
    let behind = State::clone(&first.replica.snapshot());
    let last = world.done(&job("two")).await.index;
    let database = world.database().await;
    while database.load(Scope::ALL).await.unwrap().projected < last {}
    first.stop.cancel();
    first.running.await.unwrap().unwrap();

    // Hours later: the first call closes the partition, the second one drops it.
    let writer = Writer::connect(&world.store).await.unwrap();
    writer.take_lease(ProcessId::from_bytes([9; 16]), true).await.unwrap();
    for hours in [1, 2] {
        writer.maintain_log(telemetry::clock::now() + Nanos::from_hours(hours)).await.unwrap();
    }
    assert!(matches!(database.changes_after(behind.index(), 1).await.unwrap(), Tail::Trimmed));

    let second = world.applier_at(2, behind).await;
    world.done(&evaluate("two")).await;
    assert!(second.replica.snapshot().job(&JobKey::new("default", "two")).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_full_turns_away_what_can_wait() {
    let mut world = World::new().await;
    world.store.log_max_mb = 1;
    let _applier = world.first_applier().await;
    let mut large = job("large");
    let Command::RegisterJob(register) = &mut large else { unreachable!("it registers a job") };
    let spec = Arc::get_mut(&mut register.spec).unwrap();
    spec.meta.insert("much".into(), "x".repeat(2 << 20).into());
    world.done(&large).await;
    // Until the applier has measured the log.
    while world.bus.command(&evaluate("large"), Duration::from_millis(500)).await.is_ok() {}
    let error = world.bus.command(&job("other"), Duration::from_millis(500)).await.unwrap_err();
    assert!(error.to_string().contains("--log-max-mb"), "{error}");
    let process = ProcessId::from_bytes([7; 16]);
    world.done(&Command::TakeLease(TakeLease { service: Singleton::EvalBroker, process, gone: None })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_singletons_lease_has_one_holder() {
    let world = World::new().await;
    let _applier = world.first_applier().await;
    let take = |number| {
        let process = ProcessId::from_bytes([number; 16]);
        Command::TakeLease(TakeLease { service: Singleton::EvalBroker, process, gone: None })
    };
    let epoch = world.done(&take(7)).await.epoch.unwrap();
    let refused = world.bus.command(&take(8), WITHIN).await;
    assert!(matches!(refused, Err(CommandError::Refused(_))), "{refused:?}");

    let renew = RenewLease { service: Singleton::EvalBroker, process: ProcessId::from_bytes([7; 16]), epoch };
    let answer: wire::command::Answer =
        world.bus.request(Subject::RenewLease(Role::Servers), &renew, WITHIN).await.unwrap();
    assert!(matches!(answer, wire::command::Answer::Done(done) if done.epoch == Some(epoch)));
    let other = RenewLease { process: ProcessId::from_bytes([8; 16]), ..renew };
    let refused = world
        .bus
        .request::<_, wire::command::Answer>(Subject::RenewLease(Role::Servers), &other, WITHIN)
        .await;
    assert!(
        matches!(refused, Err(bus::RequestError::Refused(refusal)) if refusal.kind == RefusalKind::Deposed)
    );
}
