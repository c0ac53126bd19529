//! Flags of the HTTP API, and the limits on requests.

use std::net::SocketAddr;
use std::time::Duration;

use model::job::ServiceProvider;
use telemetry::clock;

use crate::admission::{DEFAULT_REGION, Rules};
use crate::cluster_metrics::PublishedMetrics;
use crate::filter::{FILTER_STEPS_MAX, FilterLimits};

/// The HTTP API.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "HTTP API")]
pub struct Args {
    /// Address to listen on; port 0 picks a free port.
    #[arg(long, env = "DROVER_HTTP_ADDR", default_value = "127.0.0.1:4646")]
    pub http_addr: SocketAddr,
    /// Address of this server that it shows to clients; by default the one that it listens on.
    #[arg(long, env = "DROVER_HTTP_ADVERTISE", value_name = "HOST:PORT")]
    pub http_advertise: Option<String>,
    /// RPC port that API responses name. Nothing listens on it: servers find each other over NATS.
    #[arg(long, env = "DROVER_RPC_PORT", default_value_t = 4647)]
    pub rpc_port: u16,
    /// Serf port that API responses name. Nothing listens on it either.
    #[arg(long, env = "DROVER_SERF_PORT", default_value_t = 4648)]
    pub serf_port: u16,
    /// Number of threads that serve requests; by default one for each processor.
    #[arg(long, env = "DROVER_HTTP_WORKERS")]
    pub http_workers: Option<usize>,
    /// Name of this server in API responses.
    #[arg(long, env = "DROVER_SERVER_NAME", default_value = "drover")]
    pub server_name: String,
    /// Region of this cluster.
    #[arg(long, env = "DROVER_REGION", default_value = DEFAULT_REGION)]
    pub region: String,
    /// URL under which verifiers of this cluster's tokens fetch its public keys; without it OIDC discovery is disabled.
    #[arg(long, env = "DROVER_OIDC_ISSUER", value_name = "URL")]
    pub oidc_issuer: Option<String>,
    /// Datacenter of this server in API responses.
    #[arg(long, env = "DROVER_SERVER_DATACENTER", default_value = "dc1")]
    pub server_datacenter: String,
    /// Maximum size of a request body, in bytes.
    #[arg(long, env = "DROVER_HTTP_REQUEST_BYTES_MAX", default_value_t = REQUEST_BYTES_MAX)]
    pub http_request_bytes_max: usize,
    /// Names by which clients may address a server that listens on the loopback interface only, besides `localhost` and IP
    /// addresses; `*` for any. Other names are refused, because a web page can make its own name lead to this machine.
    #[arg(long, env = "DROVER_HTTP_ALLOWED_HOSTS", value_name = "NAMES", value_delimiter = ',')]
    pub http_allowed_hosts: Vec<String>,
    /// Origins of web pages that may use the whole API, such as `https://ui.example.org`; `*` for any. Pages of other sites
    /// can change nothing.
    #[arg(long, env = "DROVER_HTTP_ALLOWED_ORIGINS", value_name = "ORIGINS", value_delimiter = ',')]
    pub http_allowed_origins: Vec<String>,
    /// Maximum number of JSON objects in a request body; a job has one for itself and one for each of its blocks.
    #[arg(long, env = "DROVER_HTTP_REQUEST_OBJECTS_MAX", default_value_t = REQUEST_OBJECTS_MAX)]
    pub http_request_objects_max: usize,
    /// Maximum number of steps of a filter expression on all objects of a request.
    #[arg(long, env = "DROVER_HTTP_FILTER_STEPS_MAX", default_value_t = FILTER_STEPS_MAX)]
    pub http_filter_steps_max: u64,
    /// Priority of jobs that do not set one.
    #[arg(long, env = "DROVER_JOB_DEFAULT_PRIORITY", default_value_t = 50)]
    pub job_default_priority: u16,
    /// Maximum priority of a job.
    #[arg(long, env = "DROVER_JOB_MAX_PRIORITY", default_value_t = 100)]
    pub job_max_priority: u16,
    /// Maximum total count of the task groups of a job.
    #[arg(long, env = "DROVER_JOB_MAX_COUNT", default_value_t = 50_000)]
    pub job_max_count: u32,
    /// Provider of services in jobs that do not name one: `nomad`, the cluster's own service discovery, or `consul`.
    #[arg(long, env = "DROVER_DEFAULT_SERVICE_PROVIDER", value_name = "PROVIDER",
        default_value_t = ServiceProvider::Consul)]
    pub default_service_provider: ServiceProvider,
    /// Serve fuzzy searches.
    #[arg(long, env = "DROVER_SEARCH_FUZZY_ENABLED", value_name = "BOOL", default_value_t = true,
        action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub search_fuzzy_enabled: bool,
    /// Number of matching objects of a kind after which a fuzzy search stops.
    #[arg(long, env = "DROVER_SEARCH_LIMIT_QUERY", default_value_t = 20)]
    pub search_limit_query: u32,
    /// Maximum number of matches of a kind in the response to a fuzzy search.
    #[arg(long, env = "DROVER_SEARCH_LIMIT_RESULTS", default_value_t = 100)]
    pub search_limit_results: u32,
    /// Minimum length of the text of a fuzzy search, in bytes.
    #[arg(long, env = "DROVER_SEARCH_MIN_TERM_LENGTH", default_value_t = 2)]
    pub search_min_term_length: u32,
    /// Serve metrics in Prometheus format under /v1/metrics.
    #[arg(long, env = "DROVER_PROMETHEUS_METRICS", value_name = "BOOL", default_value_t = true,
        action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub prometheus_metrics: bool,
    /// Publish metrics of nodes' hosts, which are requested from their agents.
    #[arg(long, env = "DROVER_PUBLISH_NODE_METRICS")]
    pub publish_node_metrics: bool,
    /// Publish metrics of individual tasks, which are requested from their agents.
    #[arg(long, env = "DROVER_PUBLISH_ALLOCATION_METRICS")]
    pub publish_allocation_metrics: bool,
    /// Maximum size of a job's source together with its variables, in bytes; a larger source is not stored.
    #[arg(long, env = "DROVER_JOB_MAX_SOURCE_BYTES", default_value_t = JOB_SOURCE_BYTES_MAX)]
    pub job_max_source_bytes: usize,
}

/// Equals the maximum size of a command.
const REQUEST_BYTES_MAX: usize = wire::envelope::COMMAND_BYTES_MAX;
/// A decoded object takes up to about two kilobytes.
const REQUEST_OBJECTS_MAX: usize = 50_000;
/// Any other decoded value takes up to about 64 bytes.
const REQUEST_VALUES_MAX: usize = 500_000;
/// One megabyte (http-api §1.11).
const JOB_SOURCE_BYTES_MAX: usize = 1_000_000;
/// Maximum time in which a request body must arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that a request waits for an active applier (http-api §5.4).
const LEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a read waits for the replica to reach the index of the applier's head.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// Limits on fuzzy searches (http-api §25).
#[derive(Debug, Clone, Copy)]
pub(crate) struct FuzzySearch {
    /// Whether fuzzy searches are served.
    pub(crate) enabled: bool,
    /// Number of matching objects of a kind after which a search stops.
    pub(crate) limit_query: usize,
    /// Maximum number of matches of a kind in a response.
    pub(crate) limit_results: usize,
    /// Minimum length of the text, in bytes.
    pub(crate) min_term_length: usize,
}

/// Limits on requests.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Maximum size of a request body, in bytes.
    pub(crate) request_bytes_max: usize,
    /// Maximum number of JSON objects in a request body.
    pub(crate) request_objects_max: usize,
    /// Maximum number of JSON values in a request body: objects, lists, and what they contain.
    pub(crate) request_values_max: usize,
    /// How much a filter may cost.
    pub(crate) filter: FilterLimits,
    /// Maximum time in which a request body must arrive.
    pub(crate) request_timeout: Duration,
    /// Time that a request waits for an active applier.
    pub(crate) leader_timeout: Duration,
    /// Time that a read waits for the replica to catch up.
    pub(crate) catch_up_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes_max: REQUEST_BYTES_MAX,
            request_objects_max: REQUEST_OBJECTS_MAX,
            request_values_max: REQUEST_VALUES_MAX,
            filter: FilterLimits { steps_max: FILTER_STEPS_MAX, now: clock::monotonic },
            request_timeout: REQUEST_TIMEOUT,
            leader_timeout: LEADER_TIMEOUT,
            catch_up_timeout: CATCH_UP_TIMEOUT,
        }
    }
}

impl Args {
    pub(crate) fn limits(&self) -> Limits {
        let limits = Limits::default();
        Limits {
            request_bytes_max: self.http_request_bytes_max,
            request_objects_max: self.http_request_objects_max,
            filter: FilterLimits { steps_max: self.http_filter_steps_max, ..limits.filter },
            ..limits
        }
    }

    pub(crate) fn published_metrics(&self) -> PublishedMetrics {
        PublishedMetrics { nodes: self.publish_node_metrics, allocs: self.publish_allocation_metrics }
    }

    pub(crate) fn fuzzy_search(&self) -> FuzzySearch {
        let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        FuzzySearch {
            enabled: self.search_fuzzy_enabled,
            limit_query: count(self.search_limit_query),
            limit_results: count(self.search_limit_results),
            min_term_length: count(self.search_min_term_length),
        }
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules {
            priority_default: self.job_default_priority,
            priority_max: self.job_max_priority,
            count_max: self.job_max_count,
            source_bytes_max: self.job_max_source_bytes,
            service_provider: self.default_service_provider,
        }
    }
}
