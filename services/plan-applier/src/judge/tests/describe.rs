//! Comparing the contents of two states that were built in different ways.

use std::fmt::Debug;

use model::cluster::Singleton;
use model::service::ServiceRegistration;
use state::{State, Table, View};

/// Panics at the first difference.
pub(super) fn assert_same(one: &State, other: &State) {
    assert_eq!((one.index(), one.at()), (other.index(), other.at()));
    for table in Table::ALL {
        assert_eq!(one.table_index(table), other.table_index(table), "{table:?}");
    }
    assert_equal(one.jobs(), other.jobs());
    for job in one.jobs() {
        let key = job.key();
        assert_equal(one.job_versions(&key), other.job_versions(&key));
        assert_equal(one.job_submissions(&key), other.job_submissions(&key));
        assert_eq!(one.job_summary(&key), other.job_summary(&key));
        assert_eq!(one.plan_index(&key), other.plan_index(&key));
        assert_eq!(one.live_alloc_count(&key), other.live_alloc_count(&key));
        assert_equal(one.live_evals_of_job(&key), other.live_evals_of_job(&key));
    }
    assert_equal(one.evals(), other.evals());
    assert_equal(one.allocs_in(..), other.allocs_in(..));
    assert_equal(one.deployments(), other.deployments());
    assert_equal(one.nodes(), other.nodes());
    for (node, other_node) in one.nodes().zip(other.nodes()) {
        for view in [View::Held, View::Live] {
            assert_eq!(node.usage(view), other_node.usage(view));
        }
        assert_eq!((node.work_index(), node.is_ready()), (other_node.work_index(), other_node.is_ready()));
    }
    assert_equal(one.node_pools(), other.node_pools());
    assert_equal(one.namespaces(), other.namespaces());
    assert_equal(one.service_registrations(), other.service_registrations());
    for alloc in one.allocs_in(..) {
        let of = |state: &State| -> Vec<_> {
            state.small_objects_of::<ServiceRegistration>(alloc.id()).cloned().collect()
        };
        assert_eq!(of(one), of(other));
    }
    assert_eq!(one.scheduler_config(), other.scheduler_config());
    assert_equal(one.unblocked(), other.unblocked());
    for service in Singleton::ALL {
        assert_eq!(one.lease(*service), other.lease(*service));
    }
}

fn assert_equal<T: Debug>(one: impl Iterator<Item = T>, other: impl Iterator<Item = T>) {
    let all = |items: Vec<T>| items.iter().map(|item| format!("{item:?}")).collect::<Vec<_>>();
    assert_eq!(all(one.collect()), all(other.collect()));
}
