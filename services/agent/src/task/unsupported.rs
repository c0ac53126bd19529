//! Features of jobs that are not built, which the agent may get from servers of another version. A task that uses one fails
//! at its start with the reason, instead of running without the feature. Pure.

use model::features::Feature;
use model::job::{Task, TaskGroup};
use model::text::quoted;

use crate::disk::dirs::SHARED;

/// The unsupported feature that a task or its group uses, or `None` if all are supported.
pub(crate) fn unsupported(group: &TaskGroup, task: &Task) -> Option<String> {
    let missing = Feature::first_missing([
        (Feature::Services, !group.services.is_empty() || !task.services.is_empty()),
        (Feature::Templates, !task.templates.is_empty()),
        (Feature::Artifacts, !task.artifacts.is_empty()),
        (Feature::Vault, task.vault.is_some()),
        (Feature::Secrets, !task.secrets.is_empty()),
        (Feature::WorkloadIdentities, has_identity(task)),
        (Feature::Volumes, !group.volumes.is_empty() || !task.volume_mounts.is_empty()),
        (Feature::CsiPlugins, task.csi_plugin_config.is_some()),
        (Feature::Devices, !task.resources.devices.is_empty()),
        (Feature::Connect, !task.kind.is_empty()),
    ]);
    if let Some(feature) = missing {
        return Some(format!("{} not built into this agent", feature.subject()));
    }
    let networks = group.networks.iter().chain(&task.resources.networks);
    let isolated = networks.map(|network| &*network.mode).find(|mode| !matches!(*mode, "" | "host"));
    let missing = isolated.filter(|_| !Feature::BridgeNetworks.is_built());
    missing.map(|mode| format!("network mode {} is not built into this agent", quoted(mode)))
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
    use model::job::{NetworkResource, TaskTemplate, WorkloadIdentity};

    use super::*;

    #[test]
    fn features_that_are_not_built_are_named() {
        let plain = Task { name: "web".into(), ..Task::default() };
        let group = TaskGroup::default();
        assert_eq!(unsupported(&group, &plain), None);
        let rendered = Task { templates: vec![TaskTemplate::default()], ..plain.clone() };
        assert_eq!(unsupported(&group, &rendered).unwrap(), "templates are not built into this agent");
        let network = |mode: &str| TaskGroup {
            networks: vec![NetworkResource { mode: mode.into(), ..NetworkResource::default() }],
            ..TaskGroup::default()
        };
        assert_eq!(unsupported(&network("host"), &plain), None);
        for mode in ["bridge", "none"] {
            let expected = format!("network mode \"{mode}\" is not built into this agent");
            assert_eq!(unsupported(&network(mode), &plain), Some(expected));
        }
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
