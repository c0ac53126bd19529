//! Services of allocations and tasks: what is registered of them, and where.
//!
//! The hooks of groups and tasks say what they register ([`Services`]); one task of the agent for each registry carries it
//! out: `registrar` in the cluster, `consul` in Consul. `directory` looks up what the cluster knows. Four files are pure:
//! `address` says where a service is reached, `interpolate` replaces names in its texts, `desired` knows what is to be
//! registered and what was accepted, and `progress` when which of it is sent.

pub(crate) mod address;
pub(crate) mod consul;
pub(crate) mod desired;
pub(crate) mod directory;
pub(crate) mod interpolate;
pub(crate) mod progress;
pub(crate) mod registrar;
pub(crate) mod registry;

use model::AllocId;
use model::job::{Service, ServiceProvider};
use model::service::registration_id;
use model::text::quoted;
use wire::services::ServiceInstance;

use self::address::Endpoint;
use self::consul::Consul;
use self::consul::registration::ConsulService;
use self::desired::Owner;
use self::directory::Directory;
use self::registry::Registry;

/// A service of an allocation on this node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Advertised {
    /// The service, in which names have been replaced by their values.
    pub(crate) service: Service,
    /// Where it is reached.
    pub(crate) endpoint: Endpoint,
    /// Where its checks reach it, in their order. `None` for checks that need no port: those that run a program.
    pub(crate) checks: Vec<Option<Endpoint>>,
}

/// The services that one owner registers.
#[derive(Debug)]
pub(crate) struct Registering<'a> {
    /// The allocation.
    pub(crate) alloc: AllocId,
    /// The group, with its name, or a task.
    pub(crate) owner: Owner,
    /// The owner's name.
    pub(crate) name: &'a str,
    /// Whether the allocation is a canary.
    pub(crate) is_canary: bool,
    /// Its services.
    pub(crate) services: &'a [Advertised],
}

/// The registries in which services of this node are registered.
#[derive(Debug, Default)]
pub(crate) struct Services {
    /// The cluster's own catalog.
    pub(crate) cluster: Registry<ServiceInstance>,
    /// The machine's Consul agent, if there may be one.
    pub(crate) consul: Option<Consul>,
    /// What the cluster's catalog knows.
    pub(crate) directory: Directory,
}

impl Services {
    /// Registers what an owner has, in place of what it registered before.
    ///
    /// # Errors
    /// If a service is to be registered where this node cannot. The message names it. The others are registered.
    pub(crate) fn register(&self, registering: &Registering<'_>) -> Result<(), String> {
        let Registering { alloc, owner, name, is_canary, services } = registering;
        let in_owner = match owner {
            Owner::Group => format!("group-{name}"),
            Owner::Task(_) => (*name).to_owned(),
        };
        let (mut cluster, mut consul, mut refused) = (Vec::new(), Vec::new(), Ok(()));
        for advertised in *services {
            let Advertised { service, endpoint, .. } = advertised;
            let id = registration_id(*alloc, &in_owner, &service.name, &service.port_label);
            match service.provider.unwrap_or(ServiceProvider::Consul) {
                ServiceProvider::Nomad => cluster.push(ServiceInstance {
                    id: id.into(),
                    name: service.name.clone(),
                    tags: interpolate::tags(service, *is_canary).to_vec(),
                    address: endpoint.address.as_str().into(),
                    port: endpoint.port,
                }),
                ServiceProvider::Consul if self.consul.is_none() => {
                    let name = quoted(&service.name);
                    refused = Err(format!(
                        "service {name} is to be registered in Consul, which is switched off on this node"
                    ));
                }
                ServiceProvider::Consul => {
                    match ConsulService::new(*alloc, &in_owner, *is_canary, advertised) {
                        Ok(service) => consul.push(service),
                        Err(error) => refused = Err(error),
                    }
                }
            }
        }
        self.cluster.set(*alloc, owner.clone(), cluster);
        if let Some(Consul { registry, .. }) = &self.consul {
            registry.set(*alloc, owner.clone(), consul);
        }
        refused
    }

    /// Withdraws what an owner has registered, and waits a moment until the registries know.
    pub(crate) async fn withdraw(&self, alloc: AllocId, owner: Owner) {
        let consul = async {
            if let Some(Consul { registry, .. }) = &self.consul {
                registry.withdraw(alloc, owner.clone()).await;
            }
        };
        tokio::join!(self.cluster.withdraw(alloc, owner.clone()), consul);
    }

    /// Withdraws what an owner had registered that has ended. Nothing waits for that.
    pub(crate) fn ended(&self, alloc: AllocId, owner: &Owner) {
        self.cluster.set(alloc, owner.clone(), Vec::new());
        if let Some(Consul { registry, .. }) = &self.consul {
            registry.set(alloc, owner.clone(), Vec::new());
        }
    }

    /// Waits for an owner to register these services, because it ran before the agent was restarted.
    pub(crate) fn expect(&self, alloc: AllocId, owner: &Owner, services: &[Service]) {
        let has = |provider: ServiceProvider| {
            let of = |service: &Service| service.provider.unwrap_or(ServiceProvider::Consul);
            services.iter().any(|service| of(service) == provider)
        };
        if has(ServiceProvider::Nomad) {
            self.cluster.expect(alloc, owner.clone());
        }
        if let Some(Consul { registry, .. }) = self.consul.as_ref().filter(|_| has(ServiceProvider::Consul)) {
            registry.expect(alloc, owner.clone());
        }
    }

    /// Withdraws what an earlier agent has registered of an allocation that is ending, in case that agent ended before the
    /// servers knew. The allocation stays known until [`Self::untrack`]. Consul is compared with what is wanted anyway.
    pub(crate) fn withdraw_restored(&self, alloc: AllocId) {
        self.track(alloc);
        // What was expected is sent even if it is nothing.
        self.cluster.expect(alloc, Owner::Group);
        self.cluster.set(alloc, Owner::Group, Vec::new());
    }

    /// Keeps an allocation known, whose services may change, until [`Self::untrack`].
    pub(crate) fn track(&self, alloc: AllocId) {
        self.cluster.track(alloc);
    }

    /// Forgets an allocation as soon as nothing is registered of it.
    pub(crate) fn untrack(&self, alloc: AllocId) {
        self.cluster.untrack(alloc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, alloc_id};

    //
    #[test]
    fn the_end_of_a_restored_allocation_is_sent() {
        let (services, one) = (Services::default(), alloc_id(1));
        services.ended(one, &Owner::Group);
        assert_eq!(services.cluster.desired().pending(), 0, "nothing is known of it");
        services.withdraw_restored(one);
        let sent = services.cluster.desired().batch(10, 10, |_| 1, NOW);
        assert_eq!(sent.len(), 1);
        assert!(sent.iter().all(|set| set.alloc == one && set.registrations.is_empty()));
    }
}
