//! Checks `distinct_hosts` and `distinct_property` constraints.

use std::collections::BTreeMap;

use model::Text;
use model::job::{Constraint, JobType, Operand};
use state::AllocRef;

use super::conditions::resolve;
use super::{NewAlloc, PlanCheck};

pub(super) fn faults(check: &PlanCheck<'_>, faults: &mut Vec<String>) {
    for new in check.new_allocs() {
        let group = new.group();
        let of_tasks = group.tasks.iter().flat_map(|task| &task.constraints);
        let of_group = group.constraints.iter().chain(of_tasks).map(|constraint| (constraint, false));
        let of_job = new.job().spec.constraints.iter().map(|constraint| (constraint, true));
        for (constraint, whole_job) in of_job.chain(of_group) {
            #[allow(
                clippy::wildcard_enum_match_arm,
                reason = "the other operands do not concern other allocations"
            )]
            match constraint.operand {
                Operand::DistinctHosts => hosts(check, &new, constraint, whole_job, faults),
                Operand::DistinctProperty => property(check, &new, constraint, whole_job, faults),
                _ => {}
            }
        }
    }
}

/// The job's other live allocations after the plan, of all groups or of the same group.
fn others<'a>(check: &PlanCheck<'a>, new: &NewAlloc<'a>, whole_job: bool) -> Vec<AllocRef<'a>> {
    let key = new.alloc.job_key();
    let of_group = |alloc: &AllocRef<'a>| whole_job || alloc.group_name() == new.alloc.group_name();
    let runs = |alloc: &AllocRef<'a>| !alloc.is_terminal() && alloc.id() != new.alloc.id();
    check.after.allocs_of_job(key).filter(of_group).filter(runs).collect()
}

fn hosts(
    check: &PlanCheck<'_>,
    new: &NewAlloc<'_>,
    constraint: &Constraint,
    whole_job: bool,
    faults: &mut Vec<String>,
) {
    let is_off = matches!(&*constraint.r_target, "0" | "f" | "F" | "false" | "FALSE" | "False");
    let kind = new.job().spec.kind;
    if is_off || matches!(kind, JobType::System | JobType::SysBatch) {
        return;
    }
    if others(check, new, whole_job).iter().any(|other| other.node_id() == new.alloc.node_id()) {
        faults.push(new.fault("distinct_hosts: the node has another allocation"));
    }
}

fn property(
    check: &PlanCheck<'_>,
    new: &NewAlloc<'_>,
    constraint: &Constraint,
    whole_job: bool,
    faults: &mut Vec<String>,
) {
    let limit: usize = match &*constraint.r_target {
        "" => 1,
        number => number.parse().unwrap_or(0),
    };
    let value = |alloc: AllocRef<'_>| -> Option<Text> { resolve(&constraint.l_target, alloc.node()?) };
    let Some(own) = value(new.alloc) else {
        faults.push(new.fault(format_args!("distinct_property: the node has no {}", constraint.l_target)));
        return;
    };
    let mut used: BTreeMap<Text, usize> = BTreeMap::new();
    let of_instance =
        |other: &AllocRef<'_>| other.common().job.create_index == new.alloc.common().job.create_index;
    for other in others(check, new, whole_job).into_iter().filter(of_instance) {
        *used.entry(value(other).unwrap_or_default()).or_default() += 1;
    }
    let all = used.get(&own).copied().unwrap_or(0) + 1;
    if all > limit {
        let property = &constraint.l_target;
        faults.push(
            new.fault(format_args!("distinct_property: {all} with {property} {own} instead of {limit}")),
        );
    }
}
