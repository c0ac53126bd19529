//! Consul Connect: sidecar proxies and gateways, as a job describes them. They are stored for Consul; the scheduler
//! ignores them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{LogConfig, Resources, VolumeMount, WorkloadIdentity};

/// A service in Consul's mesh: native, behind a sidecar, or a gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulConnect {
    /// Whether the task implements the mesh protocol itself.
    pub native: Option<bool>,
    /// The proxy beside the task.
    pub sidecar_service: Option<Box<ConsulSidecarService>>,
    /// Overrides for the task that runs the proxy.
    pub sidecar_task: Option<Box<SidecarTask>>,
    /// Present if the service is a gateway.
    pub gateway: Option<Box<ConsulGateway>>,
}

/// How a sidecar proxy is registered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulSidecarService {
    /// Tags to register.
    pub tags: Option<Vec<String>>,
    /// Label of the proxy's port.
    pub port: Option<String>,
    /// Settings of the proxy.
    pub proxy: Option<Box<ConsulProxy>>,
    /// Whether the default TCP check of the proxy is disabled.
    #[serde(rename = "DisableDefaultTCPCheck")]
    pub disable_default_tcp_check: Option<bool>,
    /// Key-value pairs to register with it.
    pub meta: Option<BTreeMap<String, String>>,
}

/// Overrides for the task that runs a sidecar proxy or gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct SidecarTask {
    /// Name in place of the generated one.
    pub name: Option<String>,
    /// Driver in place of `docker`.
    pub driver: Option<String>,
    /// User to run as.
    pub user: Option<String>,
    /// Settings passed on uninterpreted.
    pub config: Option<BTreeMap<String, Value>>,
    /// Environment variables.
    pub env: Option<BTreeMap<String, String>>,
    /// Resources reserved for it.
    pub resources: Option<Box<Resources>>,
    /// Arbitrary key-value pairs set by the user.
    pub meta: Option<BTreeMap<String, String>>,
    /// Nanoseconds between the kill signal and the end.
    pub kill_timeout: Option<i64>,
    /// Rotation of its logs.
    pub log_config: Option<LogConfig>,
    /// Nanoseconds between deregistering the services and the kill signal.
    pub shutdown_delay: Option<i64>,
    /// Signal that is sent to stop it.
    pub kill_signal: Option<String>,
    /// The group's volumes that are mounted into it.
    pub volume_mounts: Option<Vec<VolumeMount>>,
    /// Its workload identities.
    pub identities: Option<Vec<WorkloadIdentity>>,
}

/// Settings of a sidecar proxy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulProxy {
    /// Address of the service that it proxies; default loopback.
    pub local_service_address: Option<String>,
    /// Port of the service that it proxies.
    pub local_service_port: Option<i64>,
    /// Services that are reachable on local ports.
    pub upstreams: Option<Vec<ConsulUpstream>>,
    /// Paths reachable without mutual TLS.
    pub expose: Option<ConsulExposeConfig>,
    /// Redirects all traffic through the proxy.
    pub transparent_proxy: Option<ConsulTransparentProxy>,
    /// Settings passed on uninterpreted.
    pub config: Option<BTreeMap<String, Value>>,
}

/// A service that a proxy makes reachable on a local port.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulUpstream {
    /// The service, or prepared query.
    pub destination_name: Option<String>,
    /// Its Consul namespace.
    pub destination_namespace: Option<String>,
    /// Its Consul admin partition.
    pub destination_partition: Option<String>,
    /// Its Consul cluster peer.
    pub destination_peer: Option<String>,
    /// `service` or `prepared_query`.
    pub destination_type: Option<String>,
    /// Local port.
    pub local_bind_port: Option<i64>,
    /// Its Consul datacenter.
    pub datacenter: Option<String>,
    /// Local address.
    pub local_bind_address: Option<String>,
    /// Unix socket in place of address and port.
    pub local_bind_socket_path: Option<String>,
    /// Octal mode of the socket.
    pub local_bind_socket_mode: Option<String>,
    /// How mesh gateways are used to reach it.
    pub mesh_gateway: Option<ConsulMeshGateway>,
    /// Settings passed on uninterpreted.
    pub config: Option<BTreeMap<String, Value>>,
}

/// How mesh gateways are used to reach an upstream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulMeshGateway {
    /// `none`, `local` or `remote`.
    pub mode: Option<String>,
}

/// Paths that a proxy serves without mutual TLS.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulExposeConfig {
    /// The paths.
    pub paths: Option<Vec<ConsulExposePath>>,
}

/// A path that a proxy serves without mutual TLS.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulExposePath {
    /// HTTP path.
    pub path: Option<String>,
    /// `http` or `http2`.
    pub protocol: Option<String>,
    /// The service's port.
    pub local_path_port: Option<i64>,
    /// Label of the proxy's port.
    pub listener_port: Option<String>,
}

/// Which traffic a transparent proxy redirects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulTransparentProxy {
    /// User id of the proxy itself, whose traffic is not redirected.
    #[serde(rename = "UID")]
    pub uid: Option<String>,
    /// The proxy's port for outgoing traffic.
    pub outbound_port: Option<u64>,
    /// Inbound ports, by label or number, that are not redirected.
    pub exclude_inbound_ports: Option<Vec<String>>,
    /// Outbound ports that are not redirected.
    pub exclude_outbound_ports: Option<Vec<u64>>,
    /// Outbound address ranges that are not redirected.
    #[serde(rename = "ExcludeOutboundCIDRs")]
    pub exclude_outbound_cidrs: Option<Vec<String>>,
    /// User ids whose traffic is not redirected.
    #[serde(rename = "ExcludeUIDs")]
    pub exclude_uids: Option<Vec<String>>,
    /// Whether DNS is not redirected.
    #[serde(rename = "NoDNS")]
    pub no_dns: Option<bool>,
}

/// A gateway of Consul's mesh; one of `Ingress`, `Terminating` and `Mesh` is set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulGateway {
    /// Settings of the proxy.
    pub proxy: Option<Box<ConsulGatewayProxy>>,
    /// Configuration entry of an ingress gateway.
    pub ingress: Option<Box<ConsulIngressConfigEntry>>,
    /// Configuration entry of a terminating gateway.
    pub terminating: Option<ConsulTerminatingConfigEntry>,
    /// Present if this is a mesh gateway.
    pub mesh: Option<ConsulMeshConfigEntry>,
}

/// Settings of a gateway's proxy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulGatewayProxy {
    /// Nanoseconds to wait for an upstream; default 5 s.
    pub connect_timeout: Option<i64>,
    /// Whether it also listens on the tagged addresses.
    pub envoy_gateway_bind_tagged_addresses: Option<bool>,
    /// Further addresses to listen on, by name.
    pub envoy_gateway_bind_addresses: Option<BTreeMap<String, ConsulGatewayBindAddress>>,
    /// Whether it does not listen on the default address.
    pub envoy_gateway_no_default_bind: Option<bool>,
    /// `STRICT_DNS` or `LOGICAL_DNS`.
    #[serde(rename = "EnvoyDNSDiscoveryType")]
    pub envoy_dns_discovery_type: Option<String>,
    /// Settings passed on uninterpreted.
    pub config: Option<BTreeMap<String, Value>>,
}

/// An address that a gateway listens on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulGatewayBindAddress {
    /// IP address.
    pub address: Option<String>,
    /// Port number.
    pub port: Option<i64>,
}

/// Configuration entry of an ingress gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulIngressConfigEntry {
    /// Default TLS settings of the listeners.
    #[serde(rename = "TLS")]
    pub tls: Option<ConsulGatewayTlsConfig>,
    /// The listeners.
    pub listeners: Option<Vec<ConsulIngressListener>>,
}

/// A port that an ingress gateway listens on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulIngressListener {
    /// Port number.
    pub port: Option<i64>,
    /// `tcp`, `http`, `http2` or `grpc`.
    pub protocol: Option<String>,
    /// Services reachable through it.
    pub services: Option<Vec<ConsulIngressService>>,
}

/// A service behind an ingress gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulIngressService {
    /// The service, or `*` for all.
    pub name: Option<String>,
    /// Host names that are routed to it.
    pub hosts: Option<Vec<String>>,
    /// TLS of the listener.
    #[serde(rename = "TLS")]
    pub tls: Option<Box<ConsulGatewayTlsConfig>>,
    /// Changes to requests' headers.
    pub request_headers: Option<Box<ConsulHttpHeaderModifiers>>,
    /// Changes to responses' headers.
    pub response_headers: Option<Box<ConsulHttpHeaderModifiers>>,
    /// Limit of connections.
    pub max_connections: Option<u64>,
    /// Limit of requests waiting for a connection.
    pub max_pending_requests: Option<u64>,
    /// Limit of requests in flight.
    pub max_concurrent_requests: Option<u64>,
}

/// TLS of an ingress gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulGatewayTlsConfig {
    /// Whether TLS is enabled.
    pub enabled: Option<bool>,
    /// Such as `TLSv1_2`.
    #[serde(rename = "TLSMinVersion")]
    pub tls_min_version: Option<String>,
    /// Such as `TLSv1_3`.
    #[serde(rename = "TLSMaxVersion")]
    pub tls_max_version: Option<String>,
    /// Allowed cipher suites by name.
    pub cipher_suites: Option<Vec<String>>,
    /// Source of the certificates, if not Consul.
    #[serde(rename = "SDS")]
    pub sds: Option<ConsulGatewayTlsSdsConfig>,
}

/// A certificate from Envoy's secret discovery service (SDS).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulGatewayTlsSdsConfig {
    /// Cluster that serves the certificate.
    pub cluster_name: Option<String>,
    /// Name of the certificate there.
    pub cert_resource: Option<String>,
}

/// Changes to HTTP headers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulHttpHeaderModifiers {
    /// Values appended, by header.
    pub add: Option<BTreeMap<String, String>>,
    /// Values replaced, by header.
    pub set: Option<BTreeMap<String, String>>,
    /// Headers removed.
    pub remove: Option<Vec<String>>,
}

/// Configuration entry of a terminating gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulTerminatingConfigEntry {
    /// Services reachable through it.
    pub services: Option<Vec<ConsulLinkedService>>,
}

/// A service behind a terminating gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulLinkedService {
    /// The service, or `*` for all.
    pub name: Option<String>,
    /// File with the authority's certificate.
    #[serde(rename = "CAFile")]
    pub ca_file: Option<String>,
    /// File with the client's certificate.
    pub cert_file: Option<String>,
    /// File with the client's key.
    pub key_file: Option<String>,
    /// Server name in the handshake.
    #[serde(rename = "SNI")]
    pub sni: Option<String>,
}

/// Configuration entry of a mesh gateway, which has no settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulMeshConfigEntry {}
