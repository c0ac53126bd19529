//! Settings of the applier: how old objects must be to be garbage (docs/rules/scheduling.md §12.2), how many versions of a
//! job are kept, and how many rejections of a node are too many.

use std::time::Duration;

use model::Nanos;

use super::find::Ages;
use crate::judge::Settings;
use crate::rejections::Threshold;

/// Settings of the garbage collection.
#[derive(Debug, Clone, clap::Args)]
#[group(id = "garbage")]
#[command(next_help_heading = "Garbage")]
pub struct Args {
    /// How often garbage is collected, in seconds.
    #[arg(long, env = "DROVER_GC_INTERVAL_SECS", default_value_t = 5 * 60, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub gc_interval_secs: u32,
    /// How long a job that is stopped or completed is kept, in seconds.
    #[arg(long, env = "DROVER_JOB_GC_THRESHOLD_SECS", default_value_t = 4 * HOUR, value_name = "SECONDS")]
    pub job_gc_threshold_secs: u32,
    /// How long a terminal evaluation and its allocations are kept, in seconds.
    #[arg(long, env = "DROVER_EVAL_GC_THRESHOLD_SECS", default_value_t = HOUR, value_name = "SECONDS")]
    pub eval_gc_threshold_secs: u32,
    /// How long a terminal evaluation of a batch job and its allocations are kept, in seconds.
    #[arg(long, env = "DROVER_BATCH_EVAL_GC_THRESHOLD_SECS", default_value_t = 24 * HOUR, value_name = "SECONDS")]
    pub batch_eval_gc_threshold_secs: u32,
    /// How long a terminal deployment is kept, in seconds.
    #[arg(long, env = "DROVER_DEPLOYMENT_GC_THRESHOLD_SECS", default_value_t = HOUR, value_name = "SECONDS")]
    pub deployment_gc_threshold_secs: u32,
    /// How long a node that is down is kept, in seconds.
    #[arg(long, env = "DROVER_NODE_GC_THRESHOLD_SECS", default_value_t = 24 * HOUR, value_name = "SECONDS")]
    pub node_gc_threshold_secs: u32,
    /// How many versions of a job are kept, besides those that have a tag, are the newest stable one, or still run.
    #[arg(long, env = "DROVER_JOB_TRACKED_VERSIONS", default_value_t = 6, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub job_tracked_versions: u32,
    /// Mark nodes as ineligible for new work on which plans are rejected again and again.
    #[arg(long, env = "DROVER_PLAN_REJECTION_TRACKER_ENABLED")]
    pub plan_rejection_tracker_enabled: bool,
    /// After how many rejections within the window a node is marked.
    #[arg(
        long,
        env = "DROVER_PLAN_REJECTION_TRACKER_NODE_THRESHOLD",
        default_value_t = 100,
        value_name = "COUNT"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub plan_rejection_tracker_node_threshold: u32,
    /// The time in which the rejections happen, in seconds.
    #[arg(long, env = "DROVER_PLAN_REJECTION_TRACKER_NODE_WINDOW_SECS", default_value_t = 5 * 60, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub plan_rejection_tracker_node_window_secs: u32,
}

/// In seconds.
const HOUR: u32 = 60 * 60;

impl Args {
    pub(super) fn interval(&self) -> Duration {
        Duration::from_secs(self.gc_interval_secs.into())
    }

    /// When a node counts as rejected too often; `None` if rejections are not tracked.
    pub(crate) fn rejections(&self) -> Option<Threshold> {
        let rejections = usize::try_from(self.plan_rejection_tracker_node_threshold).unwrap_or(usize::MAX);
        let window = Duration::from_secs(self.plan_rejection_tracker_node_window_secs.into());
        self.plan_rejection_tracker_enabled.then_some(Threshold { rejections, window })
    }

    /// The settings by which commands are judged.
    pub(crate) fn judging(&self) -> Settings {
        Settings { versions_kept: self.job_tracked_versions as usize }
    }

    pub(crate) fn ages(&self) -> Ages {
        // At least a millisecond, because clients may still be looking at an object that ended this very moment.
        let age = |seconds: u32| Nanos::from_secs(seconds.into()).max(Nanos::MILLISECOND);
        Ages {
            jobs: age(self.job_gc_threshold_secs),
            evals: age(self.eval_gc_threshold_secs),
            batch_evals: age(self.batch_eval_gc_threshold_secs),
            deployments: age(self.deployment_gc_threshold_secs),
            nodes: age(self.node_gc_threshold_secs),
        }
    }
}
