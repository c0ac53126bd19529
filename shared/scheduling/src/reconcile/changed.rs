//! Decides whether two versions of a group differ in a way that running tasks cannot adopt without a restart
//! (`docs/rules/scheduling.md` ).

use std::collections::{BTreeMap, BTreeSet};

use model::Text;
use model::job::{JobSpec, NetworkResource, Port, RestartPolicy, Task, TaskGroup};

/// Whether allocations of `old` must be replaced to become allocations of `new`. Each is a version of a job with its
/// group.
pub(crate) fn needs_restart(old: (&JobSpec, &TaskGroup), new: (&JobSpec, &TaskGroup)) -> bool {
    let (before, after) = (old.1, new.1);
    before.tasks.len() != after.tasks.len()
        || before.ephemeral_disk != after.ephemeral_disk
        || networks_differ(&before.networks, &after.networks)
        || !consul(before, None).agrees_with(consul(after, None))
        || before.volumes != after.volumes
        || renders(before.restart_policy.as_ref()) != renders(after.restart_policy.as_ref())
        || connect_differs(before, after)
        || after.tasks.iter().any(|task| {
            let same = before.tasks.iter().find(|before| before.name == task.name);
            same.is_none_or(|before| task_differs((old.0, old.1, before), (new.0, new.1, task)))
        })
}

fn task_differs(old: (&JobSpec, &TaskGroup, &Task), new: (&JobSpec, &TaskGroup, &Task)) -> bool {
    let (before, after) = (old.2, new.2);
    before.driver != after.driver
        || before.user != after.user
        || before.config != after.config
        || before.env != after.env
        || before.artifacts != after.artifacts
        || before.vault != after.vault
        || before.secrets != after.secrets
        || !consul(old.1, Some(before)).agrees_with(consul(new.1, Some(after)))
        || before.templates != after.templates
        || before.csi_plugin_config != after.csi_plugin_config
        || before.volume_mounts != after.volume_mounts
        || merged_meta(old) != merged_meta(new)
        || resources_differ(before, after)
        || before.identity != after.identity
        || before.identities != after.identities
        || before.log_config.disabled != after.log_config.disabled
        || renders(before.restart_policy.as_ref()) != renders(after.restart_policy.as_ref())
}

fn resources_differ(before: &Task, after: &Task) -> bool {
    let (before, after) = (&before.resources, &after.resources);
    networks_differ(&before.networks, &after.networks)
        || before.cpu_mhz != after.cpu_mhz
        || before.cores != after.cores
        || before.memory_mb != after.memory_mb
        || before.memory_max_mb != after.memory_max_mb
        || before.devices != after.devices
        || before.numa != after.numa
        || before.secrets_mb != after.secrets_mb
}

fn merged_meta<'a>(
    (job, group, task): (&'a JobSpec, &'a TaskGroup, &'a Task),
) -> BTreeMap<&'a Text, &'a Text> {
    job.meta.iter().chain(&group.meta).chain(&task.meta).collect()
}

fn renders(policy: Option<&RestartPolicy>) -> bool {
    policy.is_some_and(|policy| policy.render_templates)
}

fn networks_differ(before: &[NetworkResource], after: &[NetworkResource]) -> bool {
    before.len() != after.len()
        || before.iter().zip(after).any(|(before, after)| {
            before.mode != after.mode
                || before.mbits != after.mbits
                || before.hostname != after.hostname
                || before.dns != after.dns
                || before.cni != after.cni
                || ports_differ(before, after)
        })
}

/// Port numbers that the scheduler chose are not compared.
fn ports_differ(before: &NetworkResource, after: &NetworkResource) -> bool {
    let dynamic = |port: &Port| Port { value: 0, ignore_collision: false, ..port.clone() };
    let chosen = |port: &Port| Port { ignore_collision: false, ..port.clone() };
    let ports = |network: &NetworkResource| -> (Vec<Port>, Vec<Port>) {
        (
            network.reserved_ports.iter().map(chosen).collect(),
            network.dynamic_ports.iter().map(dynamic).collect(),
        )
    };
    ports(before) != ports(after)
}

/// Consul settings that tasks are started with.
#[derive(Debug, Default, PartialEq)]
struct Consul<'a> {
    is_set: bool,
    namespace: &'a str,
    cluster: &'a str,
    partition: &'a str,
}

impl Consul<'_> {
    /// Cluster and partition are compared only if both sides have a Consul block.
    fn agrees_with(&self, other: Self) -> bool {
        let both = self.is_set && other.is_set;
        self.namespace == other.namespace
            && (!both || (self.cluster, self.partition) == (other.cluster, other.partition))
    }
}

/// The settings of a group, or of one of its tasks.
fn consul<'a>(group: &'a TaskGroup, task: Option<&'a Task>) -> Consul<'a> {
    let settings = task.map_or(&group.consul, |task| &task.consul).as_ref();
    settings.map_or(Consul::default(), |consul| Consul {
        is_set: true,
        namespace: consul.namespace.as_deref().unwrap_or_default(),
        cluster: consul.cluster.as_deref().unwrap_or_default(),
        partition: consul.partition.as_deref().unwrap_or_default(),
    })
}

/// Whether the group's services in a service mesh changed in something that their proxies are started with.
fn connect_differs(before: &TaskGroup, after: &TaskGroup) -> bool {
    let joins = |group: &TaskGroup| -> BTreeSet<Text> {
        let in_mesh = group.services.iter().filter(|service| service.connect.is_some());
        in_mesh.map(|service| Text::clone(&service.name)).collect()
    };
    joins(before) != joins(after)
        || after.services.iter().any(|service| {
            let same = before.services.iter().find(|before| before.name == service.name);
            let (Some(same), Some(new)) = (same, &service.connect) else { return false };
            let Some(old) = &same.connect else { return true };
            let [old_proxy, new_proxy] = [old, new].map(|connect| connect.sidecar_service.as_ref());
            old.native != new.native
                || old.gateway != new.gateway
                || old.sidecar_task != new.sidecar_task
                || old_proxy.is_some() != new_proxy.is_some()
                || old_proxy.map(|proxy| &proxy.port) != new_proxy.map(|proxy| &proxy.port)
                || same.port_label != service.port_label
                || same.cluster != service.cluster
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scene;

    fn restarts(change: impl FnOnce(&mut JobSpec)) -> bool {
        let old = Scene::default().job_spec();
        let mut new = old.clone();
        change(&mut new);
        needs_restart((&old, &old.task_groups[0]), (&new, &new.task_groups[0]))
    }

    #[test]
    fn fields_that_a_task_starts_with_restart_it() {
        assert!(restarts(|job| job.task_groups[0].tasks[0].driver = "other".into()));
        assert!(restarts(|job| job.task_groups[0].tasks[0].resources.cpu_mhz += 1));
        assert!(restarts(|job| job.task_groups[0].tasks[0].name = "other".into()));
        assert!(restarts(|job| job.task_groups[0].ephemeral_disk.size_mb += 1));
        assert!(restarts(|job| drop(job.meta.insert("a".into(), "b".into()))));
        assert!(restarts(|job| job.task_groups[0].networks = vec![NetworkResource::default()]));
    }

    #[test]
    fn fields_that_only_servers_use_do_not_restart_a_task() {
        assert!(!restarts(|_| {}));
        assert!(!restarts(|job| job.priority += 1));
        assert!(!restarts(|job| job.task_groups[0].count += 1));
        assert!(!restarts(|job| job.constraints.push(model::job::Constraint::default())));
        assert!(!restarts(|job| job.task_groups[0].tasks[0].kill_timeout = model::Nanos::SECOND));
    }

    #[test]
    fn meta_that_only_moves_between_levels_is_the_same() {
        let mut old = Scene::default().job_spec();
        old.meta.insert("a".into(), "b".into());
        let mut new = old.clone();
        new.task_groups[0].tasks[0].meta.append(&mut new.meta);
        assert!(!needs_restart((&old, &old.task_groups[0]), (&new, &new.task_groups[0])));
    }
}
