//! Features of jobs that are not built, which the agent may get from servers of another version. A task that uses one fails
//! at its start with the reason, instead of running without the feature. Pure.

use model::features::Feature;
use model::job::{Task, TaskGroup, VolumeKind, feature_of_driver, unbuilt_protocol};
use model::text::quoted;

use crate::disk::dirs::SHARED;

/// The beginning of names that the agent uses itself beside the directories of tasks.
const OWN: &str = ".drover-";

/// The unsupported feature that a task or its group uses, or `None` if all are supported.
pub(crate) fn unsupported(group: &TaskGroup, task: &Task) -> Option<String> {
    let missing = Feature::first_missing([
        (Feature::OtherArtifacts, task.artifacts.iter().any(needs_other_protocol)),
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

/// Whether an artifact comes by a protocol that is not built.
fn needs_other_protocol(artifact: &api_types::TaskArtifact) -> bool {
    artifact.getter_source.as_deref().and_then(unbuilt_protocol).is_some()
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
    let is_own = name == SHARED || name.starts_with(OWN);
    if matches!(name, "" | "." | "..") || is_own || name.contains(['/', '\\', '\0']) {
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
        let from = |source: &str| {
            let artifact = api_types::TaskArtifact {
                getter_source: Some(source.to_owned()),
                ..api_types::TaskArtifact::default()
            };
            unsupported(&group, &Task { artifacts: vec![artifact], ..plain.clone() })
        };
        assert_eq!(from("https://example.org/a"), None);
        let refused = "artifacts by s3, gcs, hg and file are not built into this agent";
        assert_eq!(from("s3::https://example.org/a").unwrap(), refused);
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
        for name in ["", ".", "..", "alloc", "a/b", "../x", ".drover-artifacts"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
