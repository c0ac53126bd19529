//! Features of a job that are not built yet. A job that would hang or behave differently than specified is rejected with a
//! list of those features. The list shrinks until this module is gone.

use api_types::{Job, NetworkResource, Resources, Task, TaskGroup, WorkloadIdentity};
use model::text::quoted;

use super::fields::{flag, items, number, text};
use super::problems::Problems;

/// The features of a job with defaults that are not built.
pub(crate) fn features(job: &Job) -> Problems {
    let mut problems = Problems::default();
    problems.add_if(job.periodic.is_some(), || "periodic jobs are not built yet");
    problems.add_if(job.parameterized_job.is_some(), || "parameterized jobs are not built yet");
    problems.add_if(job.multiregion.is_some(), || "multiregion jobs are not built yet");
    for group in items(&job.task_groups) {
        problems.nest(format_args!("Task group {}: ", text(&group.name)), &self::group(group));
    }
    problems
}

fn group(group: &TaskGroup) -> Problems {
    let mut problems = Problems::default();
    problems.add_if(
        group.volumes.as_ref().is_some_and(|volumes| !volumes.is_empty()),
        || "volumes are not built yet",
    );
    problems.append(networks(&group.networks));
    if let Some(update) = &group.update {
        problems.add_if(number(update.canary) > 0, || "canaries are not built yet");
        problems.add_if(flag(update.auto_revert), || "auto_revert is not built yet");
    }
    problems.add_if(!items(&group.services).is_empty(), || "services are not built yet");
    for task in items(&group.tasks) {
        problems.nest(format_args!("Task {}: ", text(&task.name)), &self::task(task));
    }
    problems
}

fn task(task: &Task) -> Problems {
    let mut problems = Problems::default();
    let mut add = |is_used: bool, what: &str| problems.add_if(is_used, || format!("{what} not built yet"));
    add(!items(&task.templates).is_empty(), "templates are");
    add(!items(&task.artifacts).is_empty(), "artifacts are");
    add(!items(&task.secrets).is_empty(), "secrets are");
    add(task.vault.is_some(), "Vault is");
    add(task.csi_plugin_config.is_some(), "CSI plugins are");
    add(task.schedule.is_some(), "task schedules are");
    add(task.dispatch_payload.is_some(), "dispatch payloads are");
    let is_exposed = |identity: &WorkloadIdentity| flag(identity.env) || flag(identity.file);
    add(
        !items(&task.identities).is_empty() || task.identity.as_ref().is_some_and(is_exposed),
        "workload identities are",
    );
    add(!items(&task.services).is_empty(), "services are");
    add(!text(&task.kind).is_empty(), "Connect tasks are");
    add(!items(&task.volume_mounts).is_empty(), "volumes are");
    if let Some(Resources { cores, devices, numa, networks, .. }) = &task.resources {
        add(number(*cores) > 0, "reserved cores are");
        add(!items(devices).is_empty(), "devices are");
        add(numa.is_some(), "NUMA settings are");
        problems.append(self::networks(networks));
    }
    problems
}

fn networks(list: &Option<Vec<NetworkResource>>) -> Problems {
    let mut problems = Problems::default();
    for network in items(list) {
        let mode = text(&network.mode);
        problems.add_if(!matches!(mode, "" | "host" | "none"), || {
            format!("network mode {} is not built yet", quoted(mode))
        });
    }
    problems
}
