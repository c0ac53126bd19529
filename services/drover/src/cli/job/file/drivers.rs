//! Mistakes in the configuration of drivers that would fail a task as soon as it starts: unknown keys, and no command
//! (`docs/rules/agent.md` A-22). Only drivers whose keys are all known here are checked. Pure.

use api_types::{Job, Task};

/// The keys of a driver's configuration, and those of which one is required.
struct Keys {
    driver: &'static str,
    known: &'static [&'static str],
    required: &'static [&'static str],
}

const DRIVERS: [Keys; 3] = [
    Keys {
        driver: "raw_exec",
        known: &[
            "args",
            "cgroup_v1_override",
            "cgroup_v2_override",
            "command",
            "denied_envvars",
            "oom_score_adj",
            "work_dir",
        ],
        required: &["command"],
    },
    Keys {
        driver: "exec",
        known: &["args", "cap_add", "cap_drop", "command", "ipc_mode", "pid_mode", "work_dir"],
        required: &["command"],
    },
    Keys {
        driver: "java",
        known: &[
            "args",
            "cap_add",
            "cap_drop",
            "class",
            "class_path",
            "ipc_mode",
            "jar_path",
            "jvm_options",
            "pid_mode",
            "work_dir",
        ],
        required: &["class", "jar_path"],
    },
];

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
    let Some(keys) = DRIVERS.iter().find(|keys| keys.driver == driver) else { return Vec::new() };
    let config = || task.config.iter().flatten();
    let unknown = config().filter(|(key, _)| !keys.known.contains(&key.as_str()));
    let mut mistakes: Vec<String> = unknown
        .map(|(key, _)| {
            format!(
                "the driver {driver} has no setting \"{key}\"; its settings are {}",
                keys.known.join(", ")
            )
        })
        .collect();
    if !config().any(|(key, value)| keys.required.contains(&key.as_str()) && !value.is_null()) {
        mistakes.push(format!("the driver {driver} needs {} in its config", keys.required.join(" or ")));
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
        assert!(of("docker", &json!({ "picture": "web" })).is_empty());
        assert!(of("mine", &json!({ "x": 1 })).is_empty());
    }
}
