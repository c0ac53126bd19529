//! Warnings about accepted jobs (N-19.21; their words are in http-api, appendix E), and about settings that are stored but
//! have no effect yet. First come those of the job, then those of its groups and tasks, then those about services and memory.

use api_types::{Job, NetworkResource, Service, Task, TaskGroup, WorkloadIdentity};
use model::features::Feature;
use model::text::quoted;

use super::fields::{flag, items, number, text};
use super::problems::{Problems, Warnings};

/// Warnings about a job as it was sent, before defaults are filled in.
pub(crate) fn of(job: &Job, may_oversubscribe: bool) -> Warnings {
    let mut warnings = Warnings::default();
    let groups = items(&job.task_groups);
    if lacks_auto_promotion(groups) {
        warnings.add("auto_promote must be true for all groups to enable automatic promotion");
    }
    if job.periodic.as_ref().is_some_and(|periodic| !text(&periodic.spec).is_empty()) {
        warnings.add("cron is deprecated and may be removed in a future release. Use crons instead");
    }
    let is_given = |namespace: &Option<String>| !text(namespace).is_empty();
    let without_effect = without_effect([
        (Feature::Vault, "vault_namespace", is_given(&job.vault_namespace)),
        (Feature::Consul, "consul_namespace", is_given(&job.consul_namespace)),
    ]);
    without_effect.into_iter().for_each(|warning| warnings.add(warning));
    for group in groups {
        warnings.nest(format_args!("Group {}", quoted(text(&group.name))), &self::group(group));
    }
    for group in groups {
        services(group, &mut warnings);
    }
    for group in groups.iter().filter(|_| !may_oversubscribe) {
        memory(group, &mut warnings);
    }
    warnings
}

/// Warnings about settings that are given and belong to features that are not built.
fn without_effect<const COUNT: usize>(settings: [(Feature, &str, bool); COUNT]) -> Vec<String> {
    let settings = settings.into_iter().filter(|(feature, _, is_given)| *is_given && !feature.is_built());
    settings.map(|(feature, name, _)| feature.warning_of(name)).collect()
}

/// Whether some groups, but not all, promote their canaries by themselves.
fn lacks_auto_promotion(groups: &[TaskGroup]) -> bool {
    let canaries = |group: &&TaskGroup| group.update.as_ref().is_some_and(|update| number(update.canary) > 0);
    let promoted = |group: &TaskGroup| group.update.as_ref().is_some_and(|update| flag(update.auto_promote));
    groups.iter().any(promoted) && !groups.iter().filter(canaries).all(promoted)
}

fn group(group: &TaskGroup) -> Problems {
    let mut warnings = Problems::default();
    let without_effect = without_effect([(Feature::Consul, "consul", group.consul.is_some())]);
    without_effect.into_iter().for_each(|warning| warnings.add(warning));
    // The scheduler prefers the node that has the data, where the agent keeps them.
    let migrates = group.ephemeral_disk.as_ref().is_some_and(|disk| flag(disk.migrate));
    warnings.add_if(migrates && !Feature::DiskMigration.is_built(), || {
        let absence = Feature::DiskMigration.absence();
        format!("migrate in ephemeral_disk keeps data only on the same node: {absence}")
    });
    networks(&group.networks, &mut warnings);
    for task in items(&group.tasks) {
        let name = quoted(text(&task.name));
        warnings.nest(format_args!("Task {name} has warnings: "), &self::task(task));
    }
    warnings
}

/// Warns about deprecated settings of the networks of a group or a task. What a network's mode cannot use is no warning in the
/// reference (http-api, appendix E).
fn networks(networks: &Option<Vec<NetworkResource>>, warnings: &mut Problems) {
    warnings.add_if(
        items(networks).iter().any(|network| number(network.mbits) > 0),
        || "mbits has been deprecated as of Nomad 0.12.0. Please remove mbits from the network block",
    );
}

fn task(task: &Task) -> Problems {
    let mut warnings = Problems::default();
    let without_effect = without_effect([(Feature::Consul, "consul", task.consul.is_some())]);
    without_effect.into_iter().for_each(|warning| warnings.add(warning));
    if let Some(resources) = &task.resources {
        warnings.add_if(
            number(resources.iops) > 0,
            || "IOPS has been deprecated as of Nomad 0.9.0. Please remove IOPS from resource block.",
        );
        warnings.add_if(
            !items(&resources.networks).is_empty(),
            || "task network resources have been deprecated as of Nomad 0.12.0. Please configure networking via group network block.",
        );
        networks(&resources.networks, &mut warnings);
    }
    for (position, template) in items(&task.templates).iter().enumerate() {
        warnings.add_if(number(template.vault_grace) > 0, || {
            format!(
                "Template[{position}] VaultGrace has been deprecated as of Nomad 0.11 and ignored since Vault 0.5. \
                 Please remove VaultGrace / vault_grace from template block."
            )
        });
    }
    for identity in items(&task.identities) {
        warnings.nest("", &self::identity(identity, task));
    }
    warnings
}

/// Warns of an identity that is less useful or less safe than its author may expect.
fn identity(identity: &WorkloadIdentity, task: &Task) -> Problems {
    let mut warnings = Problems::default();
    let name = text(&identity.name);
    let mut add_if = |wrong, what: &str| warnings.add_if(wrong, || format!("Identity[{name}] {what}"));
    let audiences = items(&identity.audience).len();
    add_if(audiences == 0, "identities without an audience are insecure");
    add_if(
        audiences > 1,
        "while multiple audiences is allowed, it is more secure to use 1 audience per identity",
    );
    let expires = number(identity.ttl) != 0;
    add_if(!expires, "identities without an expiration are insecure");
    add_if(
        flag(identity.env) && expires && text(&identity.change_mode) != "restart",
        "using env=true without change_mode=\"restart\" may result in task not getting updated identity",
    );
    add_if(
        name.starts_with("vault_") && task.vault.is_none(),
        "is for Vault, but the task has no vault block",
    );
    warnings
}

/// Warns of services whose tasks stop while clients may still connect to them.
fn services(group: &TaskGroup, warnings: &mut Warnings) {
    let (tasks, in_group) = (items(&group.tasks), quoted(text(&group.name)));
    let waits = |task: &Task| number(task.shutdown_delay) > 0;
    for task in tasks.iter().filter(|task| !items(&task.services).is_empty() && !waits(task)) {
        let name = quoted(text(&task.name));
        warnings
            .add(format!("task {name} in group {in_group} defines services, but has no shutdown_delay set"));
    }
    let services = items(&group.services);
    let referenced = |task: &Task| services.iter().any(|service| task_of(service, tasks) == text(&task.name));
    for task in tasks.iter().filter(|task| referenced(task) && !waits(task)) {
        let name = quoted(text(&task.name));
        warnings.add(format!(
            "group {in_group} references task {name} in a service definition, but the task has no shutdown_delay set"
        ));
    }
    let has_own = services.iter().any(|service| task_of(service, tasks).is_empty());
    if has_own && number(group.shutdown_delay) <= 0 && !tasks.iter().any(waits) {
        warnings.add(format!(
            "group {in_group} defines services, but neither the group nor any of its tasks have shutdown_delay set"
        ));
    }
}

/// The task that a service of a group belongs to; empty if there is none. A native service belongs to the only task.
fn task_of<'a>(service: &'a Service, tasks: &'a [Task]) -> &'a str {
    let is_native = service.connect.as_ref().is_some_and(|connect| flag(connect.native));
    match (text(&service.task_name), tasks) {
        ("", [only]) if is_native => text(&only.name),
        (name, _) => name,
    }
}

/// Warns of memory limits that do not count.
fn memory(group: &TaskGroup, warnings: &mut Warnings) {
    for task in items(&group.tasks) {
        let max = task.resources.as_ref().map_or(0, |resources| number(resources.memory_max_mb));
        if max != 0 {
            let (group, task) = (text(&group.name), text(&task.name));
            warnings.add(format!(
                "Memory oversubscription is not enabled; Task {} memory_max value will be ignored. Update the \
                 Scheduler Configuration to allow oversubscription.",
                quoted(&format!("{group}.{task}"))
            ));
        }
    }
}
