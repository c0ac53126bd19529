//! Histories by chance, the same for the same seed: whatever the state allows, in any order.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::alloc::{ClientStatus, DesiredStatus};
use model::change::{AllocsChanged, Change, ChangeSet};
use model::cluster::Singleton;
use model::volume::CsiVolumeKey;
use state::State;

use super::*;

/// Whatever follows on a seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// What a history has come to.
struct Past {
    chance: Chance,
    state: State,
    /// The numbers of allocations that are there, each with its job.
    allocs: BTreeMap<u64, &'static str>,
    /// The create index and the last version of jobs that are there.
    jobs: BTreeMap<&'static str, (u64, u64)>,
}

/// A history of `length` change sets, beginning with [`history`].
pub(crate) fn random_history(seed: u64, length: usize) -> Vec<Arc<ChangeSet>> {
    let mut sets = history();
    let mut past = Past {
        chance: Chance(seed),
        state: State::default(),
        allocs: BTreeMap::new(),
        jobs: [("web", (3, 1))].into(),
    };
    sets.iter().for_each(|set| past.state.apply(set).unwrap());
    while sets.len() < length {
        let index = past.state.index().0 + 1;
        let count = 1 + past.chance.below(4);
        let changes: Vec<Change> = (0..count).flat_map(|_| past.next(index)).collect();
        let set = change_set(index, changes);
        past.state.apply(&set).unwrap();
        sets.push(set);
    }
    sets
}

impl Past {
    /// One thing that happens.
    fn next(&mut self, index: u64) -> Vec<Change> {
        let number = self.chance.below(1_000);
        match self.chance.below(16) {
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

    /// The numbers of a few allocations, of one job if that is given.
    fn some(&mut self, job: Option<&str>) -> Vec<u64> {
        let of_job = |of: &str| job.is_none_or(|job| job == of);
        let all: Vec<u64> =
            self.allocs.iter().filter(|(_, of)| of_job(of)).map(|(number, _)| *number).collect();
        all.into_iter().filter(|_| self.chance.below(8) == 0).take(5).collect()
    }

    fn place(&mut self, index: u64) -> Vec<Change> {
        let jobs: Vec<&'static str> = self.jobs.keys().copied().collect();
        let job = jobs[self.chance.below(jobs.len() as u64) as usize];
        let first = self.allocs.last_key_value().map_or(10_000, |(last, _)| last + 1);
        let numbers = first..first + 1 + self.chance.below(4);
        self.allocs.extend(numbers.clone().map(|number| (number, job)));
        vec![plainly(common(self.version(job), index, None), numbers)]
    }

    fn report(&mut self) -> Vec<Change> {
        let status = [ClientStatus::Running, ClientStatus::Failed, ClientStatus::Complete]
            [self.chance.below(3) as usize];
        let client = Some((status, "As an agent says".into()));
        vec![changed(AllocsChanged { ids: ids(self.some(None)), client, ..AllocsChanged::default() })]
    }

    fn update_in_place(&mut self, index: u64) -> Vec<Change> {
        let common = Some(common(self.version("web"), index, Some(2)));
        vec![changed(AllocsChanged {
            ids: ids(self.some(Some("web"))),
            by_servers: true,
            common,
            ..AllocsChanged::default()
        })]
    }

    fn stop(&mut self) -> Vec<Change> {
        let desired = Some((DesiredStatus::Stop, "alloc not needed".into()));
        vec![changed(AllocsChanged {
            ids: ids(self.some(None)),
            by_servers: true,
            desired,
            ..AllocsChanged::default()
        })]
    }

    fn delete(&mut self) -> Vec<Change> {
        let some = self.some(None);
        self.allocs.retain(|number, _| !some.contains(number));
        vec![Change::AllocsDeleted(ids(some))]
    }

    fn register(&mut self, id: &'static str, index: u64) -> Vec<Change> {
        let (create_index, last) =
            *self.jobs.entry(id).and_modify(|(_, last)| *last += 1).or_insert((index, 0));
        let version = |last| version(id, create_index, last);
        let source = match last.checked_sub(1) {
            Some(before) if self.chance.below(2) == 0 => copied(version(before), version(last)),
            Some(_) | None => submission(version(last), &index.to_string()),
        };
        vec![
            Change::Job(Arc::new(job(id, create_index, last))),
            source,
            Change::JobSubmissionsDeleted(vec![version(last.saturating_sub(6))]),
            Change::PlanApplied { job: key(id), eval_id: eval_id(index) },
        ]
    }

    /// A job goes, and its allocations with it.
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
