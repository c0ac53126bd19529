//! [`Drains`]: the core [`Drainer`] in its shell, with its metrics and logs.

use model::{Epoch, Nanos, Timestamp};
use singleton::{Core, Write};
use state::{Snapshot, Step};
use wire::command::{Command, Done};

use super::core::Drainer;
use crate::metrics;

/// The active drainer.
pub struct Drains {
    drainer: Drainer,
    batch_delay: Nanos,
}

impl Drains {
    /// Creates a drainer that checks every draining node in `state` at once, and batches later changes for `batch_delay`.
    pub fn new(batch_delay: Nanos, state: Snapshot, now: Timestamp) -> Self {
        Self { drainer: Drainer::restore(batch_delay, state, now), batch_delay }
    }
}

impl Core for Drains {
    const CANNOT_COMMIT: &'static str = "cannot commit drains";
    const COMMITS_AGAIN: &'static str = "drains are committed again";

    fn restore(&mut self, state: Snapshot, now: Timestamp) {
        self.drainer = Drainer::restore(self.batch_delay, state, now);
    }

    fn step(&mut self, step: &Step, now: Timestamp) {
        self.drainer.step(step, now);
    }

    fn work(&mut self, _: Timestamp) {
        metrics::draining(self.drainer.node_count());
    }

    fn next_write(&mut self, epoch: Epoch, now: Timestamp) -> Option<Write> {
        let command = self.drainer.next_write(epoch, now)?;
        log(&command);
        Some(Write::new(command))
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.drainer.poll_timeout()
    }

    fn written(&mut self, done: &Done, _: Timestamp) {
        self.drainer.written(done.index);
    }

    fn not_written(&mut self, now: Timestamp) {
        metrics::not_written();
        self.drainer.not_written(now);
    }
}

/// Counts and logs what a command does to drains.
#[allow(clippy::wildcard_enum_match_arm, reason = "the drainer sends two kinds of commands")]
fn log(command: &Command) {
    match command {
        Command::DrainAllocs(marked) => metrics::marked(marked.allocs.len()),
        Command::CompleteDrains(ended) => {
            for end in &ended.drains {
                metrics::drained(end.deadline_reached);
                let deadline_reached = end.deadline_reached;
                tracing::info!(node.id = %end.node, deadline_reached, "completing the drain of a node");
            }
        }
        _ => {}
    }
}
