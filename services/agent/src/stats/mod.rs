//! Answers requests for figures of the machine and of tasks. Nothing is measured while nobody asks: what
//! was seen last is kept for a while, and what is used is worked out between that and now.
//!
//! Like `files`, it reads what is on disk and knows no allocation from elsewhere.

mod disks;
mod facts;
mod host;
mod proc;
mod tasks;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bus::{Request, Requests};
use model::{AllocId, Text};
use telemetry::clock;
use tokio::sync::watch;
use tokio::time::sleep;
use wire::stats::{
    AgentStats, AllocStats, AskAgentStats, AskAllocStats, AskHostFacts, AskHostStats, HostFacts, HostStats,
};
use wire::{Refusal, RefusalKind};

use self::host::HostReading;
use self::tasks::{Processes, TaskReading};
use crate::contact::Standing;
use crate::context::Context;
use crate::fingerprint::Machine;
use crate::heartbeats::Heard;

/// How many requests are answered at once; more wait.
const AT_ONCE_MAX: usize = 32;
/// The shortest time over which something is measured: the kernel counts in hundredths of a second.
const SPAN_MIN: Duration = Duration::from_millis(250);
/// The longest such time; of what is older nobody wants an average.
const SPAN_MAX: Duration = Duration::from_secs(10);

/// What was seen last.
pub(crate) struct Stats {
    context: Arc<Context>,
    machine: Arc<Machine>,
    standing: watch::Receiver<Standing>,
    host: Mutex<Option<HostReading>>,
    tasks: Mutex<BTreeMap<(AllocId, Text), TaskReading>>,
}

/// Answers requests until there are no more.
pub(crate) async fn serve(stats: Arc<Stats>, requests: Requests) {
    requests.each(AT_ONCE_MAX, |request| Arc::clone(&stats).answer(request)).await;
}

impl Stats {
    /// Of this machine.
    pub(crate) fn new(
        context: Arc<Context>,
        machine: Arc<Machine>,
        standing: watch::Receiver<Standing>,
    ) -> Self {
        Self { context, machine, standing, host: Mutex::default(), tasks: Mutex::default() }
    }

    async fn answer(self: Arc<Self>, request: Request) {
        if request.is::<AskHostStats>() {
            request.answer_with(async |AskHostStats {}| self.host_stats().await).await;
        } else if request.is::<AskAgentStats>() {
            request.answer_with(async |AskAgentStats {}| self.agent_stats().await).await;
        } else if request.is::<AskHostFacts>() {
            request.answer_with(async |AskHostFacts {}| self.host_facts().await).await;
        } else {
            request.answer_with(async |ask: AskAllocStats| self.alloc_stats(ask).await).await;
        }
    }

    async fn agent_stats(self: &Arc<Self>) -> Result<AgentStats, Refusal> {
        let stats = Arc::clone(self);
        let allocs = blocking(move || {
            let allocs = stats.context.store.allocs();
            allocs.map_err(|error| failed(format!("cannot count the allocations: {error}")))
        });
        let allocs = allocs.await?.len() as u64;
        let millis = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let heard = self.standing.borrow().heard;
        Ok(AgentStats {
            allocs,
            heard_ago_ms: heard
                .map(|Heard { at, .. }| millis(clock::monotonic().saturating_duration_since(at))),
            ttl_ms: heard.map_or(0, |Heard { ttl, .. }| millis(ttl)),
        })
    }

    async fn host_facts(self: &Arc<Self>) -> Result<HostFacts, Refusal> {
        blocking(|| Ok(facts::look())).await
    }

    async fn host_stats(self: &Arc<Self>) -> Result<HostStats, Refusal> {
        let known = lock(&self.host).clone();
        let before = match known.filter(|known| is_recent(known.at)) {
            Some(known) => known,
            None => blocking(HostReading::take).await?,
        };
        until(before.at + SPAN_MIN).await;
        let stats = Arc::clone(self);
        blocking(move || {
            let after = HostReading::take()?;
            let found = host::stats(&before, &after, &stats.machine, &stats.context)?;
            *lock(&stats.host) = Some(after);
            Ok(found)
        })
        .await
    }

    async fn alloc_stats(self: &Arc<Self>, ask: AskAllocStats) -> Result<AllocStats, Refusal> {
        let AskAllocStats { alloc, task } = ask;
        let stats = Arc::clone(self);
        let running = blocking(move || Processes::of_alloc(&stats.context, alloc, task.as_ref())).await?;
        let known = lock(&self.tasks).clone();
        let is_known = |(task, _): &(Text, Processes)| {
            known.get(&(alloc, Text::clone(task))).is_some_and(|known| is_recent(known.at))
        };
        // All of them are measured over the same time, so that they can be added up.
        let before = match running.iter().all(is_known) {
            true => known,
            false => {
                let processes = running.clone();
                blocking(move || Ok(read(alloc, &processes))).await?
            }
        };
        let newest = running
            .iter()
            .filter_map(|(task, _)| before.get(&(alloc, Text::clone(task))))
            .map(|task| task.at);
        if let Some(newest) = newest.max() {
            until(newest + SPAN_MIN).await;
        }
        let stats = Arc::clone(self);
        blocking(move || {
            let after = read(alloc, &running);
            let found = tasks::stats(&before, &after, stats.machine.mean_mhz());
            let mut kept = lock(&stats.tasks);
            kept.retain(|_, kept| is_recent(kept.at));
            kept.extend(after);
            Ok(found)
        })
        .await
    }
}

/// Looks at the processes of tasks.
fn read(alloc: AllocId, running: &[(Text, Processes)]) -> BTreeMap<(AllocId, Text), TaskReading> {
    running.iter().map(|(task, processes)| ((alloc, Text::clone(task)), processes.read())).collect()
}

fn is_recent(at: Instant) -> bool {
    clock::monotonic().saturating_duration_since(at) < SPAN_MAX
}

async fn until(at: Instant) {
    sleep(at.saturating_duration_since(clock::monotonic())).await;
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept is put in place whole.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The kernel may have to look for its figures, and disks for theirs: threads wait that may.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(failed(format!("cannot look at the machine: {error}"))),
    }
}

fn failed(message: impl Into<Text>) -> Refusal {
    Refusal { kind: RefusalKind::NotReady, message: message.into() }
}

#[cfg(test)]
mod tests;
