//! Traces, logs and metrics: how every process tells what it does. Also the one place that reads clocks and draws lots,
//! for the rims of services; what decides gets moments and ids from its caller.
//!
//! Logs go to standard error. Traces and metrics go out by OTLP over gRPC where the standard `OTEL_*` variables name a
//! collector, and cost next to nothing where they do not.

pub mod clock;
mod logs;
pub mod metrics;
pub mod monitor;
mod otlp;
pub mod traces;

use std::error::Error as StdError;
use std::io::IsTerminal;

use opentelemetry::trace::TracerProvider;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

pub use traces::attributes as attribute;
pub use traces::{adopt, current_trace};

/// What is logged unless somebody says otherwise; libraries are quieter than we are.
const LEVEL: &str = "info,actix_server=warn,async_nats=warn";

/// What a process is, as its spans and metrics say.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Its role; `OTEL_SERVICE_NAME` says otherwise.
    pub service: &'static str,
    /// The version of its program.
    pub version: &'static str,
    /// Its id, which no other process has or had.
    pub instance: String,
    /// Its machine's name.
    pub host: String,
}

/// How a process logs.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Logs")]
pub struct Args {
    /// What is logged: a level, or levels by module, as in `info,bus=debug`.
    #[arg(long = "log-level", env = "DROVER_LOG_LEVEL", default_value = LEVEL)]
    pub level: String,
    /// How logs look: for people, or one JSON object a line.
    #[arg(long = "log-format", env = "DROVER_LOG_FORMAT", default_value = "human")]
    pub format: Format,
}

/// How logs look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people; in colour on a terminal.
    Human,
    /// One JSON object a line.
    Json,
}

/// Why telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter is none.
    #[error("cannot read {level:?} as a log level or filter, such as info or info,bus=debug")]
    Level {
        /// What was given.
        level: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// The exporter refuses its settings.
    #[error("cannot export {what} as the OTEL_* variables say")]
    Exporter {
        /// Traces or metrics.
        what: &'static str,
        /// What is wrong with them.
        #[source]
        source: opentelemetry_otlp::ExporterBuildError,
    },
    /// Somebody set up logs before.
    #[error("logs are set up already")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// Sends what is still buffered when the process ends. Hold it in `main`.
#[must_use = "dropping it at once loses the last spans"]
#[derive(Debug)]
pub struct Guard {
    traces: Option<opentelemetry_sdk::trace::SdkTracerProvider>,
    metrics: Option<opentelemetry_sdk::metrics::SdkMeterProvider>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The last chance to send; whether it works or not, the process ends.
        if let Some(traces) = &self.traces {
            let _ = traces.shutdown();
        }
        if let Some(metrics) = &self.metrics {
            let _ = metrics.shutdown();
        }
    }
}

/// Sets up logs, traces and metrics for this process. Call it once, inside a tokio runtime: the exporter's connection lives
/// there.
///
/// # Errors
/// If a setting is not understood, or it was done before.
pub fn init(args: &Args, identity: &Identity) -> Result<Guard, Error> {
    let level = |source| Error::Level { level: args.level.clone(), source };
    let filter = EnvFilter::try_new(&args.level).map_err(level)?;
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();

    let resource = otlp::resource(identity);
    let metrics = otlp::meter_provider(resource.clone())?;
    let traces = otlp::tracer_provider(resource)?;
    let tracer = traces.as_ref().map(|provider| provider.tracer("drover"));
    let logs = logs::layer(args.format, colours, filter, tracer.is_some(), std::io::stderr);
    // The filter wraps an absent layer as well: without a filter, an absent layer would keep all spans enabled.
    let wanted = if tracer.is_some() { traces::filter() } else { traces::no_spans() };
    let spans = tracer.clone().map(|tracer| {
        // What these would add to every span, nobody who looks at a trace of this cluster asks for.
        let layer =
            tracing_opentelemetry::layer().with_location(false).with_threads(false).with_target(false);
        layer.with_tracked_inactivity(false).with_tracer(tracer)
    });
    let spans = spans.with_filter(wanted);

    Registry::default().with(spans).with(logs).with(monitor::layer()).try_init().map_err(Error::Twice)?;
    if let Some(tracer) = tracer {
        traces::set_up(tracer);
    }
    if let Some(metrics) = &metrics {
        metrics::set_up(metrics);
    }
    Ok(Guard { traces, metrics })
}

/// An error and its causes in one line, for logs and for people.
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
}
