//! Services and their health checks, as a job describes them. Consul Connect is in `connect.rs`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{ConsulConnect, WorkloadIdentity};

/// A service registered in Consul or in Nomad's native service catalog.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Service {
    /// Name in the catalog; default `<job>-<group>` or `<job>-<group>-<task>`.
    pub name: Option<String>,
    /// Task that a group's service belongs to.
    pub task_name: Option<String>,
    /// Label of its port, or a number.
    pub port_label: Option<String>,
    /// Which address is registered: `auto`, `alloc`, `alloc_ipv6`, `driver` or `host`; default `auto`.
    pub address_mode: Option<String>,
    /// Address to register in place of the one that `AddressMode` selects.
    pub address: Option<String>,
    /// Whether tags may be changed in Consul.
    pub enable_tag_override: Option<bool>,
    /// Tags to register.
    pub tags: Option<Vec<String>>,
    /// Tags to register in place of `Tags` while the allocation is a canary.
    pub canary_tags: Option<Vec<String>>,
    /// Health checks.
    pub checks: Option<Vec<ServiceCheck>>,
    /// Consul Connect.
    pub connect: Option<Box<ConsulConnect>>,
    /// Key-value pairs to register with it.
    pub meta: Option<BTreeMap<String, String>>,
    /// Key-value pairs to register in place of `Meta` while the allocation is a canary.
    pub canary_meta: Option<BTreeMap<String, String>>,
    /// Weights in Consul's DNS responses.
    pub weights: Option<ServiceWeights>,
    /// Further addresses by name.
    pub tagged_addresses: Option<BTreeMap<String, String>>,
    /// Consul namespace, or that of the job for native services.
    pub namespace: Option<String>,
    /// How checks affect a deployment: `require_healthy`, `ignore_warnings` or `ignore`.
    pub on_update: Option<String>,
    /// `consul` or `nomad`; default `consul`.
    pub provider: Option<String>,
    /// Name of the Consul or Vault cluster of the node's configuration; default `default`.
    pub cluster: Option<String>,
    /// Workload identity for Consul.
    pub identity: Option<Box<WorkloadIdentity>>,
    /// Consul's kind of service, such as `api-gateway`.
    pub kind: Option<String>,
    /// Default for all checks; in requests only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_restart: Option<CheckRestart>,
}

/// Weights in Consul's DNS responses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ServiceWeights {
    /// Weight while all checks pass; default 1.
    pub passing: Option<i64>,
    /// Weight while some checks warn; default 1.
    pub warning: Option<i64>,
}

/// A health check of a service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ServiceCheck {
    /// Display name; default `service: "<name>" check`.
    pub name: Option<String>,
    /// `http`, `tcp`, `grpc` or `script`.
    pub r#type: Option<String>,
    /// Program of a script check.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Option<Vec<String>>,
    /// Path of an HTTP check.
    pub path: Option<String>,
    /// `http` or `https`; default `http`.
    pub protocol: Option<String>,
    /// Port in place of the service's.
    pub port_label: Option<String>,
    /// Whether the sidecar proxy makes the path reachable without mutual TLS.
    pub expose: Option<bool>,
    /// Address to check, as for the service.
    pub address_mode: Option<String>,
    /// Nanoseconds between checks, at least a second.
    pub interval: Option<i64>,
    /// Nanoseconds to wait for a response, at least a second.
    pub timeout: Option<i64>,
    /// Status before the first check: `critical`, `warning` or `passing`.
    pub initial_status: Option<String>,
    /// Human-readable notes.
    pub notes: Option<String>,
    /// Server name in the TLS handshake and the certificate.
    #[serde(rename = "TLSServerName")]
    pub tls_server_name: Option<String>,
    /// Whether certificates are not verified.
    #[serde(rename = "TLSSkipVerify")]
    pub tls_skip_verify: Option<bool>,
    /// HTTP method; default `GET`.
    pub method: Option<String>,
    /// HTTP headers.
    pub header: Option<BTreeMap<String, Vec<String>>>,
    /// When failing checks restart the task.
    pub check_restart: Option<CheckRestart>,
    /// Service name in the gRPC health-checking protocol.
    #[serde(rename = "GRPCService")]
    pub grpc_service: Option<String>,
    /// Whether gRPC uses TLS.
    #[serde(rename = "GRPCUseTLS")]
    pub grpc_use_tls: Option<bool>,
    /// Task that a script check runs in.
    pub task_name: Option<String>,
    /// Consecutive successes after which it passes.
    pub success_before_passing: Option<i64>,
    /// Consecutive failures after which it is critical.
    pub failures_before_critical: Option<i64>,
    /// Consecutive failures after which it warns.
    pub failures_before_warning: Option<i64>,
    /// Body of an HTTP check.
    pub body: Option<String>,
    /// How it affects a deployment; default the service's setting.
    pub on_update: Option<String>,
    /// Address that the check uses from outside the host; in requests only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
}

/// When failing checks restart a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CheckRestart {
    /// Consecutive failures after which the task is restarted; 0 is off.
    pub limit: Option<i64>,
    /// Nanoseconds after a start during which failures do not count; default 1 s.
    pub grace: Option<i64>,
    /// Whether warnings count as success.
    pub ignore_warnings: Option<bool>,
}
