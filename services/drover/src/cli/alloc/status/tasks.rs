//! The tasks of an allocation as `drover alloc status` shows them (`docs/rules/cli.md` 5.2). Pure.

use std::collections::BTreeMap;

use api_types::{Allocation, TaskLifecycleConfig, TaskState};

use crate::cli::format;
use crate::cli::measured::{self, Alloc, Usage};
use crate::cli::page::Page;

/// A task with its hook and its state. A task that has not begun has an empty state.
pub(super) struct Task<'a> {
    name: &'a str,
    /// The hook, and whether the task is a sidecar. `None` for tasks without a hook.
    hook: Option<(&'a str, bool)>,
    state: Option<&'a TaskState>,
}

/// The tasks in their order: those with a hook by its name, sidecars after others, and then those without a hook; by name
/// among these.
pub(super) fn in_order(alloc: &Allocation) -> Vec<Task<'_>> {
    let groups = alloc.job.iter().flat_map(|job| job.task_groups.iter().flatten());
    let group = groups.into_iter().find(|group| group.name == alloc.task_group);
    let tasks = group.into_iter().flat_map(|group| group.tasks.iter().flatten());
    let mut found: BTreeMap<&str, Task<'_>> = BTreeMap::new();
    for task in tasks {
        let name = task.name.as_deref().unwrap_or_default();
        let hook = task.lifecycle.as_ref().map(hook_of);
        found.insert(name, Task { name, hook, state: None });
    }
    for (name, state) in alloc.task_states.iter().flatten() {
        let task = found.entry(name).or_insert(Task { name, hook: None, state: None });
        task.state = Some(state);
    }
    let mut tasks: Vec<Task<'_>> = found.into_values().collect();
    tasks.sort_by_key(|task| (task.hook.is_none(), task.hook, task.name));
    tasks
}

fn hook_of(lifecycle: &TaskLifecycleConfig) -> (&str, bool) {
    (lifecycle.hook.as_deref().unwrap_or_default(), lifecycle.sidecar == Some(true))
}

impl Task<'_> {
    /// The hook in words, such as `prestart sidecar`; `main` for tasks without one.
    fn lifecycle(&self) -> String {
        match self.hook {
            None => "main".to_owned(),
            Some((hook, true)) => format!("{hook} sidecar"),
            Some((hook, false)) => hook.to_owned(),
        }
    }

    fn state_text(&self) -> String {
        let state = self.state.map(|state| format::text(state.state.as_ref())).unwrap_or_default();
        if state.is_empty() { "pending".to_owned() } else { state }
    }

    /// Whether the task runs.
    fn is_running(&self) -> bool {
        self.state.is_some_and(|state| state.state.as_deref() == Some("running"))
    }
}

/// One line for each task, with its last event.
pub(super) fn short(page: &mut Page, alloc: &Allocation) {
    page.title("Tasks");
    let tasks = in_order(alloc);
    let rows = tasks.iter().map(|task| {
        let last = task.state.and_then(|state| state.events.iter().flatten().last());
        [
            task.name.to_owned(),
            task.state_text(),
            last.map(|event| format::text(event.r#type.as_ref())).unwrap_or_default(),
            last.map(|event| format::moment(event.time.unwrap_or_default())).unwrap_or_default(),
            task.lifecycle(),
        ]
    });
    page.table(&["Name", "State", "Last Event", "Time", "Lifecycle"], rows);
}

/// Every task with its resources and events. `used` is what the allocation uses, if that is known; with `stats`, it is shown
/// in full.
pub(super) fn show(page: &mut Page, alloc: &Allocation, used: Option<&Alloc>, stats: bool) {
    for task in in_order(alloc) {
        let hook = task.hook.map(|_| format!(" ({})", task.lifecycle())).unwrap_or_default();
        page.title(format!("Task \"{}\"{hook} is \"{}\"", task.name, task.state_text()));
        let usage = used.and_then(|used| used.tasks.as_ref()).and_then(|tasks| tasks.get(task.name));
        let usage = usage.and_then(|task| task.resource_usage.as_ref()).filter(|_| task.is_running());
        resources(page, alloc, task.name, usage);
        if let Some(usage) = usage.filter(|_| stats) {
            statistics(page, usage);
        }
        events(page, task.state);
    }
}

/// What the task asked for, and what it uses of that. The disk is the group's.
fn resources(page: &mut Page, alloc: &Allocation, name: &str, usage: Option<&Usage>) {
    let allocated = alloc.allocated_resources.as_ref();
    let tasks = allocated.and_then(|resources| resources.tasks.as_ref());
    let Some(task) = tasks.and_then(|tasks| tasks.get(name)) else { return };
    let cpu = task.cpu.as_ref().and_then(|cpu| cpu.cpu_shares).unwrap_or_default();
    let memory = task.memory.as_ref().and_then(|memory| memory.memory_mb).unwrap_or_default();
    let memory_max = task.memory.as_ref().and_then(|memory| memory.memory_max_mb).unwrap_or_default();
    let disk = allocated.and_then(|resources| resources.shared.as_ref()).and_then(|shared| shared.disk_mb);
    let row = [
        match usage {
            Some(usage) => format!("{}/{cpu} MHz", measured::mhz(usage.cpu_stats.total_ticks)),
            None => format!("{cpu} MHz"),
        },
        match usage {
            Some(usage) => format!("{}/{memory} MiB", format::bytes(usage.memory_stats.rss)),
            None => format!("{memory} MiB"),
        },
        format!("{} MiB", disk.unwrap_or_default()),
        String::new(),
    ];
    let mut rows = vec![row];
    if memory_max > memory {
        rows.push([String::new(), format!("Max: {memory_max} MiB"), String::new(), String::new()]);
    }
    page.line("Task Resources:");
    page.table_with_gaps(&["CPU", "Memory", "Disk", "Addresses"], rows);
    page.line("");
}

/// What the task uses, as the driver measures it.
fn statistics(page: &mut Page, usage: &Usage) {
    let (names, values): (Vec<&str>, Vec<String>) = usage.memory_stats.values().into_iter().unzip();
    if !names.is_empty() {
        page.line("Memory Stats");
        page.table(&names, [values]);
        page.line("");
    }
    let cpu = &usage.cpu_stats;
    page.line("CPU Stats");
    page.table(
        &["Percent", "System Mode", "User Mode"],
        [[cpu.percent, cpu.system_mode, cpu.user_mode].map(measured::percent)],
    );
    page.line("");
}

fn events(page: &mut Page, state: Option<&TaskState>) {
    let time = |time: Option<api_types::Time>| match format::time(time) {
        time if time.is_empty() => "N/A".to_owned(),
        time => time,
    };
    page.line("Task Events:");
    page.block(&[
        ("Started At", time(state.and_then(|state| state.started_at))),
        ("Finished At", time(state.and_then(|state| state.finished_at))),
        ("Total Restarts", state.and_then(|state| state.restarts).unwrap_or_default().to_string()),
        ("Last Restart", time(state.and_then(|state| state.last_restart))),
    ]);
    page.title("Recent Events:");
    let events = state.into_iter().flat_map(|state| state.events.iter().flatten().rev());
    let rows = events.map(|event| {
        [
            format::moment(event.time.unwrap_or_default()),
            format::text(event.r#type.as_ref()),
            format::text(event.display_message.as_ref()),
        ]
    });
    page.table(&["Time", "Type", "Description"], rows);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn alloc() -> Allocation {
        let hook = |name: &str, hook: &str, sidecar: bool| json!({ "Name": name, "Lifecycle": { "Hook": hook, "Sidecar": sidecar } });
        let tasks = json!([
            { "Name": "app" }, { "Name": "also" }, hook("side", "prestart", true), hook("pre", "prestart", false),
            hook("last", "poststop", false), hook("after", "poststart", false),
        ]);
        let allocated = json!({
            "Tasks": { "app": { "Cpu": { "CpuShares": 50 }, "Memory": { "MemoryMB": 30, "MemoryMaxMB": 60 } } },
            "Shared": { "DiskMB": 300 },
        });
        let states = json!({
            "pre": { "State": "dead" },
            "app": {
                "State": "running", "StartedAt": "2026-01-01T00:00:00Z", "Restarts": 2,
                "LastRestart": "2026-01-01T00:00:00Z",
                "Events": [{ "Type": "Received", "Time": 1 }, { "Type": "Started", "Time": 2 }],
            },
        });
        let text = json!({
            "TaskGroup": "web",
            "Job": { "TaskGroups": [{ "Name": "web", "Tasks": tasks }] },
            "AllocatedResources": allocated,
            "TaskStates": states,
        });
        api_types::decode::from_slice(text.to_string().as_bytes()).unwrap()
    }

    fn used() -> Alloc {
        let usage = json!({
            "MemoryStats": { "RSS": 1_572_864, "Measured": ["RSS"] },
            "CpuStats": { "TotalTicks": 12.4, "Percent": 0.5, "UserMode": 0.5 },
        });
        let text = json!({ "Tasks": { "app": { "ResourceUsage": usage } } });
        api_types::decode::from_slice(text.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn tasks_with_hooks_go_first_by_the_name_of_the_hook() {
        let alloc = alloc();
        let names: Vec<&str> = in_order(&alloc).iter().map(|task| task.name).collect();
        assert_eq!(names, ["after", "last", "pre", "side", "also", "app"]);
        let mut page = Page::default();
        show(&mut page, &alloc, None, false);
        let shown = page.to_string();
        for title in [
            "Task \"pre\" (prestart) is \"dead\"",
            "Task \"side\" (prestart sidecar) is \"pending\"",
            "Task \"app\" is \"running\"",
        ] {
            assert!(shown.lines().any(|line| line == title), "{title}\n{shown}");
        }
    }

    #[test]
    fn a_task_shows_what_it_uses_of_what_it_asked_for() {
        let shown = |used: Option<&Alloc>, stats| {
            let mut page = Page::default();
            show(&mut page, &alloc(), used, stats);
            page.to_string()
        };
        let plain = shown(None, false);
        assert!(
            plain.contains("CPU     Memory       Disk     Addresses\n50 MHz  30 MiB       300 MiB\n"),
            "{plain}"
        );
        assert!(plain.contains("\n        Max: 60 MiB\n"), "{plain}");
        assert!(
            plain.contains(
                "\nFinished At    = N/A\nTotal Restarts = 2\nLast Restart   = 2026-01-01T00:00:00Z\n"
            )
        );
        let used = used();
        let measured = shown(Some(&used), true);
        assert!(measured.contains("12/50 MHz  1.5 MiB/30 MiB  300 MiB\n"), "{measured}");
        assert!(measured.contains("Memory Stats\nRSS\n1.5 MiB\n"), "{measured}");
        assert!(
            measured.contains("CPU Stats\nPercent  System Mode  User Mode\n0.50%    0.00%        0.50%\n")
        );
    }

    #[test]
    fn the_short_form_names_the_hook_and_the_last_event() {
        let mut page = Page::default();
        short(&mut page, &alloc());
        let shown = page.to_string();
        let words = |name: &str| {
            let line = shown.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("|")
        };
        assert_eq!(words("side "), "side|pending|<none>|<none>|prestart sidecar");
        assert_eq!(words("app "), "app|running|Started|1970-01-01T00:00:00Z|main");
    }
}
