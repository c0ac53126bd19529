//! Mistakes in the configuration of drivers that would fail a task as soon as it starts: unknown keys, and no command
//! (`docs/rules/agent.md` A-22). Only drivers that are built in are checked. Pure.

use api_types::{Job, Task};
use model::job::keys_of_driver;

/// Drivers that need one of these keys.
const REQUIRED: [(&str, &[&str]); 3] =
    [("raw_exec", &["command"]), ("exec", &["command"]), ("java", &["class", "jar_path"])];

/// The mistakes in a job, a sentence each.
pub(super) fn mistakes(job: &Job) -> Vec<String> {
    let mut mistakes = Vec::new();
    for group in job.task_groups.iter().flatten() {
        for task in group.tasks.iter().flatten() {
            let group = group.name.as_deref().unwrap_or_default();
            let name = task.name.as_deref().unwrap_or_default();
            let of_task = of_task(task).into_iter();
            mistakes
                .extend(of_task.map(|mistake| format!("task \"{name}\" of group \"{group}\": {mistake}")));
        }
    }
    mistakes
}

fn of_task(task: &Task) -> Vec<String> {
    let driver = task.driver.as_deref().unwrap_or_default();
    let Some(known) = keys_of_driver(driver) else { return Vec::new() };
    let known: Vec<&str> = known.collect();
    let config = || task.config.iter().flatten();
    let unknown = config().filter(|(key, _)| !known.contains(&key.as_str()));
    let mut mistakes: Vec<String> = unknown
        .map(|(key, _)| {
            format!("the driver {driver} has no setting \"{key}\"; its settings are {}", known.join(", "))
        })
        .collect();
    let required = REQUIRED.iter().find(|(name, _)| *name == driver).map(|(_, required)| *required);
    if let Some(required) = required
        && !config().any(|(key, value)| required.contains(&key.as_str()) && !value.is_null())
    {
        mistakes.push(format!("the driver {driver} needs {} in its config", required.join(" or ")));
    }
    mistakes
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(driver: &str, config: &Value) -> Vec<String> {
        let tasks = json!([{ "Name": "app", "Driver": driver, "Config": config }]);
        let job = json!({ "TaskGroups": [{ "Name": "web", "Tasks": tasks }] });
        mistakes(&api_types::decode::from_slice(job.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn tasks_that_could_not_start_are_named() {
        let found = of("exec", &json!({ "cmd": "/bin/true" }));
        assert_eq!(
            found,
            [
                "task \"app\" of group \"web\": the driver exec has no setting \"cmd\"; its settings are args, cap_add, \
                 cap_drop, command, ipc_mode, pid_mode, work_dir",
                "task \"app\" of group \"web\": the driver exec needs command in its config",
            ]
        );
        assert_eq!(
            of("java", &Value::Null),
            ["task \"app\" of group \"web\": the driver java needs class or jar_path in its config"]
        );
    }

    #[test]
    fn tasks_that_can_start_and_other_drivers_are_left_alone() {
        assert!(of("raw_exec", &json!({ "command": "/bin/true", "args": ["a"] })).is_empty());
        assert!(of("java", &json!({ "jar_path": "a.jar" })).is_empty());
        assert!(of("docker", &json!({ "image": "web" })).is_empty());
        assert!(
            of("docker", &json!({ "picture": "web" }))[0]
                .starts_with("task \"app\" of group \"web\": the driver docker has")
        );
        assert!(of("mine", &json!({ "x": 1 })).is_empty());
    }
}
