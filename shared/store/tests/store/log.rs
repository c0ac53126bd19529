//! The log: its partitions, reading on from an index, and what was trimmed.

use std::sync::Arc;

use model::change::ChangeSet;
use model::{Index, Timestamp};
use store::{LogRow, Tail};

use crate::history::{empty, empty_sets};
use crate::scene::Scene;

const PARTITIONS: &str = "select count(*) from pg_inherits where inhparent = 'changes'::regclass";

async fn commit(scene: &Scene, sets: &[Arc<ChangeSet>]) {
    let from = Index(sets[0].index.0 - 1);
    scene.writer.commit(from, sets.iter().map(|set| LogRow::new(set)).collect()).await.unwrap();
}

async fn page(scene: &Scene, after: u64, bytes_max: usize) -> Vec<u64> {
    match scene.database.changes_after(Index(after), bytes_max).await.unwrap() {
        Tail::Page { rows, .. } => rows.iter().map(|row| row.index.0).collect(),
        Tail::Trimmed => panic!("nothing was trimmed"),
    }
}

#[tokio::test]
async fn partitions_are_made_ahead_of_the_head() {
    let scene = Scene::new().await;
    let mut hands = scene.hands().await;
    assert_eq!(hands.ask(PARTITIONS).await, 3);
    scene.writer.make_partitions().await.unwrap();
    assert_eq!(hands.ask(PARTITIONS).await, 3);

    // A commit into the second partition, as if the first were full.
    hands.run("update head set index = 65535").await;
    commit(&scene, &empty_sets(65_536..=65_537)).await;
    assert_eq!(hands.ask("select count(*) from changes_65537_131073").await, 1);
    scene.writer.make_partitions().await.unwrap();
    assert_eq!(hands.ask(PARTITIONS).await, 4);
    assert_eq!(page(&scene, 65_535, usize::MAX).await, [65_536, 65_537]);
}

#[tokio::test]
async fn making_partitions_waits_for_nobody_and_nobody_for_it() {
    let scene = Scene::new().await;
    let (mut forgotten, mut vacuum) = (scene.hands().await, scene.hands().await);
    forgotten.run("begin isolation level repeatable read; select count(*) from changes").await;
    let mut hands = scene.hands().await;
    hands.run("update head set index = 65536").await;
    scene.writer.make_partitions().await.unwrap();
    assert_eq!(hands.ask(PARTITIONS).await, 4);

    vacuum.run("begin; lock table changes in share update exclusive mode").await;
    hands.run("update head set index = 131072").await;
    let error = scene.writer.make_partitions().await.unwrap_err();
    assert!(error.is_busy(), "{error}");
    assert_eq!(hands.ask(PARTITIONS).await, 4);
    commit(&scene, &empty_sets(131_073..=131_073)).await;
    vacuum.run("commit").await;
    scene.writer.make_partitions().await.unwrap();
    assert_eq!(hands.ask(PARTITIONS).await, 5);
}

#[tokio::test]
async fn the_log_is_read_in_pages() {
    let scene = Scene::new().await;
    assert_eq!(page(&scene, 0, usize::MAX).await, [0; 0]);
    let sets = empty_sets(1..=20);
    commit(&scene, &sets).await;
    let bytes = LogRow::new(&sets[0]).bytes.len();
    assert_eq!(page(&scene, 0, 3 * bytes).await, [1, 2, 3]);
    assert_eq!(page(&scene, 3, 1).await, [4]);
    assert_eq!(page(&scene, 17, usize::MAX).await, [18, 19, 20]);
    assert_eq!(page(&scene, 20, usize::MAX).await, [0; 0]);
}

#[tokio::test]
async fn what_was_trimmed_or_never_was_is_said_to_be() {
    let scene = Scene::new().await;
    commit(&scene, &empty_sets(1..=3)).await;
    let trimmed = async |after| {
        let tail = scene.database.changes_after(Index(after), usize::MAX).await.unwrap();
        matches!(tail, Tail::Trimmed)
    };
    assert!(trimmed(4).await, "ahead of the head");
    scene.hands().await.run("delete from changes where index <= 2").await;
    assert!(trimmed(0).await && trimmed(1).await && !trimmed(2).await);
    scene.hands().await.run("delete from changes").await;
    assert!(trimmed(2).await && !trimmed(3).await);
}

#[tokio::test]
async fn the_requests_since_a_moment_are_remembered() {
    let scene = Scene::new().await;
    let sets = empty_sets(1..=5);
    commit(&scene, &sets).await;
    let found = scene.database.requests_since(sets[2].at).await.unwrap();
    let expected: Vec<_> = sets[2..].iter().map(|set| (set.request_id, set.index, set.at)).collect();
    assert_eq!(found, expected);
    assert_eq!(scene.database.requests_since(Timestamp::UNSET).await.unwrap().len(), 5);
    assert_eq!(scene.database.requests_since(empty(6).at).await.unwrap(), []);
}
