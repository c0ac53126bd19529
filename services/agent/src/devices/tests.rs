//! Tests of devices, with a script in place of `nvidia-smi`.

use std::path::{Path, PathBuf};
use std::process::Command;

use model::node::NodeDevice;

use super::nvidia::Nvidia;
use super::*;

/// What `nvidia-smi` prints about facts: three GPUs of one model, and a divided one of another.
const FACTS: &str = "\
GPU-a, Tesla T4, 00000000:00:1E.0, 15360, 70.00, 1590, 5001, 3, 16, Enabled, Enabled, 535.54.03, [N/A]
GPU-b, Tesla T4, 00000000:00:1F.0, 15360, 70.00, 1590, 5001, 3, 16, Enabled, Enabled, 535.54.03, [N/A]
GPU-ignored-d, Tesla T4, 00000000:00:20.0, 15360, 70.00, 1590, 5001, 3, 16, Enabled, Enabled, 535.54.03, [N/A]
GPU-c, NVIDIA A100, 00000000:01:00.0, 40960, 400.00, 1410, 1215, 4, 16, Disabled, Enabled, 535.54.03, Enabled
";
/// What it prints for statistics.
const STATS: &str = "\
GPU-a, Tesla T4, 100, 15360, 37.05, 70.00, 12, 3, 41
GPU-b, Tesla T4, 0, 15360, [N/A], 70.00, 0, 0, 39
";

/// Makes a program of a script. Another process writes it: a file that this process has open for writing, which a child of
/// another test inherits, could not be executed.
fn script(dir: &Path, text: &str) -> PathBuf {
    let (source, program) = (dir.join("source"), dir.join("nvidia-smi"));
    std::fs::write(&source, format!("#!/bin/sh\n{text}")).unwrap();
    let copied = Command::new("install").arg("-m755").arg(&source).arg(&program).status().unwrap();
    assert!(copied.success());
    program
}

fn answering(dir: &Path) -> PathBuf {
    std::fs::write(dir.join("facts"), FACTS).unwrap();
    std::fs::write(dir.join("stats"), STATS).unwrap();
    let answer = |name: &str| dir.join(name).display().to_string();
    let text = format!(
        "case \"$1\" in *mig.mode*) exec cat {} ;; *) exec cat {} ;; esac\n",
        answer("facts"),
        answer("stats")
    );
    script(dir, &text)
}

fn devices(program: PathBuf) -> Devices {
    Devices::new(vec![Box::new(Nvidia::new(program, vec!["GPU-ignored".to_owned()]))])
}

fn assigned(ids: &[&str]) -> AllocatedDevice {
    let ids = ids.iter().map(|id| (*id).into()).collect();
    AllocatedDevice { vendor: "nvidia".into(), kind: "gpu".into(), name: "Tesla T4".into(), ids }
}

#[tokio::test]
async fn gpus_are_found_with_what_constraints_ask_about() {
    let dir = tempfile::tempdir().unwrap();
    let groups = devices(answering(dir.path())).fingerprint().await;
    assert_eq!(groups.len(), 2);
    let names: Vec<_> = groups.iter().map(|group| (&*group.vendor, &*group.kind, &*group.name)).collect();
    assert_eq!(names, [("nvidia", "gpu", "Tesla T4"), ("nvidia", "gpu", "NVIDIA A100")]);
    let attribute = |name: &str| &groups[0].attributes[name];
    assert_eq!((attribute("memory").int, attribute("memory").unit.as_deref()), (Some(15_360), Some("MiB")));
    assert_eq!(attribute("pci_bandwidth").int, Some(15_760));
    assert_eq!(attribute("driver_version").string.as_deref(), Some("535.54.03"));
    let [first, second] = groups[0].instances.as_slice() else { panic!("{groups:?}") };
    assert!(first.healthy && second.healthy);
    assert_eq!((&*first.id, first.pci_bus_id.as_deref()), ("GPU-a", Some("00000000:00:1E.0")));
    let NodeDevice { healthy, health_description, .. } = &groups[1].instances[0];
    assert!(!healthy && health_description.contains("MIG"), "{health_description}");
}

///
#[tokio::test]
async fn a_task_sees_the_gpus_that_it_was_assigned() {
    let dir = tempfile::tempdir().unwrap();
    let devices = devices(answering(dir.path()));
    devices.fingerprint().await;
    let reservation = devices.reserve(&[assigned(&["GPU-b", "GPU-a"])]).unwrap();
    assert_eq!(reservation.env["NVIDIA_VISIBLE_DEVICES"], "GPU-b,GPU-a");
    let error = devices.reserve(&[assigned(&["GPU-x"])]).unwrap_err().to_string();
    assert_eq!(error, "unknown device nvidia/gpu/Tesla T4[GPU-x]");
    let other = AllocatedDevice { name: "K80".into(), ..assigned(&["GPU-a"]) };
    assert_eq!(devices.reserve(&[other]).unwrap_err().to_string(), "unknown device nvidia/gpu/K80[GPU-a]");
}

#[tokio::test]
async fn the_usage_of_gpus_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let devices = devices(answering(dir.path()));
    assert!(devices.stats().await.is_empty(), "nothing was found yet");
    devices.fingerprint().await;
    let all = devices.stats().await;
    let [group] = all.as_slice() else { panic!("{all:?}") };
    let summary = group.instances[0].summary.clone().unwrap();
    assert_eq!((summary.value, summary.of, &*summary.unit), (100.0, Some(15_360.0), "MiB"));
    let names =
        |at: usize| -> Vec<&str> { group.instances[at].stats.iter().map(|stat| &*stat.name).collect() };
    assert_eq!(names(0).len(), 5);
    assert!(!names(1).contains(&"Power usage"), "it is not measured");
    let own = Devices::of_task(&all, &[assigned(&["GPU-b"])]);
    let ids: Vec<_> = own.iter().flat_map(|group| &group.instances).map(|one| &*one.id).collect();
    assert_eq!(ids, ["GPU-b"]);
}

#[tokio::test]
async fn a_failure_is_told_by_the_health_of_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let devices = devices(answering(dir.path()));
    assert!(devices.fingerprint().await[0].instances[0].healthy);
    script(dir.path(), "echo 'NVIDIA-SMI has failed'\nexit 9\n");
    let groups = devices.fingerprint().await;
    let NodeDevice { healthy, health_description, .. } = &groups[0].instances[0];
    assert!(!healthy && health_description.contains("NVIDIA-SMI has failed"), "{health_description}");
}

#[tokio::test]
async fn a_node_without_the_program_has_no_gpus() {
    let dir = tempfile::tempdir().unwrap();
    let devices = devices(dir.path().join("nvidia-smi"));
    assert!(devices.fingerprint().await.is_empty());
    script(dir.path(), "echo 'No devices were found'\n");
    assert!(devices.fingerprint().await.is_empty());
}
