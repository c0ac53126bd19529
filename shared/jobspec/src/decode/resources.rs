//! The resources of a task, its logs, and its mounts of volumes.

use api_types::{LogConfig, Numa, RequestedDevice, Resources, VolumeMount};

use super::{block::Block, network, policies};

pub(super) fn resources(block: &mut Block<'_>) -> Resources {
    Resources {
        cpu: block.int("cpu"),
        cores: block.int("cores"),
        memory_mb: block.int("memory"),
        memory_max_mb: block.int("memory_max"),
        disk_mb: block.int("disk"),
        iops: block.int("iops"),
        networks: block.many("network", network::network),
        devices: block.labelled("device", device),
        numa: block.one("numa", |block| Numa {
            affinity: block.text_or_empty("affinity"),
            devices: block.texts("devices"),
        }),
        secrets_mb: block.int("secrets"),
    }
}

fn device(block: &mut Block<'_>) -> RequestedDevice {
    RequestedDevice {
        name: block.label(),
        count: block.uint("count"),
        constraints: block.many("constraint", policies::constraint),
        affinities: block.many("affinity", policies::affinity),
    }
}

pub(super) fn logs(block: &mut Block<'_>) -> LogConfig {
    LogConfig {
        max_files: block.int("max_files"),
        max_file_size_mb: block.int("max_file_size"),
        disabled: block.flag("disabled"),
        enabled: block.flag("enabled"),
    }
}

pub(super) fn volume_mount(block: &mut Block<'_>) -> VolumeMount {
    VolumeMount {
        volume: block.text("volume"),
        destination: block.text("destination"),
        read_only: block.flag("read_only"),
        propagation_mode: block.text("propagation_mode"),
        selinux_label: block.text("selinux_label"),
    }
}
