//! Finds the instances of a service in the directory, for questions by DNS.
//!
//! The names of a namespace are looked up first, and then the instances of those that are meant. So a question about a name
//! that does not exist costs nothing at the servers, and upper and lower case need not be right.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::service::ServiceRegistration;
use model::{Nanos, NodeId, Timestamp};
use telemetry::clock;
use wire::directory::ServiceQuery;

use super::answer::Target;
use super::names::ServiceName;
use crate::checks::Checks;
use crate::checks::core::Status;
use crate::services::directory::Directory;

/// How long the first question about a namespace or a service waits for the servers. Clients ask again after 5 seconds.
const FIRST_WAIT: Duration = Duration::from_secs(2);
/// The maximum number of different queries that questions by DNS make within [`RECENT`]. The others are left to templates.
const QUERIES_MAX: usize = 512;
/// For how long a query counts.
const RECENT: Nanos = Nanos::from_secs(120);
/// The maximum number of services whose names differ in upper and lower case only.
const SPELLINGS_MAX: usize = 4;

/// The servers have not answered yet, or too much is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the instances of the service are not known")]
pub(crate) struct NotKnown;

/// Finds instances.
#[derive(Debug)]
pub(crate) struct Lookup {
    directory: Directory,
    checks: Arc<Checks>,
    /// The node, of whose instances the checks are known.
    node: NodeId,
    /// When each query was last made.
    recent: Mutex<BTreeMap<ServiceQuery, Timestamp>>,
}

impl Lookup {
    /// Finds instances in a directory.
    pub(crate) fn new(directory: Directory, checks: Arc<Checks>, node: NodeId) -> Self {
        Self { directory, checks, node, recent: Mutex::default() }
    }

    /// The instances of a service; `None` if there is no such service, or no instance with the tag. What was found before
    /// is used while the servers cannot be reached.
    ///
    /// # Errors
    /// If the servers do not answer in time, or too many different services are asked for.
    pub(crate) async fn instances(&self, name: &ServiceName) -> Result<Option<Vec<Target>>, NotKnown> {
        let namespace = name.namespace.as_str();
        let names = self.find(ServiceQuery::Names { namespace: namespace.into() }).await?;
        let is_meant = |known: &str| known.eq_ignore_ascii_case(&name.service);
        let mut spellings: Vec<_> = names.names.iter().map(|known| known.name.clone()).collect();
        spellings.retain(|known| is_meant(known));
        spellings.truncate(SPELLINGS_MAX);
        if spellings.is_empty() && names.left_out > 0 {
            // The namespace has more names than the servers list.
            spellings.push(name.service.as_str().into());
        }
        let mut instances = Vec::new();
        for spelling in spellings {
            let query = ServiceQuery::Instances { namespace: namespace.into(), name: spelling };
            instances.extend(self.find(query).await?.instances.iter().cloned());
        }
        if let Some(tag) = &name.tag {
            instances.retain(|instance| instance.tags.iter().any(|known| known.eq_ignore_ascii_case(tag)));
        }
        let instances = without_failing(instances, |instance| self.is_failing(instance));
        let target = |instance: &Arc<ServiceRegistration>| Target {
            host: instance.address.to_string(),
            port: instance.port,
        };
        Ok((!instances.is_empty()).then(|| instances.iter().map(target).collect()))
    }

    async fn find(&self, query: ServiceQuery) -> Result<Arc<wire::directory::QueryResult>, NotKnown> {
        self.admit(&query, clock::steady())?;
        self.directory.lookup(query, FIRST_WAIT).await.ok().flatten().ok_or(NotKnown)
    }

    /// Counts a query.
    fn admit(&self, query: &ServiceQuery, now: Timestamp) -> Result<(), NotKnown> {
        // A poisoned lock is harmless, because each change is a single step.
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if !recent.contains_key(query) && recent.len() >= QUERIES_MAX {
            recent.retain(|_, last| now - *last < RECENT);
            if recent.len() >= QUERIES_MAX {
                return Err(NotKnown);
            }
        }
        recent.insert(query.clone(), now);
        Ok(())
    }

    /// Whether the agent knows that a check of an instance fails. It knows those of its own node.
    fn is_failing(&self, instance: &ServiceRegistration) -> bool {
        let mut is_failing = false;
        if instance.node_id == self.node {
            self.checks.read(instance.alloc_id, "", |check, result| {
                is_failing |= check.service == instance.key.name && result.status == Status::Failure;
                !is_failing
            });
        }
        is_failing
    }
}

/// The instances that are not failing; all, if all are.
fn without_failing<T>(mut instances: Vec<T>, is_failing: impl Fn(&T) -> bool) -> Vec<T> {
    let failing: Vec<bool> = instances.iter().map(is_failing).collect();
    if failing.contains(&false) {
        let mut failing = failing.into_iter();
        instances.retain(|_| failing.next() != Some(true));
    }
    instances
}

#[cfg(test)]
mod tests {
    use model::service::ServiceKey;
    use wire::directory::{FoundServices, QueryResult, ServiceName as Known};
    use wire::node::WorkIndex;
    use wire::services::ServicesDigest;

    use super::*;
    use crate::testing::{NOW, alloc_id};

    fn lookup(directory: &Directory) -> Lookup {
        Lookup::new(directory.clone(), Arc::default(), NodeId::from_bytes([9; 16]))
    }

    fn asked(service: &str, tag: Option<&str>) -> ServiceName {
        ServiceName { namespace: "default".into(), service: service.into(), tag: tag.map(str::to_owned) }
    }

    fn names() -> ServiceQuery {
        ServiceQuery::Names { namespace: "default".into() }
    }

    fn instances(name: &str) -> ServiceQuery {
        ServiceQuery::Instances { namespace: "default".into(), name: name.into() }
    }

    fn instance(number: u8, tag: &str) -> Arc<ServiceRegistration> {
        Arc::new(ServiceRegistration {
            key: ServiceKey {
                namespace: "default".into(),
                name: "Web".into(),
                id: number.to_string().into(),
            },
            node_id: NodeId::from_bytes([1; 16]),
            datacenter: "dc1".into(),
            job_id: "web".into(),
            alloc_id: alloc_id(number),
            tags: vec![tag.into()],
            address: format!("10.0.0.{number}").into(),
            port: 80,
            create_index: Default::default(),
            modify_index: Default::default(),
        })
    }

    /// Enters what the servers would answer.
    fn answer(
        directory: &Directory,
        query: ServiceQuery,
        found: Vec<Arc<ServiceRegistration>>,
        known: &[&str],
    ) {
        drop(directory.watch(query.clone()).unwrap());
        let names = known.iter().map(|name| Known { name: (*name).into(), tags: Vec::new() }).collect();
        let digest = ServicesDigest::default();
        let result = QueryResult { query, digest, instances: found, names, left_out: 0 };
        directory.answered(FoundServices { at: WorkIndex::default(), results: vec![result] }, NOW);
    }

    fn hosts(found: Result<Option<Vec<Target>>, NotKnown>) -> Vec<String> {
        found.unwrap().unwrap_or_default().into_iter().map(|target| target.host).collect()
    }

    #[tokio::test]
    async fn services_are_found_whatever_the_case_of_their_names() {
        let directory = Directory::default();
        answer(&directory, names(), Vec::new(), &["Web", "other"]);
        answer(&directory, instances("Web"), vec![instance(1, "Blue"), instance(2, "green")], &[]);
        let lookup = lookup(&directory);
        assert_eq!(hosts(lookup.instances(&asked("web", None)).await), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(hosts(lookup.instances(&asked("web", Some("blue"))).await), ["10.0.0.1"]);
        assert_eq!(lookup.instances(&asked("web", Some("red"))).await, Ok(None));
        assert_eq!(lookup.instances(&asked("unheard-of", None)).await, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_question_does_not_wait_for_ever() {
        assert_eq!(lookup(&Directory::default()).instances(&asked("web", None)).await, Err(NotKnown));
    }

    #[test]
    fn questions_leave_room_for_other_queries() {
        let lookup = lookup(&Directory::default());
        for number in 0..QUERIES_MAX {
            assert_eq!(lookup.admit(&instances(&number.to_string()), NOW), Ok(()));
        }
        assert_eq!(lookup.admit(&instances("more"), NOW), Err(NotKnown));
        assert_eq!(lookup.admit(&instances("0"), NOW), Ok(()));
        assert_eq!(lookup.admit(&instances("more"), NOW + RECENT), Ok(()));
    }

    #[test]
    fn failing_instances_are_left_out_unless_all_fail() {
        assert_eq!(without_failing(vec![1, 2, 3], |number| *number == 2), [1, 3]);
        assert_eq!(without_failing(vec![1, 2], |_| true), [1, 2]);
        assert!(without_failing(Vec::<u8>::new(), |_| true).is_empty());
    }
}
