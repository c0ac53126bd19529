//! Random histories that depend only on their seed: any changes that the state allows, in any order.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::alloc::{ClientStatus, DesiredStatus};
use model::change::{AllocsChanged, Change, ChangeSet};
use model::cluster::Singleton;
use model::volume::CsiVolumeKey;
use state::State;

use super::*;

/// A random number generator (splitmix64).
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// The state of a history under construction.
struct HistoryBuilder {
    rng: Rng,
    state: State,
    /// The numbers of existing allocations, each with its job.
    allocs: BTreeMap<u64, &'static str>,
    /// The create index and the last version of existing jobs.
    jobs: BTreeMap<&'static str, (u64, u64)>,
}

/// A history of `length` change sets that begins with [`history`].
pub(crate) fn random_history(seed: u64, length: usize) -> Vec<Arc<ChangeSet>> {
    let mut sets = history();
    let mut builder = HistoryBuilder {
        rng: Rng(seed),
        state: State::default(),
        allocs: BTreeMap::new(),
        jobs: [("web", (3, 1))].into(),
    };
    sets.iter().for_each(|set| builder.state.apply(set).unwrap());
    while sets.len() < length {
        let index = builder.state.index().0 + 1;
        let count = 1 + builder.rng.below(4);
        let changes: Vec<Change> = (0..count).flat_map(|_| builder.next_changes(index)).collect();
        let set = change_set(index, changes);
        builder.state.apply(&set).unwrap();
        sets.push(set);
    }
    sets
}

impl HistoryBuilder {
    /// The changes of one random event.
    fn next_changes(&mut self, index: u64) -> Vec<Change> {
        let number = self.rng.below(1_000);
        match self.rng.below(16) {
            0 => vec![node(number % 5, &format!("named-at-{index}"))],
            1 => vec![Change::NodesDeleted(vec![node_id(3 + number % 2)])],
            2..=4 => self.place(index),
            5 | 6 => self.report(),
            7 => self.update_in_place(index),
            8 => self.stop(),
            9 => self.delete(),
            10 => self.register(["web", "other", "third"][number as usize % 3], index),
            11 => self.purge("third"),
            12 => {
                vec![Change::Eval(Arc::new(eval(number, "web", index))), summary("web", number as u32, index)]
            }
            13 => vec![
                Change::EvalsDeleted(vec![eval_id(number)]),
                deployment(number, self.version("web"), index),
            ],
            14 => vec![
                lease(Singleton::EvalBroker, index, index),
                room(&format!("v1:{number}"), "large", "other"),
                Change::UnblockedForgotten(Index(index.saturating_sub(9))),
            ],
            _ => vec![
                host_volume(number % 7, HostVolumeState::Ready, index),
                claim(number % 7, index),
                csi_volume(&number.to_string(), index),
                Change::CsiVolumeDeleted(CsiVolumeKey {
                    namespace: "default".into(),
                    id: number.to_string().into(),
                }),
            ],
        }
    }

    fn version(&self, id: &str) -> JobVersionKey {
        let (create_index, last) = self.jobs[id];
        version(id, create_index, last)
    }

    /// The numbers of a few allocations; if `job` is given, of that job.
    fn some_allocs(&mut self, job: Option<&str>) -> Vec<u64> {
        let of_job = |of: &str| job.is_none_or(|job| job == of);
        let all: Vec<u64> =
            self.allocs.iter().filter(|(_, of)| of_job(of)).map(|(number, _)| *number).collect();
        all.into_iter().filter(|_| self.rng.below(8) == 0).take(5).collect()
    }

    fn place(&mut self, index: u64) -> Vec<Change> {
        let jobs: Vec<&'static str> = self.jobs.keys().copied().collect();
        let job = jobs[self.rng.below(jobs.len() as u64) as usize];
        let first = self.allocs.last_key_value().map_or(10_000, |(last, _)| last + 1);
        let numbers = first..first + 1 + self.rng.below(4);
        self.allocs.extend(numbers.clone().map(|number| (number, job)));
        vec![plainly(common(self.version(job), index, None), numbers)]
    }

    fn report(&mut self) -> Vec<Change> {
        let status =
            [ClientStatus::Running, ClientStatus::Failed, ClientStatus::Complete][self.rng.below(3) as usize];
        let client = Some((status, "As an agent says".into()));
        vec![changed(AllocsChanged { ids: ids(self.some_allocs(None)), client, ..AllocsChanged::default() })]
    }

    fn update_in_place(&mut self, index: u64) -> Vec<Change> {
        let common = Some(common(self.version("web"), index, Some(2)));
        vec![changed(AllocsChanged {
            ids: ids(self.some_allocs(Some("web"))),
            by_servers: true,
            common,
            ..AllocsChanged::default()
        })]
    }

    fn stop(&mut self) -> Vec<Change> {
        let desired = Some((DesiredStatus::Stop, "alloc not needed".into()));
        vec![changed(AllocsChanged {
            ids: ids(self.some_allocs(None)),
            by_servers: true,
            desired,
            ..AllocsChanged::default()
        })]
    }

    fn delete(&mut self) -> Vec<Change> {
        let some = self.some_allocs(None);
        self.allocs.retain(|number, _| !some.contains(number));
        vec![Change::AllocsDeleted(ids(some))]
    }

    fn register(&mut self, id: &'static str, index: u64) -> Vec<Change> {
        let (create_index, last) =
            *self.jobs.entry(id).and_modify(|(_, last)| *last += 1).or_insert((index, 0));
        let version = |last| version(id, create_index, last);
        let source = match last.checked_sub(1) {
            Some(before) if self.rng.below(2) == 0 => copied(version(before), version(last)),
            Some(_) | None => submission(version(last), &index.to_string()),
        };
        vec![
            Change::Job(Arc::new(job(id, create_index, last))),
            source,
            Change::JobSubmissionsDeleted(vec![version(last.saturating_sub(6))]),
            Change::PlanApplied { job: key(id), eval_id: eval_id(index) },
        ]
    }

    /// Purges a job together with its allocations.
    fn purge(&mut self, id: &str) -> Vec<Change> {
        if self.jobs.remove(id).is_none() {
            return Vec::new();
        }
        let (gone, kept) = std::mem::take(&mut self.allocs).into_iter().partition(|(_, job)| *job == id);
        self.allocs = kept;
        let gone: BTreeMap<u64, &str> = gone;
        vec![Change::AllocsDeleted(ids(gone.into_keys())), Change::JobDeleted(key(id))]
    }
}
