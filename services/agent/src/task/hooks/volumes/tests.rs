//! Tests of the hook that mounts host volumes into tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::HostVolumeId;
use model::job::{JobType, TaskGroup};
use tokio::sync::{mpsc, watch};

use super::*;
use crate::resources::TaskLimits;
use crate::task::commands::HookRequests;
use crate::task::updates::Updates;
use crate::testing::{context, task, task_id, with_group};
use crate::volumes::plugin::{MKDIR, Wanted};

fn request(source: &str, per_alloc: bool) -> VolumeRequest {
    VolumeRequest {
        name: "data".into(),
        kind: VolumeKind::Host,
        source: source.into(),
        read_only: false,
        sticky: false,
        access_mode: None,
        attachment_mode: None,
        mount_options: None,
        per_alloc,
    }
}

fn mount(destination: &str) -> VolumeMount {
    VolumeMount { volume: "data".into(), destination: destination.into(), ..VolumeMount::default() }
}

/// Prepares the start of a task on a node that has the volume `disk[0]`.
async fn prepared(request: VolumeRequest, mount: VolumeMount) -> Result<StartDraft, HookError> {
    let dir = tempfile::tempdir().unwrap();
    let context = context(dir.path(), watch::channel(true).1);
    let wanted = Wanted {
        id: HostVolumeId::from_bytes([1; 16]),
        namespace: "default".into(),
        name: "disk[0]".into(),
        plugin: MKDIR.into(),
        bytes_min: 0,
        bytes_max: 0,
        parameters: BTreeMap::new(),
    };
    context.volumes.create(wanted).await.unwrap();
    let web = model::job::Task { volume_mounts: vec![mount], ..task("web") };
    let volumes = [("data".into(), request)].into();
    let group = TaskGroup { name: "app".into(), tasks: vec![web], volumes, ..TaskGroup::default() };
    let spec = with_group(JobType::Service, group);
    let run = TaskRun {
        name: "web".into(),
        setup: Arc::default(),
        dirs: context.dirs(spec.id()).task("web"),
        account: None,
        requests: HookRequests::default(),
        updates: Updates { task: "web".into(), inbox: mpsc::channel(1).0 },
        spec: Arc::new(spec),
        context,
    };
    let mut draft = StartDraft {
        id: task_id(),
        state_dir: dir.path().join("driver"),
        env: [("WHERE".to_owned(), "srv".to_owned())].into(),
        logs: None,
        resources: TaskLimits::default(),
        cgroup: None,
        mounts: Vec::new(),
        devices: Vec::new(),
        device_env: BTreeMap::new(),
    };
    Volumes.prestart(&run, &mut draft).await?;
    Ok(draft)
}

#[tokio::test]
async fn a_volume_is_mounted_with_the_modes_of_its_mount() {
    //
    let mount = VolumeMount {
        read_only: true,
        propagation_mode: Some(PropagationMode::HostToTask),
        selinux_label: "z".into(),
        ..mount("/${WHERE}/data")
    };
    let mounts = prepared(request("disk", true), mount).await.unwrap().mounts;
    assert_eq!(mounts.len(), 1);
    assert!(mounts[0].source.ends_with("host_volumes/01010101-0101-0101-0101-010101010101"));
    assert_eq!(mounts[0].target, Path::new("/srv/data"));
    assert!(mounts[0].read_only);
    assert_eq!((mounts[0].propagation, &*mounts[0].selinux_label), (Propagation::HostToTask, "z"));
}

#[tokio::test]
async fn a_missing_volume_fails_the_start() {
    //
    let error = prepared(request("disk", false), mount("/data")).await.unwrap_err();
    assert_eq!((error.recoverable, &*error.message), (true, "no host volume \"disk\" on this node"));
    let error = prepared(request("disk[0]", false), mount("../data")).await.unwrap_err();
    assert!(!error.recoverable && error.message.ends_with("must not contain .."), "{error}");
}

#[test]
fn destinations_are_paths_below_the_root_of_the_task() {
    let path = |text: &str| target(text).map(|path| path.display().to_string());
    assert_eq!(path("/data"), Ok("/data".to_owned()));
    assert_eq!(path("data/./x"), Ok("/data/x".to_owned()));
    for wrong in ["", "/", ".", "/a/../..", ".."] {
        assert!(target(wrong).is_err(), "{wrong}");
    }
}
