//! Follows what the servers want of this node: asks for its work when a wake or a heartbeat's answer says that it
//! has changed, unless the wake brought it, and hands the difference to [`Allocs`](crate::allocs).

use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, RequestError};
use model::{HistoryId, Index};
use telemetry::chain;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::sleep;
use wire::node::{AskAllocs, AskWork, Wake, Work, WorkAllocs, WorkIndex};
use wire::{RefusalKind, Subject};

use crate::alloc::spec::AllocSpec;
use crate::allocs::Order;
use crate::contact::Standing;
use crate::identity::Identity;
use crate::work::{Changes, Held, follow_on, missing, reconcile};

/// How long an answer may take, for which servers wait up to five seconds until they know enough.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);
/// How long to wait before asking again, at least; twice as long at most.
const RETRY: Duration = Duration::from_secs(1);
/// At most this often is asked, however often the work changes.
const PACE: Duration = Duration::from_millis(50);
/// How many allocations are asked for by their ids at once.
const ASKED_MAX: usize = 5_000;
/// How many wakes that bring the work wait to be looked at; what more would bring is asked for.
const NEWS_MAX: usize = 16;

/// Follows the node's work.
pub(crate) struct Follow {
    /// The way to the servers.
    pub(crate) bus: Bus,
    /// Who the agent is.
    pub(crate) identity: Identity,
    /// How it stands with the servers.
    pub(crate) standing: watch::Sender<Standing>,
    /// Called when the servers do not know the node.
    pub(crate) unknown: Arc<Notify>,
    /// Those who do what is wanted.
    pub(crate) allocs: mpsc::Sender<Order>,
    /// Wakes that bring what changed.
    pub(crate) news: mpsc::Receiver<Wake>,
}

impl Follow {
    /// Passes on wakes that bring what changed.
    pub(crate) fn news() -> (mpsc::Sender<Wake>, mpsc::Receiver<Wake>) {
        mpsc::channel(NEWS_MAX)
    }

    /// Notes wakes, which say how far the work is.
    pub(crate) async fn listen(
        mut wakes: bus::Requests,
        standing: watch::Sender<Standing>,
        news: mpsc::Sender<Wake>,
    ) {
        while let Some(wake) = wakes.next().await {
            let Some((_, wake)) = wake.read::<Wake>().await else { continue };
            let work_index = wake.work_index;
            if wake.news.is_some() && work_index.is_news_to(standing.borrow().work_index) {
                // What finds no room is asked for.
                let _ = news.try_send(wake);
            }
            standing.send_if_modified(|standing| standing.work_index.hear(work_index));
        }
    }

    /// Follows the work for as long as it runs.
    pub(crate) async fn run(mut self) {
        let mut standing = self.standing.subscribe();
        let (mut registrations, mut have) = (0, WorkIndex::default());
        loop {
            let changed = |standing: &Standing| {
                standing.registrations > registrations
                    || (registrations > 0 && standing.work_index.is_news_to(have))
            };
            let Ok((now, wanted)) = standing
                .wait_for(changed)
                .await
                .map(|standing| (standing.registrations, standing.work_index))
            else {
                return;
            };
            let since = if now > registrations { WorkIndex::default() } else { have };
            have = self.take_news(since).await;
            if now == registrations && !wanted.is_news_to(have) {
                sleep(PACE).await;
                continue;
            }
            match self.bring_up(have, wanted).await {
                Ok(index) => {
                    (registrations, have) = (now, index);
                    // What was told is what counts, should a wake have spoken of a history that is over.
                    self.standing.send_if_modified(|standing| {
                        standing.work_index.hear(index);
                        false
                    });
                    sleep(PACE).await;
                }
                Err(error) => {
                    tracing::warn!(
                        since = have.index.0,
                        error = chain(&error),
                        "cannot get the node's work; trying again"
                    );
                    if let RequestError::Refused(refusal) = &error
                        && matches!(refusal.kind, RefusalKind::NotFound | RefusalKind::Conflict)
                    {
                        self.unknown.notify_one();
                    }
                    sleep(RETRY.mul_f64(1.0 + rand::random::<f64>())).await;
                }
            }
        }
    }

    /// Has done what came along with wakes, as far as it follows on what is known. Answers how far the work is then.
    async fn take_news(&mut self, mut have: WorkIndex) -> WorkIndex {
        while let Ok(wake) = self.news.try_recv() {
            let index = wake.work_index;
            let Some(news) = wake.news_after(have) else { continue };
            let Some(held) = self.held().await else { return have };
            let told = news.changed.allocs.len();
            let changed = unpack(news.changed, index.history);
            // What came broken is asked for.
            let is_whole = changed.len() == told;
            self.settle(follow_on(&news.gone.0, index.history, changed, &held)).await;
            if !is_whole {
                return have;
            }
            have = index;
        }
        have
    }

    /// Gets what changed since an index, at least as far as was heard of, and has it done. Answers how far that is.
    async fn bring_up(&self, since: WorkIndex, heard_of: WorkIndex) -> Result<WorkIndex, RequestError> {
        let Identity { node, secret, .. } = &self.identity;
        let Some(held) = self.held().await else { return Ok(since) };
        // An earlier run of the agent may have known of more.
        let history = heard_of.history;
        let newest = held.values().map(|held| held.within(history)).fold(heard_of.index, Index::max);
        let seen = WorkIndex { history, index: newest };
        let ask = AskWork { id: *node, secret: secret.clone(), since, seen };
        let Work { index, allocs: listed, changed } =
            self.bus.request(Subject::NodeWork(*node), &ask, ANSWER_TIMEOUT).await?;
        let mut got = unpack(changed, index.history);
        let mut wanted = missing(&listed, index.history, &got, &held);
        while !wanted.is_empty() {
            wanted.truncate(ASKED_MAX);
            let ask = AskAllocs { id: *node, secret: secret.clone(), allocs: wanted, seen: index };
            let more: WorkAllocs = self.bus.request(Subject::NodeWork(*node), &ask, ANSWER_TIMEOUT).await?;
            let is_last = !more.more && ask.allocs.len() < ASKED_MAX;
            let before = got.len();
            got.extend(unpack(more, index.history));
            if is_last || got.len() == before {
                // What is missing now is gone, and the next listing will not have it.
                break;
            }
            wanted = missing(&listed, index.history, &got, &held);
        }
        self.settle(reconcile(&listed, index.history, got, &held)).await;
        Ok(WorkIndex { index: index.index.max(seen.within(index.history)), ..index })
    }

    /// Has it done.
    async fn settle(&self, changes: Changes) {
        let (done, doing) = oneshot::channel();
        if self.allocs.send(Order::Change { changes, done }).await.is_ok() {
            // They end with the agent only.
            let _ = doing.await;
        }
    }

    async fn held(&self) -> Option<Held> {
        let (answer, held) = oneshot::channel();
        self.allocs.send(Order::Held(answer)).await.ok()?;
        held.await.ok()
    }
}

fn unpack(answer: WorkAllocs, history: HistoryId) -> Vec<AllocSpec> {
    let (specs, broken) = AllocSpec::unpack(answer, history);
    for id in broken {
        tracing::error!(alloc.id = %id, "an allocation came without its job, or with one that cannot be read");
    }
    specs
}
