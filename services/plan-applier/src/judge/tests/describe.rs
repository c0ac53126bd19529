//! Whether two states say the same, whichever way they came about.

use std::fmt::Debug;

use model::cluster::Singleton;
use state::{State, Table, View};

/// Panics at the first thing of which they say something else.
pub(super) fn assert_same(one: &State, other: &State) {
    assert_eq!((one.index(), one.at()), (other.index(), other.at()));
    for table in Table::ALL {
        assert_eq!(one.table_index(table), other.table_index(table), "{table:?}");
    }
    same(one.jobs(), other.jobs());
    for job in one.jobs() {
        let key = job.key();
        same(one.job_versions(&key), other.job_versions(&key));
        same(one.job_submissions(&key), other.job_submissions(&key));
        assert_eq!(one.job_summary(&key), other.job_summary(&key));
        assert_eq!(one.plan_index(&key), other.plan_index(&key));
        assert_eq!(one.live_alloc_count(&key), other.live_alloc_count(&key));
        same(one.live_evals_of_job(&key), other.live_evals_of_job(&key));
    }
    same(one.evals(), other.evals());
    same(one.allocs_in(..), other.allocs_in(..));
    same(one.deployments(), other.deployments());
    same(one.nodes(), other.nodes());
    for (node, twin) in one.nodes().zip(other.nodes()) {
        for view in [View::Held, View::Live] {
            assert_eq!(node.usage(view), twin.usage(view));
        }
        assert_eq!((node.work_index(), node.is_ready()), (twin.work_index(), twin.is_ready()));
    }
    same(one.node_pools(), other.node_pools());
    same(one.namespaces(), other.namespaces());
    assert_eq!(one.scheduler_config(), other.scheduler_config());
    same(one.unblocked(), other.unblocked());
    for service in Singleton::ALL {
        assert_eq!(one.lease(*service), other.lease(*service));
    }
}

fn same<T: Debug>(one: impl Iterator<Item = T>, other: impl Iterator<Item = T>) {
    let all = |items: Vec<T>| items.iter().map(|item| format!("{item:?}")).collect::<Vec<_>>();
    assert_eq!(all(one.collect()), all(other.collect()));
}
