//! What the cluster's service discovery knows, for the parts of the agent that look services up.
//!
//! However many parts of the agent want to know of a service, the agent has one request to the servers at a time, for all
//! queries together: a long poll, which is answered when a result changes ([`Follower`]). What was found stays known while
//! the servers cannot be reached; [`Directory::confirmed`] says how old it may be.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bus::{Bus, RequestError};
use model::{Nanos, Timestamp};
use telemetry::repeats::{Outage, Repeats};
use telemetry::{chain, clock};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use wire::Subject;
use wire::directory::{
    DIRECTORY_WAIT_MS_MAX, FindServices, FoundServices, KnownQuery, QUERIES_MAX, QueryResult, ServiceQuery,
};

use crate::node::identity::Identity;
use crate::node::presence::ContactState;
use crate::wait::until;

/// How long a query is kept that nobody watches any more, so that it need not be sent again for each look.
const LINGER: Nanos = Nanos::from_secs(60);
/// How long to wait for an answer, beyond the time for which the servers may wait for a change.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The minimum interval between requests, however often queries are added.
const REQUEST_INTERVAL: Duration = Duration::from_millis(50);
/// The minimum pause after a failure; the maximum is twice as long.
const RETRY: Duration = Duration::from_secs(1);

/// The result of a query; `None` until it is known.
pub(crate) type Found = Option<Arc<QueryResult>>;

/// There are too many different queries on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {max} different services are looked up on this node", max = QUERIES_MAX)]
pub(crate) struct TooManyQueries;

/// What the cluster's service discovery knows. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directory(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    entries: Mutex<BTreeMap<ServiceQuery, Entry>>,
    /// Notified when a query is added.
    added: Notify,
    /// When the servers last answered.
    confirmed: watch::Sender<Option<Timestamp>>,
}

#[derive(Debug, Default)]
struct Entry {
    found: watch::Sender<Found>,
    /// Since when nobody watches it; `None` while somebody does.
    unwatched_since: Option<Timestamp>,
}

impl Directory {
    /// Watches the result of a query, until the receiver is dropped. Its value is `None` until the servers have answered,
    /// and at once what is known if others watch the same.
    ///
    /// # Errors
    /// If there are too many different queries.
    pub(crate) fn watch(&self, query: ServiceQuery) -> Result<watch::Receiver<Found>, TooManyQueries> {
        let mut entries = self.entries();
        let is_full = entries.len() >= QUERIES_MAX;
        if let Some(entry) = entries.get_mut(&query) {
            entry.unwatched_since = None;
            return Ok(entry.found.subscribe());
        }
        if is_full {
            return Err(TooManyQueries);
        }
        let receiver = entries.entry(query).or_default().found.subscribe();
        drop(entries);
        self.0.added.notify_one();
        Ok(receiver)
    }

    /// The result of a query. If it is not known yet, the servers may take some time to answer. It is kept for a minute
    /// after the last look.
    ///
    /// # Errors
    /// If there are too many different queries.
    pub(crate) async fn lookup(
        &self,
        query: ServiceQuery,
        within: Duration,
    ) -> Result<Found, TooManyQueries> {
        let watched = self.watch(query)?;
        Ok(timeout(within, until(&watched, Option::is_some)).await.unwrap_or_default())
    }

    /// When the servers last confirmed everything that is known, by [`clock::steady`]; `None` if they have not yet.
    #[cfg_attr(not(test), expect(dead_code, reason = "for those who must not use what may be too old"))]
    pub(crate) fn confirmed(&self) -> watch::Receiver<Option<Timestamp>> {
        self.0.confirmed.subscribe()
    }

    /// The queries to send, with what is known of them. Those that nobody has watched for a while are forgotten.
    fn queries(&self, now: Timestamp) -> Vec<KnownQuery> {
        let mut entries = self.entries();
        entries.retain(|_, entry| {
            if entry.found.receiver_count() > 0 {
                entry.unwatched_since = None;
                return true;
            }
            let since = *entry.unwatched_since.get_or_insert(now);
            now - since < LINGER
        });
        let known = |(query, entry): (&ServiceQuery, &Entry)| KnownQuery {
            query: query.clone(),
            digest: entry.found.borrow().as_ref().map(|found| found.digest),
        };
        entries.iter().map(known).collect()
    }

    /// Enters an answer.
    pub(crate) fn answered(&self, answer: FoundServices, now: Timestamp) {
        let entries = self.entries();
        for result in answer.results {
            let Some(entry) = entries.get(&result.query) else { continue };
            if result.left_out > 0 {
                tracing::warn!(
                    query = ?result.query, left_out = result.left_out,
                    "a service has more instances, or a namespace more services, than an agent is told of"
                );
            }
            entry.found.send_replace(Some(Arc::new(result)));
        }
        self.0.confirmed.send_replace(Some(now));
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<ServiceQuery, Entry>> {
        // A poisoned lock is harmless, because each change is a single step.
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the servers, and enters their answers.
pub(crate) struct Follower {
    /// The connection to the servers.
    pub(crate) bus: Bus,
    /// The agent's identity.
    pub(crate) identity: Identity,
    /// Where the answers are entered.
    pub(crate) directory: Directory,
    /// The state of the contact with the servers.
    pub(crate) contact_state: watch::Receiver<ContactState>,
}

impl Follower {
    /// Asks the servers until it is dropped.
    pub(crate) async fn run(self) {
        let outage = Outage::default();
        until(&self.contact_state, |state| state.registrations > 0).await;
        loop {
            let queries = self.directory.queries(clock::steady());
            let added = self.directory.0.added.notified();
            if queries.is_empty() {
                added.await;
                continue;
            }
            let is_answered_at_once = queries.iter().any(|known| known.digest.is_none());
            let answer = tokio::select! {
                answer = self.ask(queries) => answer,
                // The request without the new query is given up. The servers drop it when its time is over. One that they
                // answer at once is not, so that a stream of new queries does not keep those before from being answered.
                () = added, if !is_answered_at_once => {
                    sleep(REQUEST_INTERVAL).await;
                    continue;
                }
            };
            match answer {
                Ok(answer) => {
                    self.directory.answered(answer, clock::steady());
                    if let Some(Repeats { attempts, lasting_secs, .. }) = outage.succeeded(clock::monotonic())
                    {
                        tracing::info!(attempts, lasting_secs, "services are found again");
                    }
                    sleep(REQUEST_INTERVAL).await;
                }
                Err(error) => {
                    let (now, error) = (clock::monotonic(), chain(&error));
                    if let Some(Repeats { attempts, lasting_secs, .. }) = outage.failed(&error, now) {
                        tracing::warn!(error, attempts, lasting_secs, "cannot look up services; retrying");
                    }
                    sleep(RETRY.mul_f64(1.0 + rand::random::<f64>())).await;
                }
            }
        }
    }

    async fn ask(&self, queries: Vec<KnownQuery>) -> Result<FoundServices, RequestError> {
        let Identity { node, secret, .. } = &self.identity;
        let wait_ms =
            if queries.iter().any(|known| known.digest.is_none()) { 0 } else { DIRECTORY_WAIT_MS_MAX };
        let ask = FindServices { id: *node, secret: secret.clone(), wait_ms, queries };
        let within = Duration::from_millis(wait_ms.into()) + ANSWER_TIMEOUT;
        self.bus.request(Subject::NodeDirectory(*node), &ask, within).await
    }
}

#[cfg(test)]
mod tests {
    use wire::node::WorkIndex;
    use wire::services::{ServiceInstance, ServicesDigest};

    use super::*;
    use crate::testing::{NOW, alloc_id};

    fn query(name: &str) -> ServiceQuery {
        ServiceQuery::Instances { namespace: "default".into(), name: name.into() }
    }

    /// An answer to a query, with some digest.
    fn answer(query: ServiceQuery) -> FoundServices {
        let mut digest = ServicesDigest::default();
        digest.add(alloc_id(1), "dc1", &ServiceInstance::default());
        let result = QueryResult { query, digest, instances: Vec::new(), names: Vec::new(), left_out: 0 };
        FoundServices { at: WorkIndex::default(), results: vec![result] }
    }

    #[tokio::test]
    async fn all_who_watch_a_service_share_a_query() {
        let directory = Directory::default();
        let mut one = directory.watch(query("web")).unwrap();
        let other = directory.watch(query("web")).unwrap();
        let asked = directory.queries(NOW);
        assert_eq!(asked, [KnownQuery { query: query("web"), digest: None }]);
        assert!(one.borrow().is_none());
        directory.answered(answer(query("web")), NOW);
        one.changed().await.unwrap();
        assert!(one.borrow().is_some() && other.borrow().is_some());
        assert_eq!(*directory.confirmed().borrow(), Some(NOW));
        assert!(directory.queries(NOW)[0].digest.is_some());
    }

    #[tokio::test]
    async fn a_query_that_nobody_watches_is_kept_for_a_while() {
        let directory = Directory::default();
        drop(directory.watch(query("web")).unwrap());
        assert_eq!(directory.queries(NOW).len(), 1);
        directory.answered(answer(query("web")), NOW);
        let soon = NOW + Nanos::from_secs(59);
        assert_eq!(directory.queries(soon).len(), 1);
        assert!(directory.lookup(query("web"), Duration::ZERO).await.unwrap().is_some());
        assert_eq!(directory.queries(soon).len(), 1);
        assert_eq!(directory.queries(soon + Nanos::from_secs(59)).len(), 1, "counted from the last look");
        assert!(directory.queries(soon + LINGER).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_waits_for_the_first_answer_but_not_for_ever() {
        let directory = Directory::default();
        assert_eq!(directory.lookup(query("web"), Duration::from_secs(1)).await, Ok(None));
    }

    #[test]
    fn the_number_of_queries_is_limited() {
        let directory = Directory::default();
        for number in 0..QUERIES_MAX {
            drop(directory.watch(query(&number.to_string())).unwrap());
        }
        assert_eq!(directory.watch(query("more")).map(|_| ()), Err(TooManyQueries));
        assert!(directory.watch(query("0")).is_ok());
    }
}
