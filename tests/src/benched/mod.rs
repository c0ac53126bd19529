//! What benchmarks share: a cluster of real processes that is measured (`cluster`) and who sees what becomes of it
//! (`observer`), or somebody else's by its address (`remote`); jobs to register (`registrar`), readers (`http`, `waiting`),
//! what processes cost (`costs`), and the tables in which all of it is printed (`table`).

mod cluster;
pub mod costs;
pub mod http;
mod observer;
mod registrar;
mod remote;
pub mod table;
mod target;
pub mod waiting;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use self::cluster::Benched;
pub use self::observer::Observer;
pub use self::registrar::{Kind, Registrar};
pub use self::remote::Remote;
pub use self::target::Target;

/// How long anything may take before the benchmark gives up.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// How the services run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// All of them in one process.
    OneProcess,
    /// Each in its own.
    Many,
}

impl Way {
    /// Both, or the one that `WAY` in the environment names: `one` or `many`.
    ///
    /// # Panics
    /// If it names something else.
    pub fn wanted() -> Vec<Self> {
        match std::env::var("WAY").as_deref() {
            Ok("one") => vec![Self::OneProcess],
            Ok("many") => vec![Self::Many],
            Ok("") | Err(_) => vec![Self::OneProcess, Self::Many],
            Ok(other) => panic!("WAY is one or many, not {other:?}"),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneProcess => "all services in one process",
            Self::Many => "each service a process of its own",
        })
    }
}

/// How long a job took.
#[derive(Debug, Clone, Copy)]
pub struct Placed {
    /// Until the job was durable.
    pub registered: Duration,
    /// Until the last of its allocations was.
    pub placed: Duration,
    /// Until all of them were reported to run.
    pub running: Duration,
}

/// What became of jobs that were registered one after the other, several at once.
#[derive(Debug)]
pub struct Streamed {
    /// How long each took until all of it was placed.
    pub times: Vec<Duration>,
    /// How long all of them took.
    pub elapsed: Duration,
}

impl Streamed {
    /// How many jobs a second were placed.
    pub fn rate(&self) -> f64 {
        self.times.len() as f64 / self.elapsed.as_secs_f64()
    }
}

/// A size that the environment may change.
///
/// # Panics
/// If it is no number there.
pub fn size<N: FromStr>(name: &str, usual: N) -> N {
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => {
            text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}"))
        }
        Ok(_) | Err(_) => usual,
    }
}

/// A runtime as benchmarks need it, until what is asked of it is done.
///
/// # Panics
/// If the system has no threads to give.
pub fn run<F: Future<Output = ()>>(work: F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("the system has threads to give").block_on(work);
}
