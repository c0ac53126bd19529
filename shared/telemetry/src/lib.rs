//! Traces, logs and metrics of every process, and its clocks and random numbers.
//!
//! Only the outer parts of services read clocks and random numbers. Code that makes decisions gets times and ids from
//! its caller.
//!
//! Logs go to standard error. Traces and metrics are exported by OTLP over gRPC if the standard `OTEL_*` variables name
//! a collector; otherwise they cost almost nothing.

pub mod clock;
mod logs;
pub mod metrics;
pub mod monitor;
mod otlp;
pub mod repeats;
pub mod traces;

use std::error::Error as StdError;
use std::io::IsTerminal;
use std::sync::OnceLock;

use opentelemetry::trace::TracerProvider;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

pub use traces::attributes as attribute;
pub use traces::{adopt, current_trace};

/// The log filter that a user's filter adds to: libraries log less, unless the user's filter names them. The NATS
/// client logs each failed attempt to connect, which `bus` reports too, with the reason and what to do.
const BASE: &str = "error,actix_server=warn,async_nats=off";

/// Identity of a process, as reported with its spans and metrics.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The role of the process; `OTEL_SERVICE_NAME` overrides it.
    pub service: &'static str,
    /// Version of the program.
    pub version: &'static str,
    /// Unique id of the process.
    pub instance: String,
    /// Name of the host.
    pub host: String,
}

/// Log settings of a process.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Logs")]
pub struct Args {
    /// Log filter: a level, or levels by module, as in `info,bus=debug`. Some libraries log less unless it names them.
    #[arg(long = "log-level", env = "DROVER_LOG_LEVEL", default_value = "info")]
    pub level: String,
    /// Log format: text for people, or one JSON object per line.
    #[arg(long = "log-format", env = "DROVER_LOG_FORMAT", default_value = "human")]
    pub format: Format,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Text for people; coloured on a terminal.
    Human,
    /// One JSON object per line.
    Json,
}

/// The reason why telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log filter is not valid.
    #[error("cannot parse {level:?} as a log level or filter, such as info or info,bus=debug")]
    Level {
        /// The given filter.
        level: String,
        /// Cause.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// The exporter rejects its settings.
    #[error("cannot export {what} with the settings in the OTEL_* variables")]
    Exporter {
        /// `traces` or `metrics`.
        what: &'static str,
        /// Cause.
        #[source]
        source: opentelemetry_otlp::ExporterBuildError,
    },
    /// Logging was already set up.
    #[error("logging is already set up")]
    AlreadySetUp(#[source] tracing_subscriber::util::TryInitError),
}

/// Exports buffered spans and metrics when it is dropped at the end of the process. Keep it in `main`.
#[must_use = "dropping it at once loses the last spans"]
#[derive(Debug)]
pub struct Guard {
    traces: Option<opentelemetry_sdk::trace::SdkTracerProvider>,
    metrics: Option<opentelemetry_sdk::metrics::SdkMeterProvider>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The process ends next, so errors cannot be handled.
        if let Some(traces) = &self.traces {
            let _ = traces.shutdown();
        }
        if let Some(metrics) = &self.metrics {
            let _ = metrics.shutdown();
        }
    }
}

/// Sets up logs, traces and metrics for this process. Call it once, within a tokio runtime, which then runs the
/// exporter's connection.
///
/// # Errors
/// If a setting is not valid, or telemetry was already set up.
pub fn init(args: &Args, identity: &Identity) -> Result<Guard, Error> {
    let level = filter(&args.level)?;
    // A second call fails below, and does not change the level.
    let _ = LOG_LEVEL.set(general_level(&args.level));
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();

    let resource = otlp::resource(identity);
    let metrics = otlp::meter_provider(resource.clone())?;
    let traces = otlp::tracer_provider(resource)?;
    let tracer = traces.as_ref().map(|provider| provider.tracer("drover"));
    let logs = logs::layer(args.format, colours, level, tracer.is_some(), std::io::stderr);
    // The filter wraps an absent layer as well: without a filter, an absent layer would keep all spans enabled.
    let span_filter = if tracer.is_some() { traces::filter() } else { traces::no_spans() };
    let spans = tracer.clone().map(|tracer| {
        // These attributes are not useful in the traces of this cluster.
        let layer =
            tracing_opentelemetry::layer().with_location(false).with_threads(false).with_target(false);
        layer.with_tracked_inactivity(false).with_tracer(tracer)
    });
    let spans = spans.with_filter(span_filter);

    Registry::default()
        .with(spans)
        .with(logs)
        .with(monitor::layer())
        .try_init()
        .map_err(Error::AlreadySetUp)?;
    if let Some(tracer) = tracer {
        traces::set_up(tracer);
    }
    if let Some(metrics) = &metrics {
        metrics::set_up(metrics);
    }
    Ok(Guard { traces, metrics })
}

/// The log level of this process.
static LOG_LEVEL: OnceLock<LevelFilter> = OnceLock::new();

/// The configured log level of this process, without those of single modules: `INFO`. `OFF` before [`init`].
pub fn log_level() -> String {
    LOG_LEVEL.get().copied().unwrap_or(LevelFilter::OFF).to_string().to_uppercase()
}

/// The level of a log filter for everything that it does not name.
fn general_level(filter: &str) -> LevelFilter {
    let directives = filter.split(',').map(str::trim).filter(|directive| !directive.is_empty());
    let mut levels = directives.filter_map(|directive| directive.parse().ok());
    levels.next_back().unwrap_or(LevelFilter::ERROR)
}

/// The log filter that a user gives, on top of [`BASE`]. A later directive for a target replaces an earlier one.
fn filter(level: &str) -> Result<EnvFilter, Error> {
    EnvFilter::try_new(format!("{BASE},{level}"))
        .map_err(|source| Error::Level { level: level.to_owned(), source })
}

/// An error and all its causes in one line.
pub fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot commit")]
    struct Outer(#[source] std::fmt::Error);

    #[test]
    fn a_chain_names_every_cause_once() {
        let fmt = std::fmt::Error.to_string();
        assert_eq!(chain(&Outer(std::fmt::Error)), format!("cannot commit: {fmt}"));
    }

    #[test]
    fn the_level_of_a_filter_is_the_one_without_a_module() {
        assert_eq!(general_level("debug"), LevelFilter::DEBUG);
        assert_eq!(general_level("info, bus=trace"), LevelFilter::INFO);
        assert_eq!(general_level("bus=trace,warn"), LevelFilter::WARN);
        assert_eq!(general_level(""), LevelFilter::ERROR);
    }

    #[test]
    fn libraries_log_less_unless_they_are_named() {
        let shown = |level: &str| filter(level).unwrap().to_string();
        assert_eq!(shown("info"), "actix_server=warn,async_nats=off,info");
        assert_eq!(shown(""), "actix_server=warn,async_nats=off,error");
        let named = shown("debug,async_nats=trace");
        assert!(named.contains("async_nats=trace") && !named.contains("async_nats=off"), "{named}");
        assert!(named.contains("actix_server=warn"), "{named}");
        let error = filter("bus=loud").unwrap_err().to_string();
        assert!(error.contains(r#""bus=loud""#), "{error}");
    }
}
