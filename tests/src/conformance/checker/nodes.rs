//! Checks that nodes can take what is placed on them: status, datacenter and pool, drivers, amounts, cores, devices.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;
use model::alloc::{AllocatedResources, TaskResources};
use model::job::LifecycleHook;
use state::{AllocRef, NodeRef};

use super::{NewAlloc, PlanCheck};

pub(super) fn faults(check: &PlanCheck<'_>, faults: &mut Vec<String>) {
    let mut touched: BTreeSet<NodeId> = BTreeSet::new();
    for new in check.new_allocs() {
        let Some(node) = check.after.node(new.alloc.node_id()) else { continue };
        touched.insert(node.id());
        eligibility(&new, node, faults);
        drivers(&new, node, faults);
        let got = new.alloc.resources();
        task_resources(&new, node, &got, faults);
    }
    for node in touched.into_iter().filter_map(|id| check.after.node(id)) {
        let holders: Vec<AllocRef<'_>> = check.holders(node.id()).collect();
        amounts(node, &holders, faults);
        exclusive_resources(check, node, &holders, faults);
    }
}

/// Checks that the node is ready and in the job's datacenters and pool.
fn eligibility(new: &NewAlloc<'_>, node: NodeRef<'_>, faults: &mut Vec<String>) {
    let (spec, job) = (node.spec(), &new.job().spec);
    if !node.is_ready() {
        faults.push(new.fault("the node is not ready"));
    }
    let in_pool = matches!(&*job.node_pool, "" | "all") || job.node_pool == spec.node_pool;
    if !in_pool {
        faults.push(new.fault("the node is of another pool"));
    }
    let wildcard = |pattern: &str| {
        let escaped: Vec<String> = pattern.split('*').map(regex::escape).collect();
        regex::Regex::new(&format!("^{}$", escaped.join(".*"))).expect("the pattern is escaped")
    };
    if !job.datacenters.iter().any(|pattern| wildcard(pattern).is_match(&spec.datacenter)) {
        faults.push(new.fault("the node is of another datacenter"));
    }
}

/// Checks that the node has a healthy driver for every task.
fn drivers(new: &NewAlloc<'_>, node: NodeRef<'_>, faults: &mut Vec<String>) {
    for task in &new.group().tasks {
        let has = match node.spec().drivers.get(&task.driver) {
            Some(driver) => driver.detected && driver.healthy,
            None => {
                let attribute = node.spec().attributes.get(&*format!("driver.{}", task.driver));
                attribute.is_some_and(|value| matches!(&**value, "1" | "t" | "T" | "true" | "TRUE" | "True"))
            }
        };
        if !has {
            faults.push(new.fault(format_args!("the node does not have driver {}", task.driver)));
        }
    }
}

/// Checks that each task got the resources that it asked for.
fn task_resources(new: &NewAlloc<'_>, node: NodeRef<'_>, got: &AllocatedResources, faults: &mut Vec<String>) {
    for task in &new.group().tasks {
        let Some(share) = got.tasks.iter().find(|share| share.name == task.name) else {
            faults.push(new.fault(format_args!("task {} got nothing", task.name)));
            continue;
        };
        let asked = &task.resources;
        if share.cores.len() != asked.cores as usize {
            faults.push(new.fault(format_args!("{} cores instead of {}", share.cores.len(), asked.cores)));
        }
        if asked.cores == 0 && share.cpu_mhz != asked.cpu_mhz || share.memory_mb < asked.memory_mb {
            faults.push(new.fault(format_args!("task {} got other amounts than it asked for", task.name)));
        }
        let wanted: u64 = asked.devices.iter().map(|device| device.count).sum();
        let instances: u64 = share.devices.iter().map(|device| device.ids.len() as u64).sum();
        if wanted != instances {
            faults.push(new.fault(format_args!("{instances} devices instead of {wanted}")));
        }
        for device in &share.devices {
            let of_node = node.spec().resources.devices.iter().find(|group| {
                (&group.vendor, &group.kind, &group.name) == (&device.vendor, &device.kind, &device.name)
            });
            for id in &device.ids {
                let instance = of_node.and_then(|group| group.instances.iter().find(|known| known.id == *id));
                if !instance.is_some_and(|instance| instance.healthy) {
                    faults.push(new.fault(format_args!("device {id} does not exist or is not healthy")));
                }
            }
        }
        let reserved = &node.spec().reserved.cores;
        let cores = node.spec().resources.processors.cores.iter().filter(|core| !core.disable);
        let usable: BTreeSet<u16> = cores
            .map(|core| core.id)
            .chain(node.spec().resources.cpu.reservable_cores.iter().copied())
            .filter(|core| !reserved.contains(core))
            .collect();
        for core in share.cores.iter().filter(|core| !usable.contains(*core)) {
            faults.push(new.fault(format_args!("core {core} is not available on the node")));
        }
    }
}

/// Checks that cpu, memory, disk and the number of allocations stay within the node's limits.
fn amounts(node: NodeRef<'_>, holders: &[AllocRef<'_>], faults: &mut Vec<String>) {
    let demands = holders.iter().map(|alloc| demand(&alloc.resources()));
    let used = demands.fold([0; 3], |sum: [u64; 3], one| [sum[0] + one[0], sum[1] + one[1], sum[2] + one[2]]);
    let has = node.capacity();
    let has = [has.cpu_mhz, has.memory_mb, has.disk_mb].map(u64::from);
    for (what, (used, has)) in ["cpu", "memory", "disk"].into_iter().zip(used.into_iter().zip(has)) {
        if used > has {
            faults.push(format!("{}: {what} {used} of {has}", node.id()));
        }
    }
    let limit = node.spec().max_allocs as usize;
    if limit > 0 && holders.len() > limit {
        faults.push(format!("{}: {} allocations of {limit}", node.id(), holders.len()));
    }
}

/// The cpu, memory and disk that an allocation needs at most at one time.
fn demand(resources: &AllocatedResources) -> [u64; 3] {
    let phase =
        |task: &TaskResources| task.lifecycle.as_ref().map(|lifecycle| (lifecycle.hook, lifecycle.sidecar));
    let is_main = |task: &&TaskResources| match phase(task) {
        None => true,
        Some((hook, sidecar)) => {
            hook == LifecycleHook::Poststart || hook == LifecycleHook::Prestart && sidecar
        }
    };
    let is_pre = |task: &&TaskResources| phase(task).is_some_and(|(hook, _)| hook == LifecycleHook::Prestart);
    let is_post =
        |task: &&TaskResources| phase(task).is_some_and(|(hook, _)| hook == LifecycleHook::Poststop);
    let sum = |which: &dyn Fn(&&TaskResources) -> bool| {
        let tasks: Vec<&TaskResources> = resources.tasks.iter().filter(|task| which(task)).collect();
        let shared = tasks.iter().filter(|task| task.cores.is_empty());
        let cpu: u64 = shared.map(|task| u64::from(task.cpu_mhz)).sum();
        let memory: u64 = tasks.iter().map(|task| u64::from(task.memory_mb)).sum();
        [cpu, memory]
    };
    let phases = [sum(&is_main), sum(&is_pre), sum(&is_post)];
    let most = |index: usize| phases.iter().map(|phase| phase[index]).max().unwrap_or(0);
    let alone = resources.tasks.iter().filter(|task| !task.cores.is_empty());
    let of_cores: u64 = alone.map(|task| u64::from(task.cpu_mhz)).sum();
    [most(0) + of_cores, most(1), u64::from(resources.disk_mb)]
}

/// Checks that no core and no device is assigned twice. Conflicts among older allocations are not faults of this plan.
fn exclusive_resources(
    check: &PlanCheck<'_>,
    node: NodeRef<'_>,
    holders: &[AllocRef<'_>],
    faults: &mut Vec<String>,
) {
    let mut owners: BTreeMap<String, Vec<model::AllocId>> = BTreeMap::new();
    for alloc in holders {
        for task in &alloc.resources().tasks {
            let cores = task.cores.iter().map(|core| format!("core {core}"));
            let devices = task.devices.iter().flat_map(|device| {
                device
                    .ids
                    .iter()
                    .map(|id| format!("device {}/{}/{} {id}", device.vendor, device.kind, device.name))
            });
            cores.chain(devices).for_each(|what| owners.entry(what).or_default().push(alloc.id()));
        }
    }
    for (what, owners) in owners {
        if owners.len() > 1 && owners.iter().any(|owner| check.is_new(*owner)) {
            faults.push(format!("{}: {what} is assigned twice", node.id()));
        }
    }
}
