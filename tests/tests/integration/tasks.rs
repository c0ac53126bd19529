//! The environment and directories of a task of a real agent, and its files and output as people see them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{User, geteuid};
use reqwest::Method;
use serde_json::{Value, json};
use tests::harness::api::{array, text};
use tests::harness::{AGENT, Cluster, SERVICES, TIMEOUT, jobs};

use crate::BINARY;

/// The directory of the task of an allocation.
fn task_dir(cluster: &Cluster, alloc: &Value) -> PathBuf {
    cluster.path(AGENT).join("alloc").join(text(alloc, "ID")).join("task")
}

/// The output of the task of an allocation.
async fn output(cluster: &Cluster, alloc: &Value) -> String {
    let path = format!("/v1/client/fs/logs/{}?task=task&type=stdout&plain=true", text(alloc, "ID"));
    let (status, text) = cluster.api.send(Method::GET, &path, "").await;
    assert_eq!(status, 200, "{text}");
    text
}

/// The agent is started with credentials and settings of its own, and with variables that happen to be there.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_sees_of_the_agents_environment_only_what_is_listed() {
    let mut cluster = Cluster::start_processes(BINARY, &[], &SERVICES).await;
    let environment = [
        ("AWS_SECRET_ACCESS_KEY", "s3cret"),
        ("DROVER_DATABASE_URL", "postgres://u:s3cret@h/d"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=s3cret"),
        ("SSH_AUTH_SOCK", "/run/s3cret"),
        ("DROVER_ENV_ALLOWLIST", "HTTPS_PROXY,JAVA_*"),
        ("HTTPS_PROXY", "http://proxy.example.org"),
        ("JAVA_HOME", "/opt/java"),
        ("LANG", "C.UTF-8"),
        ("TZ", "UTC"),
        ("PATH", "/usr/bin:/bin:/s3cret"),
    ];
    let environment = environment.map(|(name, value)| (name, value.to_owned()));
    cluster.spawn_with(AGENT, &environment);
    let mut job = jobs::batch("env", "");
    let task = &mut job["Job"]["TaskGroups"][0]["Tasks"][0];
    task["Config"] = json!({ "command": "env" });
    task["Env"] = json!({ "FROM_JOB": "yes" });
    cluster.api.put("/v1/jobs", &job).await;
    let alloc = cluster.wait_for_alloc("env", "complete").await;

    let output = output(&cluster, &alloc).await;
    let seen: BTreeMap<&str, &str> = output.lines().filter_map(|line| line.split_once('=')).collect();
    assert!(!output.contains("s3cret"), "{output}");
    let user =
        User::from_uid(geteuid()).expect("users can be looked up").expect("the user of the test is listed");
    let expected = [
        ("FROM_JOB", "yes"),
        ("HOME", user.dir.to_str().expect("the home directory is text")),
        ("HTTPS_PROXY", "http://proxy.example.org"),
        ("JAVA_HOME", "/opt/java"),
        ("LANG", "C.UTF-8"),
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("TZ", "UTC"),
        ("USER", &user.name),
    ];
    let others = seen.iter().filter(|(name, _)| !name.starts_with("NOMAD_"));
    let others: Vec<(&str, &str)> = others.map(|(name, value)| (*name, *value)).collect();
    assert_eq!(others, expected);
    let nomad: BTreeSet<&str> = seen.into_keys().filter(|name| name.starts_with("NOMAD_")).collect();
    for name in ["NOMAD_ALLOC_ID", "NOMAD_TASK_DIR", "NOMAD_SECRETS_DIR", "NOMAD_MEMORY_LIMIT"] {
        assert!(nomad.contains(name), "{name}: {nomad:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn following_the_output_of_a_task_ends_with_the_task() {
    let cluster = Cluster::start(BINARY, &[]).await;
    let go = cluster.path("go");
    let script = format!("echo begun; while [ ! -e {} ]; do sleep 0.1; done; echo over", go.display());
    cluster.api.put("/v1/jobs", &jobs::batch("short", &script)).await;
    let alloc = cluster.wait_for_alloc("short", "running").await;
    let id = text(&alloc, "ID");
    let plain = format!("/v1/client/fs/logs/{id}?task=task&type=stdout&follow=true&plain=true");
    let framed = format!("/v1/client/fs/logs/{id}?task=task&type=stdout&follow=true");
    let following = {
        let (api, plain) = (cluster.api.clone(), plain.clone());
        tokio::spawn(async move { api.send(Method::GET, &plain, "").await })
    };
    fs::write(&go, "").expect("the file can be written");
    let followed = tokio::time::timeout(TIMEOUT, following).await.expect("the response ends with the task");
    assert_eq!(followed.expect("the request does not panic"), (200, "begun\nover\n".to_owned()));

    // Nothing more comes of a task that has ended already.
    for path in [&plain, &framed] {
        let response = tokio::time::timeout(TIMEOUT, cluster.api.send(Method::GET, path, "")).await;
        assert_eq!(response.expect("the response ends").0, 200, "{path}");
    }
}

/// All names are shown alike, and there are more than fit into one answer of the agent.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_listed_once_whatever_its_names_are() {
    const NAMES: usize = 2_100;
    let cluster = Cluster::start(BINARY, &[]).await;
    cluster.api.put("/v1/jobs", &jobs::service("files", "exec sleep 600")).await;
    let alloc = cluster.wait_for_alloc("files", "running").await;
    let local = task_dir(&cluster, &alloc).join("local");
    for number in 0..NAMES {
        let name = [0xff, 0x80 | (number >> 6) as u8, 0x80 | (number & 0x3f) as u8];
        fs::write(local.join(OsStr::from_bytes(&name)), "").expect("the file can be written");
    }
    let path = format!("/v1/client/fs/ls/{}?path=/task/local", text(&alloc, "ID"));
    let listed = tokio::time::timeout(TIMEOUT, cluster.api.get(&path)).await.expect("the listing ends");
    assert_eq!(array(&listed).len(), NAMES);
}

/// Where the agent may mount, the secrets of a task are in memory, and otherwise on disk.
#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_for_the_tasks_user_alone_and_end_with_the_allocation() {
    let cluster = Cluster::start(BINARY, &[]).await;
    let mut job =
        jobs::batch("secret", "echo sesame > $NOMAD_SECRETS_DIR/key; stat -c %a $NOMAD_SECRETS_DIR");
    job["Job"]["TaskGroups"][0]["Tasks"][0]["Resources"]["SecretsMB"] = json!(2);
    cluster.api.put("/v1/jobs", &job).await;
    let alloc = cluster.wait_for_alloc("secret", "complete").await;
    assert_eq!(output(&cluster, &alloc).await, "700\n");
    let secrets = task_dir(&cluster, &alloc).join("secrets");
    assert_eq!(fs::read_to_string(secrets.join("key")).expect("the task wrote it"), "sesame\n");
    if let Some(options) = mount_of(&secrets) {
        assert!(options.contains("size=2048k") && options.contains("noexec"), "{options}");
    }

    cluster.api.delete("/v1/job/secret?purge=true").await;
    cluster
        .wait_until("the allocation's files are removed", async |cluster| {
            let (status, _) = cluster.api.send(Method::PUT, "/v1/system/gc", "").await;
            (status == 200 && !secrets.exists()).then_some(())
        })
        .await;
    assert_eq!(mount_of(&secrets), None);
}

/// The options of the file system that is mounted at a path.
fn mount_of(path: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("the mounts can be read");
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found = mounts.find(|fields| fields.get(1).is_some_and(|point| Path::new(point) == path))?;
    found.get(3).map(|options| (*options).to_owned())
}

/// What has ended stays for people until someone wants it removed, or the node needs the room.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_is_removed_from_its_node_on_request() {
    let cluster = Cluster::start(BINARY, &[]).await;
    for id in ["first", "second"] {
        cluster.api.put("/v1/jobs", &jobs::batch(id, "true")).await;
    }
    cluster.api.put("/v1/jobs", &jobs::service("runs", "exec sleep 600")).await;
    let [first, second] = [
        cluster.wait_for_alloc("first", "complete").await,
        cluster.wait_for_alloc("second", "complete").await,
    ];
    let running = cluster.wait_for_alloc("runs", "running").await;
    let remove = async |alloc: &Value| {
        let path = format!("/v1/client/allocation/{}/gc", text(alloc, "ID"));
        cluster.api.send(Method::PUT, &path, "").await
    };
    let refused = "No such allocation on client, or allocation not eligible for GC";
    assert_eq!(remove(&running).await, (500, refused.to_owned()));
    assert!(task_dir(&cluster, &first).exists());
    // The agent may still be cleaning up after the task.
    cluster
        .wait_until("the allocation can be removed", async |_| (remove(&first).await.0 == 200).then_some(()))
        .await;
    assert!(!task_dir(&cluster, &first).exists());
    assert_eq!(remove(&first).await, (200, String::new()), "it was removed before");
    assert!(task_dir(&cluster, &second).exists());
    let path = format!("/v1/client/gc?node_id={}", text(&running, "NodeID"));
    cluster
        .wait_until("all that has ended is removed", async |cluster| {
            let answer = cluster.api.send(Method::PUT, &path, "").await;
            assert_eq!(answer, (200, String::new()));
            (!task_dir(cluster, &second).exists()).then_some(())
        })
        .await;
    assert!(task_dir(&cluster, &running).exists());
    let known = cluster.api.get(&format!("/v1/allocation/{}", text(&first, "ID"))).await;
    assert_eq!(text(&known, "ClientStatus"), "complete", "the servers keep what they know");
}

/// What a program in place of `nvidia-smi` prints about two GPUs: facts, and statistics.
const GPU_FACTS: &str = "\
GPU-a, Tesla T4, 00000000:00:1E.0, 15360, 70.00, 1590, 5001, 3, 16, Enabled, Enabled, 535.54.03, [N/A]
GPU-b, Tesla T4, 00000000:00:1F.0, 15360, 70.00, 1590, 5001, 3, 16, Enabled, Enabled, 535.54.03, [N/A]
";
const GPU_STATS: &str = "\
GPU-a, Tesla T4, 100, 15360, 37.05, 70.00, 12, 3, 41
GPU-b, Tesla T4, 0, 15360, 30.00, 70.00, 0, 0, 39
";

/// A node offers its GPUs, the scheduler assigns them, and a task sees its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_gets_the_gpus_that_it_asks_for() {
    let mut cluster = Cluster::start_processes(BINARY, &[], &SERVICES).await;
    let [facts, stats, script, program] =
        ["facts", "stats", "script", "nvidia-smi"].map(|name| cluster.path(name));
    for (file, content) in [(&facts, GPU_FACTS), (&stats, GPU_STATS)] {
        fs::write(file, content).expect("the file can be written");
    }
    let (facts, stats) = (facts.display(), stats.display());
    let text_of_script =
        format!("#!/bin/sh\ncase \"$1\" in *mig.mode*) exec cat {facts} ;; *) exec cat {stats} ;; esac\n");
    fs::write(&script, text_of_script).expect("the file can be written");
    // Another process writes the program: it could not be executed while a process has it open for writing.
    let copied = Command::new("install").arg("-m755").arg(&script).arg(&program).status();
    assert!(copied.expect("install can be started").success());
    cluster.spawn_with(AGENT, &[("DROVER_NVIDIA_SMI", program.display().to_string())]);

    let gpus = |id: &str, count: u32, script: &str| {
        let mut job = jobs::batch(id, script);
        job["Job"]["TaskGroups"][0]["Tasks"][0]["Resources"]["Devices"] = json!([{
            "Name": "nvidia/gpu",
            "Count": count,
            "Constraints": [{ "LTarget": "${device.attr.memory}", "Operand": ">=", "RTarget": "8 GiB" }],
        }]);
        job
    };
    let go = cluster.path("go");
    let wait = format!("echo $NVIDIA_VISIBLE_DEVICES; while [ ! -e {} ]; do sleep 0.1; done", go.display());
    cluster.api.put("/v1/jobs", &gpus("one", 1, &wait)).await;
    let one = cluster.wait_for_alloc("one", "running").await;
    let given = &one["AllocatedResources"]["Tasks"]["task"]["Devices"][0];
    assert_eq!((text(given, "Vendor"), text(given, "Name")), ("nvidia", "Tesla T4"));
    let own = given["DeviceIDs"][0].as_str().expect("the task has a GPU").to_owned();
    cluster.api.put("/v1/jobs", &gpus("other", 1, "echo $NVIDIA_VISIBLE_DEVICES")).await;
    let other = cluster.wait_for_alloc("other", "complete").await;
    let others = output(&cluster, &other).await;
    assert!(["GPU-a\n", "GPU-b\n"].contains(&others.as_str()) && others.trim() != own, "{own} {others}");

    let usage = cluster.api.get(&format!("/v1/client/allocation/{}/stats", text(&one, "ID"))).await;
    let measured = &usage["Tasks"]["task"]["ResourceUsage"]["DeviceStats"][0]["InstanceStats"];
    let ids: Vec<&String> = measured.as_object().into_iter().flat_map(|ids| ids.keys()).collect();
    assert_eq!(ids, [&own]);
    let host = cluster.api.get(&format!("/v1/client/stats?node_id={}", text(&one, "NodeID"))).await;
    let summary = &host["DeviceStats"][0]["InstanceStats"]["GPU-a"]["Summary"];
    assert_eq!((&summary["IntNumeratorVal"], &summary["Unit"]), (&json!(100), &json!("MiB")));
    fs::write(&go, "").expect("the file can be written");
    cluster.wait_for_alloc("one", "complete").await;
    assert_eq!(output(&cluster, &one).await.trim(), own);
}
