//! Loading while the log grows and the tables follow: each load is one consistent snapshot without gaps.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::Index;
use model::change::ChangeSet;
use state::{Scope, State, Table};
use store::Error;
use wire::LogRow;

use crate::history::{history, placements_of};
use crate::scene::Scene;
use crate::state_dump::StateDump;

#[tokio::test]
async fn a_load_during_commits_and_projections_is_the_state_of_one_moment() {
    const COMMITS: u64 = 120;
    let scene = Scene::new().await;
    let mut sets = history();
    let begin = scene.commit_and_project(&sets).await;
    let first = sets.len() as u64 + 1;
    sets.extend((first..first + COMMITS).map(placements_of));

    // The state after each commit, to compare with. Every third of them is projected.
    let mut states: Vec<State> = vec![begin];
    for set in &sets[first as usize - 1..] {
        let mut next = states[states.len() - 1].clone();
        next.apply(set).unwrap();
        states.push(next);
    }
    let (writer, projector) = (scene.writer.clone(), scene.projector.clone());
    let writes = tokio::spawn({
        let (sets, states) = (sets.clone(), states.clone());
        async move {
            let mut pending: Vec<Arc<ChangeSet>> = Vec::new();
            for (set, after) in sets[first as usize - 1..].iter().zip(&states[1..]) {
                writer.commit(Index(set.index.0 - 1), vec![LogRow::new(set)]).await.unwrap();
                pending.push(Arc::clone(set));
                if pending.len() == 3 {
                    projector.project(&pending, after, Duration::ZERO).await.unwrap();
                    pending.clear();
                }
            }
        }
    });
    let mut loads = 0;
    loop {
        let is_last = writes.is_finished();
        let loaded = scene.database.load(Scope::ALL).await.unwrap();
        assert_eq!(loaded.state.index(), loaded.head.index);
        let expected = &states[(loaded.head.index.0 - (first - 1)) as usize];
        assert_eq!(StateDump::of(&loaded.state), StateDump::of(expected));
        loads += 1;
        if is_last {
            break;
        }
    }
    writes.await.unwrap();
    assert!(loads > 1, "some loads ran during commits");
}

#[tokio::test]
async fn a_log_with_a_gap_behind_the_tables_is_not_loaded() {
    let scene = Scene::new().await;
    for set in &history()[..4] {
        scene.writer.commit(Index(set.index.0 - 1), vec![LogRow::new(set)]).await.unwrap();
    }
    scene.superuser().await.run("delete from changes where index = 2").await;
    let error = scene.database.load(Scope::ALL).await.unwrap_err();
    assert!(matches!(error, Error::TrimmedWhileLoading), "{error}");
}

#[tokio::test]
async fn unreadable_rows_are_named() {
    let scene = Scene::new().await;
    scene.commit_and_project(&history()).await;
    scene.superuser().await.run(r"update evals set body = '\x07'").await;
    let error = scene.database.load(Scope::ALL).await.unwrap_err();
    assert_eq!(error.to_string(), "unreadable evaluation");
}

#[tokio::test]
async fn a_process_loads_what_it_reads() {
    let scene = Scene::new().await;
    let whole = scene.commit_and_project(&history()).await;
    let scope = Scope::of(&[Table::Jobs, Table::Evals, Table::Unblocked]);
    let loaded = scene.database.load(scope).await.unwrap().state;
    assert_eq!((loaded.scope(), loaded.index()), (scope, whole.index()));
    assert!(loaded.jobs().eq(whole.jobs()) && loaded.jobs().next().is_some());
    assert!(loaded.evals().eq(whole.evals()) && loaded.evals().next().is_some());
    assert!(loaded.unblocked().eq(whole.unblocked()));
}

#[tokio::test]
async fn allocations_share_what_is_the_same() {
    let scene = Scene::new().await;
    let state = scene.commit_and_project(&history()).await;
    let loaded = scene.database.load(Scope::ALL).await.unwrap().state;
    let places: BTreeSet<usize> = loaded.allocs().map(|alloc| Arc::as_ptr(alloc.common()).addr()).collect();
    let contents: BTreeSet<String> = state.allocs().map(|alloc| format!("{:?}", alloc.common())).collect();
    assert_eq!(places.len(), contents.len());
    assert!(places.len() < loaded.alloc_count());
}
