//! Invariants that must hold at every index of the log, whatever happened to the processes that wrote it; and the final
//! check that the log, the tables that services load, SQL and every API agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use model::alloc::{Demand, DesiredStatus};
use model::change::{Change, ChangeSet};
use model::cluster::Singleton;
use model::{Index, JobKey, JobVersionKey};
use serde_json::Value;
use state::{AllocRef, Scope, State};
use store::{Database, Tail};
use tokio::sync::Mutex;

use super::api::{Api, array};
use super::{Cluster, Settings, pause};

/// Bytes of the log that are read at once.
const PAGE_BYTES: usize = 8 << 20;

/// The log, replayed from its beginning. Every change set is checked.
pub struct History {
    database: Database,
    state: State,
}

impl History {
    /// Replays the log of a cluster, which must still reach back to its beginning.
    pub async fn new(cluster: &Cluster) -> Self {
        Self { database: cluster.database().await, state: State::default() }
    }

    /// The state after the last change set that was checked.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Reads on to the head. Asserts that indexes have no gaps, that time does not go back, that no allocation is
    /// placed twice or beyond its group's count, and that no node exceeds its capacity.
    ///
    /// # Panics
    /// If an assertion fails.
    pub async fn follow(&mut self) {
        loop {
            let tail = match self.database.changes_after(self.state.index(), PAGE_BYTES).await {
                Ok(tail) => tail,
                // The connection was to a server that was killed. The next attempt opens a new one.
                Err(_) => {
                    pause().await;
                    continue;
                }
            };
            let Tail::Page { rows, head, .. } = tail else {
                panic!("the log has a gap after index {}", self.state.index())
            };
            if rows.is_empty() {
                assert_eq!(self.state.index(), head.index, "the head is ahead of the log");
                return;
            }
            for row in rows {
                self.step(&row.change_set().expect("a change set of the log can be decoded"));
            }
        }
    }

    /// Reads on until no evaluation is pending and nothing is written any more.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub async fn wait_until_settled(&mut self, cluster: &Cluster) {
        let history = Mutex::new(self);
        let is_settled = async |_: &Cluster| {
            let mut history = history.lock().await;
            let before = history.state.index();
            history.follow().await;
            let is_settled = history.state.index() == before && history.state.live_evals().next().is_none();
            is_settled.then_some(())
        };
        cluster.wait_until("no evaluation is pending", is_settled).await;
    }

    fn step(&mut self, set: &ChangeSet) {
        let before = self.state.clone();
        self.state.apply(set).expect("the change sets of the log follow each other");
        let index = set.index;
        assert!(set.at >= before.at(), "time goes back at index {index}");
        if set.changes.iter().any(touches_allocs) {
            self.assert_placed_once(&before, index);
            self.assert_nodes_have_room(index);
        }
    }

    /// A plan may have been made before the job was changed. Then the job has as many allocations as its older version
    /// wanted, and the next plan corrects that.
    fn assert_placed_once(&self, before: &State, index: Index) {
        for job in self.state.jobs() {
            let key = job.key();
            for group in &job.spec.task_groups {
                let live = live_allocs(&self.state, &key, &group.name);
                let names: BTreeSet<_> = live.iter().map(|alloc| alloc.name()).collect();
                assert_eq!(
                    names.len(),
                    live.len(),
                    "{key} has an allocation twice at index {index}: {live:?}"
                );
                let counts_before = count_by_version(&live_allocs(before, &key, &group.name));
                for (version, (count, wanted)) in count_by_version(&live) {
                    let (before, _) = counts_before.get(version).copied().unwrap_or_default();
                    let count_of_wanted = format!("{count} of {wanted} allocations");
                    assert!(
                        count <= wanted.max(before),
                        "{version:?} has {count_of_wanted} at index {index}, had {before}"
                    );
                }
            }
        }
    }

    fn assert_nodes_have_room(&self, index: Index) {
        for node in self.state.nodes() {
            let demands = node.allocs().filter(is_live).map(AllocRef::demand);
            let used = demands.fold(Demand::default(), |sum, demand| Demand {
                cpu_mhz: sum.cpu_mhz + demand.cpu_mhz,
                memory_mb: sum.memory_mb + demand.memory_mb,
                disk_mb: sum.disk_mb + demand.disk_mb,
            });
            let has = node.capacity();
            let fits =
                used.cpu_mhz <= has.cpu_mhz && used.memory_mb <= has.memory_mb && used.disk_mb <= has.disk_mb;
            assert!(fits, "{} has {has:?} and holds {used:?} at index {index}", node.id());
        }
    }

    /// Asserts that the log's rows are complete from the first index to the head, and that no applier wrote after its
    /// successor had.
    ///
    /// # Panics
    /// If an assertion fails.
    pub fn assert_one_writer(&self, cluster: &Cluster) {
        let gaps = "select min(changes.index), max(head.index) - max(changes.index), \
                    max(changes.index) - count(*) from changes, head";
        assert_eq!(cluster.sql(gaps), ["1|0|0"], "first index, missing at the end, missing in between");
        let late = "select index, applier_epoch from (select *, lag(applier_epoch) over (order by index) as before \
                    from changes) as rows where applier_epoch < before";
        assert!(cluster.sql(late).is_empty(), "written by deposed appliers: {:?}", cluster.sql(late));
    }

    /// Waits until the tables have reached the end of the log. Asserts that what services load from them equals the
    /// state of the log.
    ///
    /// # Panics
    /// If an assertion fails.
    pub async fn assert_tables(&mut self, cluster: &Cluster) {
        let history = Mutex::new(self);
        let caught_up = async |_: &Cluster| {
            let mut history = history.lock().await;
            history.follow().await;
            let loaded = history.database.load(Scope::ALL).await.ok()?;
            let index = history.state.index();
            (index == loaded.projected && index == loaded.head.index)
                .then_some((history.state.clone(), loaded.state))
        };
        let (log, tables) = &cluster.wait_until("the tables have caught up", caught_up).await;
        assert_eq!(log.at(), tables.at());
        same("jobs", log, tables, |state| {
            let keys: Vec<JobKey> = state.jobs().map(|job| job.key()).collect();
            let versions = keys.iter().flat_map(|key| state.job_versions(key).cloned().collect::<Vec<_>>());
            let sources = keys.iter().flat_map(|key| state.job_submissions(key).cloned().collect::<Vec<_>>());
            let summaries = keys.iter().map(|key| (state.job_summary(key).cloned(), state.plan_index(key)));
            (versions.collect::<Vec<_>>(), sources.collect::<Vec<_>>(), summaries.collect::<Vec<_>>())
        });
        same("evaluations", log, tables, |state| state.evals().cloned().collect::<Vec<_>>());
        same("deployments", log, tables, |state| state.deployments().cloned().collect::<Vec<_>>());
        same("nodes", log, tables, |state| state.nodes().map(|node| node.node().clone()).collect::<Vec<_>>());
        same("allocations", log, tables, |state| {
            state.allocs_in(..).map(AllocRef::to_allocation).collect::<Vec<_>>()
        });
        same("leases", log, tables, |state| {
            Singleton::ALL.iter().map(|service| state.lease(*service).cloned()).collect::<Vec<_>>()
        });
    }
}

/// Asserts that object tables that are rebuilt from the log have the same rows as those that were written
/// incrementally.
///
/// # Panics
/// If a row differs, or the database cannot be read.
pub async fn assert_rebuild_agrees(cluster: &Cluster) {
    let differences = store::compare_with_log(&Settings::of(cluster).store).await;
    let differences = differences.expect("the log is complete and the cluster is idle");
    let lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "the object tables differ from the log:\n{}", lines.join("\n"));
}

/// Asserts that a part of both states is equal.
fn same<T: PartialEq + Debug>(what: &str, log: &State, tables: &State, of: impl Fn(&State) -> T) {
    let (log, tables) = (of(log), of(tables));
    assert!(log == tables, "{what} of the log:\n{log:#?}\n{what} of the tables:\n{tables:#?}");
}

/// Waits until SQL and all APIs list the same jobs, evaluations, allocations and nodes.
///
/// # Panics
/// If they do not agree in time.
pub async fn assert_apis_agree_with_sql(cluster: &Cluster) {
    for Listing { path, members, query } in &LISTINGS {
        for api in cluster.apis() {
            let what = format!("{} and SQL show the same at {path}", api.host());
            cluster
                .wait_until(&what, async |cluster| {
                    let rows: BTreeSet<String> = cluster.sql(query).into_iter().collect();
                    (listed(&api, path, members).await? == rows).then_some(())
                })
                .await;
        }
    }
}

/// A list of the API, and the query for the same in SQL.
struct Listing {
    path: &'static str,
    members: &'static [&'static str],
    query: &'static str,
}

const LISTINGS: [Listing; 4] = [
    Listing {
        path: "/v1/allocations",
        members: &["ID", "JobID", "JobVersion", "NodeID", "DesiredStatus", "ClientStatus", "ModifyIndex"],
        query: "select id, job_id, job_version, node_id, desired_status, client_status, modify_index from allocs",
    },
    Listing {
        path: "/v1/jobs",
        members: &["ID", "Status", "Stop", "JobModifyIndex", "ModifyIndex"],
        // Only the current versions.
        query: "select distinct on (job_id) job_id, status, stopped::text, job_modify_index, modify_index from jobs \
                order by job_id, create_index desc, version desc",
    },
    Listing {
        path: "/v1/evaluations",
        members: &["ID", "JobID", "Status", "TriggeredBy", "ModifyIndex"],
        query: "select id, job_id, status, triggered_by, modify_index from evals",
    },
    Listing {
        path: "/v1/nodes",
        members: &["ID", "Name", "Status", "SchedulingEligibility", "ModifyIndex"],
        query: "select id, name, status, scheduling_eligibility, modify_index from nodes",
    },
];

/// The items of an API's list in the format of `psql`.
async fn listed(api: &Api, path: &str, members: &[&str]) -> Option<BTreeSet<String>> {
    let list = api.try_get(path).await.ok()?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row =
        |object: &Value| members.iter().map(|member| text(&object[member])).collect::<Vec<_>>().join("|");
    Some(array(&list).iter().map(row).collect())
}

/// The number of allocations of each job version, with the count that the version's group wants.
fn count_by_version<'a>(allocs: &[AllocRef<'a>]) -> BTreeMap<&'a JobVersionKey, (usize, usize)> {
    let mut counts = BTreeMap::new();
    for alloc in allocs {
        let wanted = alloc.group().map_or(0, |group| group.count as usize);
        counts.entry(&alloc.common().job).or_insert((0, wanted)).0 += 1;
    }
    counts
}

fn is_live(alloc: &AllocRef<'_>) -> bool {
    alloc.desired_status() == DesiredStatus::Run && !alloc.client_status().is_terminal()
}

/// The live allocations of a group.
pub fn live_allocs<'a>(state: &'a State, job: &JobKey, group: &str) -> Vec<AllocRef<'a>> {
    state.allocs_of_job(job).filter(|alloc| **alloc.group_name() == *group && is_live(alloc)).collect()
}

/// Whether a change may alter the resources in use on nodes, or the number of a job's allocations.
fn touches_allocs(change: &Change) -> bool {
    matches!(
        change,
        Change::AllocsPlaced(_) | Change::AllocsChanged(_) | Change::Alloc(_) | Change::AllocsDeleted(_)
    )
}
