//! What can be set, and the bounds within which requests are served.

use std::net::SocketAddr;
use std::time::Duration;

use crate::admission::{DEFAULT_REGION, Rules};
use crate::metrics::PublishedMetrics;

/// The HTTP API.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "HTTP API")]
pub struct Args {
    /// Where to listen; port 0 is any free one.
    #[arg(long, env = "DROVER_HTTP_ADDR", default_value = "127.0.0.1:4646")]
    pub http_addr: SocketAddr,
    /// Threads that serve requests; by default one for each processor.
    #[arg(long, env = "DROVER_HTTP_WORKERS")]
    pub http_workers: Option<usize>,
    /// Name of this server, as it is shown.
    #[arg(long, env = "DROVER_SERVER_NAME", default_value = "drover")]
    pub server_name: String,
    /// Region of this cluster.
    #[arg(long, env = "DROVER_REGION", default_value = DEFAULT_REGION)]
    pub region: String,
    /// The URL by which others know this cluster, who check what it signs: its keys are then looked for there.
    #[arg(long, env = "DROVER_OIDC_ISSUER", value_name = "URL")]
    pub oidc_issuer: Option<String>,
    /// Datacenter of this server, as it is shown.
    #[arg(long, env = "DROVER_SERVER_DATACENTER", default_value = "dc1")]
    pub server_datacenter: String,
    /// The largest request body, in bytes.
    #[arg(long, env = "DROVER_HTTP_REQUEST_BYTES_MAX", default_value_t = REQUEST_BYTES_MAX)]
    pub http_request_bytes_max: usize,
    /// The most JSON objects in a request body; a job has one for itself and one for each block in it.
    #[arg(long, env = "DROVER_HTTP_REQUEST_OBJECTS_MAX", default_value_t = REQUEST_OBJECTS_MAX)]
    pub http_request_objects_max: usize,
    /// Priority of jobs that name none.
    #[arg(long, env = "DROVER_JOB_DEFAULT_PRIORITY", default_value_t = 50)]
    pub job_default_priority: u16,
    /// The highest priority of a job.
    #[arg(long, env = "DROVER_JOB_MAX_PRIORITY", default_value_t = 100)]
    pub job_max_priority: u16,
    /// The most allocations that the groups of one job may ask for together.
    #[arg(long, env = "DROVER_JOB_MAX_COUNT", default_value_t = 50_000)]
    pub job_max_count: u32,
    /// Show metrics of nodes' machines, for which their agents are asked.
    #[arg(long, env = "DROVER_PUBLISH_NODE_METRICS")]
    pub publish_node_metrics: bool,
    /// Show metrics of single tasks, for which their agents are asked.
    #[arg(long, env = "DROVER_PUBLISH_ALLOCATION_METRICS")]
    pub publish_allocation_metrics: bool,
    /// The largest source of a job, with the values for its variables, that is kept for people to see, in bytes.
    #[arg(long, env = "DROVER_JOB_MAX_SOURCE_BYTES", default_value_t = JOB_SOURCE_BYTES_MAX)]
    pub job_max_source_bytes: usize,
}

/// As large as a command may be.
const REQUEST_BYTES_MAX: usize = wire::envelope::COMMAND_BYTES_MAX;
/// An object takes up to some two kilobytes once it is read.
const REQUEST_OBJECTS_MAX: usize = 50_000;
/// A megabyte (http-api §1.11).
const JOB_SOURCE_BYTES_MAX: usize = 1_000_000;
/// How long a request's body may take to arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long requests that need an applier wait for one (http-api §5.4).
const LEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a read waits for this process to know what the cluster knows.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// The bounds within which requests are served.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// The largest request body, in bytes.
    pub(crate) request_bytes_max: usize,
    /// The most JSON objects in a request body.
    pub(crate) request_objects_max: usize,
    /// How long a request's body may take to arrive.
    pub(crate) request_timeout: Duration,
    /// How long requests that need an applier wait for one.
    pub(crate) leader_timeout: Duration,
    /// How long a read waits for this process's replica.
    pub(crate) catch_up_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes_max: REQUEST_BYTES_MAX,
            request_objects_max: REQUEST_OBJECTS_MAX,
            request_timeout: REQUEST_TIMEOUT,
            leader_timeout: LEADER_TIMEOUT,
            catch_up_timeout: CATCH_UP_TIMEOUT,
        }
    }
}

impl Args {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            request_bytes_max: self.http_request_bytes_max,
            request_objects_max: self.http_request_objects_max,
            ..Limits::default()
        }
    }

    pub(crate) fn published_metrics(&self) -> PublishedMetrics {
        PublishedMetrics { nodes: self.publish_node_metrics, allocs: self.publish_allocation_metrics }
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules {
            priority_default: self.job_default_priority,
            priority_max: self.job_max_priority,
            count_max: self.job_max_count,
            source_bytes_max: self.job_max_source_bytes,
        }
    }
}
