//! The log from which the feed reads what it missed: the interface, and a reader that tries again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{Index, RequestId};
use state::State;
use telemetry::clock;
use telemetry::repeats::{Outage, Repeats};
use wire::feed::Head;

use crate::backoff::backoff;
use crate::contact::Contact;

const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// The log of committed change sets. Its methods may be called again at any time, and their results may be discarded.
pub trait Log: Send + Sync + 'static {
    /// Loads the newest durable state, and reads the head that belongs to it.
    fn load(&self) -> impl Future<Output = Result<(State, Head), LogError>> + Send;

    /// Reads the change sets after `index`, one page of them.
    fn after(&self, index: Index) -> impl Future<Output = Result<LogPage, LogError>> + Send;

    /// Reads the head.
    fn head(&self) -> impl Future<Output = Result<Head, LogError>> + Send;

    /// The address of the database that holds the log, for messages.
    fn address(&self) -> String;
}

/// The reason why the log cannot be read.
pub type LogError = Box<dyn std::error::Error + Send + Sync>;

/// A page of the log.
#[derive(Debug)]
pub enum LogPage {
    /// Consecutive change sets, without a gap.
    Sets {
        /// The head of the log at the time of the read.
        head: Head,
        /// The request of the change set at the requested index, if the log still has it.
        previous: Option<RequestId>,
        /// The encoded change sets that follow the requested index; none if that index was the last.
        sets: Vec<Bytes>,
    },
    /// The log does not have the next change set any more, or has not reached the requested index.
    Trimmed,
}

/// Reads the log until it succeeds.
pub(super) struct LogReader<L> {
    log: Arc<L>,
    contact: Contact,
    /// Number of consecutive failures.
    failures: u32,
    /// Limits the lines about these failures.
    outage: Outage,
}

impl<L: Log> LogReader<L> {
    pub(super) fn new(log: Arc<L>, contact: Contact) -> Self {
        Self { log, contact, failures: 0, outage: Outage::default() }
    }

    pub(super) async fn load(&mut self) -> (State, Head) {
        loop {
            match self.log.load().await {
                Ok(loaded) => break self.succeeded(loaded),
                Err(error) => self.failed(error).await,
            }
        }
    }

    pub(super) async fn after(&mut self, index: Index) -> LogPage {
        loop {
            match self.log.after(index).await {
                Ok(page) => break self.succeeded(page),
                Err(error) => self.failed(error).await,
            }
        }
    }

    pub(super) async fn head(&mut self) -> Head {
        loop {
            match self.log.head().await {
                Ok(head) => break self.succeeded(head),
                Err(error) => self.failed(error).await,
            }
        }
    }

    fn succeeded<T>(&mut self, read: T) -> T {
        self.contact.record_log_read(Ok(()));
        self.failures = 0;
        if let Some(Repeats { attempts, lasting_secs, .. }) = self.outage.succeeded(clock::monotonic()) {
            tracing::info!(attempts, lasting_secs, "the log can be read again");
        }
        read
    }

    async fn failed(&mut self, error: LogError) {
        let error = telemetry::chain(error.as_ref());
        if let Some(Repeats { attempts, lasting_secs, .. }) = self.outage.failed(&error, clock::monotonic()) {
            tracing::warn!(error, attempts, lasting_secs, "cannot read the log, trying again");
        }
        self.contact.record_log_read(Err(error));
        tokio::time::sleep(backoff(self.failures, RETRY_MIN, RETRY_MAX)).await;
        self.failures = self.failures.saturating_add(1);
    }
}
