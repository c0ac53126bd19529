//! What benchmarks share: a cluster of real processes that is measured (`cluster`) and who sees what becomes of it
//! (`observer`), or somebody else's by its address (`remote`); jobs to register (`registrar`), readers (`http`, `waiting`),
//! what processes cost (`costs`), how fast the machine is meanwhile (`cores`), and the tables in which all of it is printed
//! (`table`).

mod cluster;
pub mod cores;
pub mod costs;
pub mod http;
mod observer;
mod registrar;
mod remote;
pub mod table;
mod target;
pub mod waiting;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use self::cluster::{Benched, Process};
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

/// Whom this build is measured against, in turns: machines are not the same from one minute to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rival {
    /// Another program than this one.
    pub binary: Option<String>,
    /// What it finds in its environment besides.
    pub settings: BTreeMap<String, String>,
}

impl Rival {
    /// What `AGAINST` in the environment says: a program, settings as `NAME=value`, or both, parted by spaces.
    ///
    /// # Panics
    /// If it names several programs.
    pub fn wanted() -> Option<Self> {
        let text = std::env::var("AGAINST").ok().filter(|text| !text.trim().is_empty())?;
        let (settings, binaries): (Vec<_>, Vec<_>) =
            text.split_whitespace().partition(|word| word.contains('='));
        assert!(binaries.len() < 2, "AGAINST names one program, not {binaries:?}");
        let settings = settings.into_iter().filter_map(|word| word.split_once('='));
        Some(Self {
            binary: binaries.first().map(|binary| (*binary).to_owned()),
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
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
