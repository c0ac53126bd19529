//! Answers what agents ask of the cluster's service discovery: from the replica, with a wait for changes.
//!
//! An agent says for each of its queries which result it knows, by its digest. So an answer depends on nothing that the
//! tracker would have to remember of the agent, and a tracker that takes over answers as its predecessor did.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bus::Request;
use model::Text;
use model::service::ServiceKey;
use state::{Snapshot, WatchKey};
use telemetry::clock;
use tokio::time::{sleep, timeout};
use wire::Refusal;
use wire::directory::{
    DIRECTORY_BYTES, DIRECTORY_WAIT_MS_MAX, FindServices, FoundServices, INSTANCES, Instance, KnownQuery,
    QUERIES_MAX, QueryResult, RESULTS_MAX, ServiceName, ServiceQuery,
};
use wire::node::WorkIndex;
use wire::services::ServicesDigest;

use crate::refusals::invalid;
use crate::serve::{Server, answer_or_refuse, authenticate, read};

/// The maximum number of requests that wait for a change. While there are more, further ones are not read.
pub(crate) const WAITING_MAX: usize = 16_384;
/// How long changes are batched before a waiting request is looked at again.
const CHANGES_BATCHED: Duration = Duration::from_millis(50);

impl Server {
    /// Answers a query of an agent.
    pub(crate) async fn directory(self, request: Request) {
        let Some((request, ask)) = read(request, |ask: &FindServices| ask.id).await else { return };
        let answer = self.find_services(&ask).await;
        answer_or_refuse(request, answer).await;
    }

    async fn find_services(&self, ask: &FindServices) -> Result<FoundServices, Refusal> {
        if ask.queries.len() > QUERIES_MAX {
            return Err(invalid(format!("{} queries of services; at most {QUERIES_MAX}", ask.queries.len())));
        }
        authenticate(&self.replica().snapshot(), ask.id, &ask.secret, None)?;
        let started_at = clock::monotonic();
        let wait = Duration::from_millis(ask.wait_ms.min(DIRECTORY_WAIT_MS_MAX).into());
        // The watch is set before the first look, so that no change is missed.
        let mut watch = self.replica().watch(ask.queries.iter().map(|known| watch_key(&known.query)));
        loop {
            let found = found(&self.replica().snapshot(), &ask.queries);
            let left = wait.saturating_sub(started_at.elapsed());
            let is_over = !found.results.is_empty() || left.is_zero();
            if is_over || timeout(left, watch.changed()).await.is_err() {
                return Ok(found);
            }
            sleep(CHANGES_BATCHED).await;
        }
    }
}

/// What must change before the result of a query can differ. Instances of other services may have the same prefix, which
/// costs a look.
fn watch_key(query: &ServiceQuery) -> WatchKey {
    match query {
        ServiceQuery::Instances { name, .. } => WatchKey::Prefix(INSTANCES, Text::clone(name)),
        ServiceQuery::Names { .. } => WatchKey::Table(INSTANCES),
    }
}

/// The results that differ from what the agent knows, as many as fit into an answer.
fn found(snapshot: &Snapshot, queries: &[KnownQuery]) -> FoundServices {
    let mut results = Vec::new();
    let mut bytes = 0_usize;
    for KnownQuery { query, digest } in queries {
        let result = match query {
            ServiceQuery::Instances { namespace, name } => instances(snapshot, namespace, name),
            ServiceQuery::Names { namespace } => names(snapshot, namespace),
        };
        if *digest == Some(result.digest) {
            continue;
        }
        bytes = bytes.saturating_add(result.bytes());
        if bytes > DIRECTORY_BYTES && !results.is_empty() {
            break;
        }
        results.push(result);
    }
    FoundServices { at: WorkIndex { history: snapshot.history(), index: snapshot.index() }, results }
}

fn instances(snapshot: &Snapshot, namespace: &Text, name: &Text) -> QueryResult {
    let first = ServiceKey::first_of(namespace, name);
    let all = snapshot.small_objects_from::<Instance>(&first);
    let all: Vec<_> = all.take_while(|instance| instance.key.is_of(namespace, name)).collect();
    let query = ServiceQuery::Instances { namespace: Text::clone(namespace), name: Text::clone(name) };
    QueryResult {
        query,
        digest: ServicesDigest::of(all.iter().copied()),
        left_out: beyond(all.len()),
        instances: all.into_iter().take(RESULTS_MAX).cloned().collect(),
        names: Vec::new(),
    }
}

fn names(snapshot: &Snapshot, namespace: &Text) -> QueryResult {
    let first = ServiceKey::first_of(namespace, "");
    let all = snapshot.small_objects_from::<Instance>(&first);
    let all: Vec<&Arc<Instance>> = all.take_while(|instance| instance.key.namespace == *namespace).collect();
    let names = all.chunk_by(|one, other| one.key.name == other.key.name);
    let mut names: Vec<ServiceName> = names.filter_map(name_of).collect();
    let mut digest = ServicesDigest::default();
    names.iter().for_each(|name| name.add_to(&mut digest));
    let left_out = beyond(names.len());
    names.truncate(RESULTS_MAX);
    let query = ServiceQuery::Names { namespace: Text::clone(namespace) };
    QueryResult { query, digest, left_out, instances: Vec::new(), names }
}

/// The name of a service, of all its instances.
fn name_of(instances: &[&Arc<Instance>]) -> Option<ServiceName> {
    let name = Text::clone(&instances.first()?.key.name);
    let tags: BTreeSet<&Text> = instances.iter().flat_map(|instance| &instance.tags).collect();
    Some(ServiceName { name, tags: tags.into_iter().cloned().collect() })
}

/// The number of results that are not in an answer.
fn beyond(count: usize) -> u32 {
    u32::try_from(count.saturating_sub(RESULTS_MAX)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use model::change::Change;
    use model::service::ServiceRegistration;
    use model::{AllocId, HistoryId, Index};
    use state::{Replica, State};

    use super::*;
    use crate::testing::node;

    /// A replica with these services, by namespace, name, id and tag.
    fn snapshot(services: &[(&str, &str, &str, &str)]) -> Snapshot {
        let replica = Replica::new(State::new(HistoryId::default(), crate::SCOPE));
        let registered = services.iter().map(|(namespace, name, id, tag)| {
            Change::ServiceRegistration(Box::new(ServiceRegistration {
                key: ServiceKey { namespace: (*namespace).into(), name: (*name).into(), id: (*id).into() },
                node_id: node(1),
                datacenter: "dc1".into(),
                job_id: "site".into(),
                alloc_id: AllocId::from_bytes([1; 16]),
                tags: vec![(*tag).into()],
                address: "10.0.0.1".into(),
                port: 80,
                create_index: Index(1),
                modify_index: Index(1),
            }))
        });
        if !services.is_empty() {
            crate::testing::commit(&replica, registered.collect());
        }
        replica.snapshot()
    }

    fn asked(query: ServiceQuery, digest: Option<ServicesDigest>) -> [KnownQuery; 1] {
        [KnownQuery { query, digest }]
    }

    fn web() -> ServiceQuery {
        ServiceQuery::Instances { namespace: "default".into(), name: "web".into() }
    }

    #[test]
    fn instances_of_one_name_are_found_until_they_are_known() {
        let snapshot = snapshot(&[
            ("default", "web", "2", "b"),
            ("default", "web", "1", "a"),
            ("default", "webs", "3", "c"),
            ("other", "web", "4", "d"),
        ]);
        let results = found(&snapshot, &asked(web(), None)).results;
        let [result] = &results[..] else { panic!("{results:?}") };
        let ids: Vec<&str> = result.instances.iter().map(|instance| &*instance.key.id).collect();
        assert_eq!((ids, result.left_out), (vec!["1", "2"], 0));
        assert!(found(&snapshot, &asked(web(), Some(result.digest))).results.is_empty());
    }

    #[test]
    fn a_service_without_instances_is_a_result() {
        let results = found(&snapshot(&[]), &asked(web(), None)).results;
        let [result] = &results[..] else { panic!("{results:?}") };
        assert!(result.instances.is_empty());
        assert!(found(&snapshot(&[]), &asked(web(), Some(result.digest))).results.is_empty());
    }

    #[test]
    fn names_of_a_namespace_have_the_tags_of_their_instances() {
        let snapshot = snapshot(&[
            ("default", "web", "2", "b"),
            ("default", "web", "1", "a"),
            ("default", "api", "3", "c"),
            ("other", "web", "4", "d"),
        ]);
        let query = ServiceQuery::Names { namespace: "default".into() };
        let results = found(&snapshot, &asked(query.clone(), None)).results;
        let [result] = &results[..] else { panic!("{results:?}") };
        let names: Vec<_> = result.names.iter().map(|name| (&*name.name, name.tags.join(","))).collect();
        assert_eq!(names, [("api", "c".to_owned()), ("web", "a,b".to_owned())]);
        assert!(found(&snapshot, &asked(query, Some(result.digest))).results.is_empty());
    }

    #[test]
    fn an_answer_has_room_for_some_results() {
        let long = "x".repeat(DIRECTORY_BYTES);
        let snapshot = snapshot(&[("default", "a", "1", &long), ("default", "b", "2", "t")]);
        let query = |name: &str| KnownQuery {
            query: ServiceQuery::Instances { namespace: "default".into(), name: name.into() },
            digest: None,
        };
        let first = found(&snapshot, &[query("a"), query("b")]).results;
        assert_eq!(first.len(), 1, "the rest is asked for again");
        let known = KnownQuery { digest: Some(first[0].digest), ..query("a") };
        assert_eq!(found(&snapshot, &[known, query("b")]).results.len(), 1);
    }
}
