//! Jobs in few words, as the API takes them: of one group `group` with one task `task`, which ask for next to nothing.

use std::path::Path;

use serde_json::{Value, json};

/// A service whose tasks only pretend to run.
pub fn pretending(id: &str, count: usize) -> Value {
    job(id, "service", count, &json!({ "Driver": "mock_driver", "Config": { "run_for": "1h" } }))
}

/// A job of this type, on every node that there is, whose tasks only pretend to run so long.
pub fn on_every_node(id: &str, kind: &str, run_for: &str) -> Value {
    job(id, kind, 1, &json!({ "Driver": "mock_driver", "Config": { "run_for": run_for } }))
}

/// A service that is a shell script.
pub fn service(id: &str, script: &str) -> Value {
    job(id, "service", 1, &shell(script))
}

/// A batch job that is a shell script; it is neither restarted nor rescheduled.
pub fn batch(id: &str, script: &str) -> Value {
    let mut job = job(id, "batch", 1, &shell(script));
    let group = &mut job["Job"]["TaskGroups"][0];
    group["RestartPolicy"] = json!({ "Attempts": 0, "Mode": "fail" });
    group["ReschedulePolicy"] = json!({ "Attempts": 0, "Unlimited": false });
    job
}

/// A shell script that writes its process id to `pid` as a further line, and then a line to `ticks` again and again:
/// for how many seconds the machine has been up.
pub fn ticking(pid: &Path, ticks: &Path) -> String {
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
