//! The frame of one process: its runtime, its connection to NATS, its replica of the state, and its shutdown.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use bus::Bus;
use model::{HistoryId, ProcessId, Timestamp};
use state::{Replica, Scope, State};
use store::Database;
use telemetry::clock;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::Role;
use wire::metrics::ProcessInfo;

use crate::health::{self, Board, Parts, probe};
use crate::log::DatabaseLog;
use crate::notify;

/// How long the services of a process have to shut down cleanly.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(3_500);
/// The same if tasks or private servers stop with the process.
const SHUTDOWN_TIMEOUT_WITH_CHILDREN: Duration = Duration::from_secs(15);
/// How long the OTLP collector has to receive the remaining spans and metrics afterwards.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(700);
/// How long after the request to stop a process is ended by force. By then its event loop is stuck, or a thread that
/// everything waits for.
const FORCED_EXIT_AFTER: Duration = Duration::from_millis(4_800);

/// The process was stopped while it waited for NATS, the database or the state, which is no failure.
#[derive(Debug, thiserror::Error)]
#[error("stopped before the state was loaded")]
struct StoppedEarly;

/// The settings of a process.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The name of the process in logs, spans and metrics.
    pub(crate) name: &'static str,
    /// The services that it runs.
    pub(crate) parts: Parts,
    /// Whether tasks or private servers stop with it, which takes as long as they need.
    pub(crate) stops_children: bool,
    /// On which signals its node is left first.
    pub(crate) leave: Leave,
    pub(crate) telemetry: telemetry::Args,
    pub(crate) health: health::Args,
}

/// On which signals an agent leaves its node before the process stops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Leave {
    on_interrupt: bool,
    on_terminate: bool,
}

impl From<&agent::LeaveArgs> for Leave {
    fn from(args: &agent::LeaveArgs) -> Self {
        let drains = args.drain_on_shutdown;
        Self {
            on_interrupt: args.leave_on_interrupt && drains,
            on_terminate: args.leave_on_terminate && drains,
        }
    }
}

/// State that the services of a process share.
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    pub(crate) stop: CancellationToken,
    /// When it started.
    started: Timestamp,
    /// The signal that told the process to stop.
    signal: Arc<OnceLock<&'static str>>,
    /// Cancelled instead of `stop` if the agent has to leave its node first. The process stops when the agent has ended.
    leave: CancellationToken,
    /// Whether there is an agent that leaves.
    can_leave: Arc<AtomicBool>,
    /// Where the services report their health.
    pub(crate) health: Board,
    /// How long the services have to shut down cleanly.
    shutdown_timeout: Duration,
    services: JoinSet<(&'static str, anyhow::Result<()>)>,
}

/// The connection of a process, and its replica of the state.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) bus: Bus,
    pub(crate) replica: Arc<Replica>,
}

impl Process {
    /// A process with the name `name` that runs `parts`.
    fn new(name: &'static str, parts: Parts, shutdown_timeout: Duration) -> Self {
        let stop = CancellationToken::new();
        let id = ProcessId::from_bytes(clock::random_bytes());
        telemetry::metrics::identify(name, &id.to_string());
        Self {
            id,
            health: Board::new(name, parts, stop.clone()),
            stop,
            started: clock::now(),
            signal: Arc::default(),
            leave: CancellationToken::new(),
            can_leave: Arc::default(),
            shutdown_timeout,
            services: JoinSet::new(),
        }
    }

    /// For an agent that is about to run: cancelled when it has to leave its node, and to end then.
    pub(crate) fn leaving(&self) -> CancellationToken {
        self.can_leave.store(true, Ordering::Relaxed);
        self.leave.clone()
    }

    /// The identity of the process in spans and metrics.
    fn identity(&self, service: &'static str) -> telemetry::Identity {
        telemetry::Identity {
            service,
            version: env!("CARGO_PKG_VERSION"),
            instance: self.id.to_string(),
            host: host_name(),
        }
    }

    /// What the process says about itself to the cluster, each time that it is called.
    fn describe(&self, role: Role) -> impl Fn() -> ProcessInfo + use<> {
        let (pid, started) = (std::process::id(), self.started);
        let identity = health::Identity { role, host: host_name().into(), pid, started };
        let health = self.health.clone();
        move || health.describe(&identity, clock::monotonic())
    }

    /// Starts to report health: over HTTP, if the endpoint is enabled, and to the service manager.
    fn show_health(&self, args: &health::Args) -> anyhow::Result<()> {
        if let Some(listener) = args.listen()? {
            health::serve(listener, self.health.clone())?;
        }
        tokio::task::spawn_local(probe::event_loop(self.health.clone()));
        tokio::task::spawn_local(notify::run(self.health.clone()));
        Ok(())
    }

    /// Connects to NATS. The replica holds the part `scope` of the state and is empty until [`Self::follow`]. From here on,
    /// the process publishes its metrics.
    pub(crate) async fn connect(
        &mut self,
        args: &bus::Args,
        role: Role,
        scope: Scope,
    ) -> anyhow::Result<Cluster> {
        let connecting = async { Bus::connect(args, role).await.context("cannot connect to NATS") };
        let bus = self.unless_stopped(connecting).await?;
        telemetry::metrics::identify(role.as_str(), &self.id.to_string());
        let publish =
            bus::metrics::publish(bus.clone(), role, self.id, self.describe(role), self.stop.clone());
        self.start("metrics", async {
            publish.await;
            Ok(())
        });
        let replica = Arc::new(Replica::new(State::new(HistoryId::default(), scope)));
        self.health.set_servers(self.id, &bus, &replica);
        Ok(Cluster { bus, replica })
    }

    /// Keeps the replica up to date from here on, and waits until it is loaded. Under load, changes that arrive within
    /// `batch_window` are applied together.
    pub(crate) async fn follow(
        &mut self,
        cluster: &Cluster,
        args: &store::Args,
        batch_window: Duration,
    ) -> anyhow::Result<()> {
        let connecting = async { Database::connect(args).await.context("cannot use the database") };
        let database = self.unless_stopped(connecting).await?;
        if self.health.parts().applier {
            tokio::spawn(probe::database(self.health.clone(), database.clone()));
        }
        let Cluster { bus, replica } = cluster.clone();
        let contact = bus.contact();
        let log = DatabaseLog { database, scope: replica.scope() };
        let follow = bus::feed::follow(bus, replica, log, contact.clone(), batch_window, self.stop.clone());
        self.start("feed", async {
            follow.await;
            Ok(())
        });
        let loading = async {
            contact.loaded().await;
            Ok(())
        };
        self.unless_stopped(loading).await
    }

    /// Performs a step of the start. If the process is told to stop meanwhile, or one of its services ends, the step is
    /// given up, and all services have ended when this returns an error.
    pub(crate) async fn unless_stopped<T>(
        &mut self,
        step: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let ended = tokio::select! {
            result = step => return result,
            ended = self.ended() => ended,
        };
        self.end().await;
        ended.and(Err(StoppedEarly.into()))
    }

    /// Starts a service. The process stops when any of its services ends.
    pub(crate) fn start(
        &mut self,
        name: &'static str,
        service: impl Future<Output = anyhow::Result<()>> + 'static,
    ) {
        self.services.spawn_local(async move { (name, service.await) });
    }

    /// Waits until the process is told to stop, or one of its services ends.
    async fn ended(&mut self) -> anyhow::Result<()> {
        let stopped = self.stop.clone();
        tokio::select! {
            () = stopped.cancelled() => Ok(()),
            Some(ended) = self.services.join_next() => outcome(ended),
        }
    }

    /// Waits until the process is told to stop or a service ends, and then until all services have ended.
    pub(crate) async fn wait(mut self) -> anyhow::Result<()> {
        let result = self.ended().await;
        self.end().await;
        result
    }

    /// Stops all services, and waits until they have ended or their time to shut down is over.
    async fn end(&mut self) {
        let Self { stop, services, shutdown_timeout, .. } = self;
        stop.cancel();
        let ending = async {
            while let Some(ended) = services.join_next().await {
                if let Err(error) = outcome(ended) {
                    tracing::warn!(error = format!("{error:#}"), "a service did not shut down cleanly");
                }
            }
        };
        if tokio::time::timeout(*shutdown_timeout, ending).await.is_err() {
            tracing::warn!(within_ms = shutdown_timeout.as_millis(), "services did not shut down in time");
        }
    }
}

fn outcome(ended: Result<(&'static str, anyhow::Result<()>), tokio::task::JoinError>) -> anyhow::Result<()> {
    let (name, result) = ended.context("a service panicked")?;
    result.with_context(|| format!("{name} failed"))
}

/// Runs a process: sets up logs and the runtime, and stops the process on signals. All of its tasks share one thread, so
/// no task has to wake another thread. Long computations use threads of their own.
pub(crate) fn run<F: Future<Output = anyhow::Result<()>>>(
    settings: Settings,
    main: impl FnOnce(Process) -> F,
) -> ExitCode {
    run_on(runtime::Builder::new_current_thread(), settings, main)
}

/// The same for processes with long computations or many services: uses as many threads as there are cores.
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
    let Settings { name, parts, stops_children, leave, telemetry, health } = settings;
    let shutdown_timeout = if stops_children { SHUTDOWN_TIMEOUT_WITH_CHILDREN } else { SHUTDOWN_TIMEOUT };
    let runtime = move || runtime.enable_all().build().expect("the runtime starts its threads");
    let system = actix::System::with_tokio_rt(runtime);
    system.block_on(async {
        let process = Process::new(name, parts, shutdown_timeout);
        let identity = process.identity(name);
        let telemetry = match telemetry::init(&telemetry, &identity) {
            Ok(guard) => guard,
            Err(error) => return fail(&error.into()),
        };
        let telemetry::Identity { version, instance, host, .. } = &identity;
        tracing::info!(service = name, process = %instance, version, host, pid = std::process::id(), "process started");
        let signal = Arc::clone(&process.signal);
        stop_on_signals(&process, leave);
        if !stops_children {
            tokio::spawn(end_by_force(process.stop.clone()));
        }
        let ended = match process.show_health(&health) {
            Ok(()) => main(process).await,
            Err(error) => Err(error),
        };
        let signal = signal.get().copied();
        let code = match ended {
            Err(error) if !error.is::<StoppedEarly>() => {
                let code = fail(&error);
                tracing::error!(service = name, signal, error = format!("{error:#}"), "process ended");
                code
            }
            Ok(()) | Err(_) => {
                let reason = signal.unwrap_or("one of its services ended");
                tracing::info!(service = name, reason, "process ended");
                ExitCode::SUCCESS
            }
        };
        flush(telemetry).await;
        code
    })
}

/// The name of this host; empty if it cannot be read.
fn host_name() -> String {
    nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned()
}

/// Sends the remaining spans and metrics to the collector. Runs on another thread, because the connection to the collector
/// needs this one; and for a limited time, because the collector may be down.
async fn flush(telemetry: telemetry::Guard) {
    let (done, flushed) = tokio::sync::oneshot::channel::<()>();
    thread::spawn(move || {
        drop(telemetry);
        // The receiver is gone if the timeout has passed.
        let _ = done.send(());
    });
    if tokio::time::timeout(FLUSH_TIMEOUT, flushed).await.is_err() {
        tracing::warn!("the collector did not receive the last spans and metrics in time");
    }
}

/// Ends the process by force if it has not ended in time after the request to stop.
async fn end_by_force(stop: CancellationToken) {
    stop.cancelled().await;
    thread::spawn(|| {
        thread::sleep(FORCED_EXIT_AFTER);
        let _ = writeln!(std::io::stderr(), "Error: the process did not shut down in time");
        std::process::exit(EXIT_FORCED);
    });
}

/// Prints the error that ends the process to stderr, which may be read where the logs are not.
pub(crate) fn fail(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "Error: {error:#}");
    ExitCode::FAILURE
}

/// Stops the process cleanly on SIGINT, SIGTERM, or SIGHUP when its terminal closes; at once on a SIGINT while it stops. On
/// some signals, an agent leaves its node first, until the next signal.
fn stop_on_signals(process: &Process, on: Leave) {
    let (stop, leave, can_leave) =
        (process.stop.clone(), process.leave.clone(), Arc::clone(&process.can_leave));
    let first = Arc::clone(&process.signal);
    let listen = |kind| signal(kind).expect("a signal handler can be installed");
    let mut interrupts = listen(SignalKind::interrupt());
    let mut terminations = listen(SignalKind::terminate());
    // Under `nohup` the process keeps running.
    let mut hangups = (!ignores_hangups()).then(|| listen(SignalKind::hangup()));
    tokio::spawn(async move {
        loop {
            let hangup = async {
                match &mut hangups {
                    Some(hangups) => hangups.recv().await,
                    None => std::future::pending().await,
                }
            };
            let (signal, leaves) = tokio::select! {
                _ = interrupts.recv() => {
                    if stop.is_cancelled() {
                        std::process::exit(EXIT_INTERRUPTED);
                    }
                    ("SIGINT", on.on_interrupt)
                }
                _ = terminations.recv() => ("SIGTERM", on.on_terminate),
                _ = hangup => ("SIGHUP", false),
            };
            // Later signals do not change why the process ends.
            let _ = first.set(signal);
            let begins = leaves && !leave.is_cancelled() && can_leave.load(Ordering::Relaxed);
            if begins && !stop.is_cancelled() {
                leave.cancel();
            } else {
                stop.cancel();
            }
        }
    });
}

/// Whether the parent process made this one ignore SIGHUP.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    ignored.is_some_and(|bits| bits & (1 << (SignalKind::hangup().as_raw_value() - 1)) != 0)
}

/// The exit code of a process that was ended by force.
const EXIT_FORCED: i32 = 1;
/// The exit code after a second SIGINT: the one that a shell reports for an uncaught SIGINT.
const EXIT_INTERRUPTED: i32 = 130;
