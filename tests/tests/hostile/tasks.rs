//! Attacks by tasks on their node: processes without number, signals, full disks, output without end.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tests::harness::api::text;
use tests::harness::{jobs, processes};
use tokio::time::{interval, sleep};

use crate::attack::{
    Attack, Failure, Outcome, Size, at_once, ensure, expect, expect_answered, expect_refused,
};
use crate::scene::Scene;
use crate::socket::ask;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "fork-bomb",
        does: "a task forks 1,000 processes that fork again when they are ended",
        expected: "none is left when the job is purged",
        size: Size::Full,
        run: |scene| Box::pin(fork_bomb(scene)),
    },
    Attack {
        name: "daemons",
        does: "a task starts processes in sessions of their own, which ignore every signal they can",
        expected: "none is left when the job is purged",
        size: Size::Full,
        run: |scene| Box::pin(daemons(scene)),
    },
    Attack {
        name: "executor-killed",
        does: "a task kills its executor (SIGKILL)",
        expected: "the task ends, and nothing else does",
        size: Size::Full,
        run: |scene| Box::pin(executor_killed(scene)),
    },
    Attack {
        name: "executor-stopped",
        does: "a task stops its executor (SIGSTOP)",
        expected: "other tasks start and end; the task is gone when the job is purged",
        size: Size::Full,
        run: |scene| Box::pin(executor_stopped(scene)),
    },
    Attack {
        name: "full-disk",
        does: "a task fills the disk of its node, a small one, and prints on",
        expected: "the node stays ready, and runs another task when the job is purged",
        size: Size::Full,
        run: |scene| Box::pin(full_disk(scene)),
    },
    Attack {
        name: "endless-output",
        does: "four tasks print as fast as they can, lines without ends among it, for five seconds",
        expected: "logs stay within their size",
        size: Size::Full,
        run: |scene| Box::pin(endless_output(scene)),
    },
    Attack {
        name: "endless-restarts",
        does: "20 tasks that end at once and are restarted without pause",
        expected: "nothing",
        size: Size::Full,
        run: |scene| Box::pin(endless_restarts(scene)),
    },
    Attack {
        name: "odd-commands",
        does: "commands that do not exist, are directories or empty, with NUL, 1 MB of arguments or environment",
        expected: "the task fails, or an error",
        size: Size::Full,
        run: |scene| Box::pin(odd_commands(scene)),
    },
    Attack {
        name: "signal-flood",
        does: "300 signals and 50 restarts of one allocation at once, and signals that do not exist",
        expected: "an answer each",
        size: Size::Full,
        run: |scene| Box::pin(signal_flood(scene)),
    },
];

/// The process ids that a task has written to a file of the cluster.
fn pids_in(file: &Path) -> Vec<i32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Waits until a task has written so many process ids.
async fn wait_for_pids(scene: &Scene, file: &Path, count: usize) -> Result<(), Failure> {
    scene
        .wait_until("the task has started its processes", async || {
            (pids_in(file).len() >= count).then_some(())
        })
        .await
}

/// Purges a job and waits until all processes with these ids have ended.
async fn expect_gone(scene: &Scene, id: &str, file: &Path) -> Outcome {
    scene.purge("default", id).await;
    scene
        .wait_until("the processes of the task have ended", async || {
            pids_in(file).into_iter().all(|pid| !processes::runs(pid)).then_some(())
        })
        .await
}

async fn fork_bomb(scene: &Scene) -> Outcome {
    let file = scene.cluster.path("fork-bomb.pids");
    let script = format!(
        "i=0; while [ $i -lt 500 ]; do \
         sh -c 'trap \"sleep 600 & echo \\$! >> {0}\" TERM; echo $$ >> {0}; sleep 600 & wait; wait' & \
         i=$((i+1)); done; wait",
        file.display()
    );
    scene.run_job(&jobs::service("fork-bomb", &script)).await?;
    wait_for_pids(scene, &file, 450).await?;
    expect_gone(scene, "fork-bomb", &file).await
}

async fn daemons(scene: &Scene) -> Outcome {
    let file = scene.cluster.path("daemons.pids");
    let script = format!(
        "i=0; while [ $i -lt 20 ]; do \
         setsid sh -c 'trap \"\" HUP INT TERM QUIT USR1; \
         (trap \"\" HUP INT TERM; sh -c \"echo \\$\\$ >> {0}; exec sleep 600\") & \
         echo $$ >> {0}; exec sleep 600' >/dev/null 2>&1 < /dev/null & \
         i=$((i+1)); done; trap \"\" TERM INT; while :; do sleep 1; done",
        file.display()
    );
    scene.run_job(&jobs::service("daemons", &script)).await?;
    wait_for_pids(scene, &file, 40).await?;
    expect_gone(scene, "daemons", &file).await
}

async fn executor_killed(scene: &Scene) -> Outcome {
    let file = scene.cluster.path("executor-killed.pids");
    let script = format!("echo $$ >> {}; kill -9 $PPID; sleep 600", file.display());
    expect("registering the job", &scene.register(&jobs::batch("executor-killed", &script)).await, &[200])?;
    wait_for_pids(scene, &file, 1).await?;
    scene
        .wait_until("the task has ended", async || {
            pids_in(&file).into_iter().all(|pid| !processes::runs(pid)).then_some(())
        })
        .await?;
    expect_gone(scene, "executor-killed", &file).await
}

async fn executor_stopped(scene: &Scene) -> Outcome {
    let file = scene.cluster.path("executor-stopped.pids");
    let script = format!("echo $$ >> {}; sleep 1; kill -STOP $PPID; sleep 600", file.display());
    scene.run_job(&jobs::service("executor-stopped", &script)).await?;
    wait_for_pids(scene, &file, 1).await?;
    sleep(Duration::from_secs(2)).await;
    scene.run_job(&jobs::service("beside-a-stopped", "sleep 600")).await?;
    expect_gone(scene, "executor-stopped", &file).await
}

/// A file system in memory, which is unmounted when this is dropped.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(path: &'a Path) -> Result<Self, Failure> {
        fs::create_dir_all(path).map_err(|error| error.to_string())?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=24m,mode=0755", "tmpfs"])
            .arg(path)
            .output()
            .map_err(|error| Failure::NotPossible(format!("mount cannot be started: {error}")))?;
        if mounted.status.success() {
            return Ok(Self(path));
        }
        let cause = String::from_utf8_lossy(&mounted.stderr).trim().to_owned();
        Err(Failure::NotPossible(format!("no file system can be mounted: {cause}")))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // `-l`: whatever still uses it must not keep it.
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

async fn full_disk(scene: &mut Scene) -> Outcome {
    const NODE: &str = "agent@small";
    let path = scene.cluster.path(NODE);
    let disk = SmallDisk::mount(&path)?;
    scene.cluster.spawn(NODE);
    let outcome = fill_disk(scene, NODE).await;
    scene.cluster.kill9(NODE);
    processes::kill_processes_of(&path);
    drop(disk);
    outcome
}

async fn fill_disk(scene: &Scene, node: &str) -> Outcome {
    let is_ready = async || {
        let nodes = scene.cluster.api.try_get("/v1/nodes").await.ok()?;
        let found = nodes.as_array()?.iter().find(|found| text(found, "Name") == node)?.clone();
        (text(&found, "Status") == "ready").then_some(())
    };
    scene.wait_until("the node is ready", &is_ready).await?;
    let on_node = |mut job: serde_json::Value| {
        job["Job"]["Constraints"] =
            json!([{ "LTarget": "${node.unique.name}", "Operand": "=", "RTarget": node }]);
        job
    };
    let script = "echo first; cat /dev/zero > \"$NOMAD_ALLOC_DIR/data/full\"; \
                  while :; do echo printing; echo x > \"$NOMAD_TASK_DIR/x\"; sleep 0.01; done";
    scene.run_job(&on_node(jobs::service("full-disk", script))).await?;
    sleep(Duration::from_secs(5)).await;
    scene.wait_until("the node is ready", &is_ready).await?;
    scene.purge("default", "full-disk").await;
    scene.run_job(&on_node(jobs::service("after-full-disk", "sleep 600"))).await?;
    scene.purge("default", "after-full-disk").await;
    Ok(())
}

async fn endless_output(scene: &Scene) -> Outcome {
    let script = "(yes | tr -d '\\n') & yes & yes error >&2 & cat /dev/urandom";
    let alloc = scene.run_job(&jobs::service("endless-output", script)).await?;
    sleep(Duration::from_secs(5)).await;
    let files = scene.file("ls", &alloc, "alloc/logs", "").await;
    expect("the logs", &files, &[200])?;
    let bytes: u64 =
        files.json().as_array().into_iter().flatten().filter_map(|file| file["Size"].as_u64()).sum();
    // One file of 1 MB for each of two streams, and what is being rotated.
    ensure(bytes <= 6 << 20, || format!("the logs take {bytes} bytes"))?;
    Ok(())
}

async fn endless_restarts(scene: &Scene) -> Outcome {
    let mut job = jobs::service("endless-restarts", "exit 1");
    job["Job"]["TaskGroups"][0]["Count"] = json!(20);
    job["Job"]["TaskGroups"][0]["RestartPolicy"] =
        json!({ "Attempts": 1_000_000, "Interval": 3_600_000_000_000_u64, "Delay": 0, "Mode": "delay" });
    expect_answered("a job that restarts without pause", &scene.register(&job).await)?;
    sleep(Duration::from_secs(5)).await;
    Ok(())
}

async fn odd_commands(scene: &Scene) -> Outcome {
    let long = "a".repeat(1 << 20);
    for (number, config) in [
        json!({ "command": "/does/not/exist" }),
        json!({ "command": "/" }),
        json!({ "command": "" }),
        json!({ "command": "/bin/sh\0" }),
        json!({ "command": "/bin/echo", "args": [long] }),
        json!({ "command": "/bin/echo", "args": vec!["a"; 30_000] }),
        json!({ "command": ["/bin/sh"] }),
        json!({ "command": "${NOMAD_TASK_DIR}/../../../../bin/sh", "args": ["-c", "sleep 1"] }),
        json!({}),
    ]
    .into_iter()
    .enumerate()
    {
        let mut job = jobs::batch(&format!("odd-command-{number}"), "");
        job["Job"]["TaskGroups"][0]["Tasks"][0]["Config"] = config;
        expect_answered(&format!("the command {number}"), &scene.register(&job).await)?;
    }
    let mut job = jobs::batch("odd-environment", "true");
    job["Job"]["TaskGroups"][0]["Tasks"][0]["Env"] =
        json!({ "LONG": "e".repeat(1 << 20), "a=b": "c", "": "d" });
    expect_answered("a long environment", &scene.register(&job).await)?;
    // The agent has tried all of them when one that was registered later runs.
    scene.run_job(&jobs::service("after-odd-commands", "sleep 600")).await?;
    Ok(())
}

async fn signal_flood(scene: &Scene) -> Outcome {
    let script = "trap : USR1; while :; do sleep 0.1; done";
    let alloc = scene.run_job(&jobs::service("signalled", script)).await?;
    let host = scene.host();
    let answers = at_once(350, |number| {
        let host = host.clone();
        let (path, body) = match number % 7 {
            0 => (format!("/v1/client/allocation/{alloc}/restart"), r#"{"TaskName":"task"}"#),
            _ => (format!("/v1/client/allocation/{alloc}/signal"), r#"{"Task":"task","Signal":"SIGUSR1"}"#),
        };
        async move { ask(&host, "PUT", &path, body.as_bytes()).await }
    })
    .await;
    for answer in answers {
        expect_answered("a command for the task", &answer)?;
    }
    let mut due = interval(Duration::from_millis(10));
    for signal in ["SIGNONE", "9", "-9", "", "SIGKILL\0", "sigkill; reboot"] {
        due.tick().await;
        let body = json!({ "Task": "task", "Signal": signal }).to_string();
        let answer =
            scene.ask("PUT", &format!("/v1/client/allocation/{alloc}/signal"), body.as_bytes()).await;
        if signal == "SIGNONE" || signal.contains([';', '\0']) {
            expect_refused(signal, &answer)?;
        } else {
            expect_answered(signal, &answer)?;
        }
    }
    Ok(())
}
