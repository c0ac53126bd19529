//! The object tables equal, row by row, tables that are built again from the log.

use std::sync::Arc;
use std::time::Duration;

use model::Index;
use model::change::ChangeSet;
use state::State;
use store::Error;
use wire::LogRow;

use crate::history::{history, random_history};
use crate::scene::{Scene, applied};

async fn differences(scene: &Scene) -> Vec<String> {
    let differences = store::compare_with_log(&scene.args).await.unwrap();
    differences.iter().map(ToString::to_string).collect()
}

/// Commits all change sets, and projects them in batches of varying size.
async fn project_in_batches(scene: &Scene, sets: &[Arc<ChangeSet>], seed: usize) {
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
        project_in_batches(&scene, &sets, seed as usize).await;
        assert_eq!(differences(&scene).await, [""; 0], "seed {seed}");
        let mut superuser = scene.superuser().await;
        assert_eq!(
            superuser.query("select count(*) from pg_namespace where nspname = 'drover_rebuilt'").await,
            0
        );
    }
}

#[tokio::test]
async fn every_difference_is_told() {
    let scene = Scene::new().await;
    scene.commit_and_project(&history()).await;
    let mut superuser = scene.superuser().await;
    superuser.run("update jobs set priority = 7 where job_id = 'cron'").await;
    superuser.run("delete from leases where service = 'node-tracker'").await;
    superuser.run("insert into plan_indexes values ('default', 'nothing', 5)").await;
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
    scene.commit_and_project(&sets[..9]).await;
    let rows = sets[9..].iter().map(|set| LogRow::new(set)).collect();
    scene.writer.commit(Index(9), rows).await.unwrap();
    assert_eq!(differences(&scene).await, [""; 0]);
    scene.projector.project(&sets[9..], &applied(&sets), Duration::ZERO).await.unwrap();
    scene.superuser().await.run("delete from changes where index < 3").await;
    let error = store::compare_with_log(&scene.args).await.unwrap_err();
    assert!(matches!(error, Error::Gap { after: Index::ZERO }), "{error}");
}
