//! Which allocation and which task of it a command means (`docs/rules/cli.md` 5.1).

use api_types::{AllocListStub, Allocation};

use super::client::Client;
use super::page::Page;
use super::prefix::{Kind, resolve_id};
use super::{format, tables};

/// Finds the id of the allocation with this prefix. With `verbose`, an error about several matches shows their whole ids.
pub(super) async fn resolve(client: &Client, prefix: &str, verbose: bool) -> anyhow::Result<String> {
    let kind = Kind {
        list: "/v1/allocations",
        plural: "allocations",
        not_found: "No allocation(s) with prefix or id \"{}\" found",
        id: |alloc: &AllocListStub| alloc.id.as_ref(),
        table: |allocs, verbose| {
            let mut page = Page::default();
            tables::allocs(&mut page, allocs, format::now(), verbose);
            page
        },
    };
    resolve_id(client, &kind, prefix, verbose).await
}

/// A random running allocation; the newest allocation if none is running.
pub(super) fn pick<'a>(
    allocs: &'a [AllocListStub],
    group: Option<&str>,
    random: u128,
) -> Option<&'a AllocListStub> {
    let is_selected =
        |alloc: &&AllocListStub| group.is_none_or(|group| alloc.task_group.as_deref() == Some(group));
    let selected: Vec<_> = allocs.iter().filter(is_selected).collect();
    let runs = |alloc: &&AllocListStub| alloc.client_status.as_deref() == Some("running");
    let running: Vec<_> = selected.iter().copied().filter(runs).collect();
    match running.len() {
        0 => selected.into_iter().max_by_key(|alloc| alloc.create_index),
        count => Some(running[(random % count as u128) as usize]),
    }
}

/// The names of an allocation's tasks, in the order of its job.
fn task_names(alloc: &Allocation) -> Vec<&str> {
    let groups = alloc.job.iter().flat_map(|job| job.task_groups.iter().flatten());
    let group = groups.into_iter().find(|group| group.name == alloc.task_group);
    let tasks = group.into_iter().flat_map(|group| group.tasks.iter().flatten());
    tasks.filter_map(|task| task.name.as_deref()).collect()
}

/// The task that a command means: the one that is named, or the only one (`docs/rules/cli.md` 5.1).
pub(super) fn choose_task(alloc: &Allocation, named: Option<&str>, verbose: bool) -> anyhow::Result<String> {
    let tasks = task_names(alloc);
    match (named, tasks.as_slice()) {
        (Some(named), tasks) if tasks.contains(&named) => Ok(named.to_owned()),
        (Some(named), tasks) => {
            let tasks: String = tasks.iter().map(|task| format!("\n{task}")).collect();
            anyhow::bail!("Could not find task named: {named}, found:{tasks}")
        }
        (None, [task]) => Ok((*task).to_owned()),
        (None, several) => anyhow::bail!(several_tasks(alloc, several, verbose)),
    }
}

/// The message that asks for one of several tasks (`docs/rules/cli.md` 5.1).
fn several_tasks(alloc: &Allocation, tasks: &[&str], verbose: bool) -> String {
    let id = format::id(alloc.id.as_ref(), verbose);
    let tasks: String = tasks.iter().map(|task| format!("  * {task}\n")).collect();
    format!("Allocation \"{id}\" is running the following tasks:\n{tasks}\nPlease specify the task.")
}

#[cfg(test)]
mod tests {
    use api_types::{Job, Task, TaskGroup};

    use super::*;

    fn alloc(tasks: &[&str]) -> Allocation {
        let task = |name: &&str| Task { name: Some((*name).to_owned()), ..Task::default() };
        let group = TaskGroup {
            name: Some("web".to_owned()),
            tasks: Some(tasks.iter().map(task).collect()),
            ..TaskGroup::default()
        };
        Allocation {
            id: Some("0a1b2c3d-0000-4000-8000-000000000000".to_owned()),
            task_group: Some("web".to_owned()),
            job: Some(Box::new(Job { task_groups: Some(vec![group]), ..Job::default() })),
            ..Allocation::default()
        }
    }

    #[test]
    fn one_of_several_tasks_must_be_named() {
        let alloc = alloc(&["pre", "app"]);
        let text = choose_task(&alloc, None, false).unwrap_err().to_string();
        insta::assert_snapshot!(text, @r#"
        Allocation "0a1b2c3d" is running the following tasks:
          * pre
          * app

        Please specify the task.
        "#);
        let whole = choose_task(&alloc, None, true).unwrap_err().to_string();
        assert!(whole.contains(alloc.id.as_deref().unwrap()), "{whole}");
        assert_eq!(choose_task(&alloc, Some("app"), false).unwrap(), "app");
        let unknown = choose_task(&alloc, Some("nope"), false).unwrap_err().to_string();
        assert_eq!(unknown, "Could not find task named: nope, found:\npre\napp");
    }

    #[test]
    fn the_only_task_need_not_be_named() {
        assert_eq!(choose_task(&alloc(&["app"]), None, false).unwrap(), "app");
    }

    #[test]
    fn a_random_running_allocation_is_chosen_or_else_the_newest() {
        let alloc = |id: &str, group: &str, status: &str, index: u64| AllocListStub {
            id: Some(id.to_owned()),
            task_group: Some(group.to_owned()),
            client_status: Some(status.to_owned()),
            create_index: Some(index),
            ..AllocListStub::default()
        };
        let allocs = [
            alloc("a", "web", "running", 1),
            alloc("b", "web", "failed", 5),
            alloc("c", "web", "running", 2),
            alloc("d", "db", "complete", 3),
            alloc("e", "db", "failed", 4),
        ];
        let picked = |group, random| pick(&allocs, group, random).and_then(|alloc| alloc.id.as_deref());
        assert_eq!(picked(None, 0), Some("a"));
        assert_eq!(picked(None, 7), Some("c"));
        assert_eq!(picked(Some("db"), 7), Some("e"), "none runs");
        assert_eq!(picked(Some("cache"), 0), None);
    }
}
