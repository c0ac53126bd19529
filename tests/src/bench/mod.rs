//! Shared code of the benchmarks: a cluster of real processes to measure (`cluster`) and its observer (`observer`), or
//! an existing cluster at an address (`remote`); jobs to register (`registrar`), readers (`http`, `waiters`), the
//! processor time and memory of processes (`costs`), the speed of the machine meanwhile (`cores`), and the tables in
//! which results are printed (`table`).

mod cluster;
pub mod cores;
pub mod costs;
pub mod http;
mod observer;
mod registrar;
mod remote;
pub mod table;
mod target;
pub mod waiters;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use self::cluster::{BenchCluster, Process};
pub use self::observer::Observer;
pub use self::registrar::{Kind, Registrar};
pub use self::remote::Remote;
pub use self::target::Target;

/// How long anything may take before the benchmark gives up.
pub const TIMEOUT: Duration = Duration::from_secs(300);

/// How the services are divided into processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// All services in one process.
    OneProcess,
    /// Each service in its own process.
    ProcessPerService,
}

impl Layout {
    /// Returns both layouts, or the one that `WAY` in the environment names: `one` or `many`.
    ///
    /// # Panics
    /// If `WAY` has another value.
    pub fn from_env() -> Vec<Self> {
        match std::env::var("WAY").as_deref() {
            Ok("one") => vec![Self::OneProcess],
            Ok("many") => vec![Self::ProcessPerService],
            Ok("") | Err(_) => vec![Self::OneProcess, Self::ProcessPerService],
            Ok(other) => panic!("WAY must be one or many, not {other:?}"),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneProcess => "all services in one process",
            Self::ProcessPerService => "each service a process of its own",
        })
    }
}

/// The build or settings with which this build is compared. Both are measured in turns, because the speed of machines
/// changes from minute to minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Baseline {
    /// The program, if it is another.
    pub binary: Option<String>,
    /// Additional environment variables.
    pub settings: BTreeMap<String, String>,
}

impl Baseline {
    /// Reads `AGAINST` in the environment: a program, settings as `NAME=value`, or both, separated by spaces.
    ///
    /// # Panics
    /// If it names several programs.
    pub fn from_env() -> Option<Self> {
        let text = std::env::var("AGAINST").ok().filter(|text| !text.trim().is_empty())?;
        let (settings, binaries): (Vec<_>, Vec<_>) =
            text.split_whitespace().partition(|word| word.contains('='));
        assert!(binaries.len() < 2, "AGAINST must name one program, not {binaries:?}");
        let settings = settings.into_iter().filter_map(|word| word.split_once('='));
        Some(Self {
            binary: binaries.first().map(|binary| (*binary).to_owned()),
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        })
    }
}

/// How long a job took.
#[derive(Debug, Clone, Copy)]
pub struct JobTimes {
    /// Until the registration was durable.
    pub registered: Duration,
    /// Until the last of its allocations was durably placed.
    pub placed: Duration,
    /// Until all of its allocations were reported running.
    pub running: Duration,
}

/// Results of registering a stream of jobs, several at once.
#[derive(Debug)]
pub struct Streamed {
    /// How long each job took until all of it was placed.
    pub times: Vec<Duration>,
    /// How long the whole stream took.
    pub elapsed: Duration,
}

impl Streamed {
    /// Number of jobs placed per second.
    pub fn rate(&self) -> f64 {
        self.times.len() as f64 / self.elapsed.as_secs_f64()
    }
}

/// Returns a size from the environment, or the default.
///
/// # Panics
/// If the value is not a number.
pub fn size<N: FromStr>(name: &str, default: N) -> N {
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => {
            text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}"))
        }
        Ok(_) | Err(_) => default,
    }
}

/// Runs the benchmark on a tokio runtime.
///
/// # Panics
/// If the runtime cannot start its threads.
pub fn run<F: Future<Output = ()>>(work: F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be started").block_on(work);
}
