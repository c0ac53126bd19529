//! Runs the probes that are due, records their outcomes, saves results when a status changes, and passes restarts on. One
//! task for all checks of the node, and one more for each probe that is running.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use model::{AllocId, Nanos, Text};
use telemetry::metrics::catalogue::{AGENT_CHECKS_FAILED, AGENT_CHECKS_LATE, AGENT_CHECKS_RUN};
use telemetry::{chain, clock};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::{Id, JoinSet};
use tokio::time::sleep;

use super::check::{Check, Runner as RunBy};
use super::core::{CheckResult, ConsulReport, Effects, Finding, Key, Outcome, Restart, Run, Status, finding};
use super::probe::Prober;
use super::{Checks, now, script};
use crate::disk::store::{self, Durability, Store};
use crate::driver::running::RunningTasks;
use crate::wait::to_std;

/// The name of the file with the results of an allocation's checks, in the directory of its state.
const RESULTS_FILE: &str = "check-results";
/// A run counts as late if it begins this much after its time.
const LATE: Nanos = Nanos::SECOND;

/// Runs checks until it is dropped. Programs run in `tasks`. `restarts` gets the restarts that failing checks ask for.
pub(crate) async fn run(
    checks: Arc<Checks>,
    store: Store,
    tasks: RunningTasks,
    restarts: mpsc::Sender<Restart>,
) {
    let mut runner = Runner {
        checks,
        store,
        tasks,
        restarts,
        prober: Arc::new(Prober::default()),
        probes: JoinSet::new(),
        running: BTreeMap::new(),
        saving: JoinSet::new(),
        unsaved: BTreeSet::new(),
    };
    loop {
        runner.step().await;
    }
}

/// What a run found.
struct Found {
    finding: Finding,
    /// What Consul is told.
    report: Option<ConsulReport>,
}

impl From<Outcome> for Found {
    fn from(outcome: Outcome) -> Self {
        Self { finding: outcome.into(), report: None }
    }
}

struct Runner {
    checks: Arc<Checks>,
    store: Store,
    tasks: RunningTasks,
    restarts: mpsc::Sender<Restart>,
    prober: Arc<Prober>,
    /// The probes that are running. The core limits them.
    probes: JoinSet<Found>,
    /// The checks that they are for, with the numbers of the runs.
    running: BTreeMap<Id, (Key, u64)>,
    /// At most one write of results.
    saving: JoinSet<()>,
    /// The allocations whose results have to be saved.
    unsaved: BTreeSet<AllocId>,
}

impl Runner {
    /// Handles what is due, and waits for the next event.
    async fn step(&mut self) {
        let effects = self.checks.lock().core.handle_timeout(now());
        self.carry_out(effects);
        self.save_next();
        let due = self.checks.lock().core.poll_timeout();
        let timer = due.map(|at| to_std(at - clock::steady()));
        tokio::select! {
            Some(ended) = self.probes.join_next_with_id() => match ended {
                Ok((id, found)) => self.finished(id, found),
                Err(error) => {
                    tracing::error!(error = chain(&error), "a probe of a check panicked");
                    let outcome = Outcome::failure("the agent failed to run the check");
                    self.finished(error.id(), outcome.into());
                }
            },
            Some(_) = self.saving.join_next() => {}
            () = self.checks.changed.notified() => {}
            () = sleep(timer.unwrap_or_default()), if timer.is_some() => {}
        }
    }

    fn finished(&mut self, probe: Id, found: Found) {
        let Some((key, number)) = self.running.remove(&probe) else { return };
        AGENT_CHECKS_RUN.add(1);
        if found.finding.outcome.status != Status::Success {
            AGENT_CHECKS_FAILED.add(1);
        }
        let mut state = self.checks.lock();
        let is_current = state.core.is_running(&key, number);
        let effects = state.core.finished(&key, number, found.finding, now());
        for alloc in &effects.changed {
            state.publish(*alloc);
        }
        drop(state);
        if let Some(report) = found.report.filter(|_| is_current) {
            self.checks.report(key, report);
        }
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Effects) {
        for Run { key, number, check, late } in effects.runs {
            if late > LATE {
                AGENT_CHECKS_LATE.add(1);
            }
            let (prober, tasks, alloc) = (Arc::clone(&self.prober), self.tasks.clone(), key.0);
            let probe = self.probes.spawn(async move { run_once(&prober, &tasks, alloc, &check).await });
            self.running.insert(probe.id(), (key, number));
        }
        for restart in effects.restarts {
            self.restart(restart);
        }
        self.unsaved.extend(effects.changed);
    }

    /// Passes a restart on. If too many wait, it is asked for again after the grace period.
    fn restart(&self, restart: Restart) {
        tracing::info!(
            alloc.id = %restart.alloc, task = restart.task.as_deref(), reason = &*restart.reason,
            "a check that fails restarts a task"
        );
        if let Err(TrySendError::Full(restart)) = self.restarts.try_send(restart) {
            tracing::warn!(alloc.id = %restart.alloc, "too many restarts by checks are waiting; trying again later");
            self.checks.lock().core.arm(restart.alloc, restart.task.as_deref().unwrap_or_default(), now());
        }
    }

    /// Saves the results of the next allocation with a changed status, unless a write is under way.
    fn save_next(&mut self) {
        if !self.saving.is_empty() {
            return;
        }
        while let Some(alloc) = self.unsaved.pop_first() {
            let Some(results) = self.checks.lock().core.saved(alloc) else { continue };
            let path = results_file(&self.store, alloc);
            self.saving.spawn(async move {
                if let Err(error) = store::save(path, &results, Durability::Process).await {
                    tracing::warn!(alloc.id = %alloc, error = chain(&error), "cannot save the results of checks");
                }
            });
            return;
        }
    }
}

/// Runs a check once, within its timeout.
async fn run_once(prober: &Prober, tasks: &RunningTasks, alloc: AllocId, check: &Check) -> Found {
    let limit = to_std(check.timeout);
    match &check.runner {
        RunBy::Script(script) => {
            let (status, output) = script::run(tasks, alloc, script, limit).await;
            let finding = finding(&script.in_consul, Some(status), Text::clone(&output));
            let report = ConsulReport { check_id: Text::clone(&script.check_id), status, output };
            Found { finding, report: Some(report) }
        }
        RunBy::Agent(_) | RunBy::Consul(_) => prober.probe(check, limit).await.into(),
    }
}

/// The file with the results of an allocation's checks.
fn results_file(store: &Store, alloc: AllocId) -> PathBuf {
    store.alloc(alloc).join(RESULTS_FILE)
}

/// The results of an allocation's checks from before a restart of the agent. It reads a file.
pub(crate) fn saved_results(store: &Store, alloc: AllocId) -> BTreeMap<Text, CheckResult> {
    match store::read(&results_file(store, alloc)) {
        Ok(results) => results.unwrap_or_default(),
        Err(error) => {
            tracing::warn!(alloc.id = %alloc, error = chain(&error), "cannot read the results of checks; they begin again");
            BTreeMap::new()
        }
    }
}
