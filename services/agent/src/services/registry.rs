//! One registry of services, as the hooks see it: they say what is to be registered, and a task of the agent
//! ([`registrar`](super::registrar), [`consul`](super::consul)) carries it out. Hooks never wait for the registry, except
//! before an end, for a moment.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::AllocId;
use telemetry::clock;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::desired::{Desired, Owner};

/// How long an end waits until the registry knows that the service is gone.
const WITHDRAW_WAIT: Duration = Duration::from_secs(1);

/// A registry of services.
#[derive(Debug)]
pub(crate) struct Registry<R>(Arc<Shared<R>>);

#[derive(Debug)]
struct Shared<R> {
    desired: Mutex<Desired<R>>,
    changed: Notify,
    attempts: watch::Sender<Attempts>,
}

/// What has become of the attempts to reach the registry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Attempts {
    /// How many there were.
    count: u64,
    /// Whether the last of them succeeded.
    reached: bool,
}

impl<R> Clone for Registry<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R> Default for Registry<R> {
    fn default() -> Self {
        let (desired, attempts) = (Mutex::default(), watch::Sender::new(Attempts::default()));
        Self(Arc::new(Shared { desired, changed: Notify::new(), attempts }))
    }
}

impl<R: Clone + PartialEq> Registry<R> {
    /// Waits for what an owner registers, because it ran before the agent was restarted.
    pub(crate) fn expect(&self, alloc: AllocId, owner: Owner) {
        self.desired().expect(alloc, owner, clock::steady());
    }

    /// Keeps an allocation known, even without registrations, until [`Self::untrack`].
    pub(crate) fn track(&self, alloc: AllocId) {
        self.desired().track(alloc);
    }

    /// Forgets an allocation as soon as nothing is registered of it.
    pub(crate) fn untrack(&self, alloc: AllocId) {
        self.desired().untrack(alloc);
    }

    /// Sets what an owner registers, in place of what it registered before.
    pub(crate) fn set(&self, alloc: AllocId, owner: Owner, registrations: Vec<R>) {
        if self.desired().set(alloc, owner, registrations) {
            self.0.changed.notify_one();
        }
    }

    /// Withdraws what an owner has registered, and waits until the registry knows, but not for long, and not if it cannot
    /// be reached.
    pub(crate) async fn withdraw(&self, alloc: AllocId, owner: Owner) {
        let mut attempts = self.0.attempts.subscribe();
        self.set(alloc, owner, Vec::new());
        let accepted = async {
            while !self.desired().is_accepted(alloc) {
                let reached = attempts.borrow_and_update().reached;
                if !reached || attempts.changed().await.is_err() {
                    return;
                }
            }
        };
        // If it is not known by then, it will be: the task of the registry repeats it.
        let _ = timeout(WITHDRAW_WAIT, accepted).await;
    }

    /// Waits for a change of what is to be registered. A change during the last wait is not missed.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Records an attempt to reach the registry, after its outcome has been entered.
    pub(crate) fn attempted(&self, reached: bool) {
        self.0.attempts.send_modify(|attempts| {
            *attempts = Attempts { count: attempts.count.wrapping_add(1), reached };
        });
    }

    /// What is to be registered.
    pub(crate) fn desired(&self) -> MutexGuard<'_, Desired<R>> {
        // A poisoned lock is harmless, because each change is a single step.
        self.0.desired.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::desired::Outcome;
    use crate::testing::{NOW, alloc_id};

    /// Accepts everything that is to be registered.
    fn accept(registry: &Registry<&'static str>) {
        let batch = registry.desired().batch(10, 10, |_| 1, NOW);
        for set in batch {
            registry.desired().settled(set.alloc, set.revision, Outcome::Accepted);
        }
        registry.attempted(true);
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_waits_until_the_registry_knows() {
        let (registry, one) = (Registry::default(), alloc_id(1));
        registry.set(one, Owner::Group, vec!["web"]);
        accept(&registry);
        let withdrawn = tokio::spawn({
            let registry = registry.clone();
            async move { registry.withdraw(one, Owner::Group).await }
        });
        // The first permit is that of the registration.
        registry.changed().await;
        registry.changed().await;
        assert!(!withdrawn.is_finished());
        accept(&registry);
        withdrawn.await.unwrap();
        assert_eq!(registry.desired().pending(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_does_not_wait_for_a_registry_that_is_away() {
        let (registry, one) = (Registry::default(), alloc_id(1));
        registry.set(one, Owner::Group, vec!["web"]);
        // Nothing has reached it yet.
        registry.withdraw(one, Owner::Group).await;
        accept(&registry);
        registry.set(one, Owner::Group, vec!["web"]);
        // It was reached before, but does not answer now.
        registry.withdraw(one, Owner::Group).await;
        assert_eq!(registry.desired().pending(), 1, "it is told later");
    }
}
