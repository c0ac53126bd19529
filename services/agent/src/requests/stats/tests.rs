//! Tests with the counters of this machine.

use tempfile::TempDir;
use tokio::sync::watch;

use super::*;
use crate::testing::{alloc_id, context};

fn stats() -> (TempDir, Arc<Stats>) {
    let dir = tempfile::tempdir().unwrap();
    let context = context(dir.path(), watch::channel(true).1);
    let machine = Arc::new(Machine::detect(&context.config.allocs_dir()));
    (dir, Arc::new(Stats::new(context, machine, watch::channel(ContactState::default()).1)))
}

#[tokio::test]
async fn a_machine_reports_usage_twice_in_a_row() {
    let (_dir, stats) = stats();
    for _ in 0..2 {
        let found = stats.host_stats().await.unwrap();
        assert!(found.memory.total >= found.memory.available && found.memory.used > 0, "{:?}", found.memory);
        assert!(!found.cpus.is_empty() && found.uptime_secs > 0);
        for cpu in &found.cpus {
            let sum = cpu.busy_percent + cpu.idle_percent;
            assert!((99.0..=101.0).contains(&sum), "{cpu:?}");
        }
        assert!(found.alloc_disk.is_some_and(|disk| disk.size_bytes > 0));
    }
}

#[tokio::test]
async fn an_allocation_that_is_not_here_is_unknown() {
    let (_dir, stats) = stats();
    let ask = GetAllocStats { alloc: alloc_id(1), task: None };
    let refusal = stats.alloc_stats(ask).await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::NotFound);
}
