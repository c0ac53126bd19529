//! Settings of what the agent does around tasks: garbage collection, kill timeouts, concurrent starts, devices.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser as _;
use model::Nanos;

use crate::disk::gc;

/// The default of the maximum kill timeout of a task.
pub(crate) const KILL_TIMEOUT_MAX: Nanos = Nanos::from_secs(30);
/// The same in milliseconds.
const KILL_TIMEOUT_MAX_MS: u32 = 30_000;
/// The default of the maximum number of concurrent starts. It is far above what one node gets at once, except after a
/// failure of others.
const CONCURRENT_STARTS_MAX: u32 = 100;

/// Settings of what is around tasks.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Agent")]
pub struct LimitArgs {
    /// Interval at which the agent looks whether ended allocations have to be removed, in milliseconds.
    #[arg(long, env = "DROVER_ALLOC_GC_INTERVAL_MS", default_value_t = gc::INTERVAL_MS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub alloc_gc_interval_ms: u32,
    /// Maximum number of ended allocations whose files are removed at the same time.
    #[arg(long, env = "DROVER_ALLOC_GC_PARALLEL_MAX", default_value_t = gc::CONCURRENT_REMOVALS_MAX)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub alloc_gc_parallel_max: u32,
    /// Maximum kill timeout of a task, whatever its job asks for, in milliseconds.
    #[arg(long, env = "DROVER_KILL_TIMEOUT_MAX_MS", default_value_t = KILL_TIMEOUT_MAX_MS)]
    pub kill_timeout_max_ms: u32,
    /// Maximum number of tasks that start at the same time. Under pressure on processors or disks there are fewer.
    #[arg(long, env = "DROVER_CONCURRENT_STARTS_MAX", default_value_t = CONCURRENT_STARTS_MAX)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub concurrent_starts_max: u32,
    /// The program by which NVIDIA GPUs are found.
    #[arg(long, env = "DROVER_NVIDIA_SMI", default_value = "nvidia-smi")]
    pub nvidia_smi: PathBuf,
    /// NVIDIA GPUs that tasks do not get, by their ids or how these begin.
    #[arg(long, env = "DROVER_NVIDIA_IGNORED", value_delimiter = ',')]
    pub nvidia_ignored: Vec<String>,
    /// Do not look for NVIDIA GPUs.
    #[arg(long, env = "DROVER_NO_NVIDIA")]
    pub no_nvidia: bool,
}

impl Default for LimitArgs {
    /// The settings without any flags. Environment variables apply.
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct NoFlags {
            #[command(flatten)]
            args: LimitArgs,
        }
        NoFlags::parse_from(["agent"]).args
    }
}

/// The validated settings.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// The interval of garbage collection.
    pub(crate) gc_interval: Duration,
    /// The maximum number of concurrent removals.
    pub(crate) gc_parallel_max: usize,
    /// The maximum kill timeout of a task.
    pub(crate) kill_timeout_max: Nanos,
    /// The maximum number of concurrent starts.
    pub(crate) concurrent_starts_max: usize,
    /// The program by which NVIDIA GPUs are found; `None` if they are not looked for.
    pub(crate) nvidia_smi: Option<PathBuf>,
    /// The beginnings of the ids of NVIDIA GPUs that tasks do not get.
    pub(crate) nvidia_ignored: Vec<String>,
}

impl Limits {
    /// Validates the settings.
    pub(crate) fn new(args: LimitArgs) -> anyhow::Result<Self> {
        let positive = |name: &str, number: u32| {
            anyhow::ensure!(number > 0, "{name} must be greater than 0");
            Ok(number)
        };
        let interval_ms = positive("alloc-gc-interval-ms", args.alloc_gc_interval_ms)?;
        let parallel_max = positive("alloc-gc-parallel-max", args.alloc_gc_parallel_max)?;
        let starts_max = positive("concurrent-starts-max", args.concurrent_starts_max)?;
        Ok(Self {
            gc_interval: Duration::from_millis(interval_ms.into()),
            gc_parallel_max: parallel_max as usize,
            kill_timeout_max: Nanos(Nanos::MILLISECOND.0 * i64::from(args.kill_timeout_max_ms)),
            concurrent_starts_max: starts_max as usize,
            nvidia_smi: (!args.no_nvidia).then_some(args.nvidia_smi),
            nvidia_ignored: args.nvidia_ignored.into_iter().filter(|id| !id.is_empty()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_the_defaults_of_the_reference() {
        let limits = Limits::new(LimitArgs::default()).unwrap();
        assert_eq!((limits.gc_interval, limits.gc_parallel_max), (Duration::from_secs(60), 2));
        assert_eq!(limits.kill_timeout_max, KILL_TIMEOUT_MAX);
    }

    #[test]
    fn limits_that_would_stop_everything_are_refused() {
        let refused = |change: fn(&mut LimitArgs)| {
            let mut args = LimitArgs::default();
            change(&mut args);
            Limits::new(args).unwrap_err().to_string()
        };
        assert_eq!(
            refused(|args| args.alloc_gc_interval_ms = 0),
            "alloc-gc-interval-ms must be greater than 0"
        );
        assert_eq!(
            refused(|args| args.concurrent_starts_max = 0),
            "concurrent-starts-max must be greater than 0"
        );
    }
}
