//! Launches of periodic jobs (N-23): [`Launcher`] decides when a job is due, and [`Launches`] is that core in its shell, with
//! its metrics and logs.

mod launcher;
#[cfg(test)]
mod tests;

use model::{Epoch, Timestamp};
use singleton::{Core, Write};
use state::{Snapshot, Step};
use wire::command::{Command, Done};

use self::launcher::{Launcher, Pending};
use crate::metrics;

/// The active launcher.
pub struct Launches {
    launcher: Launcher,
    /// The launches of the command in flight.
    pending: Vec<Pending>,
}

impl Launches {
    /// Creates a launcher of the periodic jobs in `state`. Jobs whose moment has passed are due at once (N-23.7).
    pub fn new(state: Snapshot) -> Self {
        Self { launcher: Launcher::restore(state), pending: Vec::new() }
    }
}

impl Core for Launches {
    const CANNOT_COMMIT: &'static str = "cannot commit launches of periodic jobs";
    const COMMITS_AGAIN: &'static str = "launches of periodic jobs are committed again";

    fn restore(&mut self, state: Snapshot, _: Timestamp) {
        self.launcher = Launcher::restore(state);
    }

    fn step(&mut self, step: &Step, _: Timestamp) {
        self.launcher.step(step);
    }

    fn work(&mut self, _: Timestamp) {
        metrics::tracked(self.launcher.tracked_count());
    }

    fn next_write(&mut self, epoch: Epoch, now: Timestamp) -> Option<Write> {
        let (command, pending) = self.launcher.next_write(epoch, now)?;
        self.pending = pending;
        Some(Write::new(Command::LaunchJobs(command)))
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.launcher.poll_timeout()
    }

    fn written(&mut self, done: &Done, _: Timestamp) {
        let pending = std::mem::take(&mut self.pending);
        // A command that changed nothing has launched nothing.
        if done.written {
            pending.iter().for_each(log_launch);
        }
        self.launcher.written(done.index);
    }

    fn not_written(&mut self, now: Timestamp) {
        self.pending.clear();
        metrics::launches_not_written();
        self.launcher.not_written(now);
    }
}

/// Records how late a launch was, and logs that moments before it were missed.
fn log_launch(launch: &Pending) {
    metrics::launched(launch.late);
    if launch.has_missed {
        let (job, late_ms) = (&launch.job, launch.late.0 / 1_000_000);
        tracing::warn!(job.namespace = %job.namespace, job.id = %job.id, late_ms, "launched once for several missed moments");
    }
}
