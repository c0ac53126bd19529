//! Drivers that are not built in, by the names that jobs use. Pure.

use crate::features::Feature;

/// A driver of the reference that is not built.
const QEMU: &str = "qemu";

/// Drivers of plugins that the reference's documentation lists.
const OF_PLUGINS: [&str; 14] = [
    "containerd-driver",
    "ecs",
    "exec2",
    "firecracker-task-driver",
    "jail-task-driver",
    "lxc",
    "nspawn",
    "pledge",
    "podman",
    "pot",
    "rkt",
    "singularity",
    "virt",
    "win_iis",
];

/// The feature that a driver needs which no agent has; `None` if agents may have the driver. A job with an unknown driver
/// waits for a node that has it.
pub fn feature_of_driver(driver: &str) -> Option<Feature> {
    let feature = match driver {
        QEMU => Some(Feature::QemuDriver),
        driver if OF_PLUGINS.contains(&driver) => Some(Feature::ExternalDrivers),
        _ => None,
    };
    feature.filter(|feature| !feature.is_built())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_that_no_agent_has_are_known() {
        assert_eq!(feature_of_driver("qemu"), Some(Feature::QemuDriver));
        assert_eq!(feature_of_driver("podman"), Some(Feature::ExternalDrivers));
        for driver in ["raw_exec", "exec", "docker", "java", "some-other"] {
            assert_eq!(feature_of_driver(driver), None, "{driver}");
        }
    }
}
