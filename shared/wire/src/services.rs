//! Messages by which agents register the services of their allocations (`docs/architecture/services.md`).

use std::collections::BTreeSet;
use std::sync::Arc;

use model::node::Secret;
use model::service::{ServiceRegistration, alloc_of_registration, hash_of};
use model::{AllocId, NodeId, Text};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;
use crate::node::WorkIndex;

/// Maximum number of allocations in one request.
pub const SERVICE_ALLOCS_MAX: usize = 1_000;
/// Maximum number of services of one allocation.
pub const ALLOC_SERVICES_MAX: usize = 256;
/// Maximum size of the services of one allocation, in bytes of their texts.
pub const ALLOC_SERVICES_BYTES_MAX: usize = 128 << 10;
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

/// A service as the agent registers it. Namespace, job, node and datacenter follow from the allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServiceInstance {
    /// The id of the registration ([`registration_id`](model::service::registration_id)).
    pub id: Text,
    /// The name of the service.
    pub name: Text,
    /// Its tags, in the order of the job file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Text>,
    /// The IP address or host name at which it is reached.
    pub address: Text,
    /// The port at which it is reached; 0 without a port.
    #[serde(default, skip_serializing_if = "model::is_default")]
    pub port: u16,
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

/// What is registered of a node's allocations, in the response to a heartbeat or a registration.
///
/// An agent compares the digest with that of what it wants to be registered. If they differ, it sends the sets of all its
/// allocations again, empty sets too. It does not compare while a request is in flight, nor if [`Self::at`] is of the same
/// history as the last [`ServicesAnswer::index`] and lower.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredServices {
    /// The index of the state that the digest was computed of.
    pub at: WorkIndex,
    /// The digest.
    pub digest: ServicesDigest,
}

/// A digest of the registrations of a node. The order in which they are added does not matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServicesDigest(u64);

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

impl ServiceInstance {
    /// Size of the texts, in bytes.
    fn bytes(&self) -> usize {
        let tags = self.tags.iter().map(|tag| tag.len()).fold(0, usize::saturating_add);
        [self.id.len(), self.name.len(), self.address.len()].into_iter().fold(tags, usize::saturating_add)
    }
}

impl From<&ServiceRegistration> for ServiceInstance {
    fn from(registration: &ServiceRegistration) -> Self {
        Self {
            id: registration.key.id.clone(),
            name: registration.key.name.clone(),
            tags: registration.tags.clone(),
            address: registration.address.clone(),
            port: registration.port,
        }
    }
}

impl ServicesDigest {
    /// The digest of registrations.
    pub fn of<'a>(registrations: impl IntoIterator<Item = &'a Arc<ServiceRegistration>>) -> Self {
        let mut digest = Self::default();
        for registration in registrations {
            digest.add(registration.alloc_id, &registration.datacenter, &(&**registration).into());
        }
        digest
    }

    /// Adds a registration of an allocation, on a node of a datacenter.
    pub fn add(&mut self, alloc: AllocId, datacenter: &str, service: &ServiceInstance) {
        let texts = [datacenter, &service.id, &service.name, &service.address];
        let port = service.port.to_be_bytes();
        let parts = std::iter::once(&alloc.as_bytes()[..]).chain(texts.map(str::as_bytes));
        let parts = parts.chain([&port[..]]).chain(service.tags.iter().map(|tag| tag.as_bytes()));
        self.0 = self.0.wrapping_add(hash_of(parts));
    }
}

kinds! {
    RegisterServices => "node.services",
    ServicesAnswer => "node.services-answer",
}

#[cfg(test)]
mod tests {
    use model::Index;
    use model::service::{ServiceKey, registration_id};

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
        let many = (0..=ALLOC_SERVICES_MAX).map(|number| instance(&format!("s{number}"))).collect();
        assert_eq!(checked(many), Err("257 services in one allocation; at most 256".to_owned()));
        let large =
            ServiceInstance { tags: vec!["x".repeat(ALLOC_SERVICES_BYTES_MAX).into()], ..instance("web") };
        assert!(checked(vec![large]).unwrap_err().ends_with("bytes of services; at most 131072"));
    }

    fn digest(services: &[ServiceInstance]) -> ServicesDigest {
        let mut digest = ServicesDigest::default();
        services.iter().for_each(|service| digest.add(ALLOC, "dc1", service));
        digest
    }

    #[test]
    fn a_digest_depends_on_every_member_and_not_on_the_order() {
        let (web, api) = (instance("web"), instance("api"));
        assert_eq!(digest(&[web.clone(), api.clone()]), digest(&[api.clone(), web.clone()]));
        let others = [
            ServiceInstance { id: api.id.clone(), ..web.clone() },
            ServiceInstance { name: "w".into(), ..web.clone() },
            ServiceInstance { tags: vec!["ab".into()], ..web.clone() },
            ServiceInstance { tags: vec!["b".into(), "a".into()], ..web.clone() },
            ServiceInstance { address: "10.0.0.2".into(), ..web.clone() },
            ServiceInstance { port: 8081, ..web.clone() },
        ];
        for other in others {
            assert_ne!(digest(&[other.clone()]), digest(&[web.clone()]), "{other:?}");
        }
        let mut elsewhere = ServicesDigest::default();
        elsewhere.add(ALLOC, "dc2", &web);
        assert_ne!(elsewhere, digest(&[web.clone()]));
        assert_ne!(digest(&[web.clone(), web.clone()]), digest(&[]));
    }

    #[test]
    fn the_digest_of_registrations_is_that_of_what_was_registered() {
        let registered = |service: &ServiceInstance| {
            Arc::new(ServiceRegistration {
                key: ServiceKey {
                    namespace: "default".into(),
                    name: service.name.clone(),
                    id: service.id.clone(),
                },
                node_id: NodeId::from_bytes([3; 16]),
                datacenter: "dc1".into(),
                job_id: "web".into(),
                alloc_id: ALLOC,
                tags: service.tags.clone(),
                address: service.address.clone(),
                port: service.port,
                create_index: Index(5),
                modify_index: Index(6),
            })
        };
        let services = [instance("web"), instance("api")];
        assert_eq!(ServicesDigest::of(&services.each_ref().map(registered)), digest(&services));
    }
}
