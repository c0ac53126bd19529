//! How log lines look.

use tracing_subscriber::Layer;

use crate::Format;

/// Writes logs to standard error.
pub(crate) fn layer<S>(format: Format, colours: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    match format {
        Format::Human => lines.boxed(),
        Format::Json => lines.json().flatten_event(true).boxed(),
    }
}
