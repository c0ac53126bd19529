//! Messages by which agents register the services of their allocations (`docs/architecture/services.md`).

use std::collections::BTreeSet;

use model::node::Secret;
use model::service::alloc_of_registration;
use model::{AllocId, NodeId, Text};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;
pub use crate::node::RegisteredServices;
use crate::node::WorkIndex;
pub use crate::service_instances::{ServiceInstance, ServicesDigest};

/// Maximum number of allocations in one request.
pub const SERVICE_ALLOCS_MAX: usize = 1_000;
/// Maximum number of services of one allocation.
pub const ALLOC_SERVICES_MAX: usize = 256;
/// Maximum size of the services of one allocation, in bytes of their texts.
pub const ALLOC_SERVICES_BYTES_MAX: usize = 128 << 10;
/// Maximum length of the name and of the id of a service, in bytes each. PostgreSQL indexes registrations by both, and its
/// index entries are limited in size.
pub const SERVICE_KEY_BYTES_MAX: usize = 1_024;
/// Size up to which an agent fills a request, in bytes of the texts, but with at least one allocation.
pub const SERVICES_REQUEST_BYTES: usize = 256 << 10;

/// Registers the services of allocations of a node. The response is [`ServicesAnswer`]. Refused while the
/// node must send a heartbeat first, as reports are.
///
/// The set of each allocation replaces what was registered of it before, so a repeat has no second effect. An agent has one
/// request in flight at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterServices {
    /// The node.
    pub id: NodeId,
    /// Proves that the sender is the node that registered.
    pub secret: Secret,
    /// Boot number of the agent.
    pub boot: u32,
    /// The allocations, each at most once; at most [`SERVICE_ALLOCS_MAX`].
    pub allocs: Vec<AllocServices>,
}

/// The whole set of the services of an allocation that are to be registered. What is not in the set is withdrawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocServices {
    /// The allocation.
    pub alloc: AllocId,
    /// Its services; empty to withdraw all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceInstance>,
}

/// The sets were committed, except those of the listed allocations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServicesAnswer {
    /// The index at which they were committed.
    pub index: WorkIndex,
    /// The allocations whose set was not accepted. Nothing is registered of them, and they do not count in the agent's
    /// digest until their set changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<(AllocId, ServicesRejection)>,
}

/// Why the services of an allocation were not registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServicesRejection {
    /// The servers do not know the allocation, or it has ended, or it belongs to another node.
    Unknown,
    /// The set is not valid, for this reason. The agent logs it.
    Refused(Text),
}

impl AllocServices {
    /// Size of the texts, in bytes.
    pub fn bytes(&self) -> usize {
        self.services.iter().map(ServiceInstance::bytes).fold(0, usize::saturating_add)
    }

    /// Checks that the set is within its limits, and that its ids are of this allocation and differ. Agents check their sets
    /// before they send them, and the tracker checks them again.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check(&self) -> Result<(), String> {
        let count = self.services.len();
        if count > ALLOC_SERVICES_MAX {
            return Err(format!("{count} services in one allocation; at most {ALLOC_SERVICES_MAX}"));
        }
        let bytes = self.bytes();
        if bytes > ALLOC_SERVICES_BYTES_MAX {
            return Err(format!("{bytes} bytes of services; at most {ALLOC_SERVICES_BYTES_MAX}"));
        }
        let mut ids = BTreeSet::new();
        for service in &self.services {
            if service.name.is_empty() {
                return Err("a service without a name".to_owned());
            }
            for (what, text) in [("name", &service.name), ("id", &service.id)] {
                if text.len() > SERVICE_KEY_BYTES_MAX {
                    let bytes = text.len();
                    return Err(format!(
                        "the {what} of a service has {bytes} bytes; at most {SERVICE_KEY_BYTES_MAX}"
                    ));
                }
                if text.contains('\0') {
                    return Err(format!("the {what} of a service contains a null character"));
                }
            }
            if alloc_of_registration(&service.id) != Some(self.alloc) {
                return Err(format!("the id {:?} is not one of the allocation", service.id));
            }
            if !ids.insert(&service.id) {
                return Err(format!("the id {:?} is there twice", service.id));
            }
        }
        Ok(())
    }
}

kinds! {
    RegisterServices => "node.services",
    ServicesAnswer => "node.services-answer",
}

#[cfg(test)]
mod tests {
    use model::service::registration_id;

    use super::*;

    const ALLOC: AllocId = AllocId::from_bytes([1; 16]);

    fn instance(name: &str) -> ServiceInstance {
        ServiceInstance {
            id: registration_id(ALLOC, "group-app", name, "http").into(),
            name: name.into(),
            tags: vec!["a".into(), "b".into()],
            address: "10.0.0.1".into(),
            port: 8080,
        }
    }

    fn checked(services: Vec<ServiceInstance>) -> Result<(), String> {
        AllocServices { alloc: ALLOC, services }.check()
    }

    #[test]
    fn a_set_is_checked() {
        assert_eq!(checked(Vec::new()), Ok(()));
        assert_eq!(checked(vec![instance("web"), instance("api")]), Ok(()));
        let foreign = registration_id(AllocId::from_bytes([2; 16]), "group-app", "web", "http");
        let of_another = ServiceInstance { id: foreign.into(), ..instance("web") };
        assert!(checked(vec![of_another]).unwrap_err().contains("is not one of the allocation"));
        assert!(checked(vec![instance("web"), instance("web")]).unwrap_err().ends_with("is there twice"));
        let unnamed = ServiceInstance { name: Text::default(), ..instance("web") };
        assert_eq!(checked(vec![unnamed]), Err("a service without a name".to_owned()));
        let long = "x".repeat(SERVICE_KEY_BYTES_MAX + 1);
        assert!(checked(vec![instance(&long)]).unwrap_err().ends_with("has 1025 bytes; at most 1024"));
        let cut = "the name of a service contains a null character".to_owned();
        assert_eq!(checked(vec![instance("a\0b")]), Err(cut));
        let many = (0..=ALLOC_SERVICES_MAX).map(|number| instance(&format!("s{number}"))).collect();
        assert_eq!(checked(many), Err("257 services in one allocation; at most 256".to_owned()));
        let large =
            ServiceInstance { tags: vec!["x".repeat(ALLOC_SERVICES_BYTES_MAX).into()], ..instance("web") };
        assert!(checked(vec![large]).unwrap_err().ends_with("bytes of services; at most 131072"));
    }
}
