//! The change feed: the replica reaches the log's head, whichever messages are lost.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bus::feed::{self, Log, LogError, LogPage};
use bus::{Bus, Commit, Contact, DatabaseMatch, Publisher, Requests};
use bytes::Bytes;
use model::change::{Cause, Change, ChangeSet};
use model::cluster::Namespace;
use model::node::NodeServerSide;
use model::{Epoch, HistoryId, Index, NodeId, ProcessId, RequestId, Text, Timestamp};
use state::{FollowEvent, Replica, Scope, Snapshot, State, Table, WatchKey};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use wire::envelope::CHANGE_SET_BYTES_MAX;
use wire::feed::{Changes, Head, LostWrites};
use wire::{Subject, Wire};

use crate::scene::{Scene, next, soon};

const HISTORY: HistoryId = HistoryId::from_bytes([1; 16]);
const OTHER: HistoryId = HistoryId::from_bytes([2; 16]);
const BIG: usize = CHANGE_SET_BYTES_MAX + 1;
/// Number of change sets in one page of the log.
const PAGE: usize = 3;

/// A log in memory that counts its calls.
#[derive(Debug, Clone)]
struct MemoryLog {
    data: Arc<Mutex<LogData>>,
    load_called: Arc<Notify>,
}

#[derive(Debug)]
struct LogData {
    history: HistoryId,
    epoch: Epoch,
    /// The index at which the applier of this epoch took over.
    began: Index,
    sets: Vec<Bytes>,
    /// Index up to which change sets are not in the log any more, only in the tables.
    trimmed: u64,
    fails: bool,
    loads: usize,
    reads: usize,
    /// Number of change sets that are still to be added, one with each read.
    growing: usize,
    /// What a replica adopts during the next read.
    adopted: Option<(Arc<Replica>, Vec<Arc<ChangeSet>>, Snapshot)>,
}

impl MemoryLog {
    fn new() -> Self {
        let data = LogData {
            history: HISTORY,
            epoch: Epoch(1),
            began: Index::ZERO,
            sets: Vec::new(),
            trimmed: 0,
            fails: false,
            loads: 0,
            reads: 0,
            growing: 0,
            adopted: None,
        };
        Self { data: Arc::new(Mutex::new(data)), load_called: Arc::default() }
    }

    fn data(&self) -> MutexGuard<'_, LogData> {
        self.data.lock().unwrap()
    }

    fn loads(&self) -> usize {
        self.data().loads
    }

    fn reads(&self) -> usize {
        self.data().reads
    }
}

impl Log for MemoryLog {
    async fn load(&self) -> Result<(State, Head), LogError> {
        let mut data = self.data();
        data.loads += 1;
        self.load_called.notify_one();
        if data.fails {
            return Err("the database is unavailable".into());
        }
        let mut state = State::new(data.history, Scope::ALL);
        for set in &data.sets {
            state.apply(&decode(set)).unwrap();
        }
        Ok((state, data.newest()))
    }

    async fn after(&self, index: Index) -> Result<LogPage, LogError> {
        let mut data = self.data();
        data.reads += 1;
        if data.fails {
            return Err("the database is unavailable".into());
        }
        if index.0 < data.trimmed || index > data.head() {
            return Ok(LogPage::Trimmed);
        }
        let sets = data.sets.iter().skip(index.0 as usize).take(PAGE).cloned().collect();
        let head = data.newest();
        let previous = data.request_at(index);
        if data.growing > 0 {
            data.growing -= 1;
            data.commit("default", 0);
        }
        if let Some((replica, sets, after)) = data.adopted.take() {
            replica.adopt(sets, after, 0).unwrap();
        }
        Ok(LogPage::Sets { head, previous, sets })
    }

    async fn head(&self) -> Result<Head, LogError> {
        let data = self.data();
        if data.fails { Err("the database is unavailable".into()) } else { Ok(data.newest()) }
    }

    fn address(&self) -> String {
        "own:5432/drover".to_owned()
    }
}

impl LogData {
    fn newest(&self) -> Head {
        Head {
            history: self.history,
            index: self.head(),
            at: Timestamp::from_secs(1_767_225_600),
            epoch: self.epoch,
            applier: ProcessId::from_bytes([3; 16]),
            began: Some(self.began),
        }
    }

    fn head(&self) -> Index {
        Index(self.sets.len() as u64)
    }

    fn request_at(&self, index: Index) -> Option<RequestId> {
        index.0.checked_sub(1).map(|at| decode(&self.sets[at as usize]).request_id)
    }

    fn commit(&mut self, name: &str, bytes: usize) {
        let namespace = Namespace { name: Text::from(name), ..Namespace::default() };
        let index = self.head().next();
        let changes = vec![Change::Namespace(Box::new(namespace))];
        self.sets.push(encode_by(self.epoch, index.0, bytes, changes));
    }

    /// The next applier takes over. The log has lost the change sets after an index, if it has any.
    fn take_over_at(&mut self, index: usize) {
        self.sets.truncate(index);
        self.epoch = Epoch(self.epoch.0 + 1);
        self.began = self.head();
    }
}

pub(crate) fn decode(set: &Bytes) -> ChangeSet {
    wire::decode(ChangeSet::KIND, ChangeSet::VERSION, set).unwrap()
}

pub(crate) fn encode(index: u64, bytes: usize, changes: Vec<Change>) -> Bytes {
    encode_by(Epoch(1), index, bytes, changes)
}

/// A change set that an applier committed. No two have the same request.
fn encode_by(epoch: Epoch, index: u64, bytes: usize, changes: Vec<Change>) -> Bytes {
    let mut request = [epoch.0 as u8; 16];
    request[8..].copy_from_slice(&index.to_be_bytes());
    let set = ChangeSet {
        index: Index(index),
        at: Timestamp::from_secs(1_767_225_600),
        request_id: RequestId::from_bytes(request),
        cause: Cause::Settings,
        trace: None,
        result: vec![0; bytes],
        changes,
    };
    wire::encode(&set).into()
}

/// A log, a replica that follows it, and the applier's publisher.
struct Feed {
    scene: Scene,
    bus: Bus,
    log: MemoryLog,
    replica: Arc<Replica>,
    contact: Contact,
    publisher: Publisher,
    stop: CancellationToken,
    following: tokio::task::JoinHandle<()>,
}

impl Feed {
    async fn new() -> Self {
        Self::with(MemoryLog::new()).await
    }

    async fn with(log: MemoryLog) -> Self {
        Self::with_batch_delay(log, Duration::ZERO).await
    }

    async fn with_batch_delay(log: MemoryLog, batch_delay: Duration) -> Self {
        let scene = Scene::new().await;
        let bus = scene.bus().await;
        let replica = Arc::new(Replica::new(State::default()));
        let (contact, stop) = (bus.contact(), CancellationToken::new());
        let (follower, known) = (bus.clone(), contact.clone());
        let following =
            feed::follow(follower, replica.clone(), log.clone(), known, batch_delay, stop.clone());
        let following = tokio::spawn(following);
        if !log.data().fails {
            soon(contact.loaded()).await;
        }
        let publisher = Publisher::new(bus.clone(), "applier:5432/drover".to_owned());
        Self { scene, bus, log, replica, contact, publisher, stop, following }
    }

    /// Commits a change set of this size that creates a namespace.
    fn commit(&self, name: &str, bytes: usize) {
        self.log.data().commit(name, bytes);
    }

    fn commit_many(&self, count: usize) {
        (0..count).for_each(|_| self.commit("default", 0));
    }

    fn head(&self) -> Head {
        self.log.data().newest()
    }

    /// Publishes the committed change sets from an index on.
    async fn publish_from(&self, first: u64) {
        let (head, previous, sets) = {
            let data = self.log.data();
            (data.newest(), data.request_at(Index(first - 1)), data.sets[first as usize - 1..].to_vec())
        };
        let (history, by, first) = (head.history, head.committer(), Index(first));
        self.publisher.publish(Commit { history, by, previous, first, sets: &sets }).await.unwrap();
    }

    /// Publishes one change set of an applier that does not say who it is.
    async fn publish_one(&self, history: HistoryId, index: u64, set: Bytes) {
        let commit = Commit { history, by: None, previous: None, first: Index(index), sets: &[set] };
        self.publisher.publish(commit).await.unwrap();
    }

    async fn announce(&self) {
        self.publisher.announce(&self.head()).await.unwrap();
    }

    /// Waits until the replica has reached the log's head.
    async fn is_followed(&self) {
        let head = self.head().index;
        assert_eq!(soon(self.replica.wait_for(head)).await.index(), head);
    }

    /// Publishes one more change set and waits for it. Everything that was published before has then been handled.
    async fn settle(&self) {
        self.commit_many(1);
        self.publish_from(self.head().index.0).await;
        self.is_followed().await;
    }
}

#[tokio::test]
async fn published_change_sets_are_applied() {
    let feed = Feed::new().await;
    feed.commit_many(3);
    feed.publish_from(1).await;
    feed.is_followed().await;
    feed.commit("team", 0);
    feed.publish_from(4).await;
    feed.announce().await;
    feed.is_followed().await;
    assert!(feed.replica.snapshot().namespace("team").is_some());
    assert_eq!((feed.log.loads(), feed.log.reads()), (1, 0), "nothing was missing");
    while feed.contact.head() != Some(feed.head()) {
        tokio::task::yield_now().await;
    }
    assert!(feed.contact.heard_ago().unwrap() < Duration::from_secs(60));
}

#[tokio::test]
async fn it_begins_with_what_was_committed_before() {
    let log = MemoryLog::new();
    log.data().sets.extend((1..=4).map(|index| encode(index, 0, Vec::new())));
    let feed = Feed::with(log).await;
    assert_eq!(feed.replica.snapshot().index(), Index(4));
    feed.commit_many(1);
    feed.publish_from(3).await;
    feed.is_followed().await;
    assert_eq!(feed.log.reads(), 0, "repeats are no gap");
}

#[tokio::test]
async fn gaps_are_read_from_the_log() {
    let feed = Feed::new().await;
    feed.commit_many(8);
    feed.publish_from(8).await;
    feed.is_followed().await;
    assert_eq!((feed.log.loads(), feed.log.reads()), (1, 3), "in pages");
}

#[tokio::test]
async fn under_load_what_comes_within_a_while_is_one_step() {
    let feed = Feed::with_batch_delay(MemoryLog::new(), Duration::from_secs(2)).await;
    let mut follower = feed.replica.follow();
    let mut reached = async || match soon(follower.next()).await {
        FollowEvent::Step(step) => step.after.index(),
        FollowEvent::Reset(state) => state.index(),
    };
    assert_eq!(reached().await, Index(0));
    feed.commit_many(20);
    feed.publish_from(1).await;
    assert_eq!(reached().await, Index(20));
    for next in 21..=40 {
        feed.commit_many(1);
        feed.publish_from(next).await;
    }
    assert_eq!(reached().await, Index(40));
    // Change sets that do not continue the previous ones are handled separately: here a repeat, then a gap.
    for (committed, from) in [(1, 41), (1, 41), (2, 44)] {
        feed.commit_many(committed);
        feed.publish_from(from).await;
    }
    assert_eq!((reached().await, reached().await, reached().await), (Index(41), Index(42), Index(44)));
    assert_eq!((feed.log.loads(), feed.log.reads()), (1, 1));
}

#[tokio::test]
async fn a_head_shows_what_was_lost() {
    let feed = Feed::new().await;
    feed.commit_many(2);
    feed.announce().await;
    feed.is_followed().await;
}

#[tokio::test]
async fn change_sets_too_large_for_a_message_are_read_from_the_log() {
    let feed = Feed::new().await;
    for bytes in [10, BIG, 10, BIG] {
        feed.commit("default", bytes);
    }
    feed.publish_from(1).await;
    feed.is_followed().await;
    assert_eq!(feed.log.loads(), 1);
}

#[tokio::test]
async fn a_replica_behind_a_trimmed_log_loads_the_tables() {
    let feed = Feed::new().await;
    feed.commit_many(9);
    feed.log.data().trimmed = 5;
    feed.announce().await;
    feed.is_followed().await;
    assert_eq!(feed.log.loads(), 2);
}

#[tokio::test]
async fn another_history_is_loaded() {
    let feed = Feed::new().await;
    feed.commit_many(5);
    feed.publish_from(1).await;
    feed.is_followed().await;
    {
        let mut data = feed.log.data();
        (data.history, data.epoch) = (OTHER, Epoch(2));
        data.sets.truncate(2);
    }
    feed.commit("restored", 0);
    feed.publish_from(3).await;
    let is_restored = || feed.replica.snapshot().namespace("restored").is_some();
    let mut table = feed.replica.watch([WatchKey::Table(Table::Namespaces)]);
    while !is_restored() {
        soon(table.changed()).await;
    }
    assert_eq!(feed.replica.snapshot().index(), Index(3));
    feed.settle().await;
}

#[tokio::test]
async fn announcements_of_a_wrong_head_are_not_followed() {
    let feed = Feed::new().await;
    feed.commit_many(2);
    feed.publish_from(1).await;
    feed.is_followed().await;
    for _ in 0..5 {
        feed.publisher.announce(&Head { history: OTHER, ..feed.head() }).await.unwrap();
        feed.publish_one(OTHER, 3, encode(3, 0, Vec::new())).await;
    }
    feed.settle().await;
    assert_eq!(feed.log.loads(), 1, "the log refutes it");
}

#[tokio::test]
async fn a_log_that_the_applier_does_not_write_is_found_until_it_does() {
    let feed = Feed::new().await;
    feed.commit_many(2);
    feed.publish_from(1).await;
    let announce_until = async |head: &dyn Fn() -> Head, is_found: &dyn Fn(&DatabaseMatch) -> bool| {
        while !is_found(&feed.contact.database()) {
            feed.publisher.announce(&head()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    soon(announce_until(&|| feed.head(), &|found| *found == DatabaseMatch::Same)).await;

    // An applier goes on with a copy of the log.
    let copy = || Head { epoch: Epoch(2), began: Some(feed.head().index), ..feed.head() };
    soon(announce_until(&copy, &DatabaseMatch::is_other)).await;
    let text = soon(feed.contact.database_differs()).await.to_string();
    assert!(text.contains("own:5432/drover") && text.contains("applier:5432/drover"), "{text}");
    let goes_on = tokio::time::timeout(Duration::ZERO, feed.contact.database_agrees()).await;
    assert!(goes_on.is_err(), "this process waits");

    {
        let mut data = feed.log.data();
        data.epoch = Epoch(2);
        data.take_over_at(2);
    }
    soon(announce_until(&|| feed.head(), &|found| *found == DatabaseMatch::Same)).await;
    soon(feed.contact.database_agrees()).await;
    assert_eq!(feed.log.loads(), 1, "the state is not loaded for that");
}

/// A log that went back to index 3, and the announcement of the applier that goes on there. The replica has seen 5.
async fn gone_back() -> (Feed, Requests) {
    let feed = Feed::new().await;
    let reports = feed.bus.serve(Subject::LostWrites.to_string()).await.unwrap();
    feed.commit_many(5);
    feed.publish_from(1).await;
    feed.is_followed().await;
    feed.log.data().take_over_at(3);
    feed.announce().await;
    (feed, reports)
}

/// Waits until the process has said that the log lacks what it has seen, and returns what it told the applier.
async fn reported_loss(feed: &Feed, reports: &mut Requests) -> LostWrites {
    let text = soon(feed.contact.database_differs()).await;
    assert!(text.contains("acknowledged writes are lost"), "{text}");
    assert!(matches!(feed.contact.database(), DatabaseMatch::WentBack(_)));
    next(reports).await.body().unwrap()
}

#[tokio::test]
async fn a_replica_does_not_follow_a_log_that_went_back() {
    let (feed, mut reports) = gone_back().await;
    let lost = reported_loss(&feed, &mut reports).await;
    assert_eq!((lost.history, lost.index, lost.epoch), (HISTORY, Index(5), Epoch(1)));

    // What the applier writes is not mixed with what the replica has, also when it is further. It is reported again.
    let mut follower = feed.replica.follow();
    assert!(matches!(soon(follower.next()).await, FollowEvent::Reset(state) if state.index() == Index(5)));
    feed.commit("other", 0);
    feed.commit_many(3);
    feed.publish_from(4).await;
    let reported_again = async {
        while tokio::time::timeout(Duration::from_millis(100), reports.next()).await.is_err() {
            feed.announce().await;
        }
    };
    soon(reported_again).await;
    assert_eq!(feed.log.loads(), 1);

    // An operator accepts the database.
    feed.log.data().history = OTHER;
    feed.announce().await;
    soon(feed.contact.database_agrees()).await;
    let FollowEvent::Reset(state) = soon(follower.next()).await else { panic!("nothing was mixed in") };
    assert!(state.history() == OTHER && state.namespace("other").is_some());
    feed.settle().await;
}

#[tokio::test]
async fn a_replica_follows_a_log_that_is_complete_again() {
    let (feed, mut reports) = gone_back().await;
    let had = {
        let snapshot = feed.replica.snapshot();
        (snapshot.index(), snapshot.last_request())
    };
    reported_loss(&feed, &mut reports).await;
    {
        let mut data = feed.log.data();
        data.epoch = Epoch(1);
        data.commit("default", 0);
        data.commit("default", 0);
        data.epoch = Epoch(2);
        data.take_over_at(5);
    }
    feed.announce().await;
    soon(feed.contact.database_agrees()).await;
    assert_eq!((feed.replica.snapshot().index(), feed.replica.snapshot().last_request()), had);
    feed.settle().await;
    assert_eq!(feed.log.loads(), 1);
}

#[tokio::test]
async fn a_page_of_the_log_shows_that_it_went_back_unseen() {
    let feed = Feed::new().await;
    let mut reports = feed.bus.serve(Subject::LostWrites.to_string()).await.unwrap();
    feed.commit_many(5);
    feed.publish_from(1).await;
    feed.is_followed().await;
    // Nothing of the next applier arrives. The one after it took over at an index that the replica has not reached.
    feed.log.data().take_over_at(3);
    feed.commit_many(4);
    feed.log.data().take_over_at(7);
    feed.commit("other", 0);
    feed.publish_from(8).await;
    assert_eq!(reported_loss(&feed, &mut reports).await.index, Index(5));
    // The announcements alone do not contradict the replica.
    let compared_again = async {
        while feed.log.reads() < 4 {
            feed.announce().await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    soon(compared_again).await;
    assert!(matches!(feed.contact.database(), DatabaseMatch::WentBack(_)));
    assert!(feed.replica.snapshot().namespace("other").is_none());
    assert_eq!((feed.replica.snapshot().index(), feed.log.loads()), (Index(5), 1));
}

#[tokio::test]
async fn a_message_shows_that_the_log_went_back_unseen() {
    let feed = Feed::new().await;
    let mut reports = feed.bus.serve(Subject::LostWrites.to_string()).await.unwrap();
    feed.commit_many(5);
    feed.publish_from(1).await;
    feed.is_followed().await;
    // The one after the next applier took over exactly where the replica is.
    feed.log.data().take_over_at(3);
    feed.commit_many(2);
    feed.log.data().take_over_at(5);
    feed.announce().await;
    feed.commit("other", 0);
    feed.publish_from(6).await;
    assert_eq!(reported_loss(&feed, &mut reports).await.index, Index(5));
    assert_eq!(feed.replica.snapshot().index(), Index(5));
}

#[tokio::test]
async fn a_page_of_the_log_is_compared_with_what_the_replica_has_by_then() {
    let feed = Feed::new().await;
    let mut reports = feed.bus.serve(Subject::LostWrites.to_string()).await.unwrap();
    feed.commit_many(5);
    feed.publish_from(1).await;
    feed.is_followed().await;
    // The applier in this process commits two more. The log loses them before the replica has them.
    feed.commit_many(2);
    let sets: Vec<_> = feed.log.data().sets[5..].iter().map(|set| Arc::new(decode(set))).collect();
    let mut state = State::clone(&feed.replica.snapshot());
    sets.iter().for_each(|set| state.apply(set).unwrap());
    {
        let mut data = feed.log.data();
        data.take_over_at(5);
        ["default", "default", "other"].into_iter().for_each(|name| data.commit(name, 0));
        data.adopted = Some((Arc::clone(&feed.replica), sets, state.into()));
    }
    feed.announce().await;
    assert_eq!(reported_loss(&feed, &mut reports).await.index, Index(7));
    assert_eq!(feed.replica.snapshot().index(), Index(7));
    assert!(feed.replica.snapshot().namespace("other").is_none());
}

#[tokio::test]
async fn a_replica_that_is_faster_than_the_feed_is_left_alone() {
    let feed = Feed::new().await;
    feed.commit_many(2);
    let sets: Vec<_> = feed.log.data().sets.iter().map(|set| Arc::new(decode(set))).collect();
    let mut state = State::clone(&feed.replica.snapshot());
    sets.iter().for_each(|set| state.apply(set).unwrap());
    feed.announce().await;
    feed.replica.adopt(sets, state.into(), 0).unwrap();
    feed.publish_from(1).await;
    feed.settle().await;
    assert_eq!(feed.log.loads(), 1);
}

#[tokio::test]
async fn change_sets_sent_during_an_outage_of_nats_are_read_afterwards() {
    let mut feed = Feed::new().await;
    feed.commit_many(1);
    feed.publish_from(1).await;
    feed.is_followed().await;
    feed.scene.nats.kill9().await.unwrap();
    feed.commit_many(4);
    feed.scene.nats.restart().await.unwrap();
    feed.is_followed().await;
    feed.bus.flush().await.unwrap();
    feed.settle().await;
    assert_eq!(feed.log.loads(), 1);
}

#[tokio::test]
async fn a_log_that_grows_is_left_to_the_feed_again() {
    let mut feed = Feed::new().await;
    feed.scene.nats.kill9().await.unwrap();
    feed.commit_many(4);
    feed.log.data().growing = 100;
    feed.scene.nats.restart().await.unwrap();
    soon(feed.replica.wait_for(Index(4))).await;
    feed.bus.flush().await.unwrap();
    feed.settle().await;
    assert!(feed.log.reads() < 20, "{} reads", feed.log.reads());
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_tried_again() {
    let log = MemoryLog::new();
    log.data().fails = true;
    let feed = Feed::with(log).await;
    feed.commit_many(3);
    while feed.log.loads() < 3 {
        soon(feed.log.load_called.notified()).await;
    }
    let failure = feed.contact.log_failure().map(|failure| failure.error);
    assert_eq!(failure.as_deref(), Some("the database is unavailable"));
    feed.log.data().fails = false;
    soon(feed.contact.loaded()).await;
    assert_eq!(feed.replica.snapshot().index(), Index(3));
    assert_eq!(feed.contact.log_failure(), None);
}

#[tokio::test]
async fn change_sets_that_cannot_be_applied_make_it_load() {
    let feed = Feed::new().await;
    feed.commit("one", 0);
    let nowhere = Change::NodeServerSide {
        id: NodeId::from_bytes([9; 16]),
        server: Box::new(NodeServerSide::default()),
    };
    feed.publish_one(HISTORY, 1, encode(1, 0, vec![nowhere])).await;
    feed.is_followed().await;
    assert_eq!(feed.log.loads(), 2);

    feed.commit("two", 0);
    feed.publish_one(HISTORY, 2, "nonsense".into()).await;
    feed.is_followed().await;
    assert_eq!(feed.log.loads(), 3);
}

#[tokio::test]
async fn invalid_messages_are_skipped() {
    let feed = Feed::new().await;
    let client = feed.scene.client().await;
    for subject in [Subject::Changes, Subject::Head] {
        client.publish(subject.to_string(), "nonsense".into()).await.unwrap();
    }
    client.flush().await.unwrap();
    for first in [u64::MAX, u64::MAX - 1, 0] {
        let set = Some(encode(1, 0, Vec::new()));
        let changes =
            Changes { history: HISTORY, by: None, previous: None, first: Index(first), sets: vec![set; 2] };
        feed.bus.publish(Subject::Changes, &changes).await.unwrap();
    }
    feed.settle().await;
}

#[tokio::test]
async fn it_ends_when_it_is_to_stop() {
    let feed = Feed::new().await;
    feed.stop.cancel();
    soon(feed.following).await.unwrap();
}
