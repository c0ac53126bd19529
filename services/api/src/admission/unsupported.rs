//! Features of a job that are not built yet. A job that would hang or behave differently than specified is rejected with a
//! list of those features.

use api_types::{Job, NetworkResource, Resources, Task, TaskGroup, WorkloadIdentity};
use model::features::Feature;
use model::text::quoted;

use super::fields::{flag, items, number, text};
use super::problems::Problems;

/// The features of a job with defaults that are not built.
pub(crate) fn features(job: &Job) -> Problems {
    let mut problems = missing([
        (Feature::PeriodicJobs, job.periodic.is_some()),
        (Feature::ParameterizedJobs, job.parameterized_job.is_some()),
        (Feature::MultiregionJobs, job.multiregion.is_some()),
    ]);
    for group in items(&job.task_groups) {
        problems.nest(format_args!("Task group {}: ", text(&group.name)), &self::group(group));
    }
    problems
}

fn group(group: &TaskGroup) -> Problems {
    let mut problems = missing([
        (Feature::Volumes, group.volumes.as_ref().is_some_and(|volumes| !volumes.is_empty())),
        (Feature::Services, !items(&group.services).is_empty()),
    ]);
    problems.append(networks(&group.networks));
    for task in items(&group.tasks) {
        problems.nest(format_args!("Task {}: ", text(&task.name)), &self::task(task));
    }
    problems
}

fn task(task: &Task) -> Problems {
    let is_exposed = |identity: &WorkloadIdentity| flag(identity.env) || flag(identity.file);
    let has_identity = !items(&task.identities).is_empty() || task.identity.as_ref().is_some_and(is_exposed);
    let mut problems = missing([
        (Feature::Templates, !items(&task.templates).is_empty()),
        (Feature::Artifacts, !items(&task.artifacts).is_empty()),
        (Feature::Secrets, !items(&task.secrets).is_empty()),
        (Feature::Vault, task.vault.is_some()),
        (Feature::CsiPlugins, task.csi_plugin_config.is_some()),
        (Feature::TaskSchedules, task.schedule.is_some()),
        (Feature::DispatchPayloads, task.dispatch_payload.is_some()),
        (Feature::WorkloadIdentities, has_identity),
        (Feature::Services, !items(&task.services).is_empty()),
        (Feature::Connect, !text(&task.kind).is_empty()),
        (Feature::Volumes, !items(&task.volume_mounts).is_empty()),
    ]);
    if let Some(Resources { devices, numa, networks, .. }) = &task.resources {
        problems.append(missing([
            (Feature::Devices, !items(devices).is_empty()),
            (Feature::Numa, numa.is_some()),
        ]));
        problems.append(self::networks(networks));
    }
    problems
}

fn networks(list: &Option<Vec<NetworkResource>>) -> Problems {
    let mut problems = Problems::default();
    for network in items(list) {
        let mode = text(&network.mode);
        let is_missing = !matches!(mode, "" | "host") && !Feature::BridgeNetworks.is_built();
        problems.add_if(is_missing, || {
            Feature::BridgeNetworks.refusal_of(format_args!("network mode {}", quoted(mode)))
        });
    }
    problems
}

/// The features that are needed and not built.
fn missing<const COUNT: usize>(needs: [(Feature, bool); COUNT]) -> Problems {
    let mut problems = Problems::default();
    for (feature, is_needed) in needs {
        problems.add_if(is_needed && !feature.is_built(), || feature.refusal());
    }
    problems
}
