//! What a change brings about, written into a diff.

use std::collections::BTreeMap;

use api_types::{DiffType, FieldDiff, JobDiff, ObjectDiff, TaskDiff};

use crate::eval::DesiredUpdates;
use crate::{Map, Text};

const CREATE: &str = "forces create";
const DESTROY: &str = "forces destroy";
const IN_PLACE: &str = "forces in-place update";
const DESTRUCTIVE: &str = "forces create/destroy update";

/// Blocks of a task whose changes do not start it anew by what they look like.
const HARMLESS: [&str; 5] = ["Service", "Constraint", "Affinity", "Spread", "LogConfig"];

/// Adds to a diff what a dry run found out (`updates`, by group), and what follows from the diff alone.
pub fn annotate(diff: &mut JobDiff, updates: &Map<Text, DesiredUpdates>) {
    for group in diff.task_groups.iter_mut().flatten() {
        let counts = updates.get(&*group.name).copied().unwrap_or_default();
        group.updates = Some(counted(&counts));
        group.fields.iter_mut().flatten().filter(|field| field.name == "Count").for_each(count);
        let of_group = group.r#type;
        group.tasks.iter_mut().flatten().for_each(|task| annotate_task(task, of_group));
    }
}

fn counted(updates: &DesiredUpdates) -> BTreeMap<String, u64> {
    let counts = [
        ("ignore", updates.ignore),
        ("create", updates.place),
        ("destroy", updates.stop),
        ("migrate", updates.migrate),
        ("canary", updates.canary),
        ("in-place update", updates.in_place_update),
        ("create/destroy update", updates.destructive_update),
    ];
    counts.into_iter().filter(|(_, count)| *count > 0).map(|(what, count)| (what.to_owned(), count)).collect()
}

///
fn count(field: &mut FieldDiff) {
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    let forces = match number(&field.new).cmp(&number(&field.old)) {
        std::cmp::Ordering::Greater => CREATE,
        std::cmp::Ordering::Less => DESTROY,
        std::cmp::Ordering::Equal => return,
    };
    field.annotations = Some(vec![forces.to_owned()]);
}

///
fn annotate_task(task: &mut TaskDiff, of_group: DiffType) {
    let forces = match (of_group, task.r#type) {
        (_, DiffType::None) => return,
        (DiffType::Added, DiffType::Added) => CREATE,
        (DiffType::Deleted, DiffType::Deleted) => DESTROY,
        (_, DiffType::Added | DiffType::Deleted) => DESTRUCTIVE,
        (_, DiffType::Edited) if starts_anew(task) => DESTRUCTIVE,
        (_, DiffType::Edited) => IN_PLACE,
    };
    task.annotations = Some(vec![forces.to_owned()]);
}

fn starts_anew(task: &TaskDiff) -> bool {
    let harms = |object: &ObjectDiff| {
        !HARMLESS.contains(&&*object.name) || object.name == "LogConfig" && turns_logs_on_or_off(object)
    };
    task.fields.iter().flatten().any(|field| field.name != "KillTimeout")
        || task.objects.iter().flatten().any(harms)
}

/// only if that changed, not wherever it is shown.
fn turns_logs_on_or_off(logs: &ObjectDiff) -> bool {
    let mut fields = logs.fields.iter().flatten();
    fields.any(|field| field.name == "Disabled" && field.r#type != DiffType::None)
}
