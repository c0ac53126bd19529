//! Defaults of the resources and volume mounts of tasks and sidecar tasks.

use api_types::{Resources, VolumeMount};

use super::{affinity, defaults, each, fill, fill_empty};

/// Fills in the defaults of the resources of a task.
pub(super) fn resources(resources: &mut Resources) {
    fill(&mut resources.cores, 0);
    let has_cores = resources.cores.is_some_and(|cores| cores > 0);
    fill(&mut resources.cpu, if has_cores { 0 } else { defaults::CPU_MHZ });
    fill(&mut resources.memory_mb, defaults::MEMORY_MB);
    for device in each(&mut resources.devices) {
        fill(&mut device.count, defaults::DEVICES);
        each(&mut device.affinities).for_each(affinity);
    }
    if let Some(numa) = &mut resources.numa {
        fill_empty(&mut numa.affinity, defaults::NUMA_AFFINITY);
    }
}

/// Fills in the defaults of a volume mount.
pub(super) fn volume_mount(mount: &mut VolumeMount) {
    fill(&mut mount.propagation_mode, defaults::PROPAGATION_MODE);
    fill(&mut mount.read_only, false);
    fill(&mut mount.selinux_label, "");
}
