//! Features of jobs that are not built, which the agent may get from servers of another version. A task that uses one fails
//! at its start with the reason, instead of running without the feature. Pure.

use model::features::Feature;
use model::job::{CheckKind, Service, Task, TaskGroup, VolumeKind, feature_of_driver};
use model::text::quoted;

use crate::disk::dirs::SHARED;

/// The unsupported feature that a task or its group uses, or `None` if all are supported.
pub(crate) fn unsupported(group: &TaskGroup, task: &Task) -> Option<String> {
    let missing = Feature::first_missing([
        (Feature::ScriptChecks, has_scripts(&group.services) || has_scripts(&task.services)),
        (Feature::Artifacts, !task.artifacts.is_empty()),
        (Feature::Vault, task.vault.is_some()),
        (Feature::Secrets, !task.secrets.is_empty()),
        (Feature::WorkloadIdentities, has_identity(task)),
        (Feature::CsiPlugins, has_csi_volumes(group) || task.csi_plugin_config.is_some()),
        (Feature::TaskSchedules, task.schedule.is_some()),
        (Feature::Connect, !task.kind.is_empty()),
    ]);
    missing.map(|feature| format!("{} not built into this agent", feature.subject()))
}

/// Whether the group has volumes of CSI plugins.
fn has_csi_volumes(group: &TaskGroup) -> bool {
    group.volumes.values().any(|volume| volume.kind == VolumeKind::Csi)
}

/// Whether one of the services has a check that runs a program.
fn has_scripts(services: &[Service]) -> bool {
    let mut checks = services.iter().flat_map(|service| &service.checks);
    checks.any(|check| check.kind == Some(CheckKind::Script))
}

/// Why this node does not run tasks of a driver.
pub(crate) fn missing_driver(driver: &str) -> String {
    let place = if feature_of_driver(driver).is_some() { "built into this agent" } else { "on this node" };
    format!("driver {} is not {place}", quoted(driver))
}

/// Whether the task needs an identity. Every task has one; passing it to the task is not supported.
fn has_identity(task: &Task) -> bool {
    let given = task.identity.as_ref().is_some_and(|identity| identity.env || identity.file);
    given || !task.identities.is_empty()
}

/// Checks that a task's name can name a directory beside the shared one. Admission refuses other names, too (N-19.10).
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if matches!(name, "" | "." | "..") || name == SHARED || name.contains(['/', '\\', '\0']) {
        return Err(format!("task name {} is not allowed", quoted(name)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use model::job::WorkloadIdentity;

    use super::*;

    #[test]
    fn features_that_are_not_built_are_named() {
        let plain = Task { name: "web".into(), ..Task::default() };
        let group = TaskGroup::default();
        assert_eq!(unsupported(&group, &plain), None);
        let rendered = Task { artifacts: vec![api_types::TaskArtifact::default()], ..plain.clone() };
        assert_eq!(unsupported(&group, &rendered).unwrap(), "artifacts are not built into this agent");
        assert_eq!(missing_driver("qemu"), r#"driver "qemu" is not built into this agent"#);
        assert_eq!(missing_driver("docker"), r#"driver "docker" is not on this node"#);
        let paused = Task { schedule: Some(Box::default()), ..plain.clone() };
        assert_eq!(unsupported(&group, &paused).unwrap(), "task schedules are not built into this agent");
    }

    #[test]
    fn the_identity_that_every_task_has_asks_for_nothing() {
        let mut task = Task { identity: Some(WorkloadIdentity::default()), ..Task::default() };
        assert_eq!(unsupported(&TaskGroup::default(), &task), None);
        task.identity = Some(WorkloadIdentity { env: true, ..WorkloadIdentity::default() });
        assert!(unsupported(&TaskGroup::default(), &task).is_some());
    }

    #[test]
    fn names_stay_within_the_allocation() {
        assert_eq!(check_name("web-1.a"), Ok(()));
        for name in ["", ".", "..", "alloc", "a/b", "../x"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
