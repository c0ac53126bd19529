//! What the sender of a job should know although it is accepted (N-19.21), and what is stored but has no effect yet.

use api_types::{Job, Task, TaskGroup, UpdateStrategy};
use model::text::quoted;

use super::fields::{flag, items, number, text};
use super::problems::Warnings;

/// The warnings about a job as it was sent, before defaults are filled in.
pub(crate) fn of(job: &Job, may_oversubscribe: bool) -> Warnings {
    let mut warnings = Warnings::default();
    let groups = items(&job.task_groups);
    if rolls_out(job.update.as_ref()) || groups.iter().any(|group| rolls_out(group.update.as_ref())) {
        warnings.add("update block: all allocations are replaced at once until rollouts are built");
    }
    if !items(&job.affinities).is_empty() || !items(&job.spreads).is_empty() {
        warnings.add("affinity and spread blocks have no effect until they are built");
    }
    if groups.iter().any(|group| group.scaling.is_some()) {
        warnings.add("scaling block: stored, but there are no scaling endpoints until they are built");
    }
    auto_promotion(groups, &mut warnings);
    for group in groups {
        warnings.nest(
            format_args!("Group {}", quoted(text(&group.name))),
            &self::group(group, may_oversubscribe),
        );
    }
    warnings
}

fn rolls_out(update: Option<&UpdateStrategy>) -> bool {
    update.is_some_and(|update| update.max_parallel != Some(0))
}

fn auto_promotion(groups: &[TaskGroup], warnings: &mut Warnings) {
    let canaries = |group: &&TaskGroup| group.update.as_ref().is_some_and(|update| number(update.canary) > 0);
    let promoted = |group: &TaskGroup| group.update.as_ref().is_some_and(|update| flag(update.auto_promote));
    let (some, all) = (groups.iter().any(promoted), groups.iter().filter(canaries).all(promoted));
    if some && !all {
        warnings.add("auto_promote must be true for all groups with canaries to enable automatic promotion");
    }
}

fn group(group: &TaskGroup, may_oversubscribe: bool) -> Warnings {
    let mut warnings = Warnings::default();
    let superseded = [
        (group.max_client_disconnect.is_some(), "max_client_disconnect", "disconnect.lost_after"),
        (
            group.stop_after_client_disconnect.is_some(),
            "stop_after_client_disconnect",
            "disconnect.stop_on_client_after",
        ),
        (flag(group.prevent_reschedule_on_lost), "prevent_reschedule_on_lost", "disconnect.replace"),
    ];
    for (given, old, new) in superseded {
        if given {
            warnings.add(format!("{old} is deprecated and ignored; use {new}"));
        }
    }
    if !items(&group.affinities).is_empty() || !items(&group.spreads).is_empty() {
        warnings.add("affinity and spread blocks have no effect until they are built");
    }
    if group.disconnect.is_some() {
        warnings.add("disconnect block has no effect until it is built");
    }
    if items(&group.networks).iter().any(|network| number(network.mbits) > 0) {
        warnings
            .add("mbits has been deprecated as of Nomad 0.12.0. Please remove mbits from the network block");
    }
    for task in items(&group.tasks) {
        warnings
            .nest(format_args!("Task {}", quoted(text(&task.name))), &self::task(task, may_oversubscribe));
    }
    warnings
}

fn task(task: &Task, may_oversubscribe: bool) -> Warnings {
    let mut warnings = Warnings::default();
    if !items(&task.affinities).is_empty() {
        warnings.add("affinity blocks have no effect until they are built");
    }
    if let Some(resources) = &task.resources {
        if number(resources.iops) > 0 {
            warnings
                .add("IOPS has been deprecated as of Nomad 0.9.0. Please remove IOPS from resource block.");
        }
        if !items(&resources.networks).is_empty() {
            warnings.add("task network resources have been deprecated as of Nomad 0.12.0. Please configure networking via group network block.");
        }
        if number(resources.memory_max_mb) != 0 && !may_oversubscribe {
            warnings
                .add("Memory oversubscription is not enabled; Task has memory_max, but it will be ignored");
        }
    }
    warnings
}
