//! What a node should run, as its agent is told (`spec/nodes-and-deployments.md` N-6). Jobs and common shares stand in it
//! once, however many allocations have them.

use std::collections::HashMap;
use std::sync::Arc;

use model::alloc::{AllocCommon, PackedMetric};
use model::columns::AllocIds;
use model::job::Job;
use model::{AllocId, HistoryId, Index};
use state::{AllocRef, NodeRef};
use wire::envelope::{NEWS_BYTES_MAX, WORK_BYTES_MAX};
use wire::node::{News, Work, WorkAlloc, WorkAllocs, WorkCommon, WorkIndex};

/// About how many bytes an allocation takes beside what it shares and what it got of its node.
const ALLOC_BYTES: usize = 160;
/// The most versions of jobs, or common shares, that one answer can tell apart.
const PLACES_MAX: usize = u16::MAX as usize;
/// About how many bytes all wakes of one step bring together. Whom they do not reach asks.
const STEP_NEWS_BYTES_MAX: usize = 8 << 20;

/// What was worked out for one node of what it shares with others that are told the same. Good for as long as the state that
/// it comes from is held.
#[derive(Default)]
pub(crate) struct Shares {
    /// Common shares as agents are told them, with how many bytes they take; by address.
    commons: HashMap<usize, (Arc<AllocCommon>, usize)>,
    /// How many bytes jobs take; by address.
    jobs: HashMap<usize, usize>,
    /// How many bytes were told in all.
    told: usize,
}

impl Shares {
    fn common(&mut self, common: &Arc<AllocCommon>) -> (&Arc<AllocCommon>, usize) {
        let (told, bytes) = self.commons.entry(Arc::as_ptr(common).addr()).or_insert_with(|| {
            let told = without_metrics(common);
            let bytes = encoded_len(&told);
            (told, bytes)
        });
        (told, *bytes)
    }

    fn job_bytes(&mut self, job: &Arc<Job>) -> usize {
        *self.jobs.entry(Arc::as_ptr(job).addr()).or_insert_with(|| encoded_len(job))
    }
}

/// A node's work in a history, with what changed of it since then.
pub fn work(node: NodeRef<'_>, history: HistoryId, since: WorkIndex) -> Work {
    let since = since.within(history);
    let mut allocs: Vec<(AllocId, Index)> =
        node.allocs().map(|alloc| (alloc.id(), alloc.alloc_modify_index())).collect();
    allocs.sort_unstable();
    let mut changed: Vec<AllocRef<'_>> =
        node.allocs().filter(|alloc| alloc.alloc_modify_index() > since).collect();
    // What is to run first, so that it need not wait for a second answer.
    changed.sort_unstable_by_key(|alloc| (alloc.is_terminal(), alloc.id()));
    let changed = fill(changed, WORK_BYTES_MAX, 1, &mut Shares::default());
    Work { index: WorkIndex { history, index: node.work_index() }, allocs, changed }
}

/// What changed of a node's work after an index, if it is small enough to come along with a wake.
pub(crate) fn news(
    since: Index,
    changed: Vec<AllocRef<'_>>,
    gone: Vec<AllocId>,
    shares: &mut Shares,
) -> Option<News> {
    let room = NEWS_BYTES_MAX.min(STEP_NEWS_BYTES_MAX.saturating_sub(shares.told));
    let room = room.checked_sub(size_of_val(&gone[..]))?;
    let changed = fill(changed, room, 0, shares);
    (!changed.more).then_some(News { since, gone: AllocIds(gone), changed })
}

/// Those of a node's allocations that are asked for and still there.
pub fn asked(node: NodeRef<'_>, ids: &[AllocId]) -> WorkAllocs {
    let mut wanted = ids.to_vec();
    wanted.sort_unstable();
    let asked = node.allocs().filter(|alloc| wanted.binary_search(&alloc.id()).is_ok());
    fill(asked, WORK_BYTES_MAX, 1, &mut Shares::default())
}

/// As many allocations as fit, and so many at least.
fn fill<'a>(
    allocs: impl IntoIterator<Item = AllocRef<'a>>,
    bytes_max: usize,
    at_least: usize,
    shares: &mut Shares,
) -> WorkAllocs {
    let mut work = WorkAllocs::default();
    let mut commons: HashMap<*const AllocCommon, u16> = HashMap::new();
    let mut jobs: HashMap<*const Job, u16> = HashMap::new();
    let mut bytes = 0;
    for alloc in allocs {
        let (common, job) = (alloc.common(), alloc.job());
        let known = commons.get(&Arc::as_ptr(common)).copied();
        let known_job = jobs.get(&Arc::as_ptr(job)).copied();
        let adds = ALLOC_BYTES
            + alloc.assigned().as_bytes().len()
            + if known.is_none() { shares.common(common).1 } else { 0 }
            + if known.is_none() && known_job.is_none() { shares.job_bytes(job) } else { 0 };
        let has_room = bytes + adds <= bytes_max && commons.len().max(jobs.len()) < PLACES_MAX;
        if !has_room && work.allocs.len() >= at_least {
            work.more = true;
            break;
        }
        bytes += adds;
        let place = known.unwrap_or_else(|| {
            let job_place = known_job.unwrap_or_else(|| {
                work.jobs.push(Arc::clone(job));
                place_of_last(&mut jobs, Arc::as_ptr(job))
            });
            work.commons.push(WorkCommon { job: job_place, common: Arc::clone(shares.common(common).0) });
            place_of_last(&mut commons, Arc::as_ptr(common))
        });
        work.allocs.push(told_of(alloc, place));
    }
    shares.told += bytes;
    work
}

/// The place of what was pushed just now.
fn place_of_last<T>(places: &mut HashMap<*const T, u16>, key: *const T) -> u16 {
    let place = u16::try_from(places.len()).expect("there are no more than places");
    places.insert(key, place);
    place
}

/// No agent looks at the metrics, which may be the larger part.
fn without_metrics(common: &Arc<AllocCommon>) -> Arc<AllocCommon> {
    Arc::new(AllocCommon { metrics: PackedMetric::default(), ..AllocCommon::clone(common) })
}

fn told_of(alloc: AllocRef<'_>, common: u16) -> WorkAlloc {
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
        // Disks that move along with their allocation are not built.
        migrate_token: None,
        preempted: extra.preempted.clone(),
        alloc_modify_index: alloc.alloc_modify_index(),
        create_time: alloc.create_time(),
    }
}

/// How many bytes a value takes in a message.
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
        .expect("plain data in memory always has a MessagePack form");
    count.0
}

#[cfg(test)]
mod tests {
    use model::NodeId;
    use model::alloc::{ClientStatus, DesiredStatus};
    use model::change::{AllocsChanged, Change};
    use state::State;

    use super::*;
    use crate::scene::{alloc, job, node, placed, ready, state};

    const HISTORY: HistoryId = HistoryId::from_bytes([1; 16]);

    /// A cluster of two nodes, with allocations of jobs that take so many bytes each: of the first 1 and 2 on node 1 and 3
    /// on node 2, placed together; 4 on node 1, placed later; 5 of the second on node 1.
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
        let set = crate::scene::following(&state, vec![change]);
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
    fn jobs_and_common_shares_stand_once() {
        let state = scene(0);
        let work = work_of(&state, node(1), 0);
        assert_eq!(work.index, WorkIndex { history: HISTORY, index: Index(5) });
        assert_eq!(ids(&work.changed), [1, 2, 4, 5].map(alloc));
        assert_eq!((work.changed.jobs.len(), work.changed.commons.len(), work.changed.more), (2, 3, false));
        for told in &work.changed.allocs {
            let (common, job) = work.changed.shared(told).unwrap();
            let known = state.alloc(told.id).unwrap();
            assert!(Arc::ptr_eq(job, known.job()));
            assert_eq!((&common.job, common.eval_id), (&known.common().job, known.common().eval_id));
            assert_eq!(common.metrics, PackedMetric::default(), "no agent looks at them");
        }
    }

    #[test]
    fn all_are_listed_and_those_told_that_the_servers_changed() {
        // N-6.1
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
    fn what_is_gone_is_not_listed_and_moves_the_index() {
        let state = after(scene(0), Change::AllocsDeleted([alloc(1)].into_iter().collect()));
        let work = work_of(&state, node(1), 5);
        assert_eq!((work.index.index, work.changed), (Index(6), WorkAllocs::default()));
        assert_eq!(work.allocs.len(), 3);
    }

    #[test]
    fn whoever_knows_another_history_is_told_all() {
        let state = scene(0);
        let since = WorkIndex { history: HistoryId::from_bytes([2; 16]), index: Index(77) };
        let told = work(state.node(node(1)).unwrap(), HISTORY, since);
        assert_eq!(told, work_of(&state, node(1), 0));
    }

    #[test]
    fn news_are_all_that_changed_or_none() {
        let told = |bytes, numbers: &[u8]| {
            let state = scene(bytes);
            let changed = numbers.iter().map(|number| state.alloc(alloc(*number)).unwrap()).collect();
            news(Index(4), changed, vec![alloc(77)], &mut Shares::default())
        };
        let news = told(0, &[2, 4]).unwrap();
        assert_eq!(
            (news.since, news.gone.0, ids(&news.changed)),
            (Index(4), vec![alloc(77)], [2, 4].map(alloc).to_vec())
        );
        assert!(told(NEWS_BYTES_MAX * 2 / 3, &[2, 4]).is_some(), "their job stands there once");
        assert_eq!(told(NEWS_BYTES_MAX * 2 / 3, &[2, 5]), None, "two jobs are too much");
        assert_eq!(told(NEWS_BYTES_MAX, &[5]), None, "as is one that is larger");
        let gone = vec![alloc(77); NEWS_BYTES_MAX];
        assert_eq!(super::news(Index(4), Vec::new(), gone, &mut Shares::default()), None);
    }

    #[test]
    fn what_is_told_of_one_step_is_bounded() {
        let state = scene(NEWS_BYTES_MAX / 2);
        let mut shares = Shares::default();
        let tell = || news(Index(4), vec![state.alloc(alloc(5)).unwrap()], Vec::new(), &mut shares);
        let told = std::iter::from_fn(tell).count() * NEWS_BYTES_MAX / 2;
        assert!((STEP_NEWS_BYTES_MAX / 2..STEP_NEWS_BYTES_MAX).contains(&told), "{told}");
    }

    #[test]
    fn what_many_nodes_are_told_is_worked_out_once() {
        let state = scene(0);
        let mut shares = Shares::default();
        let told = [1, 3].map(|number| {
            let changed = vec![state.alloc(alloc(number)).unwrap()];
            news(Index(2), changed, Vec::new(), &mut shares).unwrap().changed.commons
        });
        assert!(Arc::ptr_eq(&told[0][0].common, &told[1][0].common));
        assert_eq!((shares.commons.len(), shares.jobs.len()), (1, 1));
    }

    #[test]
    fn an_answer_is_full_at_some_size_and_the_rest_is_asked_for() {
        let state = scene(WORK_BYTES_MAX * 2 / 3);
        let first = work_of(&state, node(1), 0);
        assert_eq!((ids(&first.changed), first.changed.more), ([1, 2, 4].map(alloc).to_vec(), true));
        assert_eq!(first.allocs.len(), 4, "the list is whole");
        let rest = asked(state.node(node(1)).unwrap(), &[alloc(5)]);
        assert_eq!((ids(&rest), rest.jobs.len(), rest.more), (vec![alloc(5)], 1, false));
    }

    #[test]
    fn one_allocation_is_told_however_large_its_job() {
        let state = scene(WORK_BYTES_MAX * 2);
        let told = work_of(&state, node(1), 0).changed;
        // The second takes next to nothing more, but the answer is full.
        assert_eq!((ids(&told), told.more), (vec![alloc(1)], true));
        let told = asked(state.node(node(1)).unwrap(), &[alloc(5), alloc(4)]);
        assert_eq!((ids(&told).len(), told.more), (1, true));
    }

    #[test]
    fn what_is_to_end_comes_after_what_is_to_run() {
        let state = after(scene(WORK_BYTES_MAX * 2 / 3), stopped(1));
        let told = work_of(&state, node(1), 0).changed;
        assert_eq!((ids(&told), told.more), (vec![alloc(2), alloc(4)], true));
    }

    #[test]
    fn others_allocations_and_those_that_are_gone_are_not_told() {
        let told = asked(scene(0).node(node(1)).unwrap(), &[alloc(3), alloc(77), alloc(2)]);
        assert_eq!((ids(&told), told.more), (vec![alloc(2)], false));
    }
}
