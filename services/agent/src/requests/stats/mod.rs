//! Answers requests for the resource usage of the machine and of tasks. Nothing is measured without a
//! request: usage is computed between the last reading, which is kept for a while, and a new one.
//!
//! Requests for the results of checks arrive with them, and are answered by `checks`.
//!
//! Of tasks it asks their drivers, by what the runners of the tasks keep in [`Context::running`].

mod disks;
mod facts;
mod host;
mod tasks;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bus::{Request, Requests};
use model::text::quoted;
use model::{AllocId, Text};
use telemetry::clock;
use tokio::sync::watch;
use tokio::time::sleep;
use wire::checks::GetAllocChecks;
use wire::stats::{
    AgentStats, AllocStats, GetAgentStats, GetAllocStats, GetHostFacts, GetHostStats, HostFacts, HostStats,
};
use wire::{Refusal, RefusalKind};

use self::host::HostReading;
use self::tasks::Readings;
use crate::alloc::runner::spec_file;
use crate::context::Context;
use crate::devices::Devices;
use crate::disk::store;
use crate::node::fingerprint::Machine;
use crate::node::presence::{ContactState, LastContact};
use crate::requests::checks::alloc_checks;
use crate::requests::meta::MetaRequests;
use crate::work::spec::AllocSpec;

/// The maximum number of concurrent requests; further ones wait.
const CONCURRENT_MAX: usize = 32;
/// The minimum time between two readings, because the kernel counts in hundredths of a second.
const INTERVAL_MIN: Duration = Duration::from_millis(250);
/// The maximum time between two readings. An average over a longer time would be useless.
const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// The last readings.
pub(crate) struct Stats {
    context: Arc<Context>,
    machine: Arc<Machine>,
    contact_state: watch::Receiver<ContactState>,
    host: Mutex<Option<HostReading>>,
    tasks: Mutex<Readings>,
}

/// Answers requests until the subscription ends, also those about the node's metadata.
pub(crate) async fn serve(stats: Arc<Stats>, meta: MetaRequests, requests: Requests) {
    let answer = |request: Request| {
        let (stats, meta) = (Arc::clone(&stats), meta.clone());
        async move {
            if MetaRequests::concerns(&request) {
                meta.answer(request).await;
            } else {
                stats.answer(request).await;
            }
        }
    };
    requests.each(CONCURRENT_MAX, answer).await;
}

impl Stats {
    /// Creates the state without any readings.
    pub(crate) fn new(
        context: Arc<Context>,
        machine: Arc<Machine>,
        contact_state: watch::Receiver<ContactState>,
    ) -> Self {
        Self { context, machine, contact_state, host: Mutex::default(), tasks: Mutex::default() }
    }

    async fn answer(self: Arc<Self>, request: Request) {
        if request.is::<GetHostStats>() {
            request.answer_with(async |GetHostStats {}| self.host_stats().await).await;
        } else if request.is::<GetAgentStats>() {
            request.answer_with(async |GetAgentStats {}| self.agent_stats().await).await;
        } else if request.is::<GetHostFacts>() {
            request.answer_with(async |GetHostFacts {}| self.host_facts().await).await;
        } else if request.is::<GetAllocChecks>() {
            request.answer_with(async |ask: GetAllocChecks| alloc_checks(&self.context, ask).await).await;
        } else {
            request.answer_with(async |ask: GetAllocStats| self.alloc_stats(ask).await).await;
        }
    }

    async fn agent_stats(self: &Arc<Self>) -> Result<AgentStats, Refusal> {
        let stats = Arc::clone(self);
        let allocs = blocking(move || {
            let allocs = stats.context.store.allocs();
            allocs.map_err(|error| failed(format!("cannot list the allocations: {error}")))
        });
        let allocs = allocs.await?.len() as u64;
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let last_contact = self.contact_state.borrow().last_contact;
        Ok(AgentStats {
            allocs,
            heard_ago_ms: last_contact
                .map(|LastContact { at, .. }| millis(clock::monotonic().saturating_duration_since(at))),
            ttl_ms: last_contact.map_or(0, |LastContact { ttl, .. }| millis(ttl)),
        })
    }

    async fn host_facts(self: &Arc<Self>) -> Result<HostFacts, Refusal> {
        blocking(|| Ok(facts::collect_facts())).await
    }

    async fn host_stats(self: &Arc<Self>) -> Result<HostStats, Refusal> {
        let last = lock(&self.host).clone();
        let before = match last.filter(|last| is_recent(last.at)) {
            Some(last) => last,
            None => blocking(HostReading::take).await?,
        };
        wait_until(before.at + INTERVAL_MIN).await;
        let stats = Arc::clone(self);
        let usage = blocking(move || {
            let after = HostReading::take()?;
            let usage = host::stats(&before, &after, &stats.machine, &stats.context)?;
            *lock(&stats.host) = Some(after);
            Ok(usage)
        });
        Ok(HostStats { devices: self.context.devices.stats().await, ..usage.await? })
    }

    async fn alloc_stats(self: &Arc<Self>, ask: GetAllocStats) -> Result<AllocStats, Refusal> {
        let GetAllocStats { alloc, task } = ask;
        if !tokio::fs::try_exists(spec_file(&self.context, alloc)).await.unwrap_or(false) {
            let message = format!("Unknown allocation {}", quoted(&alloc.to_string())).into();
            return Err(Refusal { kind: RefusalKind::NotFound, message });
        }
        let mut running = self.context.running.of_alloc(alloc);
        running.retain(|(name, _)| task.as_ref().is_none_or(|task| task == name));
        let last = lock(&self.tasks).clone();
        let first = tasks::read(alloc, &running).await?;
        // All tasks are measured over the same time, so that their usage can be added up.
        let has_reading = |key: &(AllocId, Text)| last.get(key).is_some_and(|reading| is_recent(reading.at));
        let before = if first.keys().all(has_reading) { last } else { first.clone() };
        let newest = first.keys().filter_map(|key| before.get(key)).map(|reading| reading.at).max();
        if let Some(newest) = newest {
            wait_until(newest + INTERVAL_MIN).await;
        }
        let after = tasks::read(alloc, &running).await?;
        let mut usage = tasks::stats(&before, &after, self.machine.mean_mhz());
        self.keep(after);
        self.add_devices(alloc, &mut usage).await?;
        Ok(usage)
    }

    /// Keeps readings for the next request.
    fn keep(&self, after: Readings) {
        let mut readings = lock(&self.tasks);
        readings.retain(|_, reading| is_recent(reading.at));
        readings.extend(after);
    }

    /// Adds the usage of the devices that the tasks were assigned.
    async fn add_devices(&self, alloc: AllocId, usage: &mut AllocStats) -> Result<(), Refusal> {
        let measured = self.context.devices.stats().await;
        if measured.is_empty() {
            return Ok(());
        }
        let file = spec_file(&self.context, alloc);
        let spec = blocking(move || Ok(store::read::<AllocSpec>(&file).ok().flatten())).await?;
        let resources = spec.map(|spec| spec.resources()).unwrap_or_default();
        for task in &mut usage.tasks {
            let own = resources.tasks.iter().find(|own| own.name == task.task);
            task.devices = own.map(|own| Devices::of_task(&measured, &own.devices)).unwrap_or_default();
        }
        Ok(())
    }
}

fn is_recent(at: Instant) -> bool {
    clock::monotonic().saturating_duration_since(at) < INTERVAL_MAX
}

async fn wait_until(at: Instant) {
    sleep(at.saturating_duration_since(clock::monotonic())).await;
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is harmless, because values are replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs blocking work on a thread that may block: the kernel and the disks may take a while.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(failed(format!("measuring panicked or was cancelled: {error}"))),
    }
}

fn failed(message: impl Into<Text>) -> Refusal {
    Refusal { kind: RefusalKind::NotReady, message: message.into() }
}

#[cfg(test)]
mod tests;
