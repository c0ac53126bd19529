//! One process: its runtime, its connection, its one replica, and how it ends.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use bus::Bus;
use model::{HistoryId, ProcessId};
use state::{Replica, Scope, State};
use store::Database;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::Role;

use crate::health::{self, Board, Parts, probe};
use crate::log::DatabaseLog;
use crate::notify;

/// How long the parts of a process have to end in order.
const ENDING: Duration = Duration::from_millis(3_500);
/// How long they have if tasks and private servers end with the process.
const ENDING_WITH_TASKS: Duration = Duration::from_secs(15);
/// How long the collector has to take what is still buffered then.
const FLUSH_WITHIN: Duration = Duration::from_millis(700);
/// A process that has not ended so long after it was told to is ended by force: its event loop is stuck, or a thread that
/// everybody waits for.
const ENDED_WITHIN: Duration = Duration::from_millis(4_800);

/// It was to stop before it had begun, which is no failure.
#[derive(Debug, thiserror::Error)]
#[error("stopped before the state was loaded")]
struct StoppedEarly;

/// What a process is, before it runs.
#[derive(Debug)]
pub(crate) struct Settings {
    /// What it calls itself.
    pub(crate) name: &'static str,
    /// What it runs.
    pub(crate) parts: Parts,
    /// Whether tasks or private servers end with it, which takes as long as they need.
    pub(crate) ends_others: bool,
    pub(crate) telemetry: telemetry::Args,
    pub(crate) health: health::Args,
}

/// What the services of a process share.
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    pub(crate) stop: CancellationToken,
    /// Where its parts show how they fare.
    pub(crate) health: Board,
    /// How long its parts have to end in order.
    ending: Duration,
    services: JoinSet<(&'static str, anyhow::Result<()>)>,
}

/// A process's connection and its replica of the state.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) bus: Bus,
    pub(crate) replica: Arc<Replica>,
}

impl Process {
    /// A process that calls itself `name` and runs `parts`.
    fn new(name: &'static str, parts: Parts, ending: Duration) -> Self {
        let stop = CancellationToken::new();
        let id = ProcessId::from_bytes(telemetry::clock::random_bytes());
        telemetry::metrics::identify(name, &id.to_string());
        Self { id, health: Board::new(name, parts, stop.clone()), stop, ending, services: JoinSet::new() }
    }

    /// What its spans and metrics say that it is.
    fn identity(&self, service: &'static str) -> telemetry::Identity {
        let host = nix::unistd::gethostname().unwrap_or_default();
        telemetry::Identity {
            service,
            version: env!("CARGO_PKG_VERSION"),
            instance: self.id.to_string(),
            host: host.to_string_lossy().into_owned(),
        }
    }

    /// Begins to tell how the process fares: over HTTP, if there is to be an endpoint, and to the service manager.
    fn show_health(&self, args: &health::Args) -> anyhow::Result<()> {
        if let Some(listener) = args.listen()? {
            health::serve(listener, self.health.clone())?;
        }
        tokio::task::spawn_local(probe::beat(self.health.clone()));
        tokio::task::spawn_local(notify::tell(self.health.clone()));
        Ok(())
    }

    /// Connects, with a replica of so much of the state, which is empty until [`Self::follow`]. From here on, the process
    /// publishes its metrics.
    pub(crate) async fn connect(
        &mut self,
        args: &bus::Args,
        role: Role,
        scope: Scope,
    ) -> anyhow::Result<Cluster> {
        let bus = Bus::connect(args, role).await.context("cannot connect to NATS")?;
        telemetry::metrics::identify(role.as_str(), &self.id.to_string());
        let publish = bus::metrics::publish(bus.clone(), role, self.id, self.stop.clone());
        self.start("metrics", async {
            publish.await;
            Ok(())
        });
        let replica = Arc::new(Replica::new(State::new(HistoryId::default(), scope)));
        self.health.set_servers(self.id, &bus, &replica);
        Ok(Cluster { bus, replica })
    }

    /// Keeps the replica up to date from here on, with what comes under load within `gathered` at once; waits until it is
    /// loaded.
    pub(crate) async fn follow(
        &mut self,
        cluster: &Cluster,
        args: &store::Args,
        gathered: Duration,
    ) -> anyhow::Result<()> {
        let database = tokio::select! {
            database = Database::connect(args) => database.context("cannot use the database")?,
            ended = self.ended() => return ended.and(Err(StoppedEarly.into())),
        };
        if self.health.parts().applier {
            tokio::spawn(probe::database(self.health.clone(), database.clone()));
        }
        let Cluster { bus, replica } = cluster.clone();
        let contact = bus.contact();
        let log = DatabaseLog { database, scope: replica.scope() };
        let follow = bus::feed::follow(bus, replica, log, contact.clone(), gathered, self.stop.clone());
        self.start("feed", async {
            follow.await;
            Ok(())
        });
        tokio::select! {
            () = contact.loaded() => Ok(()),
            ended = self.ended() => ended.and(Err(StoppedEarly.into())),
        }
    }

    /// Starts a service; the process ends when one of them does.
    pub(crate) fn start(
        &mut self,
        name: &'static str,
        service: impl Future<Output = anyhow::Result<()>> + 'static,
    ) {
        self.services.spawn_local(async move { (name, service.await) });
    }

    /// Waits until the process is to stop, or one of its services ends.
    async fn ended(&mut self) -> anyhow::Result<()> {
        let stopped = self.stop.clone();
        tokio::select! {
            () = stopped.cancelled() => Ok(()),
            Some(ended) = self.services.join_next() => outcome(ended),
        }
    }

    /// Waits until the process is to stop or a service fails, and until all have ended.
    pub(crate) async fn wait(mut self) -> anyhow::Result<()> {
        let result = self.ended().await;
        self.stop.cancel();
        let ending = async {
            while let Some(ended) = self.services.join_next().await {
                if let Err(error) = outcome(ended) {
                    tracing::warn!(error = format!("{error:#}"), "a service did not end in order");
                }
            }
        };
        if tokio::time::timeout(self.ending, ending).await.is_err() {
            tracing::warn!(within_ms = self.ending.as_millis(), "services did not end in time");
        }
        result
    }
}

fn outcome(ended: Result<(&'static str, anyhow::Result<()>), tokio::task::JoinError>) -> anyhow::Result<()> {
    let (name, result) = ended.context("a service panicked")?;
    result.with_context(|| format!("{name} failed"))
}

/// Runs a process: sets up logs and the runtime, and sees to it that signals end it. All of its tasks
/// share one thread, between which nobody has to be woken; whatever computes for long has threads of its own.
pub(crate) fn run<F: Future<Output = anyhow::Result<()>>>(
    settings: Settings,
    main: impl FnOnce(Process) -> F,
) -> ExitCode {
    run_on(runtime::Builder::new_current_thread(), settings, main)
}

/// The same where tasks compute for long, or there are those of many services: as many threads as there are cores.
pub(crate) fn run_on_all_cores<F: Future<Output = anyhow::Result<()>>>(
    settings: Settings,
    main: impl FnOnce(Process) -> F,
) -> ExitCode {
    run_on(runtime::Builder::new_multi_thread(), settings, main)
}

fn run_on<F: Future<Output = anyhow::Result<()>>>(
    mut runtime: runtime::Builder,
    settings: Settings,
    main: impl FnOnce(Process) -> F,
) -> ExitCode {
    let Settings { name, parts, ends_others, telemetry, health } = settings;
    let ending = if ends_others { ENDING_WITH_TASKS } else { ENDING };
    let runtime = move || runtime.enable_all().build().expect("the system has threads to give");
    let system = actix::System::with_tokio_rt(runtime);
    system.block_on(async {
        let process = Process::new(name, parts, ending);
        let telemetry = match telemetry::init(&telemetry, &process.identity(name)) {
            Ok(guard) => guard,
            Err(error) => return fail(&error.into()),
        };
        stop_on_signals(process.stop.clone());
        if !ends_others {
            tokio::spawn(end_by_force(process.stop.clone()));
        }
        let ended = match process.show_health(&health) {
            Ok(()) => main(process).await,
            Err(error) => Err(error),
        };
        let code = match ended {
            Err(error) if !error.is::<StoppedEarly>() => fail(&error),
            Ok(()) | Err(_) => ExitCode::SUCCESS,
        };
        flush(telemetry).await;
        code
    })
}

/// Sends the collector what is still buffered. From another thread, since the connection to the collector needs this one;
/// and for a limited time, since the collector may be what is down.
async fn flush(telemetry: telemetry::Guard) {
    let (tell, flushed) = tokio::sync::oneshot::channel::<()>();
    thread::spawn(move || {
        drop(telemetry);
        // Whoever waited may have given up.
        let _ = tell.send(());
    });
    if tokio::time::timeout(FLUSH_WITHIN, flushed).await.is_err() {
        tracing::warn!("the collector did not take the last spans and metrics in time");
    }
}

/// Ends the process if it does not end by itself once it was told to.
async fn end_by_force(stop: CancellationToken) {
    stop.cancelled().await;
    thread::spawn(|| {
        thread::sleep(ENDED_WITHIN);
        let _ = writeln!(std::io::stderr(), "Error: the process did not end in order");
        std::process::exit(EXIT_FORCED);
    });
}

/// Says what the process dies of, also where nobody reads its logs.
pub(crate) fn fail(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "Error: {error:#}");
    ExitCode::FAILURE
}

/// Stops the process in order on an interrupt, a termination, or when its terminal goes; at once on a second interrupt.
fn stop_on_signals(stop: CancellationToken) {
    let listen = |kind| signal(kind).expect("signals can be listened for");
    let mut interrupts = listen(SignalKind::interrupt());
    let mut terminations = listen(SignalKind::terminate());
    // Under `nohup` it is to stay.
    let mut hangups = (!ignores_hangups()).then(|| listen(SignalKind::hangup()));
    tokio::spawn(async move {
        loop {
            let hangup = async {
                match &mut hangups {
                    Some(hangups) => hangups.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = interrupts.recv() => {
                    if stop.is_cancelled() {
                        std::process::exit(EXIT_IMPATIENT);
                    }
                }
                _ = terminations.recv() => {}
                _ = hangup => {}
            }
            stop.cancel();
        }
    });
}

/// Whether whoever started the process had it ignore the end of its terminal.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    ignored.is_some_and(|bits| bits & (1 << (SignalKind::hangup().as_raw_value() - 1)) != 0)
}

/// The exit code of a process that did not end by itself.
const EXIT_FORCED: i32 = 1;
/// The exit code after a second interrupt, as a shell gives it for one that was not caught.
const EXIT_IMPATIENT: i32 = 130;
