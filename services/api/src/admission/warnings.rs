//! Warnings about accepted jobs (N-19.21), and about settings that are stored but have no effect yet.

use std::collections::BTreeSet;

use api_types::{Job, NetworkResource, Task, TaskGroup};
use model::features::Feature;
use model::text::quoted;

use super::fields::{flag, items, number, text};
use super::problems::Warnings;

/// Warnings about a job as it was sent, before defaults are filled in.
pub(crate) fn of(job: &Job, may_oversubscribe: bool) -> Warnings {
    let mut warnings = Warnings::default();
    let groups = items(&job.task_groups);
    if job.periodic.as_ref().is_some_and(|periodic| !text(&periodic.spec).is_empty()) {
        warnings.add("cron is deprecated and may be removed in a future release. Use crons instead");
    }
    auto_promotion(groups, &mut warnings);
    let is_given = |namespace: &Option<String>| !text(namespace).is_empty();
    without_effect(
        [
            (Feature::Vault, "vault_namespace", is_given(&job.vault_namespace)),
            (Feature::Consul, "consul_namespace", is_given(&job.consul_namespace)),
        ],
        &mut warnings,
    );
    for group in groups {
        warnings.nest(
            format_args!("Group {}", quoted(text(&group.name))),
            &self::group(group, may_oversubscribe),
        );
    }
    warnings
}

/// Warns about settings that are given and belong to features that are not built.
fn without_effect<const COUNT: usize>(settings: [(Feature, &str, bool); COUNT], warnings: &mut Warnings) {
    for (feature, name, is_given) in settings {
        if is_given && !feature.is_built() {
            warnings.add(feature.warning_of(name));
        }
    }
}

fn auto_promotion(groups: &[TaskGroup], warnings: &mut Warnings) {
    let canaries = |group: &&TaskGroup| group.update.as_ref().is_some_and(|update| number(update.canary) > 0);
    let promoted = |group: &TaskGroup| group.update.as_ref().is_some_and(|update| flag(update.auto_promote));
    let (some, all) = (groups.iter().any(promoted), groups.iter().filter(canaries).all(promoted));
    if some && !all {
        warnings.add("auto_promote must be true for all groups with canaries to enable automatic promotion");
    }
}

fn group(group: &TaskGroup, may_oversubscribe: bool) -> Warnings {
    let mut warnings = Warnings::default();
    let deprecated = [
        (group.max_client_disconnect.is_some(), "max_client_disconnect", "disconnect.lost_after"),
        (
            group.stop_after_client_disconnect.is_some(),
            "stop_after_client_disconnect",
            "disconnect.stop_on_client_after",
        ),
        (flag(group.prevent_reschedule_on_lost), "prevent_reschedule_on_lost", "disconnect.replace"),
    ];
    for (given, old, new) in deprecated {
        if given {
            warnings.add(format!("{old} is deprecated and ignored; use {new}"));
        }
    }
    without_effect(
        [
            (Feature::Scaling, "scaling", group.scaling.is_some()),
            (Feature::Consul, "consul", group.consul.is_some()),
        ],
        &mut warnings,
    );
    // The scheduler prefers the node that has the data, where the agent keeps them.
    let migrates = group.ephemeral_disk.as_ref().is_some_and(|disk| flag(disk.migrate));
    if migrates && !Feature::DiskMigration.is_built() {
        let absence = Feature::DiskMigration.absence();
        warnings.add(format!("migrate in ephemeral_disk keeps data only on the same node: {absence}"));
    }
    networks(&group.networks, &mut warnings);
    let parallel = group.update.as_ref().map_or(0, |update| number(update.max_parallel));
    // With a count of 1, every update replaces all allocations anyway.
    if group.count.is_some_and(|count| count > 1 && parallel > count) {
        warnings.add("Update max parallel count is greater than task group count. A destructive change would result in the simultaneous replacement of all allocations.");
    }
    let services = items(&group.services);
    if !services.is_empty() && group.shutdown_delay.is_none() {
        warnings.add(
            "the group has services and no shutdown_delay: its tasks stop while clients may still connect to them",
        );
    }
    let served: BTreeSet<&str> = services.iter().map(|service| text(&service.task_name)).collect();
    for task in items(&group.tasks) {
        let name = text(&task.name);
        let mut of_task = self::task(task, may_oversubscribe);
        let serves = !items(&task.services).is_empty() || served.contains(name);
        if serves && task.shutdown_delay.is_none() && group.shutdown_delay.is_none() {
            of_task.add(
                "the task has services and no shutdown_delay: it stops while clients may still connect to it",
            );
        }
        warnings.nest(format_args!("Task {}", quoted(name)), &of_task);
    }
    warnings
}

/// Warns about settings of the networks of a group or a task.
fn networks(networks: &Option<Vec<NetworkResource>>, warnings: &mut Warnings) {
    for network in items(networks) {
        let mode = Some(text(&network.mode)).filter(|mode| !mode.is_empty()).unwrap_or("host");
        let is_host = mode == "host";
        let has_plugins = mode == "bridge" || mode.starts_with("cni/");
        for (name, is_idle) in [
            ("hostname", is_host && !text(&network.hostname).is_empty()),
            ("dns", is_host && network.dns.is_some()),
            ("cni", !has_plugins && network.cni.is_some()),
        ] {
            if is_idle {
                warnings.add(format!("{name} in network has no effect in mode {mode}"));
            }
        }
    }
    if items(networks).iter().any(|network| number(network.mbits) > 0) {
        warnings
            .add("mbits has been deprecated as of Nomad 0.12.0. Please remove mbits from the network block");
    }
}

/// Warns of identities that are less useful or less safe than their author may expect.
fn identities(task: &Task, warnings: &mut Warnings) {
    for identity in items(&task.identities) {
        let name = quoted(text(&identity.name));
        match items(&identity.audience).len() {
            0 => warnings.add(format!(
                "identity {name} has no audience: recipients cannot verify that it is meant for them"
            )),
            1 => {}
            _ => warnings
                .add(format!("identity {name} has several audiences: each of them can use it at the others")),
        }
        if number(identity.ttl) == 0 {
            warnings.add(format!("identity {name} has no ttl: it never expires"));
        }
        if flag(identity.env) && number(identity.ttl) > 0 && text(&identity.change_mode) != "restart" {
            warnings.add(format!(
                "identity {name} is passed in the environment, which is updated only with change_mode restart"
            ));
        }
        if text(&identity.name).starts_with("vault_") && task.vault.is_none() {
            warnings.add(format!("identity {name} is for Vault, but the task has no vault block"));
        }
    }
}

fn task(task: &Task, may_oversubscribe: bool) -> Warnings {
    let mut warnings = Warnings::default();
    identities(task, &mut warnings);
    without_effect(
        [
            (Feature::Scaling, "scaling", !items(&task.scaling_policies).is_empty()),
            (Feature::Consul, "consul", task.consul.is_some()),
        ],
        &mut warnings,
    );
    if items(&task.templates).iter().any(|template| template.vault_grace.is_some()) {
        warnings.add("VaultGrace has been deprecated as of Nomad 0.11 and ignored since Vault 0.5. Please remove VaultGrace / vault_grace from template block.");
    }
    if let Some(resources) = &task.resources {
        if number(resources.iops) > 0 {
            warnings
                .add("IOPS has been deprecated as of Nomad 0.9.0. Please remove IOPS from resource block.");
        }
        if !items(&resources.networks).is_empty() {
            warnings.add("task network resources have been deprecated as of Nomad 0.12.0. Please configure networking via group network block.");
        }
        networks(&resources.networks, &mut warnings);
        if items(&resources.networks).iter().any(|network| !matches!(text(&network.mode), "" | "host")) {
            warnings.add("mode in the network of a task has no effect: only the network of a group has one");
        }
        if number(resources.memory_max_mb) != 0 && !may_oversubscribe {
            warnings
                .add("Memory oversubscription is not enabled; Task has memory_max, but it will be ignored");
        }
    }
    warnings
}
