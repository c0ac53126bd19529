//! The core of the registrar of services, for the simulation (`tests/simulation`), which has a shell of its own around it.

use model::{AllocId, Text, Timestamp};
use wire::node::WorkIndex;
use wire::services::{AllocServices, RegisteredServices, ServiceInstance, ServicesRejection};

use crate::services::desired::{Desired, Owner};
use crate::services::progress::{Batch, Progress, enter, next_batch};

/// The sets of a request: for each allocation the number of the change that its set is complete up to, and the sets in the
/// same order.
pub type NextRequest = (Vec<(AllocId, u64)>, Vec<AllocServices>);

/// What the allocations of a node want to be registered, and when it is sent.
#[derive(Debug, Default)]
pub struct ServiceRegistrar {
    desired: Desired<ServiceInstance>,
    progress: Progress,
}

impl ServiceRegistrar {
    /// Waits for what a task registers, because it ran before the agent was restarted.
    pub fn expect(&mut self, alloc: AllocId, task: &str, now: Timestamp) {
        self.desired.expect(alloc, Owner::Task(Text::from(task)), now);
    }

    /// Keeps an allocation known until [`Self::untrack`].
    pub fn track(&mut self, alloc: AllocId) {
        self.desired.track(alloc);
    }

    /// Forgets an allocation as soon as nothing is registered of it.
    pub fn untrack(&mut self, alloc: AllocId) {
        self.desired.untrack(alloc);
    }

    /// Sets what a task registers, in place of what it registered before.
    pub fn set(&mut self, alloc: AllocId, task: &str, services: Vec<ServiceInstance>) {
        self.desired.set(alloc, Owner::Task(Text::from(task)), services);
    }

    /// The sets of the next request, if there is one.
    pub fn next_request(&mut self, now: Timestamp) -> Option<NextRequest> {
        self.progress.due(&self.desired, now).filter(|due| *due <= now)?;
        let Batch { sets, allocs, .. } = next_batch(&mut self.desired, now);
        (!allocs.is_empty()).then_some((sets, allocs))
    }

    /// The sets of a request were committed, except those that were rejected.
    pub fn answered(
        &mut self,
        index: WorkIndex,
        sets: &[(AllocId, u64)],
        rejected: Vec<(AllocId, ServicesRejection)>,
    ) {
        self.progress.answered(index);
        enter(&mut self.desired, sets, rejected);
    }

    /// A request has failed, or there was no answer.
    pub fn failed(&mut self, is_refused: bool, now: Timestamp) {
        self.progress.failed(is_refused, 0.5, now);
    }

    /// The servers have answered a heartbeat or a registration, and say what is registered of the node. It is compared only
    /// while no request is in flight.
    pub fn contacted(
        &mut self,
        registered: Option<RegisteredServices>,
        is_sending: bool,
        datacenter: &str,
        now: Timestamp,
    ) {
        self.progress.contacted();
        if let Some(registered) = registered.filter(|_| !is_sending) {
            self.progress.compare(&mut self.desired, registered, datacenter, now);
        }
    }

    /// Sends the sets of allocations again that the servers did not know.
    pub fn retry_unknown(&mut self) {
        self.desired.retry_unknown();
    }
}
