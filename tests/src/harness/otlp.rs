//! A collector that keeps what it is sent: spans by OTLP over gRPC.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// A span, as far as tests look at it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Which process made it: the resource's `service.name`.
    pub service: String,
    /// Its name.
    pub name: String,
    /// Its trace, in hex digits.
    pub trace_id: String,
    /// Its id, in hex digits.
    pub span_id: String,
    /// The span that it is a part of; empty for a root.
    pub parent: String,
}

/// A running collector.
#[derive(Debug, Clone)]
pub struct Collector {
    address: SocketAddr,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    /// Starts one on a free port; it goes with the runtime.
    ///
    /// # Panics
    /// If no port can be had.
    pub fn start() -> Self {
        let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).expect("a port is free");
        let address = incoming.local_addr().expect("a bound socket has an address");
        let spans = Arc::default();
        let service = TraceServiceServer::new(Keep(Arc::clone(&spans)));
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
        Self { address, spans }
    }

    /// What `OTEL_EXPORTER_OTLP_ENDPOINT` is to be.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The spans of a trace that have arrived.
    pub fn trace(&self, trace_id: &str) -> Vec<Span> {
        let spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        spans.iter().filter(|span| span.trace_id == trace_id).cloned().collect()
    }
}

struct Keep(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Keep {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for resource in request.into_inner().resource_spans {
            let attributes = resource.resource.map(|resource| resource.attributes).unwrap_or_default();
            let service = attributes.into_iter().find(|attribute| attribute.key == "service.name");
            let service = service.and_then(|attribute| attribute.value).and_then(|value| value.value);
            let service = match service {
                Some(opentelemetry_proto::tonic::common::v1::any_value::Value::StringValue(name)) => name,
                _ => String::new(),
            };
            for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                kept.push(Span {
                    service: service.clone(),
                    name: span.name,
                    trace_id: hex(&span.trace_id),
                    span_id: hex(&span.span_id),
                    parent: hex(&span.parent_span_id),
                });
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
