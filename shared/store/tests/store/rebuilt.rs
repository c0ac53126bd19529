//! The object tables are what the log says, to the last row: built anew, they are the same.

use std::sync::Arc;
use std::time::Duration;

use model::Index;
use model::change::ChangeSet;
use state::State;
use store::{Error, LogRow};

use crate::history::{history, random_history};
use crate::scene::{Scene, applied};

async fn differences(scene: &Scene) -> Vec<String> {
    let differences = store::compare_with_log(&scene.args).await.unwrap();
    differences.iter().map(ToString::to_string).collect()
}

/// Commits all of them, and projects now so many, now so many at once.
async fn project_by_chance(scene: &Scene, sets: &[Arc<ChangeSet>], seed: usize) {
    let rows = sets.iter().map(|set| LogRow::new(set)).collect();
    scene.writer.commit(Index::ZERO, rows).await.unwrap();
    let mut state = State::default();
    let mut pending = Vec::new();
    for (place, set) in sets.iter().enumerate() {
        state.apply(set).unwrap();
        pending.push(Arc::clone(set));
        if (place * place + seed).is_multiple_of(5) || place + 1 == sets.len() {
            scene.projector.project(&pending, &state, Duration::ZERO).await.unwrap();
            pending.clear();
        }
    }
}

#[tokio::test]
async fn tables_that_are_built_anew_from_the_log_are_the_same() {
    for seed in 0..2 {
        let scene = Scene::new().await;
        let sets = random_history(seed, 250);
        project_by_chance(&scene, &sets, seed as usize).await;
        assert_eq!(differences(&scene).await, [""; 0], "seed {seed}");
        let mut hands = scene.hands().await;
        assert_eq!(hands.ask("select count(*) from pg_namespace where nspname = 'drover_rebuilt'").await, 0);
    }
}

#[tokio::test]
async fn every_difference_is_told() {
    let scene = Scene::new().await;
    scene.has(&history()).await;
    let mut hands = scene.hands().await;
    hands.run("update jobs set priority = 7 where job_id = 'cron'").await;
    hands.run("delete from leases where service = 'node-tracker'").await;
    hands.run("insert into plan_indexes values ('default', 'nothing', 5)").await;
    assert_eq!(
        differences(&scene).await,
        [
            "jobs (default, cron, 22, 0): priority is 7, rebuilt 50",
            "leases (node-tracker): missing",
            "plan_indexes (default, nothing): should not be there",
        ]
    );
}

#[tokio::test]
async fn only_what_is_projected_is_compared() {
    let scene = Scene::new().await;
    let sets = history();
    scene.has(&sets[..9]).await;
    let rows = sets[9..].iter().map(|set| LogRow::new(set)).collect();
    scene.writer.commit(Index(9), rows).await.unwrap();
    assert_eq!(differences(&scene).await, [""; 0]);
    scene.projector.project(&sets[9..], &applied(&sets), Duration::ZERO).await.unwrap();
    scene.hands().await.run("delete from changes where index < 3").await;
    let error = store::compare_with_log(&scene.args).await.unwrap_err();
    assert!(matches!(error, Error::Gap { after: Index::ZERO }), "{error}");
}
