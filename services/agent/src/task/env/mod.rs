//! The environment of a task. Pure: the host's environment and the directories come from the caller.

use std::collections::BTreeMap;

use model::alloc::{AllocatedResources, NetworkStatus, PortMapping, TaskResources};
use model::job::{NetworkResource, Task, TaskGroup};

use super::interpolation::Interpolator;
use crate::cpu_list;
use crate::disk::dirs::TaskDirs;
use crate::node::facts::NodeFacts;
use crate::work::spec::AllocSpec;

/// Environment variables by name.
pub(crate) type Env = BTreeMap<String, String>;

/// Prefixes of names in which all characters other than letters, digits and `_` are replaced by `_`.
const CLEANED: [&str; 5] = ["NOMAD_ADDR_", "NOMAD_IP_", "NOMAD_PORT_", "NOMAD_HOST_PORT_", META];
/// Prefix of the names of metadata, in which dots stay as well.
const META: &str = "NOMAD_META_";

/// The number of characters in the short form of an id.
const SHORT_ID: usize = 8;

/// Builds the complete environment. Values may refer to variables that come earlier in the order of. `network` is
/// the allocation's own network, if it has one.
///
/// # Errors
/// If the environment would be too large. The message names the variable.
pub(crate) fn build(
    spec: &AllocSpec,
    group: &TaskGroup,
    task: &Task,
    node: &NodeFacts,
    dirs: &TaskDirs,
    host: &BTreeMap<String, String>,
    network: Option<&NetworkStatus>,
) -> Result<Env, String> {
    let mut env = built_in(spec, task, node, dirs);
    if let Some(network) = network {
        own_network(&mut env, &spec.resources().ports, network);
    }
    let mut interpolator = Interpolator::new(node);
    put_meta(&mut env, &mut interpolator, meta(spec, group, Some(task)))?;
    for (name, value) in host {
        if !env.contains_key(name) {
            env.insert(name.clone(), value.clone());
        }
    }
    let known = env.clone();
    for (name, value) in &task.env {
        let mut fill =
            |text: &str| interpolator.fill(text, &known).map_err(|error| format!("env {name} {error}"));
        env.insert(fill(name)?, fill(value)?);
    }
    Ok(env)
}

/// The variables that services of a group, and their checks, may refer to: those of [`of_alloc`], ports, and the metadata of
/// job and group.
///
/// # Errors
/// As with [`build`].
pub(crate) fn of_group(
    spec: &AllocSpec,
    group: &TaskGroup,
    node: &NodeFacts,
    network: Option<&NetworkStatus>,
) -> Result<Env, String> {
    let mut env = of_alloc(spec, node);
    let resources = spec.resources();
    ports(&mut env, &resources, None);
    if let Some(network) = network {
        own_network(&mut env, &resources.ports, network);
    }
    put_meta(&mut env, &mut Interpolator::new(node), meta(spec, group, None))?;
    Ok(env)
}

/// Adds metadata. Values may refer to variables that are there already.
fn put_meta(
    env: &mut Env,
    interpolator: &mut Interpolator<'_>,
    meta: BTreeMap<String, String>,
) -> Result<(), String> {
    for (key, value) in meta {
        let value = interpolator.fill(&value, env).map_err(|error| format!("meta {key} {error}"))?;
        put(env, &format!("NOMAD_META_{key}"), value.clone());
        put(env, &format!("NOMAD_META_{}", key.to_uppercase()), value);
    }
    Ok(())
}

fn put(env: &mut Env, name: &str, value: impl Into<String>) {
    env.insert(clean(name), value.into());
}

fn clean(name: &str) -> String {
    if !CLEANED.iter().any(|prefix| name.starts_with(prefix)) {
        return name.to_owned();
    }
    let has_dots = name.starts_with(META);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.' && has_dots;
    let plain = |c: char| if is_plain(c) { c } else { '_' };
    name.chars().map(plain).collect()
}

fn built_in(spec: &AllocSpec, task: &Task, node: &NodeFacts, dirs: &TaskDirs) -> Env {
    let mut env = of_alloc(spec, node);
    let of_task = [
        ("NOMAD_ALLOC_DIR", dirs.shared.display().to_string()),
        ("NOMAD_TASK_DIR", dirs.local.display().to_string()),
        ("NOMAD_SECRETS_DIR", dirs.secrets.display().to_string()),
        ("NOMAD_TASK_NAME", task.name.to_string()),
    ];
    for (name, value) in of_task {
        put(&mut env, name, value);
    }
    let resources = spec.resources();
    if let Some(own) = resources.tasks.iter().find(|own| own.name == task.name) {
        limits(&mut env, own);
    }
    ports(&mut env, &resources, Some(&task.name));
    env
}

/// The variables that all tasks of an allocation have, whatever network it has.
pub(crate) fn of_alloc(spec: &AllocSpec, node: &NodeFacts) -> Env {
    let mut env = Env::new();
    let id = spec.id().to_string();
    let job = &spec.job.spec;
    let always = [
        ("NOMAD_SHORT_ALLOC_ID", id[..SHORT_ID].to_owned()),
        ("NOMAD_ALLOC_ID", id),
        ("NOMAD_ALLOC_NAME", spec.name().to_string()),
        ("NOMAD_GROUP_NAME", spec.common.task_group.to_string()),
        ("NOMAD_JOB_ID", job.id.to_string()),
        ("NOMAD_JOB_NAME", job.name.to_string()),
        ("NOMAD_DC", node.datacenter.to_string()),
        ("NOMAD_REGION", node.region.to_string()),
        ("NOMAD_NAMESPACE", job.namespace.to_string()),
    ];
    for (name, value) in always {
        put(&mut env, name, value);
    }
    if let Some(index) = spec.work.name_index {
        put(&mut env, "NOMAD_ALLOC_INDEX", index.to_string());
    }
    if !node.cgroup_parent.is_empty() {
        put(&mut env, "NOMAD_PARENT_CGROUP", node.cgroup_parent.to_string());
    }
    if !job.parent_id.is_empty() {
        put(&mut env, "NOMAD_JOB_PARENT_ID", job.parent_id.to_string());
    }
    env
}

fn limits(env: &mut Env, own: &TaskResources) {
    let limits = [
        ("NOMAD_CPU_LIMIT", i64::from(own.cpu_mhz)),
        ("NOMAD_MEMORY_LIMIT", i64::from(own.memory_mb)),
        ("NOMAD_MEMORY_MAX_LIMIT", own.memory_max_mb),
    ];
    for (name, value) in limits.into_iter().filter(|(_, value)| *value > 0) {
        put(env, name, value.to_string());
    }
    if !own.cores.is_empty() {
        put(env, "NOMAD_CPU_CORES", cpu_list::format(own.cores.iter().copied()));
    }
}

/// A port as a task sees it.
struct OpenPort<'a> {
    label: &'a str,
    ip: &'a str,
    host: u16,
    inside: u16,
}

impl<'a> OpenPort<'a> {
    fn of_group(port: &'a PortMapping) -> Self {
        Self { label: &port.label, ip: &port.host_ip, host: port.value, inside: inside(port.value, port.to) }
    }

    fn of_network(network: &'a NetworkResource) -> impl Iterator<Item = Self> {
        network.reserved_ports.iter().chain(&network.dynamic_ports).map(|port| Self {
            label: &port.label,
            ip: &network.ip,
            host: port.value,
            inside: inside(port.value, port.to),
        })
    }
}

fn inside(value: u16, to: i32) -> u16 {
    u16::try_from(to).ok().filter(|to| *to > 0).unwrap_or(value)
}

/// Adds the ports of the group and of a task by label, and the ports of all tasks by task and label.
fn ports(env: &mut Env, resources: &AllocatedResources, task: Option<&str>) {
    let group: Vec<_> = if resources.ports.is_empty() {
        resources.networks.iter().flat_map(OpenPort::of_network).collect()
    } else {
        resources.ports.iter().map(OpenPort::of_group).collect()
    };
    let own = resources.tasks.iter().filter(|own| task == Some(&*own.name));
    let own = own.flat_map(|own| own.networks.iter().flat_map(OpenPort::of_network));
    for OpenPort { label, ip, host, inside } in group.into_iter().chain(own) {
        let addr = address(ip, host);
        for (name, value) in [
            ("IP", ip.to_owned()),
            ("HOST_IP", ip.to_owned()),
            ("PORT", inside.to_string()),
            ("ALLOC_PORT", inside.to_string()),
            ("HOST_PORT", host.to_string()),
            ("ADDR", addr.clone()),
            ("HOST_ADDR", addr),
        ] {
            put(env, &format!("NOMAD_{name}_{label}"), value);
        }
    }
    for other in &resources.tasks {
        for port in other.networks.iter().flat_map(OpenPort::of_network) {
            for (name, value) in [
                ("ADDR", address(port.ip, port.host)),
                ("IP", port.ip.to_owned()),
                ("PORT", port.host.to_string()),
            ] {
                put(env, &format!("NOMAD_{name}_{}_{}", other.name, port.label), value);
            }
        }
    }
}

/// Adds where each port of the group is found in the allocation's own network.
fn own_network(env: &mut Env, ports: &[PortMapping], network: &NetworkStatus) {
    let ip = if network.address.is_empty() { &network.address_ipv6 } else { &network.address };
    if ip.is_empty() {
        return;
    }
    for OpenPort { label, inside, .. } in ports.iter().map(OpenPort::of_group) {
        put(env, &format!("NOMAD_ALLOC_INTERFACE_{label}"), network.interface.to_string());
        put(env, &format!("NOMAD_ALLOC_IP_{label}"), ip.to_string());
        put(env, &format!("NOMAD_ALLOC_ADDR_{label}"), address(ip, inside));
    }
}

fn address(ip: &str, port: u16) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

/// The merged metadata of job, group and task; the more specific value wins. The optional keys of a dispatched job are
/// included, with empty values by default.
fn meta(spec: &AllocSpec, group: &TaskGroup, task: Option<&Task>) -> BTreeMap<String, String> {
    let job = &spec.job.spec;
    let mut meta = BTreeMap::new();
    if job.dispatched
        && let Some(dispatch) = &job.parameterized_job
    {
        meta.extend(dispatch.meta_optional.iter().map(|key| (key.to_string(), String::new())));
    }
    for pairs in [Some(&job.meta), Some(&group.meta), task.map(|task| &task.meta)].into_iter().flatten() {
        meta.extend(pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())));
    }
    meta
}

#[cfg(test)]
mod tests;
