//! Validation of tasks and their resources (N-19.10, N-19.20).

use std::collections::BTreeSet;

use api_types::{LogConfig, RequestedDevice, Resources, Task, TaskGroup};
use model::Nanos;
use model::job::{JobType, LifecycleHook, mistakes_in_driver_config};
use model::text::quoted;
use serde_json::Value;

use super::placement::{self, Level};
use super::{destinations, policies, services, volumes};
use crate::admission::fields::{flag, is_identifier, items, number, text};
use crate::admission::problems::Problems;

/// Name of the allocation's shared directory, which is a sibling of the task directories.
const RESERVED_NAME: &str = "alloc";
/// Minimum resources of a task (N-18.8).
const CPU_MHZ_MIN: i64 = 1;
const MEMORY_MB_MIN: i64 = 10;
/// Maximum nesting of a driver's configuration, as in job files. With the job around it, it is within the nesting that JSON
/// is read with.
const CONFIG_DEPTH_MAX: usize = 121;

/// Checks a task of a group.
pub(crate) fn task(task: &Task, group: &TaskGroup, kind: Option<JobType>) -> Problems {
    let mut problems = Problems::default();
    name(text(&task.name), &mut problems);
    problems.add_if(text(&task.driver).is_empty(), || "Missing task driver");
    let depth = task.config.iter().flat_map(|config| config.values().map(depth)).max();
    problems.add_if(depth > Some(CONFIG_DEPTH_MAX), || {
        format!("Config nests lists and maps more than {CONFIG_DEPTH_MAX} levels deep")
    });
    driver_config(task, group, &mut problems);
    times(task, group, kind, &mut problems);
    match &task.resources {
        None => problems.add("Missing task resources"),
        Some(resources) => problems.nest("", &self::resources(resources)),
    }
    if let Some(log) = &task.log_config {
        let disk_mb = group.ephemeral_disk.as_ref().map_or(0, |disk| number(disk.size_mb));
        problems.nest("", &log_config(log, disk_mb));
    }
    // A task without a restart policy has its group's, which is checked there.
    if let Some(policy) = task.restart_policy.as_ref().filter(|_| task.restart_policy != group.restart_policy)
    {
        problems.append(policies::restart(policy));
    }
    problems.append(placement::constraints(&task.constraints, Level::Task));
    problems.append(placement::affinities(&task.affinities, kind));
    services::of_task(task, &mut problems);
    destinations::of_task(task, &mut problems);
    volumes::identities(task.identity.as_ref(), &task.identities, &mut problems);
    for secret in items(&task.secrets) {
        let name = text(&secret.name);
        problems
            .add_if(text(&secret.provider).is_empty(), || format!("Secret {} has no provider", quoted(name)));
        problems.add_if(text(&secret.path).is_empty(), || format!("Secret {} has no path", quoted(name)));
    }
    volumes::mounts(task, group, &mut problems);
    if let Some(lifecycle) = &task.lifecycle {
        let hook = text(&lifecycle.hook);
        problems.add_if(hook.is_empty(), || "Lifecycle validation failed: no lifecycle hook provided");
        problems.add_if(!hook.is_empty() && hook.parse::<LifecycleHook>().is_err(), || {
            format!("Lifecycle validation failed: invalid hook: {hook}")
        });
    }
    actions(task, &mut problems);
    problems
}

/// Checks the configuration of the driver, so that a job is refused whose tasks could not start. The tasks of a group
/// without allocations do not start in any case.
fn driver_config(task: &Task, group: &TaskGroup, problems: &mut Problems) {
    if number(group.count) == 0 {
        return;
    }
    let config = task.config.iter().flatten().map(|(key, value)| (key.as_str(), value));
    for mistake in mistakes_in_driver_config(text(&task.driver), config) {
        problems.add(mistake);
    }
}

fn actions(task: &Task, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for action in items(&task.actions) {
        let (name, mut of_action) = (text(&action.name), Problems::default());
        of_action.add_if(text(&action.command).is_empty(), || "command cannot be empty");
        of_action.add_if(!is_identifier(name), || format!("invalid name '{name}'"));
        problems.nest(format_args!("Action {name} validation failed: "), &of_action);
        problems.add_if(!seen.insert(name), || format!("Action {name} defined multiple times"));
    }
}

/// How deep lists and maps are nested. The decoder of requests bounds the recursion.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn name(name: &str, problems: &mut Problems) {
    problems.add_if(name.is_empty(), || "Missing task name");
    problems.add_if(name == RESERVED_NAME, || format!("Task name cannot be {}", quoted(RESERVED_NAME)));
    // The name becomes a part of paths.
    problems.add_if(name.contains(['/', '\\']), || "Task name cannot include slashes");
    problems.add_if(name.contains('\0'), || "Task name cannot include null characters");
    problems.add_if(matches!(name, "." | ".."), || format!("Task name cannot be {}", quoted(name)));
}

fn times(task: &Task, group: &TaskGroup, kind: Option<JobType>, problems: &mut Problems) {
    let kill_timeout = Nanos(number(task.kill_timeout));
    problems.add_if(kill_timeout < Nanos::ZERO, || "KillTimeout must be a positive value");
    problems.add_if(number(task.shutdown_delay) < 0, || "ShutdownDelay must be a positive value");
    let progress = group.update.as_ref().map_or(0, |update| number(update.progress_deadline));
    if kind == Some(JobType::Service) && progress > 0 && kill_timeout.0 > progress {
        problems.add(format!(
            "KillTimeout ({kill_timeout}) longer than the group's ProgressDeadline ({})",
            Nanos(progress)
        ));
    }
}

fn log_config(log: &LogConfig, disk_mb: i64) -> Problems {
    let mut problems = Problems::default();
    let (files, size_mb) = (number(log.max_files), number(log.max_file_size_mb));
    problems.add_if(files < 1, || format!("minimum number of files is 1; got {files}"));
    problems.add_if(size_mb < 1, || format!("minimum file size is 1MB; got {size_mb}"));
    let total_mb = files.saturating_mul(size_mb);
    problems.add_if(!flag(log.disabled) && total_mb >= disk_mb, || {
        format!("log storage ({total_mb} MB) must be less than requested disk capacity ({disk_mb} MB)")
    });
    problems
}

fn resources(resources: &Resources) -> Problems {
    let mut problems = Problems::default();
    let (cpu, cores) = (number(resources.cpu), number(resources.cores));
    problems.add_if(cores > 0 && cpu > 0, || "Task can only ask for 'cpu' or 'cores' resource, not both.");
    problems.nest("", &minimums(resources));
    for (position, device) in (1..).zip(items(&resources.devices)) {
        problems.nest(format_args!("device {position} failed validation: "), &self::device(device));
    }
    let (memory, memory_max) = (number(resources.memory_mb), number(resources.memory_max_mb));
    problems.add_if(memory_max != 0 && memory_max != -1 && memory_max < memory, || {
        format!("MemoryMaxMB value ({memory_max}) should be larger than MemoryMB value ({memory})")
    });
    let secrets = number(resources.secrets_mb);
    problems.add_if(secrets < 0, || format!("SecretsMB value ({secrets}) cannot be negative"));
    problems.add_if(secrets > memory, || {
        format!("SecretsMB value ({secrets}) cannot be larger than MemoryMB value ({memory})")
    });
    problems
}

/// Checks that a task has some compute and some memory.
fn minimums(resources: &Resources) -> Problems {
    let mut problems = Problems::default();
    let (cpu, cores, memory) = (number(resources.cpu), number(resources.cores), number(resources.memory_mb));
    problems.add_if(cores < 0, || format!("cores cannot be negative; got {cores}"));
    problems
        .add_if(cores <= 0 && cpu < CPU_MHZ_MIN, || format!("minimum CPU value is {CPU_MHZ_MIN}; got {cpu}"));
    problems.add_if(memory < MEMORY_MB_MIN, || {
        format!("minimum MemoryMB value is {MEMORY_MB_MIN}; got {memory}")
    });
    problems
}

fn device(device: &RequestedDevice) -> Problems {
    let mut problems = Problems::default();
    let name = text(&device.name);
    problems.add_if(
        name.is_empty(),
        || "device name must be given as one of the following: type, vendor/type, or vendor/type/name",
    );
    problems.append(placement::constraints(&device.constraints, Level::Group));
    problems.append(placement::affinities(&device.affinities, None));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_not_nested_deeper_than_clients_can_read() {
        let found = |levels: usize| {
            let nested = (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
            let config = Some([("args".to_owned(), nested)].into());
            let task = Task { config, ..Task::default() };
            super::task(&task, &TaskGroup::default(), None).into_vec()
        };
        let deep = |problem: &String| problem == "Config nests lists and maps more than 121 levels deep";
        assert!(!found(CONFIG_DEPTH_MAX).iter().any(deep));
        assert!(found(CONFIG_DEPTH_MAX + 1).iter().any(deep));
    }
}
