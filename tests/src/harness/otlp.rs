//! A collector of spans by OTLP over gRPC, which keeps all that it receives.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1 as proto;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// A span, as far as tests read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Attributes of the resource, which identify the process.
    pub resource: BTreeMap<String, String>,
    /// The span's name.
    pub name: String,
    /// The span's kind, such as `server`.
    pub kind: &'static str,
    /// The id of its trace, in hex digits.
    pub trace_id: String,
    /// The span's id, in hex digits.
    pub span_id: String,
    /// The id of its parent; empty for a root.
    pub parent: String,
    /// Ids of linked spans, as trace and span.
    pub links: Vec<(String, String)>,
    /// The start, in nanoseconds since 1970.
    pub start: u64,
    /// The end, in nanoseconds since 1970.
    pub end: u64,
    /// The span's attributes.
    pub attributes: BTreeMap<String, String>,
    /// The error message, if the span failed.
    pub error: Option<String>,
}

impl Span {
    /// The resource's `service.name`.
    pub fn service(&self) -> &str {
        self.resource.get("service.name").map_or("", String::as_str)
    }
}

/// A running collector.
#[derive(Debug, Clone)]
pub struct Collector {
    address: SocketAddr,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    /// Starts a collector on a free port. It ends with the runtime.
    ///
    /// # Panics
    /// If no port is free.
    pub fn start() -> Self {
        let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).expect("a free port exists");
        let address = incoming.local_addr().expect("a bound socket has an address");
        let spans = Arc::default();
        let service = TraceServiceServer::new(SpanStore(Arc::clone(&spans)));
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
        Self { address, spans }
    }

    /// The value for `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All spans that have arrived.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The spans of a trace that have arrived.
    pub fn trace(&self, trace_id: &str) -> Vec<Span> {
        let spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        spans.iter().filter(|span| span.trace_id == trace_id).cloned().collect()
    }
}

struct SpanStore(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for SpanStore {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for resource in request.into_inner().resource_spans {
            let attributes = resource.resource.map(|resource| resource.attributes).unwrap_or_default();
            let attributes = texts(attributes);
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            stored.extend(spans.map(|span| read(span, attributes.clone())));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn read(span: proto::Span, resource: BTreeMap<String, String>) -> Span {
    let links = span.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id)));
    let status = span.status.as_ref().filter(|status| status.code() == StatusCode::Error);
    let kind = match span.kind() {
        SpanKind::Unspecified => "",
        SpanKind::Internal => "internal",
        SpanKind::Server => "server",
        SpanKind::Client => "client",
        SpanKind::Producer => "producer",
        SpanKind::Consumer => "consumer",
    };
    Span {
        resource,
        kind,
        links: links.collect(),
        error: status.map(|status| status.message.clone()),
        trace_id: hex(&span.trace_id),
        span_id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        start: span.start_time_unix_nano,
        end: span.end_time_unix_nano,
        attributes: texts(span.attributes),
        name: span.name,
    }
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Option<AnyValue>| match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(is)) => is.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.into_iter().map(|attribute| (attribute.key, text(attribute.value))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
