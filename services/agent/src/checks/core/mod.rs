//! Decides when checks run, what their results mean, and when they restart tasks. Pure; `runner` runs the
//! probes and carries out the decisions.
//!
//! All checks of the node have one core, and so one timer. A check that does not run at the moment is an entry in a map and
//! nothing else. The number of probes that run at the same time is limited, for the node and for each allocation; checks
//! beyond the limit wait for their turn.

mod in_consul;
mod restarts;
mod results;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use model::{AllocId, Nanos, Text, Timestamp};

pub(crate) use self::in_consul::{ConsulReport, ConsulStatus, finding};
use self::restarts::RestartWatch;
use self::results::AllocResults;
pub(crate) use self::results::{CheckHealth, CheckResult, Finding, Outcome, Status};
use super::check::{Check, InConsul, Runner};

/// The maximum number of probes that run at the same time.
pub(crate) const PROBES_MAX: usize = 512;
/// The maximum number of probes of one allocation that run at the same time. Checks of one allocation that never answer
/// delay those of others only when many allocations have such checks.
pub(crate) const ALLOC_PROBES_MAX: usize = 32;
/// The maximum random-looking addition to the time of the first run, so that checks that begin together spread.
const FIRST_RUN_JITTER_MAX: Nanos = Nanos::from_secs(1);
/// The jitter of the first run is at most this part of the interval.
const FIRST_RUN_JITTER_PARTS: i64 = 10;

/// A check of the node: its allocation and its id.
pub(crate) type Key = (AllocId, Text);

/// The time, by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    /// By the clock that never jumps, for timers.
    pub(crate) steady: Timestamp,
    /// By the wall clock, for users and for the health of the allocation.
    pub(crate) wall: Timestamp,
}

/// A probe to run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    /// The check.
    pub(crate) key: Key,
    /// Which run of the node it is. The outcome names it.
    pub(crate) number: u64,
    /// What to do.
    pub(crate) check: Arc<Check>,
    /// How late the run is.
    pub(crate) late: Nanos,
}

/// A restart that a failing check asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Restart {
    /// The allocation.
    pub(crate) alloc: AllocId,
    /// The task; `None` is all running tasks, for a service of the group.
    pub(crate) task: Option<Text>,
    /// The reason, as the event of the task shows it.
    pub(crate) reason: Text,
}

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Effects {
    /// Probes to run.
    pub(crate) runs: Vec<Run>,
    /// Tasks to restart.
    pub(crate) restarts: Vec<Restart>,
    /// The allocations whose results have to be saved, because a status has changed.
    pub(crate) changed: BTreeSet<AllocId>,
}

/// All checks of the node.
#[derive(Debug, Default)]
pub(crate) struct Core {
    allocs: BTreeMap<AllocId, AllocChecks>,
    /// The checks that wait for their next run.
    runs: BTreeSet<(Timestamp, Key)>,
    /// The checks that will restart a task unless they pass before.
    restarts: BTreeSet<(Timestamp, Key)>,
    /// The number of probes that are running, by allocation. Removed checks count until their probe has ended.
    running: BTreeMap<AllocId, usize>,
    running_total: usize,
    last_number: u64,
}

/// The checks of an allocation.
#[derive(Debug, Default)]
struct AllocChecks {
    checks: BTreeMap<Text, Entry>,
    results: AllocResults,
    /// Checks that are due, and wait until fewer probes of the allocation run.
    waiting: BTreeSet<(Timestamp, Text)>,
}

/// A check.
#[derive(Debug)]
struct Entry {
    check: Arc<Check>,
    phase: Phase,
    restart: Option<RestartWatch>,
}

/// Where a check is between two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It will run at this time, or waits for its turn since then.
    Due(Timestamp),
    /// Its probe runs.
    Running(u64),
    /// Consul runs it.
    Elsewhere,
}

impl Core {
    /// Replaces the checks of an allocation. A check that was there before keeps its result and its schedule. `saved` are
    /// results from before a restart of the agent.
    pub(crate) fn set(
        &mut self,
        alloc: AllocId,
        checks: Vec<Check>,
        saved: &BTreeMap<Text, CheckResult>,
        now: Now,
    ) {
        let wanted: BTreeMap<Text, Check> =
            checks.into_iter().map(|check| (Text::clone(&check.id), check)).collect();
        let known = self.allocs.get(&alloc).into_iter().flat_map(|known| known.checks.keys());
        let removed: Vec<Text> = known.filter(|id| !wanted.contains_key(*id)).cloned().collect();
        for id in removed {
            self.remove_one(alloc, &id);
        }
        if wanted.is_empty() {
            self.allocs.remove(&alloc);
            return;
        }
        let own = self.allocs.entry(alloc).or_default();
        for (id, check) in wanted {
            let check = Arc::new(check);
            if let Some(entry) = own.checks.get_mut(&id) {
                if entry.check.restart != check.restart
                    && let Some(watch) = entry.restart.take()
                {
                    // The new rule counts from now on.
                    if let Some(at) = watch.due() {
                        self.restarts.remove(&(at, (alloc, Text::clone(&id))));
                    }
                    entry.restart =
                        check.restart.map(|rule| RestartWatch::begin(rule, check.interval, now.steady));
                }
                entry.check = check;
                continue;
            }
            let at = now.steady + first_run_after(&check);
            let result = saved.get(&id).cloned().unwrap_or_else(|| CheckResult::pending(now.wall));
            own.results.insert(&check, result);
            let phase = match check.runner {
                Runner::Agent(_) | Runner::Script(_) => Phase::Due(at),
                Runner::Consul(_) => Phase::Elsewhere,
            };
            if let Phase::Due(at) = phase {
                self.runs.insert((at, (alloc, Text::clone(&id))));
            }
            own.checks.insert(id, Entry { check, phase, restart: None });
        }
        own.results.refresh(now.wall);
    }

    /// Forgets the checks of an allocation and their results.
    pub(crate) fn remove(&mut self, alloc: AllocId) {
        let Some(own) = self.allocs.get(&alloc) else { return };
        let ids: Vec<Text> = own.checks.keys().cloned().collect();
        for id in ids {
            self.remove_one(alloc, &id);
        }
        self.allocs.remove(&alloc);
    }

    fn remove_one(&mut self, alloc: AllocId, id: &Text) {
        let Some(own) = self.allocs.get_mut(&alloc) else { return };
        let Some(entry) = own.checks.remove(id) else { return };
        own.results.remove(&entry.check);
        let key = (alloc, Text::clone(id));
        if let Phase::Due(at) = entry.phase {
            self.runs.remove(&(at, key.clone()));
            own.waiting.remove(&(at, Text::clone(id)));
        }
        if let Some(at) = entry.restart.and_then(|watch| watch.due()) {
            self.restarts.remove(&(at, key));
        }
    }

    /// Begins to watch for restarts, because a task has started: by the checks of its services, and by those of the
    /// group's services unless they are watched already. Nothing counts until the grace period of each is over.
    pub(crate) fn arm(&mut self, alloc: AllocId, task: &str, now: Now) {
        self.begin_watches(alloc, task, false, now);
    }

    /// Begins to watch the checks that are not watched yet, because an update has brought them while the task runs.
    pub(crate) fn arm_new(&mut self, alloc: AllocId, task: &str, now: Now) {
        self.begin_watches(alloc, task, true, now);
    }

    fn begin_watches(&mut self, alloc: AllocId, task: &str, only_new: bool, now: Now) {
        let Some(own) = self.allocs.get_mut(&alloc) else { return };
        for (id, entry) in &mut own.checks {
            let is_new = entry.restart.is_none();
            let is_own = *entry.check.task == *task && (is_new || !only_new);
            let is_new_of_group = entry.check.task.is_empty() && is_new;
            let Some(rule) = entry.check.restart.filter(|_| is_own || is_new_of_group) else { continue };
            let key = (alloc, Text::clone(id));
            if let Some(at) = entry.restart.and_then(|watch| watch.due()) {
                self.restarts.remove(&(at, key.clone()));
            }
            let mut watch = RestartWatch::begin(rule, entry.check.interval, now.steady);
            // What Consul or a program found before may be about an earlier start.
            let is_here = matches!(entry.check.runner, Runner::Agent(_));
            watch.observe(!is_here || own.results.status(id) == Status::Success, now.steady);
            if let Some(at) = watch.due() {
                self.restarts.insert((at, key));
            }
            entry.restart = Some(watch);
        }
    }

    /// Stops watching for restarts by the checks of a task's services, or of the group's services if `task` is empty.
    pub(crate) fn disarm(&mut self, alloc: AllocId, task: &str) {
        let Some(own) = self.allocs.get_mut(&alloc) else { return };
        for (id, entry) in own.checks.iter_mut().filter(|(_, entry)| *entry.check.task == *task) {
            if let Some(at) = entry.restart.take().and_then(|watch| watch.due()) {
                self.restarts.remove(&(at, (alloc, Text::clone(id))));
            }
        }
    }

    /// When [`Self::handle_timeout`] next has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        let first = |set: &BTreeSet<(Timestamp, Key)>| set.first().map(|(at, _)| *at);
        let run = first(&self.runs).filter(|_| self.running_total < PROBES_MAX);
        run.into_iter().chain(first(&self.restarts)).min()
    }

    /// Handles the timers that have expired.
    pub(crate) fn handle_timeout(&mut self, now: Now) -> Effects {
        let mut effects = Effects::default();
        while self.running_total < PROBES_MAX
            && let Some((at, key)) = pop_due(&mut self.runs, now.steady)
        {
            effects.runs.extend(self.begin(at, key, now));
        }
        while let Some((_, (alloc, id))) = pop_due(&mut self.restarts, now.steady) {
            let own = self.allocs.get(&alloc);
            let Some(check) = own.and_then(|own| own.checks.get(&id)).map(|entry| Arc::clone(&entry.check))
            else {
                continue;
            };
            // A restart is enough, whatever else fails. The next start begins to watch again.
            self.disarm(alloc, &check.task);
            effects.restarts.push(Restart {
                alloc,
                task: Some(Text::clone(&check.task)).filter(|task| !task.is_empty()),
                reason: format!("healthcheck: check {} unhealthy", model::text::quoted(&check.name)).into(),
            });
        }
        effects
    }

    /// Begins the run of a check that is due, or lets it wait if enough probes of its allocation run.
    fn begin(&mut self, at: Timestamp, key: Key, now: Now) -> Option<Run> {
        let (alloc, id) = &key;
        let own = self.allocs.get_mut(alloc)?;
        let entry = own.checks.get_mut(id)?;
        let running = self.running.entry(*alloc).or_default();
        if *running >= ALLOC_PROBES_MAX {
            own.waiting.insert((at, Text::clone(id)));
            return None;
        }
        *running += 1;
        self.running_total += 1;
        self.last_number = self.last_number.wrapping_add(1);
        entry.phase = Phase::Running(self.last_number);
        let check = Arc::clone(&entry.check);
        Some(Run { number: self.last_number, check, late: now.steady - at, key })
    }

    /// Whether a run of a check is under way, and its check was not removed meanwhile.
    pub(crate) fn is_running(&self, (alloc, id): &Key, number: u64) -> bool {
        let entry = self.allocs.get(alloc).and_then(|own| own.checks.get(id));
        entry.is_some_and(|entry| entry.phase == Phase::Running(number))
    }

    /// Records what a run found. The next run begins an interval later.
    pub(crate) fn finished(
        &mut self,
        key: &Key,
        number: u64,
        found: impl Into<Finding>,
        now: Now,
    ) -> Effects {
        let (alloc, id) = key;
        self.end_of_probe(*alloc);
        let entry = self.allocs.get_mut(alloc).and_then(|own| own.checks.get_mut(id));
        let Some(entry) = entry.filter(|entry| entry.phase == Phase::Running(number)) else {
            // The check was removed while its probe ran.
            return Effects::default();
        };
        let at = now.steady + entry.check.interval;
        entry.phase = Phase::Due(at);
        self.runs.insert((at, key.clone()));
        self.record(key, found.into(), now)
    }

    /// Records what Consul found. A check that was removed meanwhile, or that the agent runs, is left as it is.
    pub(crate) fn found(&mut self, key: &Key, finding: Finding, now: Now) -> Effects {
        let entry = self.allocs.get(&key.0).and_then(|own| own.checks.get(&key.1));
        match entry.map(|entry| entry.phase) {
            Some(Phase::Elsewhere) => self.record(key, finding, now),
            Some(Phase::Due(_) | Phase::Running(_)) | None => Effects::default(),
        }
    }

    fn record(&mut self, key: &Key, finding: Finding, now: Now) -> Effects {
        let mut effects = Effects::default();
        let (alloc, id) = key;
        let Some(own) = self.allocs.get_mut(alloc) else { return effects };
        let Some(entry) = own.checks.get_mut(id) else { return effects };
        let Finding { outcome, is_healthy } = finding;
        let result = CheckResult { at: now.wall, ..CheckResult::from(outcome) };
        if own.results.record(&entry.check, result) {
            effects.changed.insert(*alloc);
        }
        own.results.refresh(now.wall);
        if let Some(watch) = &mut entry.restart {
            let before = watch.due();
            watch.observe(is_healthy, now.steady);
            if before != watch.due() {
                if let Some(at) = before {
                    self.restarts.remove(&(at, key.clone()));
                }
                if let Some(at) = watch.due() {
                    self.restarts.insert((at, key.clone()));
                }
            }
        }
        effects
    }

    /// Counts the end of a probe. A check of its allocation that waits is due again.
    fn end_of_probe(&mut self, alloc: AllocId) {
        self.running_total = self.running_total.saturating_sub(1);
        if let Some(running) = self.running.get_mut(&alloc) {
            *running = running.saturating_sub(1);
            if *running == 0 {
                self.running.remove(&alloc);
            }
        }
        let Some(own) = self.allocs.get_mut(&alloc) else { return };
        if let Some((at, id)) = own.waiting.pop_first() {
            self.runs.insert((at, (alloc, id)));
        }
    }

    /// The health of an allocation's checks.
    pub(crate) fn health(&self, alloc: AllocId) -> CheckHealth {
        self.allocs.get(&alloc).map(|own| own.results.health()).unwrap_or_default()
    }

    /// The checks that Consul runs.
    pub(crate) fn in_consul(&self) -> Vec<(Key, InConsul)> {
        let mut found = Vec::new();
        for (alloc, own) in &self.allocs {
            for (id, entry) in &own.checks {
                if let Runner::Consul(check) = &entry.check.runner {
                    found.push(((*alloc, Text::clone(id)), check.clone()));
                }
            }
        }
        found
    }

    /// The checks of an allocation that only the agent knows, with their results: those with ids after `after`, in the order
    /// of their ids. Consul shows the others.
    pub(crate) fn results(
        &self,
        alloc: AllocId,
        after: &str,
    ) -> impl Iterator<Item = (&Arc<Check>, &CheckResult)> {
        let after = Text::from(after);
        self.allocs.get(&alloc).into_iter().flat_map(move |own| {
            let later = own.checks.range((Bound::Excluded(Text::clone(&after)), Bound::Unbounded));
            let here = later.filter(|(_, entry)| matches!(entry.check.runner, Runner::Agent(_)));
            here.filter_map(move |(id, entry)| Some((&entry.check, own.results.get(id)?)))
        })
    }

    /// The results of an allocation, to be saved.
    pub(crate) fn saved(&self, alloc: AllocId) -> Option<BTreeMap<Text, CheckResult>> {
        self.allocs.get(&alloc).map(|own| own.results.all().clone())
    }

    /// The number of checks that the agent runs.
    pub(crate) fn count(&self) -> usize {
        let entries = self.allocs.values().flat_map(|own| own.checks.values());
        entries.filter(|entry| entry.phase != Phase::Elsewhere).count()
    }
}

/// Takes the first entry that is due.
fn pop_due(set: &mut BTreeSet<(Timestamp, Key)>, now: Timestamp) -> Option<(Timestamp, Key)> {
    if set.first()?.0 > now {
        return None;
    }
    set.pop_first()
}

/// The time until the first run: half an interval, and a jitter that follows from the check's id.
fn first_run_after(check: &Check) -> Nanos {
    let jitter_max = (check.interval.0 / FIRST_RUN_JITTER_PARTS).min(FIRST_RUN_JITTER_MAX.0);
    let spread = check.id.bytes().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let jitter = i64::from(spread % 1_000).saturating_mul(jitter_max / 1_000);
    Nanos(check.interval.0 / 2) + Nanos(jitter)
}

#[cfg(test)]
mod tests;
