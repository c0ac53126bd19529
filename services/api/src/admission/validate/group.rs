//! Validation of task groups (N-19.4).

use std::collections::BTreeMap;

use api_types::TaskGroup;
use model::job::JobType;
use model::text::quoted;

use super::network::networks;
use super::placement::{self, Level};
use super::{policies, services, task, volumes};
use crate::admission::fields::{flag, items, number, text};
use crate::admission::problems::Problems;

/// Minimum disk space of a group, in MB.
const DISK_MB_MIN: i64 = 10;

/// Checks a group. `kind` is the job's type, if it is valid.
pub(crate) fn group(group: &TaskGroup, kind: Option<JobType>) -> Problems {
    let mut problems = Problems::default();
    problems.add_if(text(&group.name).is_empty(), || "Missing task group name");
    problems.add_if(text(&group.name).contains('\0'), || "Task group name contains null character");
    problems.add_if(number(group.count) < 0, || "Task group count can't be negative");
    problems.add_if(items(&group.tasks).is_empty(), || "Missing tasks for task group");
    if let Some(length) = group.max_run_duration {
        problems.add_if(length <= 0, || "MaxRunDuration must be greater than zero");
        let allowed = matches!(kind, Some(JobType::Batch | JobType::SysBatch) | None);
        problems.add_if(!allowed, || "MaxRunDuration can only be used with batch or sysbatch job types");
    }
    problems.append(placement::constraints(&group.constraints, Level::Group));
    problems.append(placement::affinities(&group.affinities, kind));
    problems.append(placement::spreads(&group.spreads, kind));
    check_policies(group, kind, &mut problems);
    task_names(group, &mut problems);
    volumes::volumes(group, kind, &mut problems);
    problems.nest("Task group network validation failed: ", &networks(group));
    services::of_group(group, &mut problems);
    if let Some(policy) = &group.scaling {
        problems.nest(
            "Task group scaling policy validation failed: ",
            &volumes::scaling(policy, number(group.count)),
        );
    }
    for task in items(&group.tasks) {
        let name = text(&task.name);
        problems.nest(format_args!("Task {name} validation failed: "), &task::task(task, group, kind));
    }
    problems
}

/// Checks the policies for disconnected nodes, restarts, reschedules, updates and migration, and the disk of a group.
fn check_policies(group: &TaskGroup, kind: Option<JobType>, problems: &mut Problems) {
    let not_for = |block: &str| {
        let kind = kind.map_or("", JobType::as_str);
        format!("Job type {} does not allow {block} block", quoted(kind))
    };
    if let Some(disconnect) = &group.disconnect {
        problems.append(policies::disconnect(disconnect, kind));
    }
    match &group.restart_policy {
        Some(policy) => problems.append(policies::restart(policy)),
        None => problems.add(format!("Task Group {} should have a restart policy", text(&group.name))),
    }
    if let Some(policy) = &group.reschedule_policy {
        match kind {
            Some(JobType::System | JobType::SysBatch) => {
                problems.add("System or sysbatch jobs should not have a reschedule policy");
            }
            Some(JobType::Service | JobType::Batch) | None => {
                problems.append(policies::reschedule(policy));
            }
        }
    }
    match &group.ephemeral_disk {
        Some(disk) => {
            let size = number(disk.size_mb);
            problems
                .add_if(size < DISK_MB_MIN, || format!("minimum DiskMB value is {DISK_MB_MIN}; got {size}"));
        }
        None => {
            problems.add(format!("Task Group {} should have an ephemeral disk object", text(&group.name)))
        }
    }
    if let Some(update) = &group.update {
        match kind {
            Some(JobType::Batch | JobType::SysBatch) => problems.add(not_for("update")),
            Some(JobType::Service | JobType::System) | None => problems.append(policies::update(update)),
        }
    }
    if let Some(migrate) = &group.migrate {
        match kind {
            Some(JobType::Service) | None => problems.append(policies::migrate(migrate)),
            Some(JobType::Batch | JobType::System | JobType::SysBatch) => problems.add(not_for("migrate")),
        }
    }
}

/// Checks that one task leads at most, and that the tasks have names of their own.
fn task_names(group: &TaskGroup, problems: &mut Problems) {
    let tasks = items(&group.tasks);
    let leaders = tasks.iter().filter(|task| flag(task.leader)).count();
    problems.add_if(leaders > 1, || "Only one task may be marked as leader");
    let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
    for (position, task) in (1..).zip(tasks) {
        let name = text(&task.name);
        if name.is_empty() {
            problems.add(format!("Task {position} missing name"));
        } else if let Some(first) = positions.get(name) {
            problems.add(format!("Task {position} redefines '{name}' from task {first}"));
        } else {
            positions.insert(name, position);
        }
    }
}
