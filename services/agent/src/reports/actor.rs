//! [`Reporter`]: sends what [`Reports`] decides to report to the servers. Allocations never wait for a message to be
//! answered.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::{Bus, RequestError};
use model::{AllocId, Index};
use telemetry::metrics::catalogue::AGENT_REPORTS_FAILED;
use telemetry::{attribute, chain, clock, traces};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{Instrument as _, Span};
use wire::Subject;
use wire::node::{AllocReport, Report, ReportAccepted};

use super::core::{AllocEvent, AllocState, Reports, Urgency};
use crate::context::Context;
use crate::disk::store::{self, Durability};
use crate::node::identity::Identity;
use crate::node::presence::ContactState;

/// The interval at which unreported states are checked.
const TICK: Duration = Duration::from_millis(200);
/// The number of ticks after which states that are not urgent are sent.
const TICKS_RELAXED: u32 = 5;
/// How long to wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The minimum pause after a refusal; the maximum is half as long again. The answer to a heartbeat ends the pause.
const REFUSED_RETRY: Duration = Duration::from_secs(5);
/// The same when no server answered. Servers take over from each other within a second (departs from ).
const UNANSWERED_RETRY: Duration = Duration::from_secs(1);

type Sending = Pin<Box<dyn Future<Output = (Report, Result<ReportAccepted, RequestError>)> + Send>>;

/// Sends the reports.
pub(crate) struct Reporter {
    bus: Bus,
    context: Arc<Context>,
    identity: Identity,
    reports: Reports,
    all_reported: Arc<Notify>,
    /// The index of the request that `all_reported` last answered. It is not called twice for the same request.
    all_reported_since: Option<Index>,
    queue: VecDeque<Report>,
    ticks: u32,
    not_before: Option<Instant>,
    /// Whether the last report failed. Only the first failure is logged.
    is_failing: bool,
}

impl Reporter {
    /// Creates a reporter. It notifies `all_reported` when the servers have received all allocations that they asked for.
    pub(crate) fn new(
        bus: Bus,
        context: Arc<Context>,
        identity: Identity,
        reports: Reports,
        all_reported: Arc<Notify>,
    ) -> Self {
        Self {
            bus,
            context,
            identity,
            reports,
            all_reported,
            all_reported_since: None,
            queue: VecDeque::new(),
            ticks: 0,
            not_before: None,
            is_failing: false,
        }
    }

    /// Sends reports until the inbox closes.
    pub(crate) async fn run(
        mut self,
        mut inbox: mpsc::Receiver<AllocEvent>,
        mut contact_state: watch::Receiver<ContactState>,
    ) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sending: Option<Sending> = None;
        loop {
            let mut is_tick = false;
            tokio::select! {
                event = inbox.recv() => match event {
                    Some(event) => self.reports.handle(event),
                    None => return self.send_remaining(sending).await,
                },
                sent = async { sending.as_mut().expect("a report is being sent").await }, if sending.is_some() => {
                    sending = None;
                    self.sent(sent).await;
                }
                Ok(()) = contact_state.changed() => {
                    let report_all = contact_state.borrow_and_update().report_all;
                    self.not_before = None;
                    if let Some(since) = report_all {
                        self.queue_all(since);
                    }
                }
                _ = ticks.tick() => is_tick = true,
            }
            if sending.is_none() && *self.context.contacted.borrow() {
                sending = self.next(is_tick);
            }
        }
    }

    /// Sends the remaining unreported states when the agent ends. A report that fails is not retried: the next run of the
    /// agent sends it.
    async fn send_remaining(mut self, sending: Option<Sending>) {
        if let Some(sending) = sending {
            self.sent(sending.await).await;
        }
        while !self.is_failing && *self.context.contacted.borrow() && self.reports.urgency().is_some() {
            let batch = self.reports.batch();
            let sent = self.send(self.report(batch)).await;
            self.sent(sent).await;
        }
    }

    /// Queues a report of all live allocations, which the servers have requested. The last message of it carries the
    /// request's index (`docs/architecture/agents.md`).
    fn queue_all(&mut self, since: Index) {
        let mut all = self.reports.all();
        if all.is_empty() {
            all.push(Vec::new());
        }
        self.queue = all.into_iter().map(|allocs| self.report(allocs)).collect();
        if let Some(last) = self.queue.back_mut() {
            last.all_since = Some(since);
        }
    }

    fn report(&self, allocs: Vec<AllocReport>) -> Report {
        let Identity { node, secret, boot } = &self.identity;
        Report { id: *node, secret: secret.clone(), boot: *boot, all_since: None, allocs }
    }

    /// The report to send now, if any. Requested reports are sent at any time, others only on a tick.
    fn next(&mut self, is_tick: bool) -> Option<Sending> {
        if self.not_before.is_some_and(|at| clock::monotonic() < at) {
            return None;
        }
        if let Some(report) = self.queue.pop_front() {
            return Some(self.send(report));
        }
        if !is_tick {
            return None;
        }
        self.ticks += 1;
        match self.reports.urgency()? {
            Urgency::Typical if self.ticks < TICKS_RELAXED => None,
            Urgency::Typical | Urgency::Urgent => {
                let batch = self.reports.batch();
                Some(self.send(self.report(batch)))
            }
        }
    }

    fn send(&self, report: Report) -> Sending {
        let (bus, subject) = (self.bus.clone(), Subject::NodeReport(self.identity.node));
        let span = self.span(&report);
        let sending = async move {
            let answer = bus.request(subject, &report, ANSWER_TIMEOUT).await;
            (report, answer)
        };
        Box::pin(sending.instrument(span))
    }

    /// The span of a report. It is disabled if the report belongs to no trace.
    fn span(&self, report: &Report) -> Span {
        if !traces::are_exported() || self.reports.traces(&report.allocs).next().is_none() {
            return Span::none();
        }
        let span = tracing::info_span!(
            parent: None,
            "report allocs",
            { attribute::NODE_ID } = %report.id,
            { attribute::ALLOCS } = report.allocs.len().cast_signed() as i64,
        );
        traces::join(&span, self.reports.traces(&report.allocs));
        span
    }

    async fn sent(&mut self, (report, answer): (Report, Result<ReportAccepted, RequestError>)) {
        let error = match answer {
            Ok(ReportAccepted { .. }) => {
                self.ticks = 0;
                if report.all_since.is_some() && report.all_since != self.all_reported_since {
                    self.all_reported_since = report.all_since;
                    self.all_reported.notify_one();
                }
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("the servers accept reports again");
                }
                for (id, state) in self.reports.acknowledged(&report.allocs) {
                    self.save_acknowledged(id, &state).await;
                }
                return;
            }
            Err(error) => error,
        };
        AGENT_REPORTS_FAILED.add(1);
        // Unreported states are found again in their newest form. The servers repeat their request for all of them if
        // necessary.
        self.queue.clear();
        let base = match error {
            RequestError::Refused(_) | RequestError::Unreadable(_) | RequestError::TooLarge { .. } => {
                REFUSED_RETRY
            }
            RequestError::NoResponders | RequestError::TimedOut | RequestError::Disconnected => {
                UNANSWERED_RETRY
            }
        };
        self.not_before = Some(clock::monotonic() + base.mul_f64(1.0 + rand::random::<f64>() / 2.0));
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(error = chain(&error), "cannot report allocation states; retrying");
        }
    }

    async fn save_acknowledged(&self, id: AllocId, state: &AllocState) {
        let path = acknowledged_file(&self.context, id);
        // Nothing is saved for an allocation that has been removed meanwhile.
        if path.parent().is_some_and(std::path::Path::exists)
            // If it is lost, the state is reported once more.
            && let Err(error) = store::save(path, state, Durability::Process).await
        {
            tracing::warn!(alloc.id = %id, error = chain(&error), "cannot save the acknowledged state of an allocation");
        }
    }
}

/// The file with the state of an allocation that the servers have acknowledged.
pub(crate) fn acknowledged_file(context: &Context, id: AllocId) -> std::path::PathBuf {
    context.store.alloc(id).join("acknowledged")
}
