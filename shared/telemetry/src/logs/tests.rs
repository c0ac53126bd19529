//! Tests of log lines: fields, trace ids, and both formats.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The log lines that `work` writes, with or without exported spans.
fn lines(format: Format, traced: bool, work: impl FnOnce()) -> Vec<String> {
    let written = Written::default();
    let writer = written.clone();
    let provider = SdkTracerProvider::builder().with_sampler(Sampler::AlwaysOn).build();
    let spans = traced.then(|| tracing_opentelemetry::layer().with_tracer(provider.tracer("test")));
    let logs = layer(format, false, EnvFilter::new("info"), traced, move || writer.clone());
    let subscriber = tracing_subscriber::registry().with(spans).with(logs);
    tracing::subscriber::with_default(subscriber, work);
    let bytes = written.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

fn inside_of_spans() {
    let outer =
        tracing::info_span!("outer", drover.job.id = "web\"1\"", drover.index = tracing::field::Empty);
    let trace = crate::traces::trace_of(&outer);
    assert!(trace.is_none_or(|trace| trace.trace_id() != 0));
    let _outer = outer.entered();
    let _inner = tracing::info_span!("inner", drover.eval.id = %"e1", other = 7).entered();
    _outer.record("drover.index", 3);
    _outer.record("drover.index", 4);
    tracing::warn!(error = "no room", count = 3, "cannot place");
}

fn json(line: &str) -> serde_json::Map<String, serde_json::Value> {
    serde_json::from_str(line).unwrap()
}

#[test]
fn json_lines_carry_the_ids_of_trace_and_span() {
    let lines = lines(Format::Json, true, || {
        tracing::info!("outside");
        inside_of_spans();
    });
    let (outside, inside) = (json(&lines[0]), json(&lines[1]));
    assert!(!outside.contains_key("trace_id") && !outside.contains_key("span_id"));
    for (name, digits) in [("trace_id", 32), ("span_id", 16)] {
        let id = inside[name].as_str().unwrap();
        assert!(id.len() == digits && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{id}");
    }
    assert_eq!((&inside["message"], &inside["error"]), (&"cannot place".into(), &"no room".into()));
    assert_eq!((&inside["level"], &inside["count"]), (&"WARN".into(), &3.into()));
    assert_eq!((&inside["drover.job.id"], &inside["drover.eval.id"]), (&"web\"1\"".into(), &"e1".into()));
    assert_eq!(inside["drover.index"], 4, "the newest value takes precedence");
    assert!(!inside.contains_key("other"));
}

#[test]
fn fields_of_the_line_are_not_repeated_from_its_spans() {
    let lines = lines(Format::Json, true, || {
        let _span = tracing::info_span!("outer", drover.eval.id = "span").entered();
        tracing::info!(drover.eval.id = "line", "message");
    });
    assert_eq!(lines[0].matches("drover.eval.id").count(), 1);
    assert_eq!(json(&lines[0])["drover.eval.id"], "line");
}

#[test]
fn lines_for_people_end_with_the_trace() {
    let lines = lines(Format::Human, true, || {
        tracing::info!("outside");
        inside_of_spans();
    });
    assert!(!lines[0].contains("trace_id="), "{}", lines[0]);
    let (line, id) = lines[1].rsplit_once(" trace_id=").unwrap();
    assert!(line.ends_with(r#"cannot place error="no room" count=3"#), "{line}");
    assert_eq!(id.len(), 32);
}

#[test]
fn without_traces_lines_name_none() {
    for format in [Format::Human, Format::Json] {
        let lines = lines(format, false, inside_of_spans);
        assert!(lines[0].contains("cannot place") && !lines[0].contains("trace_id"), "{}", lines[0]);
        assert!(!lines[0].contains("drover."), "{}", lines[0]);
    }
}

#[test]
fn a_trace_is_named_where_no_spans_are_exported() {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00".parse().unwrap();
    let work = || crate::traces::in_trace(&trace, || tracing::info!("inside"));
    let line = &lines(Format::Human, false, work)[0];
    assert!(line.ends_with("inside trace_id=0af7651916cd43dd8448eb211c80319c"), "{line}");
    let line = json(&lines(Format::Json, false, work)[0]);
    assert_eq!(line["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(line["span_id"], "b7ad6b7169203331");
}
