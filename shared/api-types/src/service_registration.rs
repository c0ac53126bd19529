//! Registrations of services in the cluster's own service discovery.

use serde::{Deserialize, Serialize};

/// An instance of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ServiceRegistration {
    /// Unique id.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// Name of the service.
    pub service_name: Option<String>,
    /// Namespace of its job.
    pub namespace: Option<String>,
    /// The node that it runs on.
    #[serde(rename = "NodeID")]
    pub node_id: Option<String>,
    /// That node's datacenter.
    pub datacenter: Option<String>,
    /// The job that it belongs to.
    #[serde(rename = "JobID")]
    pub job_id: Option<String>,
    /// The allocation that it belongs to.
    #[serde(rename = "AllocID")]
    pub alloc_id: Option<String>,
    /// Its tags.
    pub tags: Option<Vec<String>>,
    /// IP address or host name.
    pub address: Option<String>,
    /// Port number.
    pub port: Option<i64>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
}

/// The services of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ServiceRegistrationListStub {
    /// The namespace.
    pub namespace: Option<String>,
    /// Its services, by name.
    pub services: Option<Vec<ServiceRegistrationStub>>,
}

/// A service of which there are instances.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ServiceRegistrationStub {
    /// Its name.
    pub service_name: Option<String>,
    /// The tags of all its instances, each once.
    pub tags: Option<Vec<String>>,
}
