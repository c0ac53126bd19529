//! [`Launcher`]: the core that decides when which periodic job is due.
//!
//! Pure: change sets and times go in, commands come out. What has been launched is in the state: the moment of the last
//! launch, in the summary of the job. From it and from the schedule follows the next moment, so a launcher that takes over
//! goes on where the one before stopped. The applier refuses moments that have been decided, so a moment is never launched
//! twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::change::{Change, Concern, JobChange, JobSummaryChange};
use model::job::JobSpec;
use model::schedule::{Schedule, launched_until};
use model::{Epoch, Index, JobKey, Nanos, Timestamp};
use planted_bugs::{Bug, is_planted};
use state::{Snapshot, Step};
use wire::WriteGate;
use wire::command::{Launch, LaunchJobs};

/// The maximum number of launches in one command.
const LAUNCHES_MAX: usize = 256;
/// The pause before a launch is sent again, if the applier committed the command without making it.
const REPEAT_AFTER: Nanos = Nanos::SECOND;

/// A launch that a command makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pending {
    /// The job.
    pub(super) job: JobKey,
    /// How long ago the first moment is that the launch is for.
    pub(super) late: Nanos,
    /// Whether the launch is for several moments, of which all but the last were missed.
    pub(super) has_missed: bool,
}

/// A periodic job that is launched at times.
#[derive(Debug)]
struct Tracked {
    /// The specification from which the schedule was read.
    spec: Arc<JobSpec>,
    schedule: Schedule,
    /// The first moment that is still to be launched. `None` if there is none any more.
    moment: Option<Timestamp>,
    /// When to look at the job again: at that moment, or, after a launch was sent, later.
    due: Option<Timestamp>,
}

/// The periodic jobs, and when each is due.
#[derive(Debug)]
pub(super) struct Launcher {
    state: Snapshot,
    jobs: BTreeMap<JobKey, Tracked>,
    by_due: BTreeSet<(Timestamp, JobKey)>,
    gate: WriteGate,
}

impl Launcher {
    /// Creates a launcher of the periodic jobs in `state`. Jobs whose moment has passed are due at once (N-23.7).
    pub(super) fn restore(state: Snapshot) -> Self {
        let jobs = state.jobs().filter(|job| job.spec.launch_config().is_some());
        let jobs: Vec<JobKey> = jobs.map(|job| job.key()).collect();
        let gate = WriteGate::default();
        let mut launcher = Self { state, jobs: BTreeMap::new(), by_due: BTreeSet::new(), gate };
        if !is_planted(Bug::ForgetsSchedules) {
            jobs.iter().for_each(|job| launcher.track(job));
        }
        launcher
    }

    /// Follows a step of the state.
    pub(super) fn step(&mut self, step: &Step) {
        self.state = step.after.clone();
        self.gate.saw(self.state.index());
        for change in step.changes() {
            self.follow(change);
        }
    }

    fn follow(&mut self, change: &Change) {
        match change.concern() {
            Concern::Jobs(change) => match change {
                JobChange::Job(job) => self.track(&job.key()),
                JobChange::JobDeleted(key) => self.track(key),
                JobChange::JobFields(_) | JobChange::JobVersionsDeleted(_) => {}
            },
            Concern::JobSummaries(change) => match change {
                JobSummaryChange::JobSummary(summary) if self.jobs.contains_key(&summary.job) => {
                    self.track(&summary.job);
                }
                JobSummaryChange::JobSummary(_) => {}
            },
            Concern::JobSubmissions(_)
            | Concern::Evals(_)
            | Concern::Deployments(_)
            | Concern::Nodes(_)
            | Concern::Allocs(_)
            | Concern::SchedulerConfig(_)
            | Concern::Leases(_)
            | Concern::Unblocked(_)
            | Concern::Small(_) => {}
        }
    }

    /// Tracks a job according to the state: a new one, one whose schedule may have changed, one that was launched, or one
    /// that is not launched any more.
    fn track(&mut self, key: &JobKey) {
        let before = self.untrack(key);
        let Some(job) = self.state.job(key) else { return };
        let Some(config) = job.spec.launch_config() else { return };
        let schedule = match before {
            Some(before) if Arc::ptr_eq(&before.spec, &job.spec) => before.schedule,
            Some(_) | None => Schedule::new(config),
        };
        let summary = self.state.job_summary(key).map(|summary| &**summary);
        let moment = schedule.next(launched_until(job, summary));
        let tracked = Tracked { spec: Arc::clone(&job.spec), schedule, moment, due: moment };
        self.by_due.extend(moment.map(|moment| (moment, key.clone())));
        self.jobs.insert(key.clone(), tracked);
    }

    fn untrack(&mut self, key: &JobKey) -> Option<Tracked> {
        let tracked = self.jobs.remove(key)?;
        if let Some(due) = tracked.due {
            self.by_due.remove(&(due, key.clone()));
        }
        Some(tracked)
    }

    /// The number of jobs that are launched at times.
    pub(super) fn tracked_count(&self) -> usize {
        self.jobs.len()
    }

    /// When [`Self::next_write`] next has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        let (from, (due, _)) = (self.gate.from()?, self.by_due.first()?);
        Some(from.max(*due))
    }

    /// The next command, if a job is due, and what it launches. Of several moments that have passed, a job is launched for
    /// the last one (N-23.7). Returns no other command until [`Self::written`] or [`Self::not_written`] is called.
    pub(super) fn next_write(&mut self, epoch: Epoch, now: Timestamp) -> Option<(LaunchJobs, Vec<Pending>)> {
        let now = self.at_least_state_time(now);
        if self.gate.from().is_none_or(|from| now < from) {
            return None;
        }
        let (mut launches, mut pending) = (Vec::new(), Vec::new());
        while launches.len() < LAUNCHES_MAX
            && self.by_due.first().is_some_and(|(due, _)| *due <= now)
            && let Some((_, job)) = self.by_due.pop_first()
        {
            let Some(tracked) = self.jobs.get_mut(&job) else { continue };
            let Some(first) = tracked.moment else { continue };
            let next = tracked.schedule.next(first).filter(|next| *next <= now);
            let last = next.and_then(|_| tracked.schedule.last_between(first, now));
            launches.push(Launch { job: job.clone(), moment: last.unwrap_or(first) });
            pending.push(Pending { job: job.clone(), late: now - first, has_missed: last.is_some() });
            // The state tells of the launch. If the applier does not make it, because its state is newer, this is a second
            // attempt.
            let again = now + REPEAT_AFTER;
            tracked.due = Some(again);
            self.by_due.insert((again, job));
        }
        if launches.is_empty() {
            return None;
        }
        self.gate.begin();
        Some((LaunchJobs { epoch, launches }, pending))
    }

    /// The command was committed at `index`.
    pub(super) fn written(&mut self, index: Index) {
        self.gate.written(index, self.state.index());
    }

    /// The command failed, or its outcome is unknown.
    pub(super) fn not_written(&mut self, now: Timestamp) {
        self.gate.not_written(self.at_least_state_time(now));
    }

    /// The later of `now` and the state's time, so that a launcher whose clock is slightly behind does not wait for a moment
    /// that has passed in the cluster.
    fn at_least_state_time(&self, now: Timestamp) -> Timestamp {
        now.max(self.state.at())
    }
}
