//! Services as agents register them, and a digest of them.

use std::sync::Arc;

use model::service::{ServiceRegistration, hash_of};
use model::{AllocId, Text};
use serde::{Deserialize, Serialize};

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

/// A digest of the registrations of a node. The order in which they are added does not matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServicesDigest(u64);

impl ServiceInstance {
    /// Size of the texts, in bytes.
    pub(crate) fn bytes(&self) -> usize {
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

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use model::service::{ServiceKey, registration_id};
    use model::{Index, NodeId};

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
            assert_ne!(digest(from_ref(&other)), digest(from_ref(&web)), "{other:?}");
        }
        let mut elsewhere = ServicesDigest::default();
        elsewhere.add(ALLOC, "dc2", &web);
        assert_ne!(elsewhere, digest(from_ref(&web)));
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
