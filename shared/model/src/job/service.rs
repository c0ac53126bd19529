//! Services that a group or a task registers in service discovery, and their health checks.

use std::collections::BTreeMap;

use super::WorkloadIdentity;
use crate::invalid::Invalid;
use crate::mirror::{Member, encoded_as_api, mirror, passthrough, text_members};
use crate::text::string_enum;
use crate::{Nanos, Text};

string_enum! {
    /// Where services are registered.
    ServiceProvider, "service provider" {
        /// In Consul.
        Consul => "consul",
        /// In the cluster's own catalog.
        Nomad => "nomad",
    }
}

string_enum! {
    /// Which address of an allocation a service is registered with, or a check uses.
    AddressMode, "address mode" {
        /// The driver's if it advertises one, otherwise the node's.
        Auto => "auto",
        /// That of the allocation's network namespace.
        Alloc => "alloc",
        /// The same, of version 6.
        AllocIpv6 => "alloc_ipv6",
        /// The one that the driver gave the task.
        Driver => "driver",
        /// The node's.
        Host => "host",
    }
}

string_enum! {
    /// What a check does.
    CheckKind, "check type" {
        /// Requests a page.
        Http => "http",
        /// Opens a connection.
        Tcp => "tcp",
        /// Asks by the health-checking protocol of gRPC.
        Grpc => "grpc",
        /// Runs a program in a task.
        Script => "script",
    }
}

string_enum! {
    /// The status of a check before its first result.
    CheckStatus, "check status" {
        /// It fails.
        Critical => "critical",
        /// It warns.
        Warning => "warning",
        /// It passes.
        Passing => "passing",
    }
}

string_enum! {
    /// How checks affect the health of an allocation in a deployment.
    OnUpdate, "on_update value" {
        /// They must pass.
        RequireHealthy => "require_healthy",
        /// They may warn.
        IgnoreWarnings => "ignore_warnings",
        /// They do not affect it.
        Ignore => "ignore",
    }
}

text_members!(ServiceProvider, AddressMode, CheckStatus, OnUpdate);
passthrough!(Box<api_types::ConsulConnect>);
encoded_as_api!(Service, ServiceWeights, ServiceCheck, CheckRestart);

/// A service to register in service discovery.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Service {
    /// Its name in the catalog. The node fills in variables.
    pub name: Text,
    /// The task that it belongs to; empty for a service of a group that no task is named for.
    pub task_name: Text,
    /// Label of its port, or a number.
    pub port_label: Text,
    /// Which address is registered.
    pub address_mode: Option<AddressMode>,
    /// Address to register in place of the one that the mode selects.
    pub address: Text,
    /// Whether its tags may be changed in Consul.
    pub enable_tag_override: bool,
    /// Tags to register.
    pub tags: Vec<Text>,
    /// Tags to register in their place while the allocation is a canary.
    pub canary_tags: Vec<Text>,
    /// Health checks.
    pub checks: Vec<ServiceCheck>,
    /// Consul Connect, which only Consul interprets.
    pub connect: Option<Box<api_types::ConsulConnect>>,
    /// Key-value pairs to register with it.
    pub meta: BTreeMap<Text, Text>,
    /// Key-value pairs to register in their place while the allocation is a canary.
    pub canary_meta: BTreeMap<Text, Text>,
    /// Weights in Consul's DNS responses.
    pub weights: Option<ServiceWeights>,
    /// Further addresses by name.
    pub tagged_addresses: BTreeMap<Text, Text>,
    /// Namespace at the provider.
    pub namespace: Text,
    /// How its checks affect a deployment, unless they say so themselves.
    pub on_update: Option<OnUpdate>,
    /// Where it is registered.
    pub provider: Option<ServiceProvider>,
    /// Name of the Consul cluster in the node's configuration.
    pub cluster: Text,
    /// Workload identity for Consul.
    pub identity: Option<Box<WorkloadIdentity>>,
    /// Consul's kind of service, such as `api-gateway`.
    pub kind: Text,
}

mirror! {
    Service = Service {
        name: "Name",
        task_name: "TaskName",
        port_label: "PortLabel",
        address_mode: "AddressMode",
        address: "Address",
        enable_tag_override: "EnableTagOverride",
        tags: "Tags",
        canary_tags: "CanaryTags",
        checks: "Checks",
        connect: "Connect",
        meta: "Meta",
        canary_meta: "CanaryMeta",
        weights: "Weights",
        tagged_addresses: "TaggedAddresses",
        namespace: "Namespace",
        on_update: "OnUpdate",
        provider: "Provider",
        cluster: "Cluster",
        identity: "Identity",
        kind: "Kind",
    }
    // The default of all checks; `canonicalise` merges it into them.
    ignored { check_restart = None }
}

/// Weights in Consul's DNS responses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceWeights {
    /// Weight while all checks pass.
    pub passing: i64,
    /// Weight while some checks warn.
    pub warning: i64,
}

mirror! {
    ServiceWeights = ServiceWeights { passing: "Passing", warning: "Warning" }
}

/// A health check of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceCheck {
    /// Display name.
    pub name: Text,
    /// What it does.
    pub kind: Option<CheckKind>,
    /// Program of a script check.
    pub command: Text,
    /// Its arguments.
    pub args: Vec<Text>,
    /// Path of an HTTP check.
    pub path: Text,
    /// `http` or `https`; empty is `http`.
    pub protocol: Text,
    /// Port in place of the service's.
    pub port_label: Text,
    /// Whether the sidecar proxy makes the path reachable without mutual TLS.
    pub expose: bool,
    /// Which address it uses.
    pub address_mode: Option<AddressMode>,
    /// Time between two checks.
    pub interval: Nanos,
    /// How long it waits for a response.
    pub timeout: Nanos,
    /// The status before the first check.
    pub initial_status: Option<CheckStatus>,
    /// Human-readable notes.
    pub notes: Text,
    /// Server name in the TLS handshake and the certificate.
    pub tls_server_name: Text,
    /// Whether certificates are not verified.
    pub tls_skip_verify: bool,
    /// HTTP method; empty is `GET`.
    pub method: Text,
    /// HTTP headers.
    pub header: BTreeMap<Text, Vec<Text>>,
    /// When its failures restart the task.
    pub check_restart: Option<CheckRestart>,
    /// Service name in the health-checking protocol of gRPC.
    pub grpc_service: Text,
    /// Whether gRPC uses TLS.
    pub grpc_use_tls: bool,
    /// The task that a script check runs in.
    pub task_name: Text,
    /// Consecutive successes after which it passes.
    pub success_before_passing: u32,
    /// Consecutive failures after which it is critical.
    pub failures_before_critical: u32,
    /// Consecutive failures after which it warns.
    pub failures_before_warning: u32,
    /// Body of an HTTP check.
    pub body: Text,
    /// How it affects a deployment.
    pub on_update: Option<OnUpdate>,
}

mirror! {
    ServiceCheck = ServiceCheck {
        name: "Name",
        command: "Command",
        args: "Args",
        path: "Path",
        protocol: "Protocol",
        port_label: "PortLabel",
        expose: "Expose",
        address_mode: "AddressMode",
        interval: "Interval",
        timeout: "Timeout",
        initial_status: "InitialStatus",
        notes: "Notes",
        tls_server_name: "TLSServerName",
        tls_skip_verify: "TLSSkipVerify",
        method: "Method",
        header: "Header",
        check_restart: "CheckRestart",
        grpc_service: "GRPCService",
        grpc_use_tls: "GRPCUseTLS",
        task_name: "TaskName",
        success_before_passing: "SuccessBeforePassing",
        failures_before_critical: "FailuresBeforeCritical",
        failures_before_warning: "FailuresBeforeWarning",
        body: "Body",
        on_update: "OnUpdate",
    }
    renamed { kind = r#type: "Type" }
    // In requests only.
    ignored { advertise = None }
}

/// When failures of a check restart the task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckRestart {
    /// Consecutive failures after which the task is restarted; 0 is never.
    pub limit: u32,
    /// Time after a start in which failures do not count.
    pub grace: Nanos,
    /// Whether warnings count as success.
    pub ignore_warnings: bool,
}

mirror! {
    CheckRestart = CheckRestart { limit: "Limit", grace: "Grace", ignore_warnings: "IgnoreWarnings" }
}

/// Job files may write the type in capital letters.
impl Member<String> for Option<CheckKind> {
    fn read(api: Option<String>) -> Result<Self, Invalid> {
        match api {
            Some(text) if !text.is_empty() => Ok(Some(text.to_lowercase().parse()?)),
            Some(_) | None => Ok(None),
        }
    }

    fn write(&self) -> Option<String> {
        Some(self.map_or_else(String::new, |kind| kind.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::Mirror as _;

    fn check() -> api_types::ServiceCheck {
        ServiceCheck { kind: Some(CheckKind::Tcp), interval: Nanos::SECOND, ..ServiceCheck::default() }
            .to_api()
    }

    fn service(check: api_types::ServiceCheck) -> api_types::Service {
        let service = Service {
            name: "web".into(),
            provider: Some(ServiceProvider::Nomad),
            identity: Some(Box::default()),
            weights: Some(ServiceWeights { passing: 1, warning: -1 }),
            ..Service::default()
        };
        api_types::Service { checks: Some(vec![check]), ..service.to_api() }
    }

    #[test]
    fn a_service_reads_as_it_was_registered() {
        let header = [("Accept".to_owned(), vec!["text/html".to_owned(), String::new()])].into();
        let given = service(api_types::ServiceCheck { header: Some(header), ..check() });
        assert_eq!(Service::from_api(given.clone()).unwrap().to_api(), given);
    }

    /// Rows and messages of earlier versions contain services of the API.
    #[test]
    fn a_service_is_encoded_as_in_the_api() {
        let api = service(check());
        let encoded = rmp_serde::to_vec_named(&api).unwrap();
        let read: Service = rmp_serde::from_slice(&encoded).unwrap();
        assert_eq!(read, Service::from_api(api).unwrap());
        assert_eq!(rmp_serde::to_vec_named(&read).unwrap(), encoded);
    }

    #[test]
    fn the_type_of_a_check_may_be_written_in_capital_letters() {
        let shouted = service(api_types::ServiceCheck { r#type: Some("HTTP".to_owned()), ..check() });
        assert_eq!(Service::from_api(shouted).unwrap().checks[0].kind, Some(CheckKind::Http));
    }

    #[test]
    fn unknown_values_are_refused_with_their_place() {
        let refusal =
            |change: api_types::ServiceCheck| Service::from_api(service(change)).unwrap_err().to_string();
        let mode = api_types::ServiceCheck { address_mode: Some("near".to_owned()), ..check() };
        assert!(refusal(mode).starts_with("Checks[0].AddressMode: "));
        let count = api_types::ServiceCheck { failures_before_warning: Some(-1), ..check() };
        assert_eq!(refusal(count), "Checks[0].FailuresBeforeWarning: -1 is negative");
    }
}
