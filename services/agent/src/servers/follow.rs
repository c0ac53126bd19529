//! Follows the work of this node: requests it when a wake or a heartbeat's answer announces a change, unless the wake
//! itself contains the change, and passes the differences to [`Allocs`](crate::alloc::allocs).

use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, RequestError};
use model::{HistoryId, Index};
use telemetry::chain;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::sleep;
use wire::node::{GetAllocs, GetWork, Wake, Work, WorkAllocs, WorkIndex};
use wire::{RefusalKind, Subject};

use crate::alloc::allocs::AllocsCommand;
use crate::node::identity::Identity;
use crate::node::presence::ContactState;
use crate::work::changes::{Changes, Held, missing, reconcile, reconcile_changes};
use crate::work::spec::AllocSpec;

/// How long to wait for an answer. The node-tracker itself waits up to five seconds for its replica.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);
/// The minimum pause before a failed request is retried; the maximum is twice as long.
const RETRY: Duration = Duration::from_secs(1);
/// The minimum interval between requests, however often the work changes.
const FETCH_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum number of allocations in one request by id.
const REQUESTED_ALLOCS_MAX: usize = 5_000;
/// The capacity of the channel for wakes with changes. The changes of wakes beyond it are requested.
const WAKES_MAX: usize = 16;

/// Follows the node's work.
pub(crate) struct WorkFollower {
    /// The connection to the servers.
    pub(crate) bus: Bus,
    /// The agent's identity.
    pub(crate) identity: Identity,
    /// The state of the contact with the servers.
    pub(crate) contact_state: watch::Sender<ContactState>,
    /// Notified when the servers do not know the node.
    pub(crate) node_unknown: Arc<Notify>,
    /// The allocations, which carry out the changes.
    pub(crate) allocs: mpsc::Sender<AllocsCommand>,
    /// Wakes with changes.
    pub(crate) wakes: mpsc::Receiver<Wake>,
}

impl WorkFollower {
    /// Creates the channel for wakes with changes.
    pub(crate) fn wake_channel() -> (mpsc::Sender<Wake>, mpsc::Receiver<Wake>) {
        mpsc::channel(WAKES_MAX)
    }

    /// Receives wakes: records the announced work index, and passes on wakes with changes.
    pub(crate) async fn listen(
        mut requests: bus::Requests,
        contact_state: watch::Sender<ContactState>,
        sender: mpsc::Sender<Wake>,
    ) {
        while let Some(request) = requests.next().await {
            let Some((_, wake)) = request.read::<Wake>().await else { continue };
            let work_index = wake.work_index;
            if wake.news.is_some() && work_index.is_newer_than(contact_state.borrow().work_index) {
                // If the channel is full, the changes are requested.
                let _ = sender.try_send(wake);
            }
            contact_state.send_if_modified(|contact_state| contact_state.work_index.advance_to(work_index));
        }
    }

    /// Follows the work until it is dropped.
    pub(crate) async fn run(mut self) {
        let mut contact_state = self.contact_state.subscribe();
        let (mut registrations, mut known_index) = (0, WorkIndex::default());
        loop {
            let changed = |contact_state: &ContactState| {
                contact_state.registrations > registrations
                    || (registrations > 0 && contact_state.work_index.is_newer_than(known_index))
            };
            let Ok((now, wanted)) = contact_state
                .wait_for(changed)
                .await
                .map(|contact_state| (contact_state.registrations, contact_state.work_index))
            else {
                return;
            };
            let since = if now > registrations { WorkIndex::default() } else { known_index };
            known_index = self.apply_wakes(since).await;
            if now == registrations && !wanted.is_newer_than(known_index) {
                sleep(FETCH_INTERVAL).await;
                continue;
            }
            match self.fetch(known_index, wanted).await {
                Ok(index) => {
                    (registrations, known_index) = (now, index);
                    // The answer's index counts, in case a wake announced a history that has ended.
                    self.contact_state.send_if_modified(|contact_state| {
                        contact_state.work_index.advance_to(index);
                        false
                    });
                    sleep(FETCH_INTERVAL).await;
                }
                Err(error) => {
                    tracing::warn!(
                        since = known_index.index.0,
                        error = chain(&error),
                        "cannot fetch the node's work; retrying"
                    );
                    if let RequestError::Refused(refusal) = &error
                        && matches!(refusal.kind, RefusalKind::NotFound | RefusalKind::Conflict)
                    {
                        self.node_unknown.notify_one();
                    }
                    sleep(RETRY.mul_f64(1.0 + rand::random::<f64>())).await;
                }
            }
        }
    }

    /// Applies the wakes that continue the known work, and returns the work index after them.
    async fn apply_wakes(&mut self, mut known_index: WorkIndex) -> WorkIndex {
        while let Ok(wake) = self.wakes.try_recv() {
            let index = wake.work_index;
            let Some(news) = wake.changes_after(known_index) else { continue };
            let Some(held) = self.held().await else { return known_index };
            let sent = news.changed.allocs.len();
            let changed = unpack(news.changed, index.history);
            // If an allocation cannot be read, the changes are requested.
            let is_complete = changed.len() == sent;
            self.apply(reconcile_changes(&news.gone.0, index.history, changed, &held)).await;
            if !is_complete {
                return known_index;
            }
            known_index = index;
        }
        known_index
    }

    /// Fetches the changes after `since`, at least up to the announced index, and applies them. Returns the new work index.
    async fn fetch(&self, since: WorkIndex, announced: WorkIndex) -> Result<WorkIndex, RequestError> {
        let Identity { node, secret, .. } = &self.identity;
        let Some(held) = self.held().await else { return Ok(since) };
        // A previous run of the agent may have been at a higher index.
        let history = announced.history;
        let newest = held.values().map(|held| held.within(history)).fold(announced.index, Index::max);
        let seen = WorkIndex { history, index: newest };
        let ask = GetWork { id: *node, secret: secret.clone(), since, seen };
        let Work { index, allocs: listed, changed } =
            self.bus.request(Subject::NodeWork(*node), &ask, ANSWER_TIMEOUT).await?;
        let mut received = unpack(changed, index.history);
        let mut wanted = missing(&listed, index.history, &received, &held);
        while !wanted.is_empty() {
            wanted.truncate(REQUESTED_ALLOCS_MAX);
            let ask = GetAllocs { id: *node, secret: secret.clone(), allocs: wanted, seen: index };
            let more: WorkAllocs = self.bus.request(Subject::NodeWork(*node), &ask, ANSWER_TIMEOUT).await?;
            let is_last = !more.more && ask.allocs.len() < REQUESTED_ALLOCS_MAX;
            let before = received.len();
            received.extend(unpack(more, index.history));
            if is_last || received.len() == before {
                // Allocations that are missing now have been deleted. The next listing will not contain them.
                break;
            }
            wanted = missing(&listed, index.history, &received, &held);
        }
        self.apply(reconcile(&listed, index.history, received, &held)).await;
        Ok(WorkIndex { index: index.index.max(seen.within(index.history)), ..index })
    }

    /// Passes the changes to the allocations and waits until they have begun to carry them out.
    async fn apply(&self, changes: Changes) {
        let (done, begun) = oneshot::channel();
        if self.allocs.send(AllocsCommand::Change { changes, done }).await.is_ok() {
            // Fails only when the agent ends.
            let _ = begun.await;
        }
    }

    async fn held(&self) -> Option<Held> {
        let (answer, held) = oneshot::channel();
        self.allocs.send(AllocsCommand::Held(answer)).await.ok()?;
        held.await.ok()
    }
}

fn unpack(answer: WorkAllocs, history: HistoryId) -> Vec<AllocSpec> {
    let (specs, broken) = AllocSpec::unpack(answer, history);
    for id in broken {
        tracing::error!(alloc.id = %id, "received an allocation without a readable job");
    }
    specs
}
