//! Devices of the node, such as GPUs: which there are, what a task needs to use them, and how busy they are.
//! Each kind of device has a plugin ([`DevicePlugin`]). The schedulers decide which task gets which devices.

mod known;
pub(crate) mod nvidia;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use model::Text;
use model::alloc::AllocatedDevice;
use model::node::NodeDeviceGroup;
use telemetry::{chain, clock};
use wire::stats::DeviceGroupStats;

use self::known::Known;
use crate::driver::start::{Device, Mount};

/// How long the last statistics are used again. Several requests at once cost one measurement.
const STATS_AGE_MAX: Duration = Duration::from_secs(2);

/// A kind of device.
#[async_trait]
pub(crate) trait DevicePlugin: Send + Sync {
    /// Its name, for logs and errors.
    fn name(&self) -> &'static str;

    /// Finds the devices. None is no error; what prevents finding those that there were is one.
    async fn fingerprint(&self) -> Result<Vec<NodeDeviceGroup>, DeviceError>;

    /// What a task needs to use these instances of a group, all of which exist.
    fn reserve(&self, group: &NodeDeviceGroup, ids: &[Text]) -> Reservation;

    /// How busy the devices are.
    async fn stats(&self) -> Result<Vec<DeviceGroupStats>, DeviceError>;
}

/// What a task needs to use devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reservation {
    /// Environment variables.
    pub(crate) env: BTreeMap<String, String>,
    /// What is mounted into the task.
    pub(crate) mounts: Vec<Mount>,
    /// Device files for the task.
    pub(crate) devices: Vec<Device>,
}

/// A plugin cannot find or measure its devices, or there is no such device.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DeviceError(pub(crate) String);

/// The devices of the node.
#[derive(Clone, Default)]
pub(crate) struct Devices(Arc<Vec<Kind>>);

/// A plugin with what is known of its devices.
struct Kind {
    plugin: Box<dyn DevicePlugin>,
    known: Mutex<Known>,
    stats: Mutex<Option<(Instant, Vec<DeviceGroupStats>)>>,
}

impl Devices {
    /// Devices of these kinds.
    pub(crate) fn new(plugins: Vec<Box<dyn DevicePlugin>>) -> Self {
        let kind = |plugin| Kind { plugin, known: Mutex::default(), stats: Mutex::default() };
        Self(Arc::new(plugins.into_iter().map(kind).collect()))
    }

    /// Finds the devices, as they are registered with the node. What a plugin found before and cannot find now is unhealthy.
    pub(crate) async fn fingerprint(&self) -> Vec<NodeDeviceGroup> {
        let mut groups = Vec::new();
        for kind in self.0.iter() {
            let now = clock::monotonic();
            if kind.known().is_due(now) {
                let found = kind.plugin.fingerprint().await;
                if let Err(error) = &found {
                    tracing::warn!(plugin = kind.plugin.name(), error = chain(error), "cannot find devices");
                }
                kind.known().update(found.map_err(|DeviceError(reason)| reason), now);
            }
            groups.extend(kind.known().groups().iter().cloned());
        }
        groups
    }

    /// What a task needs to use the devices that it was assigned.
    ///
    /// # Errors
    /// If the node has no such device. The scheduler may have seen an older state of the node.
    pub(crate) fn reserve(&self, assigned: &[AllocatedDevice]) -> Result<Reservation, DeviceError> {
        let mut reservation = Reservation::default();
        for device in assigned {
            let Reservation { env, mounts, devices } = self.reserve_one(device)?;
            reservation.env.extend(env);
            reservation.mounts.extend(mounts);
            reservation.devices.extend(devices);
        }
        Ok(reservation)
    }

    fn reserve_one(&self, device: &AllocatedDevice) -> Result<Reservation, DeviceError> {
        for kind in self.0.iter() {
            let known = kind.known();
            let Some(group) = known.groups().iter().find(|group| is_of(group, device)) else { continue };
            let missing = device.ids.iter().find(|id| !group.instances.iter().any(|one| one.id == **id));
            return match missing {
                Some(id) => Err(unknown(device, id)),
                None => Ok(kind.plugin.reserve(group, &device.ids)),
            };
        }
        Err(unknown(device, device.ids.first().map_or("", |id| &**id)))
    }

    /// How busy the devices are. A plugin that cannot measure is left out.
    pub(crate) async fn stats(&self) -> Vec<DeviceGroupStats> {
        let mut all = Vec::new();
        for kind in self.0.iter().filter(|kind| !kind.known().groups().is_empty()) {
            all.extend(kind.stats().await);
        }
        all
    }

    /// The statistics of the instances that a task was assigned.
    pub(crate) fn of_task(all: &[DeviceGroupStats], assigned: &[AllocatedDevice]) -> Vec<DeviceGroupStats> {
        let own = assigned.iter().filter_map(|device| {
            let group = all.iter().find(|group| {
                (&group.vendor, &group.kind, &group.name) == (&device.vendor, &device.kind, &device.name)
            })?;
            let mut group = group.clone();
            group.instances.retain(|instance| device.ids.contains(&instance.id));
            Some(group)
        });
        own.collect()
    }
}

impl Kind {
    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    async fn stats(&self) -> Vec<DeviceGroupStats> {
        let last = lock(&self.stats).clone();
        let now = clock::monotonic();
        if let Some((at, stats)) = last
            && now.saturating_duration_since(at) < STATS_AGE_MAX
        {
            return stats;
        }
        let stats = self.plugin.stats().await.unwrap_or_else(|error| {
            tracing::debug!(plugin = self.plugin.name(), error = chain(&error), "cannot measure devices");
            Vec::new()
        });
        *lock(&self.stats) = Some((now, stats.clone()));
        stats
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is harmless, because values are replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_of(group: &NodeDeviceGroup, device: &AllocatedDevice) -> bool {
    (&group.vendor, &group.kind, &group.name) == (&device.vendor, &device.kind, &device.name)
}

fn unknown(device: &AllocatedDevice, id: &str) -> DeviceError {
    let AllocatedDevice { vendor, kind, name, .. } = device;
    DeviceError(format!("unknown device {vendor}/{kind}/{name}[{id}]"))
}
