//! Registers services of the provider `consul` with the machine's Consul agent, and keeps them there.
//!
//! Consul's agent forgets what it has when its data are lost, and others may change it. So what it lists is compared with
//! what is wanted, after each change and from time to time: what is missing or differs is registered, and what this node
//! has registered and does not want any more is removed, also from earlier runs of the agent. `registration` has the form of
//! services and the difference, `attributes` what the node shows of Consul, `client` the requests; the first two are pure.
//! `checks` follows the results of checks.

mod attributes;
mod checks;
mod client;
pub(crate) mod registration;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::service::alloc_of_registration;
use model::{NodeId, Text};
use telemetry::metrics::catalogue::{AGENT_CONSUL_FAILED, AGENT_CONSUL_PENDING};
use telemetry::repeats::{Outage, Repeats};
use telemetry::{chain, clock};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};

use self::client::{ConsulClient, ConsulError};
use self::registration::{ConsulService, Difference, difference};
use super::desired::Outcome;
use super::registry::Registry;
use crate::node::consul::ConsulSettings;

/// How often what Consul has is compared with what is wanted, without a change.
const REPAIR_INTERVAL: Duration = Duration::from_secs(30);
/// The pause after the first failure, without what is added by chance. It doubles with each further one.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest such pause.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How often Consul's agent is asked about itself.
const FINGERPRINT_INTERVAL: Duration = Duration::from_secs(15);
/// How often it may be away before the node does not show it any more.
const MISSES_MAX: u32 = 4;

/// The attributes that the node shows of Consul.
pub(crate) type Attributes = BTreeMap<Text, Text>;

/// The connection to the machine's Consul agent.
#[derive(Debug, Clone)]
pub(crate) struct Consul {
    client: ConsulClient,
    /// The services that are wanted.
    pub(crate) registry: Registry<ConsulService>,
    attributes: watch::Sender<Attributes>,
}

impl Consul {
    /// A connection with these settings. Nothing is sent yet.
    ///
    /// # Errors
    /// If a certificate or the token cannot be used.
    pub(crate) fn new(settings: &ConsulSettings) -> anyhow::Result<Self> {
        let client = ConsulClient::new(settings)?;
        Ok(Self { client, registry: Registry::default(), attributes: watch::Sender::default() })
    }

    /// What the node shows of Consul; empty while there is none.
    pub(crate) fn attributes(&self) -> watch::Receiver<Attributes> {
        self.attributes.subscribe()
    }

    /// Asks Consul's agent about itself, until it is dropped.
    pub(crate) async fn fingerprint(self) {
        let mut ticks = interval(FINGERPRINT_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut misses = 0_u32;
        loop {
            ticks.tick().await;
            let found = match self.client.about().await {
                Ok(about) => {
                    misses = 0;
                    attributes::attributes(&about)
                }
                Err(error) => {
                    misses = misses.saturating_add(1);
                    tracing::debug!(error = chain(&error), "no Consul agent answers");
                    if misses < MISSES_MAX {
                        continue;
                    }
                    Attributes::new()
                }
            };
            self.attributes.send_if_modified(|known| {
                let is_new = *known != found;
                if is_new {
                    tracing::info!(
                        version = found.get("consul.version").map_or("none", |version| version),
                        "the Consul agent of this machine has changed"
                    );
                    *known = found;
                }
                is_new
            });
        }
    }

    /// Keeps Consul's agent as it is wanted, until it is dropped.
    pub(crate) async fn run(self, node: NodeId) {
        let (outage, owner) = (Outage::default(), node.to_string());
        let mut repair = interval(REPAIR_INTERVAL);
        repair.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.registry.changed() => {}
                _ = repair.tick() => {}
            }
            // A machine without Consul is not asked as long as no job wants it.
            let is_idle = self.registry.desired().all().next().is_none();
            if is_idle && self.attributes.borrow().is_empty() {
                continue;
            }
            let mut pause = RETRY_MIN;
            while let Err(error) = self.synchronize(&owner).await {
                AGENT_CONSUL_FAILED.add(1);
                // After a refusal, the sets of other allocations are settled, and an end must not go on before its own is.
                self.registry.attempted(error.is_answer());
                let (now, error) = (clock::monotonic(), chain(&error));
                if let Some(Repeats { attempts, lasting_secs, .. }) = outage.failed(&error, now) {
                    tracing::warn!(
                        error,
                        attempts,
                        lasting_secs,
                        "cannot register services in Consul; retrying"
                    );
                }
                AGENT_CONSUL_PENDING.set(self.registry.desired().pending() as f64);
                tokio::select! {
                    () = sleep(pause.mul_f64(1.0 + rand::random::<f64>() / 2.0)) => {}
                    () = self.registry.changed() => {}
                }
                pause = pause.saturating_mul(2).min(RETRY_MAX);
            }
            if let Some(Repeats { attempts, lasting_secs, .. }) = outage.succeeded(clock::monotonic()) {
                tracing::info!(attempts, lasting_secs, "services are registered in Consul again");
            }
            AGENT_CONSUL_PENDING.set(self.registry.desired().pending() as f64);
        }
    }

    /// Makes Consul's agent have what is wanted now, and nothing else of this node. What Consul refuses does not stand in
    /// the way of the rest.
    async fn synchronize(&self, owner: &str) -> Result<(), ConsulError> {
        let sets: Vec<_> = self.registry.desired().all().collect();
        let services = sets.iter().flat_map(|set| &set.registrations);
        let wanted = services.map(|service| (service.id.clone(), service.clone())).collect();
        let listed = self.client.services().await?;
        let Difference { register, remove } = {
            let (desired, now) = (self.registry.desired(), clock::steady());
            difference(owner, &wanted, &listed, |alloc| desired.is_incomplete(alloc, now))
        };
        let (mut refused, mut left) = (None, BTreeSet::new());
        for id in &remove {
            if let Err(error) = self.client.deregister(id).await {
                not_reached(error, &mut refused)?;
                left.insert(alloc_of_registration(id));
            }
        }
        for (id, body) in &register {
            if let Err(error) = self.client.register(body).await {
                not_reached(error, &mut refused)?;
                left.insert(alloc_of_registration(id));
            }
        }
        {
            let mut desired = self.registry.desired();
            for set in sets.into_iter().filter(|set| !left.contains(&Some(set.alloc))) {
                desired.settled(set.alloc, set.revision, Outcome::Accepted);
            }
        }
        if let Some(error) = refused {
            return Err(error);
        }
        self.registry.attempted(true);
        Ok(())
    }
}

/// Goes on after a refusal, and keeps the first one.
fn not_reached(error: ConsulError, refused: &mut Option<ConsulError>) -> Result<(), ConsulError> {
    if !error.is_answer() {
        return Err(error);
    }
    refused.get_or_insert(error);
    Ok(())
}

#[cfg(test)]
mod tests;
