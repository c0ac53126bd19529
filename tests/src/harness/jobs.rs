//! Builders of job registrations: jobs with one group `group` and one task `task` that needs few resources.

use std::path::Path;

use serde_json::{Value, json};

/// A service job of the mock driver.
pub fn mock_service(id: &str, count: usize) -> Value {
    job(id, "service", count, &json!({ "Driver": "mock_driver", "Config": { "run_for": "1h" } }))
}

/// A job of the given type on every node, whose tasks of the mock driver end after `run_for`.
pub fn mock_on_every_node(id: &str, kind: &str, run_for: &str) -> Value {
    job(id, kind, 1, &json!({ "Driver": "mock_driver", "Config": { "run_for": run_for } }))
}

/// A service job that runs a shell script.
pub fn service(id: &str, script: &str) -> Value {
    job(id, "service", 1, &shell(script))
}

/// A batch job that runs a shell script, and is neither restarted nor rescheduled.
pub fn batch(id: &str, script: &str) -> Value {
    let mut job = job(id, "batch", 1, &shell(script));
    let group = &mut job["Job"]["TaskGroups"][0];
    group["RestartPolicy"] = json!({ "Attempts": 0, "Mode": "fail" });
    group["ReschedulePolicy"] = json!({ "Attempts": 0, "Unlimited": false });
    job
}

/// The same as a service or a batch job in a container of an image with `bash`. The job is neither restarted nor
/// rescheduled.
pub fn container(id: &str, kind: &str, image: &str, script: &str) -> Value {
    let config = json!({ "image": image, "command": "bash", "args": ["-c", script], "ports": ["http"] });
    let mut job = job(id, kind, 1, &json!({ "Driver": "docker", "Config": config }));
    let group = &mut job["Job"]["TaskGroups"][0];
    group["RestartPolicy"] = json!({ "Attempts": 0, "Mode": "fail" });
    group["ReschedulePolicy"] = json!({ "Attempts": 0, "Unlimited": false });
    group["Networks"] = json!([{ "DynamicPorts": [{ "Label": "http", "To": 80 }] }]);
    group["Tasks"][0]["Resources"]["MemoryMB"] = json!(32);
    job
}

/// A shell script that appends its process id to `pid`, and then repeatedly the machine's uptime in seconds to `ticks`.
pub fn ticking_script(pid: &Path, ticks: &Path) -> String {
    let (pid, ticks) = (pid.display(), ticks.display());
    format!("echo $$ >> {pid}; while read up idle < /proc/uptime; do echo $up >> {ticks}; sleep 0.1; done")
}

fn shell(script: &str) -> Value {
    json!({ "Driver": "raw_exec", "Config": { "command": "/bin/sh", "args": ["-c", script] } })
}

fn job(id: &str, kind: &str, count: usize, task: &Value) -> Value {
    let mut task = task.clone();
    task["Name"] = json!("task");
    task["Resources"] = json!({ "CPU": 1, "MemoryMB": 10 });
    task["LogConfig"] = json!({ "MaxFiles": 1, "MaxFileSizeMB": 1 });
    task["KillTimeout"] = json!(1_000_000_000);
    json!({ "Job": {
        "ID": id,
        "Type": kind,
        "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "group",
            "Count": count,
            "EphemeralDisk": { "SizeMB": 10 },
            "Tasks": [task],
        }],
    } })
}
