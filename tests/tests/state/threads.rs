//! Many readers with one concurrent writer: every snapshot is consistent, and every waiter is woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use model::alloc::{ClientStatus, DesiredStatus};
use model::change::{AllocsChanged, Change, ChangeSet};
use model::job::Job;
use model::{AllocId, EvalId, Index, NodeId};
use state::{AllocRef, Replica, State, Table, WatchKey};
use tests::build::{self, Ids, Log};

const NODES: u64 = 70;
const CHANGE_SETS: u64 = 3000;

/// The most allocations at once. With so many, each snapshot shares most of its chunks with the next.
const ALLOCS_MAX: usize = 300;

const VALID: &str = "the writer makes valid changes";

#[test]
fn every_snapshot_is_whole_while_the_replica_moves_on() {
    let mut writer = Writer::new();
    let replica = writer.replica();
    let last = Index(CHANGE_SETS);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| read_until(&done, &replica))).collect();
        let follower = scope.spawn(|| block_on(follow_indexes(&replica, last)));
        let watcher = scope.spawn(|| block_on(watch_until(&replica, last)));
        writer.run(&replica, last);
        done.store(true, Ordering::Release);
        for reader in readers {
            reader.join().expect("every snapshot was consistent");
        }
        follower.join().expect("every index was reached");
        watcher.join().expect("no change was missed");
    });
    assert_whole(&replica.snapshot());
    assert_eq!(replica.snapshot().index(), last);
}

/// Takes snapshots and checks each. At the end, checks the first one again.
fn read_until(done: &AtomicBool, replica: &Replica) {
    let first = replica.snapshot();
    let at_first = ids(&first);
    let mut seen = first.index();
    loop {
        let is_last = done.load(Ordering::Acquire);
        let snapshot = replica.snapshot();
        assert!(snapshot.index() >= seen, "{} came after {seen}", snapshot.index());
        seen = snapshot.index();
        assert_whole(&snapshot);
        if is_last {
            break;
        }
    }
    assert_eq!(ids(&first), at_first);
}

async fn follow_indexes(replica: &Replica, last: Index) {
    for index in (1..=last.0).step_by(7).chain([last.0]) {
        assert!(replica.wait_for(Index(index)).await.index() >= Index(index));
    }
}

/// Sleeps between changes. If it missed one, it would not wake any more.
async fn watch_until(replica: &Replica, last: Index) {
    let mut watch = replica.watch([WatchKey::Table(Table::Allocs)]);
    while replica.snapshot().index() < last {
        watch.changed().await;
    }
}

/// Runs a future with a timeout, which turns a lost wake-up into a failure.
fn block_on(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime without I/O can be built");
    let limited = async { tokio::time::timeout(Duration::from_secs(60), future).await };
    runtime.block_on(limited).expect("the future completes in time");
}

/// Asserts that the counts of the columns agree with the rows.
fn assert_whole(state: &State) {
    let allocs = || state.allocs_in(..);
    let is_held = |alloc: &AllocRef<'_>| !alloc.client_status().is_terminal();
    let held: u32 = state.node_pages().flat_map(|page| page.held.allocs).sum();
    let live: u32 = state.node_pages().flat_map(|page| page.live.allocs).sum();
    let held_mhz: u32 = state.node_pages().flat_map(|page| page.held.cpu_mhz).sum();
    assert_eq!(held as usize, allocs().filter(is_held).count());
    assert_eq!(live as usize, allocs().filter(|alloc| !alloc.is_terminal()).count());
    assert_eq!(held_mhz, allocs().filter(is_held).map(|alloc| alloc.demand().cpu_mhz).sum::<u32>());
    assert_eq!(state.alloc_count(), allocs().count());
    let of_jobs: usize = state.jobs().map(|job| state.live_alloc_count(&job.key())).sum();
    assert_eq!(of_jobs, live as usize);
    let created: Vec<_> =
        state.allocs_by_creation(..).map(|alloc| (alloc.create_index(), alloc.id())).collect();
    assert!(created.is_sorted() && created.len() == state.alloc_count());
    assert_eq!(state.nodes().map(|node| node.allocs().len()).sum::<usize>(), state.alloc_count());
    let newest = allocs().map(AllocRef::modify_index).max().unwrap_or_default();
    assert!(newest <= state.index(), "allocations of {newest} in a state of {}", state.index());
}

fn ids(state: &State) -> Vec<AllocId> {
    state.allocs_in(..).map(AllocRef::id).collect()
}

struct Writer {
    log: Log,
    ids: Ids,
    nodes: Vec<NodeId>,
    job: Job,
    allocs: Vec<AllocId>,
}

impl Writer {
    fn new() -> Self {
        let mut ids = Ids::default();
        let nodes = (0..NODES).map(|_| NodeId::from_bytes(ids.bytes())).collect();
        Self { log: Log::default(), ids, nodes, job: build::job(1, 1), allocs: Vec::new() }
    }

    /// Creates a replica with the nodes and the job.
    fn replica(&mut self) -> Replica {
        let replica = Replica::new(State::default());
        let nodes =
            self.nodes.iter().zip(0..).map(|(id, number)| Change::Node(Box::new(build::node(*id, number))));
        let changes = nodes.chain([Change::Job(Arc::new(self.job.clone()))]).collect();
        replica.apply(build::shared([self.log.entry(changes)])).expect(VALID);
        replica
    }

    /// Applies batches of one to three change sets, every other batch through an overlay.
    fn run(&mut self, replica: &Replica, last: Index) {
        while replica.snapshot().index() < last {
            let left = last.0 - replica.snapshot().index().0;
            let batch = (1 + self.ids.number() % 3).min(left);
            let sets = build::shared((0..batch).map(|_| self.next_set()));
            if self.ids.number().is_multiple_of(2) {
                let mut overlay = State::clone(&replica.snapshot());
                sets.iter().for_each(|set| overlay.apply(set).expect(VALID));
                replica.adopt(sets, overlay.into(), 0).expect(VALID);
            } else {
                replica.apply(sets).expect(VALID);
            }
        }
    }

    fn next_set(&mut self) -> ChangeSet {
        let change = match self.ids.number() % 4 {
            0 if self.allocs.len() < ALLOCS_MAX => self.place(),
            1 => self.delete(),
            0 | 2 | 3 => self.change(),
            4.. => unreachable!("the remainder is below 4"),
        };
        self.log.entry(vec![change])
    }

    fn place(&mut self) -> Change {
        let on: Vec<NodeId> = (0..4).map(|_| self.any_node()).collect();
        let common = build::common(&self.job, EvalId::from_bytes([1; 16]));
        let placements = build::placements(common, on, &mut self.ids);
        self.allocs.extend(&placements.ids.0);
        Change::AllocsPlaced(Box::new(placements))
    }

    fn delete(&mut self) -> Change {
        let some = self.some_allocs();
        self.allocs.retain(|id| !some.contains(id));
        Change::AllocsDeleted(some.into_iter().collect())
    }

    fn change(&mut self) -> Change {
        let statuses = [ClientStatus::Running, ClientStatus::Complete, ClientStatus::Unknown];
        let client = statuses[self.ids.number() as usize % statuses.len()];
        let desired = [DesiredStatus::Run, DesiredStatus::Stop][self.ids.number() as usize % 2];
        Change::AllocsChanged(Box::new(AllocsChanged {
            ids: self.some_allocs().into_iter().collect(),
            client: Some((client, "".into())),
            desired: Some((desired, "".into())),
            ..AllocsChanged::default()
        }))
    }

    fn any_node(&mut self) -> NodeId {
        self.nodes[self.ids.number() as usize % self.nodes.len()]
    }

    /// Up to three existing allocations.
    fn some_allocs(&mut self) -> Vec<AllocId> {
        let from = self.ids.number() as usize % self.allocs.len().max(1);
        self.allocs.iter().skip(from).take(3).copied().collect()
    }
}
