//! Conversion of allocated resources, and the legacy copies that older clients read (A.4).

use std::collections::BTreeMap;

use super::public;
use crate::Text;
use crate::alloc::{AllocatedDevice, AllocatedResources, PortMapping, TaskResources};
use crate::invalid::{At, Invalid};
use crate::job::NetworkResource;
use crate::mirror::{Member, Mirror, mirror};

public!(AllocatedResources = AllocatedResources);

impl Mirror for AllocatedResources {
    type Api = api_types::AllocatedResources;

    fn from_api(api: Self::Api) -> Result<Self, Invalid> {
        let mut lifecycles = api.task_lifecycles.unwrap_or_default();
        let mut tasks = Vec::new();
        for (name, task) in api.tasks.unwrap_or_default() {
            let lifecycle = lifecycles.remove(&name).flatten();
            let mut task = task_from_api(task).at_item(&name).at("Tasks")?;
            task.lifecycle = Member::read(lifecycle).at_item(&name).at("TaskLifecycles")?;
            task.name = Text::from(name);
            tasks.push(task);
        }
        if let Some(name) = lifecycles.into_keys().next() {
            return Err(Invalid::new("there is no such task")).at_item(name).at("TaskLifecycles");
        }
        let shared = api.shared.unwrap_or_default();
        Ok(Self {
            tasks,
            disk_mb: Member::read(shared.disk_mb).at("DiskMB").at("Shared")?,
            networks: Member::read(shared.networks).at("Networks").at("Shared")?,
            ports: Member::read(shared.ports).at("Ports").at("Shared")?,
        })
    }

    fn to_api(&self) -> Self::Api {
        let lifecycle = |task: &TaskResources| (task.name.to_string(), task.lifecycle.write());
        Self::Api {
            tasks: Some(by_name(self, task_to_api)),
            task_lifecycles: Some(self.tasks.iter().map(lifecycle).collect()),
            shared: Some(api_types::AllocatedSharedResources {
                networks: self.networks.write(),
                disk_mb: self.disk_mb.write(),
                ports: self.ports.write(),
            }),
        }
    }
}

impl AllocatedResources {
    /// The sum of all tasks' resources and the shared ones.
    pub(super) fn legacy_sum(&self) -> api_types::Resources {
        let sum =
            |amount: fn(&TaskResources) -> i64| self.tasks.iter().map(amount).fold(0, i64::saturating_add);
        let networks = self.tasks.iter().flat_map(|task| &task.networks).chain(&self.networks);
        api_types::Resources {
            cpu: Some(sum(|task| task.cpu_mhz.into())),
            cores: Some(sum(|task| task.cores.len() as i64)),
            memory_mb: Some(sum(|task| task.memory_mb.into())),
            // A task without a limit counts with its reserved memory.
            memory_max_mb: Some(sum(|task| task.memory_max_mb.max(task.memory_mb.into()))),
            networks: networks.cloned().collect::<Vec<NetworkResource>>().write(),
            ..self.legacy_shared()
        }
    }

    /// The resources that the tasks share.
    pub(super) fn legacy_shared(&self) -> api_types::Resources {
        api_types::Resources {
            disk_mb: self.disk_mb.write(),
            networks: self.networks.write(),
            ..legacy_zero()
        }
    }

    /// The resources of each task, by name.
    pub(super) fn legacy_tasks(&self) -> BTreeMap<String, api_types::Resources> {
        by_name(self, |task| api_types::Resources {
            cpu: task.cpu_mhz.write(),
            cores: Some(task.cores.len() as i64),
            memory_mb: task.memory_mb.write(),
            memory_max_mb: task.memory_max_mb.write(),
            networks: task.networks.write(),
            ..legacy_zero()
        })
    }
}

/// Resources with all numbers set to zero instead of `None`.
fn legacy_zero() -> api_types::Resources {
    Mirror::to_api(&crate::job::Resources::default())
}

fn by_name<T>(resources: &AllocatedResources, convert: impl Fn(&TaskResources) -> T) -> BTreeMap<String, T> {
    resources.tasks.iter().map(|task| (task.name.to_string(), convert(task))).collect()
}

/// Converts the resources of a task. The caller sets the name and the lifecycle, which the API stores separately.
fn task_from_api(api: api_types::AllocatedTaskResources) -> Result<TaskResources, Invalid> {
    let cpu = api.cpu.unwrap_or_default();
    let memory = api.memory.unwrap_or_default();
    Ok(TaskResources {
        name: Text::default(),
        lifecycle: None,
        cpu_mhz: Member::read(cpu.cpu_shares).at("CpuShares").at("Cpu")?,
        cores: Member::read(cpu.reserved_cores).at("ReservedCores").at("Cpu")?,
        memory_mb: Member::read(memory.memory_mb).at("MemoryMB").at("Memory")?,
        memory_max_mb: Member::read(memory.memory_max_mb).at("MemoryMaxMB").at("Memory")?,
        networks: Member::read(api.networks).at("Networks")?,
        devices: Member::read(api.devices).at("Devices")?,
    })
}

fn task_to_api(task: &TaskResources) -> api_types::AllocatedTaskResources {
    api_types::AllocatedTaskResources {
        cpu: Some(api_types::AllocatedCpuResources {
            cpu_shares: task.cpu_mhz.write(),
            reserved_cores: task.cores.write(),
        }),
        memory: Some(api_types::AllocatedMemoryResources {
            memory_mb: task.memory_mb.write(),
            memory_max_mb: task.memory_max_mb.write(),
        }),
        networks: task.networks.write(),
        devices: task.devices.write(),
    }
}

mirror! {
    omit_empty PortMapping = AllocatedPortMapping {
        label: "Label",
        value: "Value",
        to: "To",
        host_ip: "HostIP",
        ignore_collision: "IgnoreCollision",
    }
}

mirror! {
    AllocatedDevice = AllocatedDeviceResource { vendor: "Vendor", name: "Name" }
    renamed { kind = r#type: "Type", ids = device_ids: "DeviceIDs" }
}
