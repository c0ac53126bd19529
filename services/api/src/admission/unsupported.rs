//! Features of a job that are not built yet. A job that would hang or behave differently than specified is rejected with a
//! list of those features.

use api_types::{Job, Resources, Service, ServiceCheck, Task, TaskGroup, WorkloadIdentity};
use model::features::Feature;
use model::job::feature_of_driver;
use model::text::quoted;

use super::fields::{flag, items, text};
use super::problems::Problems;

/// The features of a job with defaults that are not built.
pub(crate) fn features(job: &Job) -> Problems {
    let mut problems = missing([(Feature::MultiregionJobs, job.multiregion.is_some())]);
    for group in items(&job.task_groups) {
        problems.nest(format_args!("Task group {}: ", text(&group.name)), &self::group(group));
    }
    problems
}

fn group(group: &TaskGroup) -> Problems {
    let mut problems = missing([
        (Feature::CsiPlugins, has_csi_volumes(group)),
        (Feature::Connect, has_connect(items(&group.services))),
        (Feature::ScriptChecks, has_script(items(&group.services))),
    ]);
    for task in items(&group.tasks) {
        problems.nest(format_args!("Task {}: ", text(&task.name)), &self::task(task));
    }
    problems
}

/// Whether the group has volumes of CSI plugins.
fn has_csi_volumes(group: &TaskGroup) -> bool {
    group.volumes.iter().flatten().any(|(_, volume)| text(&volume.r#type) == "csi")
}

/// Whether one of the services has a check that runs a program in a task.
fn has_script(services: &[Service]) -> bool {
    let is_script = |check: &ServiceCheck| text(&check.r#type).eq_ignore_ascii_case("script");
    services.iter().flat_map(|service| items(&service.checks)).any(is_script)
}

/// Whether one of the services is part of a service mesh.
fn has_connect(services: &[Service]) -> bool {
    services.iter().any(|service| service.connect.is_some())
}

fn task(task: &Task) -> Problems {
    let is_exposed = |identity: &WorkloadIdentity| flag(identity.env) || flag(identity.file);
    let has_identity = !items(&task.identities).is_empty() || task.identity.as_ref().is_some_and(is_exposed);
    let mut problems = missing([
        (Feature::Artifacts, !items(&task.artifacts).is_empty()),
        (Feature::Secrets, !items(&task.secrets).is_empty()),
        (Feature::Vault, task.vault.is_some()),
        (Feature::CsiPlugins, task.csi_plugin_config.is_some()),
        (Feature::TaskSchedules, task.schedule.is_some()),
        (Feature::WorkloadIdentities, has_identity),
        (Feature::Connect, !text(&task.kind).is_empty() || has_connect(items(&task.services))),
        (Feature::ScriptChecks, has_script(items(&task.services))),
    ]);
    let driver = text(&task.driver);
    if let Some(feature) = feature_of_driver(driver) {
        problems.add(feature.refusal_of(format_args!("driver {}", quoted(driver))));
    }
    if let Some(Resources { numa, .. }) = &task.resources {
        problems.append(missing([(Feature::Numa, numa.is_some())]));
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
