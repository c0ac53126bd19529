//! Gives a task the devices that the schedulers assigned to it.

use async_trait::async_trait;

use super::{HookError, StartDraft, TaskHook, TaskRun};
use crate::devices::Reservation;

/// The hook.
pub(super) struct Devices;

#[async_trait]
impl TaskHook for Devices {
    fn name(&self) -> &'static str {
        "devices"
    }

    async fn prestart(&self, run: &TaskRun, draft: &mut StartDraft) -> Result<(), HookError> {
        let resources = run.spec.resources();
        let own = resources.tasks.iter().find(|own| own.name == run.name);
        let Some(own) = own.filter(|own| !own.devices.is_empty()) else { return Ok(()) };
        // The node may have lost a device after the servers assigned it, and may find it again.
        let reserved = run.context.devices.reserve(&own.devices);
        let Reservation { env, mounts, devices } =
            reserved.map_err(|error| HookError::recoverable(error.to_string()))?;
        draft.env.extend(env.clone());
        draft.device_env.extend(env);
        draft.mounts.extend(mounts);
        draft.devices.extend(devices);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;
    use std::sync::Arc;

    use model::Text;
    use model::alloc::{AllocCommon, AllocatedDevice, TaskResources};
    use model::node::{NodeDevice, NodeDeviceGroup};
    use tokio::sync::{mpsc, watch};
    use wire::stats::DeviceGroupStats;

    use super::*;
    use crate::context::Context;
    use crate::devices::{self, DeviceError, DevicePlugin};
    use crate::driver::start::{Device, Mount, Propagation};
    use crate::resources::TaskLimits;
    use crate::task::commands::HookRequests;
    use crate::task::updates::Updates;
    use crate::testing::{context, spec, task_id};

    /// A plugin with one device, which needs a file and a mount.
    struct Fake;

    #[async_trait]
    impl DevicePlugin for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }

        async fn fingerprint(&self) -> Result<Vec<NodeDeviceGroup>, DeviceError> {
            let instance = NodeDevice { id: "one".into(), healthy: true, ..NodeDevice::default() };
            Ok(vec![NodeDeviceGroup { instances: vec![instance], ..NodeDeviceGroup::default() }])
        }

        fn reserve(&self, _: &NodeDeviceGroup, ids: &[Text]) -> Reservation {
            let ids = ids.iter().map(Text::to_string).collect::<Vec<_>>().join(",");
            Reservation {
                env: [("FAKE".to_owned(), ids)].into(),
                mounts: vec![mount()],
                devices: vec![device()],
            }
        }

        async fn stats(&self) -> Result<Vec<DeviceGroupStats>, DeviceError> {
            Ok(Vec::new())
        }
    }

    fn mount() -> Mount {
        let (source, target) = (PathBuf::from("/opt/fake"), PathBuf::from("/opt/fake"));
        Mount {
            source,
            target,
            read_only: true,
            propagation: Propagation::Private,
            selinux_label: String::new(),
        }
    }

    fn device() -> Device {
        let (source, target) = (PathBuf::from("/dev/fake0"), PathBuf::from("/dev/fake0"));
        Device { source, target, permissions: "rw".to_owned() }
    }

    /// Prepares the start of a task that was assigned these instances.
    async fn prepared(ids: &[&str]) -> Result<StartDraft, HookError> {
        let dir = tempfile::tempdir().unwrap();
        let context = Arc::into_inner(context(dir.path(), watch::channel(true).1)).unwrap();
        let devices = devices::Devices::new(vec![Box::new(Fake)]);
        devices.fingerprint().await;
        let context = Arc::new(Context { devices, ..context });
        let mut spec = spec();
        let mut common = AllocCommon::clone(&spec.common);
        let ids: Vec<Text> = ids.iter().map(|id| (*id).into()).collect();
        let assigned = AllocatedDevice { ids, ..AllocatedDevice::default() };
        let assigned = if assigned.ids.is_empty() { Vec::new() } else { vec![assigned] };
        common.resources.tasks =
            vec![TaskResources { name: "web".into(), devices: assigned, ..TaskResources::default() }];
        spec.common = Arc::new(common);
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
            env: [("FAKE".to_owned(), "of the job".to_owned())].into(),
            logs: None,
            resources: TaskLimits::default(),
            cgroup: None,
            mounts: Vec::new(),
            devices: Vec::new(),
            device_env: BTreeMap::new(),
        };
        Devices.prestart(&run, &mut draft).await?;
        Ok(draft)
    }

    /// what the device asks for comes after the task's own environment.
    #[tokio::test]
    async fn a_task_gets_what_its_devices_need() {
        let draft = prepared(&["one"]).await.unwrap();
        assert_eq!(draft.env["FAKE"], "one");
        assert_eq!((draft.mounts, draft.devices), (vec![mount()], vec![device()]));
        let draft = prepared(&[]).await.unwrap();
        assert_eq!(draft.env["FAKE"], "of the job");
        assert!(draft.mounts.is_empty() && draft.devices.is_empty());
    }

    #[tokio::test]
    async fn a_device_that_the_node_has_lost_may_come_back() {
        let error = prepared(&["two"]).await.unwrap_err();
        assert!(error.recoverable && error.message.contains("[two]"), "{error}");
    }
}
