//! Sends [`Reports`] to the servers. Allocations never wait for a message to be answered.

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
use wire::node::{AllocReport, Report, Reported};

use crate::contact::Standing;
use crate::context::Context;
use crate::identity::Identity;
use crate::reports::{AllocState, Reports, Told, Urgency};
use crate::store;

/// How often it is looked whether there is something to tell.
const TICK: Duration = Duration::from_millis(200);
/// What is not urgent waits for so many looks.
const TICKS_RELAXED: u32 = 5;
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait after a refusal, at least; half as much again at most. The answer to a heartbeat cuts it short.
const REFUSED_RETRY: Duration = Duration::from_secs(5);
/// The same where nobody was there to answer: servers take over from one another within a second (departs from ).
const UNANSWERED_RETRY: Duration = Duration::from_secs(1);

type Sending = Pin<Box<dyn Future<Output = (Report, Result<Reported, RequestError>)> + Send>>;

/// Sends what there is to tell.
pub(crate) struct Reporter {
    bus: Bus,
    context: Arc<Context>,
    identity: Identity,
    reports: Reports,
    all_reported: Arc<Notify>,
    /// What was asked for when that was called last: whoever asks for the same again is not hurried.
    all_reported_since: Option<Index>,
    queue: VecDeque<Report>,
    ticks: u32,
    not_before: Option<Instant>,
    /// The last report failed, and that was said.
    is_failing: bool,
}

impl Reporter {
    /// A reporter that knows what the servers have taken, and calls `all_reported` whenever that is all they asked for.
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
        mut inbox: mpsc::Receiver<Told>,
        mut standing: watch::Receiver<Standing>,
    ) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sending: Option<Sending> = None;
        loop {
            let mut is_tick = false;
            tokio::select! {
                told = inbox.recv() => match told {
                    Some(told) => self.reports.take(told),
                    None => return self.send_rest(sending).await,
                },
                sent = async { sending.as_mut().expect("there is one").await }, if sending.is_some() => {
                    sending = None;
                    self.sent(sent).await;
                }
                Ok(()) = standing.changed() => {
                    let report_all = standing.borrow_and_update().report_all;
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

    /// Sends what is left to tell. What fails is not tried again: the next run of the agent tells it.
    async fn send_rest(mut self, sending: Option<Sending>) {
        if let Some(sending) = sending {
            self.sent(sending.await).await;
        }
        while !self.is_failing && *self.context.contacted.borrow() && self.reports.urgency().is_some() {
            let batch = self.reports.batch();
            let sent = self.send(self.report(batch)).await;
            self.sent(sent).await;
        }
    }

    /// The servers want to know of all that lives: the last of the reports says that with it they do (design §6).
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

    /// What is to be sent now, if anything: what the servers asked for at any moment, all else when it is time to look.
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

    /// The span of a report; disabled if it belongs to no trace.
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

    async fn sent(&mut self, (report, answer): (Report, Result<Reported, RequestError>)) {
        let error = match answer {
            Ok(Reported { .. }) => {
                self.ticks = 0;
                if report.all_since.is_some() && report.all_since != self.all_reported_since {
                    self.all_reported_since = report.all_since;
                    self.all_reported.notify_one();
                }
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("the servers hear again how allocations fare");
                }
                for (id, state) in self.reports.acknowledged(&report.allocs) {
                    self.keep_acknowledged(id, &state).await;
                }
                return;
            }
            Err(error) => error,
        };
        AGENT_REPORTS_FAILED.add(1);
        // What is to be told is found anew, in its newest state. All of it is asked for again if need be.
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
            tracing::warn!(error = chain(&error), "cannot report how allocations fare; trying again");
        }
    }

    async fn keep_acknowledged(&self, id: AllocId, state: &AllocState) {
        let path = acknowledged_file(&self.context, id);
        // Of an allocation that is gone meanwhile nothing is kept.
        if path.parent().is_some_and(std::path::Path::exists)
            && let Err(error) = store::save(path, state).await
        {
            tracing::warn!(alloc.id = %id, error = chain(&error), "cannot save what the servers know");
        }
    }
}

/// The file of what the servers know of an allocation.
pub(crate) fn acknowledged_file(context: &Context, id: AllocId) -> std::path::PathBuf {
    context.store.alloc(id).join("acknowledged")
}
