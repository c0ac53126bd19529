//! The work of a node: the allocations that it should run, as messages to its agent (`docs/rules/nodes-and-deployments.md` N-6).
//! A message contains each job and each common share once, however many allocations use them.

use std::collections::HashMap;
use std::sync::Arc;

use model::alloc::{AllocCommon, PackedMetric};
use model::columns::AllocIds;
use model::job::Job;
use model::{AllocId, HistoryId, Index};
use state::{AllocRef, NodeRef};
use wire::envelope::{NEWS_BYTES_MAX, WORK_BYTES_MAX};
use wire::node::{Work, WorkAlloc, WorkAllocs, WorkChanges, WorkCommon, WorkIndex};

/// The approximate size of an allocation without its common share and its assigned resources, in bytes.
const ALLOC_BYTES: usize = 160;
/// The maximum number of job versions, or of common shares, that one message can refer to.
const POSITIONS_MAX: usize = u16::MAX as usize;
/// The approximate maximum size of the changes in all wakes of one step, in bytes. Nodes beyond it request their changes.
const STEP_NEWS_BYTES_MAX: usize = 8 << 20;

/// A cache of values that are computed for one node and reused for others. Its keys are addresses, so it is valid only
/// while the state is held from which the values come.
#[derive(Default)]
pub(crate) struct WorkCache {
    /// Common shares without metrics, and their encoded sizes, by address.
    commons: HashMap<usize, (Arc<AllocCommon>, usize)>,
    /// The encoded sizes of jobs, by address.
    jobs: HashMap<usize, usize>,
    /// The size of all allocations in messages so far, in bytes.
    bytes: usize,
}

impl WorkCache {
    fn common(&mut self, common: &Arc<AllocCommon>) -> (&Arc<AllocCommon>, usize) {
        let (stripped, bytes) = self.commons.entry(Arc::as_ptr(common).addr()).or_insert_with(|| {
            let stripped = without_metrics(common);
            let bytes = encoded_len(&stripped);
            (stripped, bytes)
        });
        (stripped, *bytes)
    }

    fn job_bytes(&mut self, job: &Arc<Job>) -> usize {
        *self.jobs.entry(Arc::as_ptr(job).addr()).or_insert_with(|| encoded_len(job))
    }
}

/// A node's work in a history, with the changes after `since`.
pub fn work(node: NodeRef<'_>, history: HistoryId, since: WorkIndex) -> Work {
    let since = since.within(history);
    let mut allocs: Vec<(AllocId, Index)> =
        node.allocs().map(|alloc| (alloc.id(), alloc.alloc_modify_index())).collect();
    allocs.sort_unstable();
    let mut changed: Vec<AllocRef<'_>> =
        node.allocs().filter(|alloc| alloc.alloc_modify_index() > since).collect();
    // Allocations that should run come first, so that they need not wait for a second answer.
    changed.sort_unstable_by_key(|alloc| (alloc.is_terminal(), alloc.id()));
    let changed = fill(changed, WORK_BYTES_MAX, 1, &mut WorkCache::default());
    Work { index: WorkIndex { history, index: node.work_index() }, allocs, changed }
}

/// The changes of a node's work after an index, or `None` if they are too large for a wake.
pub(crate) fn small_changes(
    since: Index,
    changed: Vec<AllocRef<'_>>,
    gone: Vec<AllocId>,
    cache: &mut WorkCache,
) -> Option<WorkChanges> {
    let room = NEWS_BYTES_MAX.min(STEP_NEWS_BYTES_MAX.saturating_sub(cache.bytes));
    let room = room.checked_sub(size_of_val(&gone[..]))?;
    let changed = fill(changed, room, 0, cache);
    (!changed.more).then_some(WorkChanges { since, gone: AllocIds(gone), changed })
}

/// Those allocations of a node that have one of the ids.
pub fn by_ids(node: NodeRef<'_>, ids: &[AllocId]) -> WorkAllocs {
    let mut wanted = ids.to_vec();
    wanted.sort_unstable();
    let allocs = node.allocs().filter(|alloc| wanted.binary_search(&alloc.id()).is_ok());
    fill(allocs, WORK_BYTES_MAX, 1, &mut WorkCache::default())
}

/// As many allocations as fit into `bytes_max`, but not fewer than `at_least`.
fn fill<'a>(
    allocs: impl IntoIterator<Item = AllocRef<'a>>,
    bytes_max: usize,
    at_least: usize,
    cache: &mut WorkCache,
) -> WorkAllocs {
    let mut work = WorkAllocs::default();
    let mut commons: HashMap<*const AllocCommon, u16> = HashMap::new();
    let mut jobs: HashMap<*const Job, u16> = HashMap::new();
    let mut bytes = 0;
    for alloc in allocs {
        let (common, job) = (alloc.common(), alloc.job());
        let position_of_common = commons.get(&Arc::as_ptr(common)).copied();
        let position_of_job = jobs.get(&Arc::as_ptr(job)).copied();
        let size = ALLOC_BYTES
            + alloc.assigned().as_bytes().len()
            + if position_of_common.is_none() { cache.common(common).1 } else { 0 }
            + if position_of_common.is_none() && position_of_job.is_none() {
                cache.job_bytes(job)
            } else {
                0
            };
        let has_room = bytes + size <= bytes_max && commons.len().max(jobs.len()) < POSITIONS_MAX;
        if !has_room && work.allocs.len() >= at_least {
            work.more = true;
            break;
        }
        bytes += size;
        let position = position_of_common.unwrap_or_else(|| {
            let job_position = position_of_job.unwrap_or_else(|| {
                work.jobs.push(Arc::clone(job));
                position_of_last(&mut jobs, Arc::as_ptr(job))
            });
            work.commons.push(WorkCommon { job: job_position, common: Arc::clone(cache.common(common).0) });
            position_of_last(&mut commons, Arc::as_ptr(common))
        });
        work.allocs.push(work_alloc(alloc, position));
    }
    cache.bytes += bytes;
    work
}

/// Records the position of the element that was pushed last.
fn position_of_last<T>(positions: &mut HashMap<*const T, u16>, key: *const T) -> u16 {
    let position = u16::try_from(positions.len()).expect("there are at most POSITIONS_MAX positions");
    positions.insert(key, position);
    position
}

/// Agents do not read the metrics, which may be the larger part.
fn without_metrics(common: &Arc<AllocCommon>) -> Arc<AllocCommon> {
    Arc::new(AllocCommon { metrics: PackedMetric::default(), ..AllocCommon::clone(common) })
}

fn work_alloc(alloc: AllocRef<'_>, common: u16) -> WorkAlloc {
    let (extra, health) = (alloc.extra(), alloc.health());
    WorkAlloc {
        id: alloc.id(),
        common,
        name_index: alloc.name_index(),
        assigned: alloc.assigned().clone(),
        desired_status: alloc.desired_status(),
        desired_transition: alloc.transition(),
        client_status: alloc.client_status(),
        canary: health.is_some_and(|health| health.canary),
        healthy: health.and_then(|health| health.healthy),
        previous: extra.previous,
        // Migration of disks is not built yet.
        migrate_token: None,
        preempted: extra.preempted.clone(),
        alloc_modify_index: alloc.alloc_modify_index(),
        create_time: alloc.create_time(),
    }
}

/// The size of a value in a message, in bytes.
fn encoded_len<T: serde::Serialize>(value: &T) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    rmp_serde::encode::write_named(&mut count, value)
        .expect("encoding plain data to MessagePack cannot fail");
    count.0
}

#[cfg(test)]
mod tests {
    use model::NodeId;
    use model::alloc::{ClientStatus, DesiredStatus};
    use model::change::{AllocsChanged, Change};
    use state::State;

    use super::*;
    use crate::testing::{alloc, job, node, placed, ready, state};

    const HISTORY: HistoryId = HistoryId::from_bytes([1; 16]);

    /// A cluster of two nodes, with allocations of two jobs of `bytes` bytes each. Of the first job, 1 and 2 on node 1 and
    /// 3 on node 2 are placed together, and 4 on node 1 later. Of the second job, 5 is on node 1.
    fn scene(bytes: usize) -> State {
        let jobs = [job(1, bytes), job(2, bytes)];
        let registered = jobs.iter().map(|job| Change::Job(Arc::new(job.clone()))).collect();
        let [first, second] = &jobs;
        state([
            vec![ready(1), ready(2)],
            registered,
            vec![placed(first, [(1, 1), (2, 1), (3, 2)])],
            vec![placed(first, [(4, 1)])],
            vec![placed(second, [(5, 1)])],
        ])
    }

    fn after(mut state: State, change: Change) -> State {
        let set = crate::testing::following(&state, vec![change]);
        state.apply(&set).unwrap();
        state
    }

    fn changed(number: u8, by_servers: bool) -> AllocsChanged {
        AllocsChanged { ids: [alloc(number)].into_iter().collect(), by_servers, ..AllocsChanged::default() }
    }

    fn stopped(number: u8) -> Change {
        let desired = Some((DesiredStatus::Stop, "not needed".into()));
        Change::AllocsChanged(Box::new(AllocsChanged { desired, ..changed(number, true) }))
    }

    fn work_of(state: &State, node: NodeId, since: u64) -> Work {
        work(state.node(node).unwrap(), HISTORY, WorkIndex { history: HISTORY, index: Index(since) })
    }

    fn ids(allocs: &WorkAllocs) -> Vec<AllocId> {
        allocs.allocs.iter().map(|alloc| alloc.id).collect()
    }

    #[test]
    fn jobs_and_common_shares_are_included_once() {
        let state = scene(0);
        let work = work_of(&state, node(1), 0);
        assert_eq!(work.index, WorkIndex { history: HISTORY, index: Index(5) });
        assert_eq!(ids(&work.changed), [1, 2, 4, 5].map(alloc));
        assert_eq!((work.changed.jobs.len(), work.changed.commons.len(), work.changed.more), (2, 3, false));
        for sent in &work.changed.allocs {
            let (common, job) = work.changed.shared(sent).unwrap();
            let expected = state.alloc(sent.id).unwrap();
            assert!(Arc::ptr_eq(job, expected.job()));
            assert_eq!((&common.job, common.eval_id), (&expected.common().job, expected.common().eval_id));
            assert_eq!(common.metrics, PackedMetric::default(), "agents do not read metrics");
        }
    }

    #[test]
    fn all_allocations_are_listed_and_those_changed_by_servers_included() {
        // The answer lists every allocation, and contains those that the servers changed (N-6.1).
        let state = after(scene(0), stopped(2));
        let report = AllocsChanged { client: Some((ClientStatus::Running, "".into())), ..changed(1, false) };
        let state = after(state, Change::AllocsChanged(Box::new(report)));
        let work = work_of(&state, node(1), 4);
        assert_eq!((work.index.index, ids(&work.changed)), (Index(6), vec![alloc(5), alloc(2)]));
        assert_eq!(
            work.allocs,
            [(1, 3), (2, 6), (4, 4), (5, 5)].map(|(id, index)| (alloc(id), Index(index)))
        );
        assert_eq!(work_of(&state, node(1), 6).changed, WorkAllocs::default());
        assert_eq!(ids(&work_of(&state, node(2), 0).changed), [alloc(3)]);
    }

    #[test]
    fn a_deleted_allocation_is_not_listed_and_moves_the_index() {
        let state = after(scene(0), Change::AllocsDeleted([alloc(1)].into_iter().collect()));
        let work = work_of(&state, node(1), 5);
        assert_eq!((work.index.index, work.changed), (Index(6), WorkAllocs::default()));
        assert_eq!(work.allocs.len(), 3);
    }

    #[test]
    fn an_agent_with_another_history_gets_all_its_work() {
        let state = scene(0);
        let since = WorkIndex { history: HistoryId::from_bytes([2; 16]), index: Index(77) };
        let answer = work(state.node(node(1)).unwrap(), HISTORY, since);
        assert_eq!(answer, work_of(&state, node(1), 0));
    }

    #[test]
    fn changes_in_a_wake_are_complete_or_absent() {
        let changes = |bytes, numbers: &[u8]| {
            let state = scene(bytes);
            let changed = numbers.iter().map(|number| state.alloc(alloc(*number)).unwrap()).collect();
            small_changes(Index(4), changed, vec![alloc(77)], &mut WorkCache::default())
        };
        let news = changes(0, &[2, 4]).unwrap();
        assert_eq!(
            (news.since, news.gone.0, ids(&news.changed)),
            (Index(4), vec![alloc(77)], [2, 4].map(alloc).to_vec())
        );
        assert!(changes(NEWS_BYTES_MAX * 2 / 3, &[2, 4]).is_some(), "their job is included once");
        assert_eq!(changes(NEWS_BYTES_MAX * 2 / 3, &[2, 5]), None, "two jobs are too large");
        assert_eq!(changes(NEWS_BYTES_MAX, &[5]), None, "one larger job is too large, too");
        let gone = vec![alloc(77); NEWS_BYTES_MAX];
        assert_eq!(small_changes(Index(4), Vec::new(), gone, &mut WorkCache::default()), None);
    }

    #[test]
    fn the_changes_in_the_wakes_of_one_step_are_bounded() {
        let state = scene(NEWS_BYTES_MAX / 2);
        let mut cache = WorkCache::default();
        let next = || small_changes(Index(4), vec![state.alloc(alloc(5)).unwrap()], Vec::new(), &mut cache);
        let bytes = std::iter::from_fn(next).count() * NEWS_BYTES_MAX / 2;
        assert!((STEP_NEWS_BYTES_MAX / 2..STEP_NEWS_BYTES_MAX).contains(&bytes), "{bytes}");
    }

    #[test]
    fn common_shares_are_computed_once_for_all_nodes() {
        let state = scene(0);
        let mut cache = WorkCache::default();
        let commons = [1, 3].map(|number| {
            let changed = vec![state.alloc(alloc(number)).unwrap()];
            small_changes(Index(2), changed, Vec::new(), &mut cache).unwrap().changed.commons
        });
        assert!(Arc::ptr_eq(&commons[0][0].common, &commons[1][0].common));
        assert_eq!((cache.commons.len(), cache.jobs.len()), (1, 1));
    }

    #[test]
    fn a_large_answer_is_cut_and_says_that_there_is_more() {
        let state = scene(WORK_BYTES_MAX * 2 / 3);
        let first = work_of(&state, node(1), 0);
        assert_eq!((ids(&first.changed), first.changed.more), ([1, 2, 4].map(alloc).to_vec(), true));
        assert_eq!(first.allocs.len(), 4, "the list is complete");
        let rest = by_ids(state.node(node(1)).unwrap(), &[alloc(5)]);
        assert_eq!((ids(&rest), rest.jobs.len(), rest.more), (vec![alloc(5)], 1, false));
    }

    #[test]
    fn an_answer_contains_at_least_one_allocation() {
        let state = scene(WORK_BYTES_MAX * 2);
        let answer = work_of(&state, node(1), 0).changed;
        // The second allocation is small, but the answer is full.
        assert_eq!((ids(&answer), answer.more), (vec![alloc(1)], true));
        let answer = by_ids(state.node(node(1)).unwrap(), &[alloc(5), alloc(4)]);
        assert_eq!((ids(&answer).len(), answer.more), (1, true));
    }

    #[test]
    fn allocations_to_stop_come_after_those_to_run() {
        let state = after(scene(WORK_BYTES_MAX * 2 / 3), stopped(1));
        let answer = work_of(&state, node(1), 0).changed;
        assert_eq!((ids(&answer), answer.more), (vec![alloc(2), alloc(4)], true));
    }

    #[test]
    fn allocations_of_other_nodes_and_deleted_ones_are_left_out() {
        let answer = by_ids(scene(0).node(node(1)).unwrap(), &[alloc(3), alloc(77), alloc(2)]);
        assert_eq!((ids(&answer), answer.more), (vec![alloc(2)], false));
    }
}
