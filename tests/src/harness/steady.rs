//! Tasks that run all the time, one on each node: real processes that write to a file.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::api::text;
use super::{Cluster, jobs, processes};

/// The longest pause between two lines of a running task, in seconds. It writes ten times a second if the machine is
/// not overloaded.
const SILENCE_MAX_SECS: f64 = 4.0;

/// One such task for each of several nodes.
pub struct SteadyTasks {
    tasks: Vec<Task>,
}

struct Task {
    job: String,
    alloc: String,
    pid: i32,
    pids: PathBuf,
    ticks: PathBuf,
}

impl SteadyTasks {
    /// Registers the tasks, and waits until they run.
    ///
    /// # Panics
    /// If they do not run in time.
    pub async fn start(cluster: &Cluster, nodes: &[&str]) -> Self {
        let mut tasks = Vec::new();
        for node in nodes {
            let name = format!("steady-{}", node.replace('@', "-"));
            let [pids, ticks] = ["pids", "ticks"].map(|end| cluster.path(&format!("{name}.{end}")));
            let mut job = jobs::service(&name, &jobs::ticking_script(&pids, &ticks));
            // Without the clock that a test may give to its agent.
            job["Job"]["TaskGroups"][0]["Tasks"][0]["Env"] = json!({ "LD_PRELOAD": "" });
            job["Job"]["Constraints"] =
                json!([{ "LTarget": "${node.unique.name}", "Operand": "=", "RTarget": node }]);
            cluster.api.put("/v1/jobs", &job).await;
            let alloc = cluster.wait_for_alloc(&name, "running").await;
            let pid = cluster
                .wait_until("the task has written its process id", async |_| {
                    fs::read_to_string(&pids).ok()?.trim().parse().ok()
                })
                .await;
            tasks.push(Task { alloc: text(&alloc, "ID").to_owned(), job: name, pid, pids, ticks });
        }
        Self { tasks }
    }

    /// Asserts that the tasks have run without a pause or a restart, and that the API shows it.
    ///
    /// # Panics
    /// If one has not.
    pub async fn assert_never_stopped(&self, cluster: &Cluster) {
        for Task { job, alloc, pid, pids, ticks } in &self.tasks {
            assert!(processes::runs(*pid), "{job} has exited");
            let ran = fs::read_to_string(pids).expect("the task has written its process id");
            assert_eq!(ran.trim(), pid.to_string(), "{job} was restarted");
            let ticks = fs::read_to_string(ticks).expect("the task has written ticks");
            // The last line may be incomplete.
            let whole = ticks.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let moments: Vec<f64> =
                whole.lines().map(|line| line.parse().expect("a tick is a number of seconds")).collect();
            let silences = moments.windows(2).map(|pair| pair[1] - pair[0]);
            let longest = silences.fold(0.0, f64::max);
            assert!(longest < SILENCE_MAX_SECS, "{job} was silent for {longest} s");
            let found: Value = cluster.wait_for_alloc(job, "running").await;
            assert_eq!((text(&found, "ID"), &found["TaskStates"]["task"]["Restarts"]), (&**alloc, &json!(0)));
        }
    }
}
