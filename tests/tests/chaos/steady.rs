//! Tasks that run all the time, one on each node: real processes that say so in a file.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tests::harness::api::text;
use tests::harness::{Cluster, jobs, processes};

/// The longest that a task which runs may be silent, in seconds. It speaks ten times a second where the machine has time.
const SILENCE_MAX_SECS: f64 = 4.0;

/// One such task for each of some nodes.
pub(crate) struct Steady {
    tasks: Vec<Task>,
}

struct Task {
    job: String,
    alloc: String,
    pid: i32,
    pids: PathBuf,
    ticks: PathBuf,
}

impl Steady {
    /// Has them placed, and waits until they run.
    pub(crate) async fn start(cluster: &Cluster, nodes: &[&str]) -> Self {
        let mut tasks = Vec::new();
        for node in nodes {
            let name = format!("steady-{}", node.replace('@', "-"));
            let [pids, ticks] = ["pids", "ticks"].map(|end| cluster.path(&format!("{name}.{end}")));
            let mut job = jobs::service(&name, &jobs::ticking_script(&pids, &ticks));
            job["Job"]["Constraints"] =
                json!([{ "LTarget": "${node.unique.name}", "Operand": "=", "RTarget": node }]);
            cluster.api.put("/v1/jobs", &job).await;
            let alloc = cluster.wait_for_alloc(&name, "running").await;
            let pid = cluster
                .wait_until("the task says who it is", async |_| {
                    fs::read_to_string(&pids).ok()?.trim().parse().ok()
                })
                .await;
            tasks.push(Task { alloc: text(&alloc, "ID").to_owned(), job: name, pid, pids, ticks });
        }
        Self { tasks }
    }

    /// Asserts that they have never stopped, and that everybody knows it.
    pub(crate) async fn assert_never_stopped(&self, cluster: &Cluster) {
        for Task { job, alloc, pid, pids, ticks } in &self.tasks {
            assert!(processes::runs(*pid), "{job} has ended");
            let ran = fs::read_to_string(pids).expect("the task wrote it");
            assert_eq!(ran.trim(), pid.to_string(), "{job} was started again");
            let ticks = fs::read_to_string(ticks).expect("the task wrote it");
            // What is being written may not be whole yet.
            let whole = ticks.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let moments: Vec<f64> =
                whole.lines().map(|line| line.parse().expect("a number of seconds")).collect();
            let silences = moments.windows(2).map(|pair| pair[1] - pair[0]);
            let longest = silences.fold(0.0, f64::max);
            assert!(longest < SILENCE_MAX_SECS, "{job} was silent for {longest} s");
            let found: Value = cluster.wait_for_alloc(job, "running").await;
            assert_eq!((text(&found, "ID"), &found["TaskStates"]["task"]["Restarts"]), (&**alloc, &json!(0)));
        }
    }
}
