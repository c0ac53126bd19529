//! Devices that are reserved for tasks: which instances are free (`docs/rules/scheduling.md` ).

use std::collections::BTreeMap;

use model::Text;
use model::alloc::AllocatedDevice;
use model::node::{NodeDeviceGroup, NodeSpec};
use state::AllocRef;

use crate::feasible::DeviceRequest;

/// Vendor, type and name of a device group.
type DeviceKey = [Text; 3];

/// Devices of one node that are in use.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeviceUsage {
    /// Number of allocations that hold each instance, by device group.
    held: BTreeMap<DeviceKey, BTreeMap<Text, u32>>,
}

/// Devices for a request, with their affinity.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReservedDevices {
    pub(crate) devices: AllocatedDevice,
    /// Sum of the weights of the affinities that the device group satisfies.
    pub(crate) affinity: f64,
}

fn key_of(group: &NodeDeviceGroup) -> DeviceKey {
    [&group.vendor, &group.kind, &group.name].map(Text::clone)
}

fn key_of_allocated(device: &AllocatedDevice) -> DeviceKey {
    [&device.vendor, &device.kind, &device.name].map(Text::clone)
}

impl DeviceUsage {
    pub(crate) fn count(&mut self, device: &AllocatedDevice, more: bool) {
        let instances = self.held.entry(key_of_allocated(device)).or_default();
        for id in &device.ids {
            let holders = instances.entry(Text::clone(id)).or_default();
            *holders = if more { *holders + 1 } else { holders.saturating_sub(1) };
        }
    }

    /// Number of instances of a device group that are free and suit a request.
    pub(crate) fn free(&self, request: &DeviceRequest<'_>, group: &NodeDeviceGroup) -> usize {
        self.free_ids(request, group).count()
    }

    /// Instances for a request, all of the device group with the highest affinity. Metrics show the error after
    /// `devices: `.
    pub(crate) fn offer(
        &self,
        spec: &NodeSpec,
        request: &DeviceRequest<'_>,
    ) -> Result<ReservedDevices, &'static str> {
        if spec.resources.devices.is_empty() {
            return Err("no devices available");
        }
        if request.count == 0 {
            return Err("invalid request of zero devices");
        }
        let has_enough =
            |group: &&NodeDeviceGroup| request.matches(group) && self.free(request, group) >= request.count;
        let groups = spec.resources.devices.iter().filter(has_enough);
        let best = groups.map(|group| (request.affinity(group), group)).reduce(|best, next| {
            // If affinities are equal, the later group is chosen.
            if next.0 >= best.0 { next } else { best }
        });
        let (affinity, group) = best.ok_or("no devices match request")?;
        let ids = self.free_ids(request, group).take(request.count).map(Text::clone).collect();
        let [vendor, kind, name] = key_of(group);
        Ok(ReservedDevices { devices: AllocatedDevice { vendor, kind, name, ids }, affinity })
    }

    fn free_ids<'g>(
        &self,
        request: &DeviceRequest<'_>,
        group: &'g NodeDeviceGroup,
    ) -> impl Iterator<Item = &'g Text> {
        let held = self.held.get(&key_of(group));
        let is_free = move |id: &Text| held.and_then(|held| held.get(id)).is_none_or(|holders| *holders == 0);
        let admitted = group.instances.iter().filter(move |instance| request.admits(instance));
        admitted.map(|instance| &instance.id).filter(move |id| is_free(id))
    }
}

/// The devices that an allocation holds.
pub(crate) fn held(alloc: AllocRef<'_>) -> Vec<AllocatedDevice> {
    if !alloc.assigned().has_tasks() {
        return Vec::new();
    }
    let assigned = alloc.assigned().unpack().unwrap_or_default();
    assigned.tasks.into_iter().flat_map(|task| task.devices).collect()
}
