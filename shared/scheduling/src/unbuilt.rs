//! What this form of the scheduler does not know yet, by name.
//!
//! A job that needs such a thing is not placed as if it had not asked: its evaluation fails and says what is missing
//! ([`crate::outcome`]). What is already there can always be stopped. Preemption is the exception: a job that finds no room
//! waits for it as if nobody made any, and its evaluation says that nobody tried.

use std::sync::Arc;

use model::job::{Constraint, Job, JobSpec, JobType, Operand, TaskGroup};
use state::State;

/// By how much a job must be more important than one that makes room for it.
const PREEMPTION_DELTA: u16 = 10;

/// Something that is not built, as the evaluation's description names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unbuilt(pub(crate) &'static str);

/// Refuses to place or update allocations of a group that ask for what is not built.
pub(crate) fn check_group(spec: &JobSpec, group: &TaskGroup) -> Result<(), Unbuilt> {
    let of_tasks = group.tasks.iter().flat_map(|task| &task.constraints);
    let constraints = || spec.constraints.iter().chain(&group.constraints).chain(of_tasks.clone());
    let any_task =
        |asks: fn(&model::job::Resources) -> bool| group.tasks.iter().any(|task| asks(&task.resources));
    let asked = [
        (!spec.spreads.is_empty() || !group.spreads.is_empty(), "spread"),
        (constraints().any(wants_distinct_hosts), "distinct_hosts"),
        (
            constraints().any(|constraint| constraint.operand == Operand::DistinctProperty),
            "distinct_property",
        ),
        (any_task(|resources| !resources.devices.is_empty()), "devices"),
        (any_task(|resources| resources.cores > 0), "cores"),
        (any_task(|resources| !resources.networks.is_empty()), "a network of a task"),
        (!group.volumes.is_empty(), "volumes"),
        (spec.multiregion.is_some(), "multiregion"),
        (waits_for_disconnected(group), "disconnect"),
    ];
    match asked.into_iter().find(|(asked, _)| *asked) {
        Some((_, what)) => Err(Unbuilt(what)),
        None => Ok(()),
    }
}

/// Whether allocations of other jobs might have made room, had this form of the scheduler tried it.
pub(crate) fn might_preempt(state: &State, spec: &JobSpec) -> bool {
    let is_allowed = state.scheduler_config().is_none_or(|config| match spec.kind {
        JobType::Service => config.preemption.service,
        JobType::Batch => config.preemption.batch,
        JobType::System => config.preemption.system,
        JobType::SysBatch => config.preemption.sysbatch,
    });
    let yields = |other: &Arc<Job>| {
        other.spec.priority.saturating_add(PREEMPTION_DELTA) <= spec.priority
            && state.live_alloc_count(&other.key()) > 0
    };
    is_allowed && state.jobs().any(yields)
}

///
fn wants_distinct_hosts(constraint: &Constraint) -> bool {
    let is_off = matches!(&*constraint.r_target, "0" | "f" | "F" | "false" | "FALSE" | "False");
    constraint.operand == Operand::DistinctHosts && !is_off
}

/// Whether a group's allocations are more than lost when their node is not heard of.
pub(crate) fn waits_for_disconnected(group: &TaskGroup) -> bool {
    group.disconnect.as_ref().is_some_and(|disconnect| {
        disconnect.lost_after.0 > 0
            || disconnect.stop_on_client_after.is_some_and(|after| after.0 > 0)
            || disconnect.replace == Some(false)
    })
}
