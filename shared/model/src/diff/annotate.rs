//! Annotations of a diff with the consequences of the changes.

use std::collections::BTreeMap;

use api_types::{DiffType, FieldDiff, JobDiff, ObjectDiff, TaskDiff};

use crate::eval::DesiredUpdates;
use crate::{Map, Text};

const CREATE: &str = "forces create";
const DESTROY: &str = "forces destroy";
const IN_PLACE: &str = "forces in-place update";
const DESTRUCTIVE: &str = "forces create/destroy update";

/// Blocks of a task that can be changed in place, judging by the diff alone. A `LogConfig` can only without the unchanged
/// field `Disabled`, which a dry run always shows.
const IN_PLACE_BLOCKS: [&str; 4] = ["Service", "Constraint", "Affinity", "Spread"];

/// Adds the result of a dry run (`updates`, by group) to a diff, and the annotations that follow from the diff alone.
pub fn annotate(diff: &mut JobDiff, updates: &Map<Text, DesiredUpdates>) {
    for group in diff.task_groups.iter_mut().flatten() {
        let counts = updates.get(&*group.name).copied().unwrap_or_default();
        group.updates = Some(update_counts(&counts));
        group.fields.iter_mut().flatten().filter(|field| field.name == "Count").for_each(annotate_count);
        let group_type = group.r#type;
        group.tasks.iter_mut().flatten().for_each(|task| annotate_task(task, group_type));
    }
}

/// The counts that are not zero, by the names that the diff uses.
fn update_counts(updates: &DesiredUpdates) -> BTreeMap<String, u64> {
    let counts = [
        ("ignore", updates.ignore),
        ("create", updates.place),
        ("destroy", updates.stop),
        ("migrate", updates.migrate),
        ("canary", updates.canary),
        ("in-place update", updates.in_place_update),
        ("create/destroy update", updates.destructive_update),
    ];
    counts.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
}

/// Annotates the field `Count` with `forces create` if it grows and `forces destroy` if it shrinks.
fn annotate_count(field: &mut FieldDiff) {
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    let forces = match number(&field.new).cmp(&number(&field.old)) {
        std::cmp::Ordering::Greater => CREATE,
        std::cmp::Ordering::Less => DESTROY,
        std::cmp::Ordering::Equal => return,
    };
    field.annotations = Some(vec![forces.to_owned()]);
}

/// Annotates a task with the kind of update that its changes force.
fn annotate_task(task: &mut TaskDiff, group_type: DiffType) {
    let forces = match (group_type, task.r#type) {
        (_, DiffType::None) => return,
        (DiffType::Added, DiffType::Added) => CREATE,
        (DiffType::Deleted, DiffType::Deleted) => DESTROY,
        (_, DiffType::Added | DiffType::Deleted) => DESTRUCTIVE,
        (_, DiffType::Edited) if is_destructive(task) => DESTRUCTIVE,
        (_, DiffType::Edited) => IN_PLACE,
    };
    task.annotations = Some(vec![forces.to_owned()]);
}

fn is_destructive(task: &TaskDiff) -> bool {
    let forces_restart = |object: &ObjectDiff| !IN_PLACE_BLOCKS.contains(&&*object.name);
    task.fields.iter().flatten().any(|field| field.name != "KillTimeout")
        || task.objects.iter().flatten().any(forces_restart)
}
