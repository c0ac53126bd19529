//! [`Core`]: what the shell asks of a core, and [`Write`], a command that a core wants to be sent.

use std::time::Duration;

use model::{Epoch, Timestamp};
use state::{Snapshot, Step};
use tracing::Span;
use wire::command::{Command, Done};

/// A command that a core wants to be sent.
#[derive(Debug)]
pub struct Write {
    /// The command.
    pub command: Command,
    /// The span in which it is sent; disabled if the command belongs to no trace.
    pub span: Span,
}

impl Write {
    /// A command without a span of its own.
    pub fn new(command: Command) -> Self {
        Self { command, span: Span::none() }
    }
}

/// A core of which one process at a time is active.
///
/// All times are the cluster's time, by which deadlines pass; the clock of the host takes no part. After each event the
/// shell calls [`Self::work`], sends the next command, and sets its timer. A core returns one command at a time: after one,
/// [`Self::next_write`] returns `None` until [`Self::written`] or [`Self::not_written`] was called
/// ([`wire::WriteGate`]).
pub trait Core: Unpin + 'static {
    /// Text of the message that tells that commands fail.
    const CANNOT_COMMIT: &'static str;
    /// Text of the message that tells that commands are carried out again after failures.
    const COMMITS_AGAIN: &'static str;
    /// Capacity of the actor's mailbox. Further senders wait.
    const MAILBOX_CAPACITY: usize = 16;
    /// Interval at which [`Self::publish_metrics`] is called; never by default.
    const METRICS_INTERVAL: Option<Duration> = None;

    /// Starts over from `state`, because the replica was loaded anew.
    fn restore(&mut self, state: Snapshot, now: Timestamp);

    /// Follows a step of the state.
    fn step(&mut self, step: &Step, now: Timestamp);

    /// Called after each event, before the next command: what else there is to do, such as answering requests.
    fn work(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// The next command, if there is one.
    fn next_write(&mut self, epoch: Epoch, now: Timestamp) -> Option<Write>;

    /// When the core next has something to do by itself.
    fn poll_timeout(&self) -> Option<Timestamp>;

    /// The time of [`Self::poll_timeout`] has come. The shell calls [`Self::next_write`] afterwards.
    fn handle_timeout(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// The command was carried out.
    fn written(&mut self, done: &Done, now: Timestamp);

    /// The command failed, or its outcome is unknown.
    fn not_written(&mut self, now: Timestamp);

    /// Records the metrics that are recorded at intervals.
    fn publish_metrics(&self, now: Timestamp) {
        let _ = now;
    }

    /// This process is no longer active.
    fn retire(&mut self) {}
}
