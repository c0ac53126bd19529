//! Formats of log lines. In both formats, a line that is written within a trace ends with the trace id, whether spans
//! are exported or not.

use std::fmt::{self, Write as _};

use opentelemetry::trace::{SpanContext, TraceContextExt};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::fmt::format::{self, Full, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields, MakeWriter};
use tracing_subscriber::layer::Filter;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer};

use crate::Format;

/// Fields of spans with this prefix are repeated in JSON lines.
const FIELD_PREFIX: &str = "drover.";

/// A layer that writes log lines. `traced` says whether spans are exported; only then do JSON lines contain their
/// fields.
pub(crate) fn layer<S, W>(
    format: Format,
    colours: bool,
    level: EnvFilter,
    traced: bool,
    writer: W,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    match format {
        Format::Human => {
            let event = WithTrace { lines: format::format().with_ansi(colours), colours };
            lines.with_ansi(colours).event_format(event).with_filter(events(level, false)).boxed()
        }
        Format::Json => {
            let event =
                format::format().json().flatten_event(true).with_current_span(false).with_span_list(false);
            let lines =
                lines.with_ansi(false).fmt_fields(SpanFields).event_format(WithTraceJson { lines: event });
            lines.with_filter(events(level, traced)).boxed()
        }
    }
}

/// A filter for events of these levels. It enables spans only if the format uses them, because spans are expensive.
fn events<S>(level: EnvFilter, spans: bool) -> Box<dyn Filter<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    level.and(filter_fn(move |metadata| spans || metadata.is_event())).boxed()
}

/// Text for people. The trace id is at the end, after the message and the fields.
struct WithTrace {
    lines: format::Format<Full>,
    colours: bool,
}

impl<S, N> FormatEvent<S, N> for WithTrace
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(trace) = current() else { return self.lines.format_event(context, writer, event) };
        let mut line = String::new();
        self.lines.format_event(context, Writer::new(&mut line), event)?;
        let (dim, plain) = if self.colours { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        writeln!(writer, "{} {dim}trace_id={}{plain}", line.trim_end_matches('\n'), trace.trace_id())
    }
}

/// One JSON object per line, with the ids of the trace and the span, and the fields of the span and of its parents.
struct WithTraceJson {
    lines: format::Format<Json>,
}

impl<S> FormatEvent<S, SpanFields> for WithTraceJson
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, SpanFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(trace) = current() else { return self.lines.format_event(context, writer, event) };
        let mut line = String::new();
        self.lines.format_event(context, Writer::new(&mut line), event)?;
        // The additional members come before the closing brace.
        let object = line.trim_end_matches('\n');
        writer.write_str(object.strip_suffix('}').unwrap_or(object))?;
        let mut written: Vec<String> = Vec::new();
        for span in context.event_scope().into_iter().flatten() {
            let extensions = span.extensions();
            let Some(fields) = extensions.get::<FormattedFields<SpanFields>>() else { continue };
            // If a field was recorded more than once, the newest value is the last one.
            for member in fields.fields.lines().rev() {
                let name = member.split_once(':').map_or(member, |(name, _)| name);
                let is_in_event = event.fields().any(|field| name.trim_matches('"') == field.name());
                if is_in_event || written.iter().any(|known| known == name) {
                    continue;
                }
                write!(writer, ",{member}")?;
                written.push(name.to_owned());
            }
        }
        writeln!(writer, r#","trace_id":"{}","span_id":"{}"}}"#, trace.trace_id(), trace.span_id())
    }
}

/// Context of the current span or of the trace that the work follows, also if it is not sampled; `None` outside of any
/// trace.
fn current() -> Option<SpanContext> {
    opentelemetry::Context::map_current(|context| {
        let span = context.span();
        let found = span.span_context();
        found.is_valid().then(|| found.clone())
    })
}

/// Formats those fields of a span that have the prefix [`FIELD_PREFIX`], as members of a JSON object, one per line.
struct SpanFields;

impl<'writer> FormatFields<'writer> for SpanFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut members = JsonMembers { writer, outcome: Ok(()) };
        fields.record(&mut members);
        members.outcome
    }

    fn add_fields(
        &self,
        current: &'writer mut FormattedFields<Self>,
        fields: &tracing::span::Record<'_>,
    ) -> fmt::Result {
        self.format_fields(current.as_writer(), fields)
    }
}

struct JsonMembers<'writer> {
    writer: Writer<'writer>,
    outcome: fmt::Result,
}

impl JsonMembers<'_> {
    fn add(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        if field.name().starts_with(FIELD_PREFIX) && self.outcome.is_ok() {
            self.outcome = writeln!(self.writer, r#""{}":{value}"#, field.name());
        }
    }
}

impl Visit for JsonMembers<'_> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, format_args!("{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, format_args!("{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, format_args!("{value}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name().starts_with(FIELD_PREFIX) {
            self.add(field, format_args!("{}", Quoted(value)));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name().starts_with(FIELD_PREFIX) {
            self.add(field, format_args!("{}", Quoted(&format!("{value:?}"))));
        }
    }
}

/// Displays a text as a JSON string.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for letter in self.0.chars() {
            match letter {
                '"' | '\\' => write!(f, "\\{letter}")?,
                letter if u32::from(letter) < 0x20 => write!(f, "\\u{:04x}", u32::from(letter))?,
                letter => f.write_char(letter)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests;
