//! Human-readable differences between two versions of a job (`docs/rules/scheduling.md` §10.3).
//!
//! The differences are computed from jobs of the API. [`shapes`] lists the fields and blocks that are compared, and
//! [`tree`] compares them. [`annotate`] adds the results of a dry run of the scheduler.

mod annotate;
mod pairs;
mod shapes;
mod tree;

use std::collections::BTreeSet;

use api_types::{DiffType, FieldDiff, JobDiff, TaskDiff, TaskGroupDiff};
use serde_json::{Map, Value};

pub use annotate::annotate;
use shapes::{GROUP, JOB, TASK};
use tree::Sides;

/// Compares two versions of a job; `None` means that there is no job. Both must have the same id.
pub fn diff(old: Option<&api_types::Job>, new: Option<&api_types::Job>) -> JobDiff {
    let [old, new] = [old, new].map(|job| job.map_or(Value::Null, to_json));
    let sides = Sides::new(&old, &new);
    let id = sides.text("ID");
    let (fields, objects) = tree::changes(&JOB, sides);
    let groups = compare_by_name(sides, "TaskGroups", compare_group);
    let is_same =
        fields.is_empty() && objects.is_empty() && groups.iter().all(|group| group.r#type == DiffType::None);
    JobDiff {
        r#type: sides.diff_type(if is_same { DiffType::None } else { DiffType::Edited }),
        id,
        fields: non_empty(fields),
        objects: non_empty(objects),
        task_groups: non_empty(groups),
    }
}

fn to_json(job: &api_types::Job) -> Value {
    serde_json::to_value(job).expect("a job serializes to JSON")
}

fn compare_group(name: String, sides: Sides<'_>) -> TaskGroupDiff {
    let (fields, objects) = tree::changes(&GROUP, sides);
    let tasks = compare_by_name(sides, "Tasks", compare_task);
    TaskGroupDiff {
        r#type: sides.diff_type(sides.none_or_edited()),
        name,
        fields: non_empty(fields),
        objects: non_empty(objects),
        tasks: non_empty(tasks),
        updates: None,
    }
}

fn compare_task(name: String, sides: Sides<'_>) -> TaskDiff {
    let [old, new] = [sides.old, sides.new].map(with_merged_identities);
    let (fields, objects) = tree::changes(&TASK, Sides::new(&old, &new));
    TaskDiff {
        r#type: sides.diff_type(sides.none_or_edited()),
        name,
        fields: non_empty(fields),
        objects: non_empty(objects),
        annotations: None,
    }
}

/// Moves the default identity of a task, which is a separate member, into the list of its identities.
fn with_merged_identities(task: &Value) -> Value {
    let mut task = task.clone();
    if let Some(members) = task.as_object_mut() {
        let first = members.remove("Identity").filter(|identity| !identity.is_null());
        let more = members.remove("Identities").and_then(|more| more.as_array().cloned());
        let all: Vec<Value> = first.into_iter().chain(more.unwrap_or_default()).collect();
        members.insert("Identities".to_owned(), all.into());
    }
    task
}

/// Compares the items of a list by name. The result contains the names of both sides in sorted order.
fn compare_by_name<T>(sides: Sides<'_>, member: &str, compare: impl Fn(String, Sides<'_>) -> T) -> Vec<T> {
    let [old, new] = [sides.old, sides.new].map(|side| by_name(&side[member]));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let none = Value::Null;
    let compared = names.into_iter().map(|name| {
        let [old, new] = [&old, &new].map(|side| side.get(name).unwrap_or(&none));
        compare(name.clone(), Sides::new(old, new))
    });
    compared.collect()
}

fn by_name(list: &Value) -> Map<String, Value> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| Some((item["Name"].as_str()?.to_owned(), item.clone()))).collect()
}

/// `None` for an empty list, because a diff contains no empty lists.
fn non_empty<T>(items: Vec<T>) -> Option<Vec<T>> {
    (!items.is_empty()).then_some(items)
}

/// Sorts fields into the order of the diff.
fn sort(fields: &mut [FieldDiff]) {
    fields.sort_by(|a, b| (&a.name, &a.old).cmp(&(&b.name, &b.old)));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job() -> api_types::Job {
        let task = api_types::Task {
            name: Some("t".to_owned()),
            driver: Some("exec".to_owned()),
            ..api_types::Task::default()
        };
        let group = api_types::TaskGroup {
            name: Some("g".to_owned()),
            count: Some(2),
            tasks: Some(vec![task]),
            ..api_types::TaskGroup::default()
        };
        api_types::Job {
            id: Some("j".to_owned()),
            priority: Some(50),
            task_groups: Some(vec![group]),
            ..api_types::Job::default()
        }
    }

    fn changed(edit: impl FnOnce(&mut api_types::Job)) -> JobDiff {
        let mut new = job();
        edit(&mut new);
        diff(Some(&job()), Some(&new))
    }

    #[test]
    fn the_same_job_shows_its_groups_and_tasks_and_nothing_else() {
        let same = changed(|_| {});
        assert_eq!((same.r#type, &same.fields, &same.objects), (DiffType::None, &None, &None));
        let group = &same.task_groups.unwrap()[0];
        assert_eq!((group.r#type, group.tasks.as_ref().unwrap()[0].r#type), (DiffType::None, DiffType::None));
    }

    #[test]
    fn a_field_has_what_it_was_and_what_it_is() {
        let edited = changed(|job| job.priority = Some(60));
        let field = &edited.fields.unwrap()[0];
        assert_eq!(
            (field.r#type, &*field.name, &*field.old, &*field.new),
            (DiffType::Edited, "Priority", "50", "60")
        );
    }

    #[test]
    fn objects_matched_by_value_are_deleted_and_added() {
        let constraint = |value: &str| api_types::Constraint {
            l_target: Some("${node.class}".to_owned()),
            r_target: Some(value.to_owned()),
            operand: Some("=".to_owned()),
        };
        let with = |value: &str| api_types::Job { constraints: Some(vec![constraint(value)]), ..job() };
        let objects = diff(Some(&with("a")), Some(&with("b"))).objects.unwrap();
        let types: Vec<DiffType> = objects.iter().map(|object| object.r#type).collect();
        assert_eq!(types, [DiffType::Added, DiffType::Deleted]);
    }

    /// http-api A.10: the order of objects is not the alphabet, and a set that changed has all of its texts.
    #[test]
    fn objects_have_the_order_of_the_table() {
        let with = |datacenters: &[&str], attempts: i64, size_mb: i64, hook: &str| {
            let mut job = job();
            job.datacenters = Some(datacenters.iter().map(|name| (*name).to_owned()).collect());
            let group = &mut job.task_groups.as_mut().unwrap()[0];
            group.restart_policy = Some(api_types::RestartPolicy {
                attempts: Some(attempts),
                ..api_types::RestartPolicy::default()
            });
            group.ephemeral_disk = Some(api_types::EphemeralDisk {
                size_mb: Some(size_mb),
                ..api_types::EphemeralDisk::default()
            });
            let lifecycle =
                api_types::TaskLifecycleConfig { hook: Some(hook.to_owned()), ..Default::default() };
            group.tasks.as_mut().unwrap()[0].lifecycle = Some(lifecycle);
            job
        };
        let (old, new) = (with(&["a", "b"], 1, 10, "prestart"), with(&["b", "c"], 2, 20, "poststart"));
        let shown = diff(Some(&old), Some(&new));
        let sets = shown.objects.unwrap();
        let fields: Vec<(DiffType, &str, &str)> = sets[0]
            .fields
            .iter()
            .flatten()
            .map(|field| (field.r#type, field.old.as_str(), field.new.as_str()))
            .collect();
        assert_eq!(
            fields,
            [(DiffType::Added, "", "c"), (DiffType::Deleted, "a", ""), (DiffType::None, "b", "b")]
        );
        let group = &shown.task_groups.unwrap()[0];
        let names: Vec<&str> = group.objects.iter().flatten().map(|object| object.name.as_str()).collect();
        assert_eq!(names, ["RestartPolicy", "EphemeralDisk"]);
        let task = &group.tasks.as_ref().unwrap()[0];
        assert_eq!((task.r#type, &task.objects), (DiffType::Edited, &None), "a lifecycle is not shown");
        let same = diff(Some(&old), Some(&old));
        assert_eq!((same.r#type, same.objects), (DiffType::None, None));
    }

    // http-api A.10
    #[test]
    fn templates_and_services_that_changed_are_edited() {
        let with = |task: Value| {
            let mut job = job();
            let task = serde_json::from_value(task).unwrap();
            job.task_groups.as_mut().unwrap()[0].tasks = Some(vec![task]);
            job
        };
        let shown = |old: Value, new: Value| {
            let diff = diff(Some(&with(old)), Some(&with(new)));
            let task = diff.task_groups.unwrap().remove(0).tasks.unwrap().remove(0);
            task.objects.unwrap()
        };
        let template = |command: &str| {
            let script = json!({ "Command": command, "Args": ["1"] });
            json!({ "Name": "t", "Templates": [{ "DestPath": "a", "ChangeScript": script }] })
        };
        let edited = shown(template("x"), template("y"));
        assert_eq!(
            (edited.len(), edited[0].r#type, edited[0].name.as_str()),
            (1, DiffType::Edited, "Template")
        );
        let script = &edited[0].objects.as_ref().unwrap()[0];
        assert_eq!((script.r#type, script.name.as_str()), (DiffType::Edited, "ChangeScript"));
        let args = &script.objects.as_ref().unwrap()[0];
        assert_eq!((args.r#type, args.name.as_str()), (DiffType::None, "Args"));
        let service =
            |name: &str| json!({ "Name": "t", "Services": [{ "Name": name, "Meta": { "a": "1" } }] });
        let edited = shown(service("one"), service("uno"));
        assert_eq!(
            (edited.len(), edited[0].r#type, edited[0].name.as_str()),
            (1, DiffType::Edited, "Service")
        );
        let meta = edited[0].fields.iter().flatten().find(|field| field.name == "Meta[a]").unwrap();
        assert_eq!((meta.r#type, meta.new.as_str()), (DiffType::None, "1"));
    }

    // http-api A.10
    #[test]
    fn the_diff_of_scaling_lists_changes_only() {
        let with = |max: u32, cooldown: &str| {
            let mut job = job();
            let policy =
                json!({ "Enabled": true, "Max": max, "Min": 0, "Policy": { "a": 1, "cooldown": cooldown } });
            job.task_groups.as_mut().unwrap()[0].scaling = serde_json::from_value(policy).unwrap();
            job
        };
        let shown = |old: api_types::Job, new: api_types::Job| {
            let group = diff(Some(&old), Some(&new)).task_groups.unwrap().remove(0);
            group.objects.unwrap().remove(0)
        };
        let max = shown(with(5, "1m"), with(6, "1m"));
        let names: Vec<&str> = max.fields.iter().flatten().map(|field| field.name.as_str()).collect();
        assert_eq!((max.r#type, names, &max.objects), (DiffType::Edited, vec!["Max"], &None));
        let policy = shown(with(5, "1m"), with(5, "2m"));
        assert_eq!((policy.r#type, &policy.fields), (DiffType::Edited, &None));
        let inner = &policy.objects.unwrap()[0];
        let names: Vec<&str> = inner.fields.iter().flatten().map(|field| field.name.as_str()).collect();
        assert_eq!(
            (inner.r#type, inner.name.as_str(), names),
            (DiffType::Edited, "Policy", vec!["cooldown"])
        );
    }

    fn with_config(config: Value) -> api_types::Job {
        let mut job = job();
        let tasks = job.task_groups.as_mut().unwrap()[0].tasks.as_mut().unwrap();
        tasks[0].config = serde_json::from_value(config).unwrap();
        job
    }

    #[test]
    fn a_configuration_is_compared_value_by_value_unless_its_paths_are_too_long() {
        let fields = |old: Value, new: Value| {
            let diff = diff(Some(&with_config(old)), Some(&with_config(new)));
            let task = diff.task_groups.unwrap().remove(0).tasks.unwrap().remove(0);
            task.objects.unwrap().remove(0).fields.unwrap()
        };
        let changed = fields(json!({ "a": { "b": [1, 2] } }), json!({ "a": { "b": [1, 3] } }));
        let names: Vec<&str> = changed.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["a[b][0]", "a[b][1]"]);
        let long = "k".repeat(1 << 20);
        let changed = fields(json!({ "a": 1 }), json!({ "a": 1, "m": { &*long: vec![7; 100_000] } }));
        let names: Vec<&str> = changed.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["a", "m"]);
    }

    #[test]
    fn many_blocks_without_identity_take_no_longer_than_few() {
        let constraint = |number: usize| api_types::Constraint {
            l_target: Some(format!("${{meta.x{number}}}")),
            ..api_types::Constraint::default()
        };
        let with = |numbers: std::ops::Range<usize>| api_types::Job {
            constraints: Some(numbers.map(constraint).collect()),
            ..job()
        };
        let objects = diff(Some(&with(0..20_000)), Some(&with(1..20_001))).objects.unwrap();
        assert_eq!(objects.len(), 2);
    }

    #[test]
    fn a_new_job_is_all_new() {
        let added = diff(None, Some(&job()));
        assert_eq!(added.r#type, DiffType::Added);
        assert_eq!(added.task_groups.unwrap()[0].tasks.as_ref().unwrap()[0].r#type, DiffType::Added);
    }
}
