//! Checks of services. The agent runs those of the provider `nomad` itself. Consul runs those of
//! services in Consul; their results count in the same way. Checks that run a program are in Consul, and the agent runs them.
//!
//! `core` decides when a check runs and what follows from its result; `probe` connects to the service; `script` runs a
//! program in a task; `runner` joins them.
//! [`Checks`] is what the rest of the agent sees: hooks set the checks of an allocation, its runner follows their health,
//! and the API reads their results.

pub(crate) mod check;
pub(crate) mod core;
mod probe;
pub(crate) mod runner;
mod script;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{AllocId, Text};
use telemetry::clock;
use telemetry::metrics::catalogue::AGENT_CHECKS;
use tokio::sync::{Notify, watch};

use self::check::{Check, InConsul};
use self::core::{CheckHealth, CheckResult, ConsulReport, Core, Finding, Key, Now};

/// The checks of all allocations of the node.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    state: Mutex<State>,
    /// Wakes the runner when the next timer may be earlier than it knows.
    changed: Notify,
    /// Wakes who tells Consul what programs have found.
    reported: Notify,
}

#[derive(Debug, Default)]
struct State {
    core: Core,
    followers: BTreeMap<AllocId, watch::Sender<CheckHealth>>,
    /// What Consul has not been told yet: at most the newest report of each check.
    unreported: BTreeMap<Key, ConsulReport>,
}

impl State {
    /// Tells the runner of an allocation what its checks say of its health, if that has changed.
    fn publish(&self, alloc: AllocId) {
        let Some(follower) = self.followers.get(&alloc) else { return };
        let health = self.core.health(alloc);
        follower.send_if_modified(|known| {
            let is_new = *known != health;
            *known = health;
            is_new
        });
    }
}

impl Checks {
    /// Replaces the checks of an allocation. A check that was there before keeps its result. `saved` are results from
    /// before a restart of the agent, by the id of the check.
    pub(crate) fn set(&self, alloc: AllocId, checks: Vec<Check>, saved: &BTreeMap<Text, CheckResult>) {
        let mut state = self.lock();
        state.core.set(alloc, checks, saved, now());
        state.unreported.retain(|(other, _), _| *other != alloc);
        state.publish(alloc);
        AGENT_CHECKS.set(state.core.count() as f64);
        drop(state);
        self.changed.notify_one();
    }

    /// Ends the checks of an allocation, and forgets their results.
    pub(crate) fn remove(&self, alloc: AllocId) {
        let mut state = self.lock();
        state.core.remove(alloc);
        state.unreported.retain(|(other, _), _| *other != alloc);
        state.publish(alloc);
        AGENT_CHECKS.set(state.core.count() as f64);
    }

    /// Follows the health of an allocation's checks, which may be set later.
    pub(crate) fn follow(&self, alloc: AllocId) -> watch::Receiver<CheckHealth> {
        let mut state = self.lock();
        let health = state.core.health(alloc);
        let follower = state.followers.entry(alloc).or_insert_with(|| watch::Sender::new(health));
        follower.subscribe()
    }

    /// Forgets an allocation that has ended.
    pub(crate) fn forget(&self, alloc: AllocId) {
        self.remove(alloc);
        self.lock().followers.remove(&alloc);
    }

    /// A task has started: failures of its checks, and of its group's, may restart it from now on, after their grace
    /// period.
    pub(crate) fn task_started(&self, alloc: AllocId, task: &str) {
        self.lock().core.arm(alloc, task, now());
        self.changed.notify_one();
    }

    /// The allocation has changed while a task runs: failures of checks that are new may restart it, too.
    pub(crate) fn task_updated(&self, alloc: AllocId, task: &str) {
        self.lock().core.arm_new(alloc, task, now());
        self.changed.notify_one();
    }

    /// A task is ending or has ended: failures of its checks do not restart it.
    pub(crate) fn task_ending(&self, alloc: AllocId, task: &str) {
        self.lock().core.disarm(alloc, task);
    }

    /// The checks of an allocation with ids after `after`, with their results, until `take` returns false for one.
    pub(crate) fn read(
        &self,
        alloc: AllocId,
        after: &str,
        mut take: impl FnMut(&Check, &CheckResult) -> bool,
    ) {
        for (check, result) in self.lock().core.results(alloc, after) {
            if !take(check, result) {
                return;
            }
        }
    }

    /// The checks that Consul runs.
    pub(crate) fn in_consul(&self) -> Vec<(Key, InConsul)> {
        self.lock().core.in_consul()
    }

    /// Keeps what Consul is to be told about a check. A newer report replaces one that was not sent yet.
    fn report(&self, key: Key, report: ConsulReport) {
        self.lock().unreported.insert(key, report);
        self.reported.notify_one();
    }

    /// Takes what Consul is to be told; waits until there is something.
    pub(crate) async fn reports(&self) -> Vec<ConsulReport> {
        loop {
            let reports = std::mem::take(&mut self.lock().unreported);
            if !reports.is_empty() {
                return reports.into_values().collect();
            }
            self.reported.notified().await;
        }
    }

    /// Records what Consul found.
    pub(crate) fn found(&self, key: &Key, finding: Finding) {
        let mut state = self.lock();
        for alloc in state.core.found(key, finding, now()).changed {
            state.publish(alloc);
        }
        drop(state);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Poisoning is ignored: a panic in the core is logged where it happens, and other allocations must go on.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time by both clocks.
fn now() -> Now {
    Now { steady: clock::steady(), wall: clock::now() }
}

#[cfg(test)]
mod tests;
