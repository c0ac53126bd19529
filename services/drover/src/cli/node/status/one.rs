//! One node as `drover node status` shows it (`docs/rules/cli.md` 6.1). Pure.

use api_types::{AllocListStub, Allocation, Node};

use crate::cli::format;
use crate::cli::measured::{self, Host};
use crate::cli::page::Page;

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

/// The keys and values at the top. Without `details`, these are fewer.
pub(super) fn head(page: &mut Page, node: &Node, host: Option<&Host>, (details, verbose): (bool, bool)) {
    let healthy = node.drivers.iter().flatten();
    let healthy = healthy.filter(|(_, driver)| driver.healthy == Some(true)).map(|(name, _)| name.as_str());
    let drivers = healthy.collect::<Vec<_>>().join(",");
    let mut pairs = vec![
        ("ID", format::text(node.id.as_ref())),
        ("Name", format::text(node.name.as_ref())),
        ("Node Pool", format::text(node.node_pool.as_ref())),
        ("Class", format::text(node.node_class.as_ref())),
        ("DC", format::text(node.datacenter.as_ref())),
        ("Drain", node.drain.unwrap_or_default().to_string()),
        ("Eligibility", format::text(node.scheduling_eligibility.as_ref())),
        ("Status", format::text(node.status.as_ref())),
        ("CSI Controllers", names(node.csi_controller_plugins.iter().flatten().map(|(name, _)| name))),
        ("CSI Drivers", names(node.csi_node_plugins.iter().flatten().map(|(name, _)| name))),
    ];
    if details {
        pairs.extend(host.map(|host| ("Uptime", uptime(host.uptime))));
        if !verbose {
            pairs.push(("Host Volumes", names(node.host_volumes.iter().flatten().map(|(name, _)| name))));
            pairs.push(("Host Networks", names(node.host_networks.iter().flatten().map(|(name, _)| name))));
            pairs.push(("CSI Volumes", String::new()));
            pairs.push(("Driver Status", drivers));
        }
    } else {
        pairs.push(("Drivers", drivers));
    }
    page.block(&pairs);
}

fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(",")
}

/// A time in hours, minutes and seconds, such as `2h43m47s`.
fn uptime(secs: u64) -> String {
    let (hours, minutes, seconds) = (secs / 3600, secs / 60 % 60, secs % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        (_, _) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

pub(super) fn host_volumes(page: &mut Page, node: &Node) {
    page.title("Host Volumes");
    let rows = node.host_volumes.iter().flatten().map(|(name, volume)| {
        [name.clone(), volume.read_only.unwrap_or_default().to_string(), format::text(volume.path.as_ref())]
    });
    page.table(&["Name", "ReadOnly", "Source"], rows);
}

pub(super) fn drivers(page: &mut Page, node: &Node) {
    page.title("Drivers");
    let rows = node.drivers.iter().flatten().map(|(name, driver)| {
        [
            name.clone(),
            driver.detected.unwrap_or_default().to_string(),
            driver.healthy.unwrap_or_default().to_string(),
            format::text(driver.health_description.as_ref()),
            format::time(driver.update_time),
        ]
    });
    page.table(&["Driver", "Detected", "Healthy", "Message", "Time"], rows);
}

/// The node's events, newest first.
pub(super) fn events(page: &mut Page, node: &Node, verbose: bool) {
    page.title("Node Events");
    let mut header = vec!["Time", "Subsystem", "Message"];
    header.extend(verbose.then_some("Details"));
    let rows = node.events.iter().flatten().rev().map(|event| {
        let mut row = vec![
            format::time(event.timestamp),
            format::text(event.subsystem.as_ref()),
            format::text(event.message.as_ref()),
        ];
        let details = event.details.iter().flatten().map(|(name, value)| format!("{name}: {value}"));
        row.extend(verbose.then(|| details.collect::<Vec<_>>().join(", ")));
        row
    });
    page.table(&header, rows);
}

/// The allocations of a node that have not ended.
pub(super) fn live(allocs: &[AllocListStub]) -> impl Iterator<Item = &AllocListStub> {
    let has_ended = |alloc: &AllocListStub| {
        matches!(alloc.client_status.as_deref(), Some("complete" | "failed" | "lost"))
    };
    allocs.iter().filter(move |alloc| !has_ended(alloc))
}

/// The resources of the node that allocations which have not ended reserve.
pub(super) fn reserved(page: &mut Page, node: &Node, allocs: &[AllocListStub]) {
    let live: Vec<_> = live(allocs).filter_map(|alloc| alloc.allocated_resources.as_ref()).collect();
    let tasks = || live.iter().flat_map(|resources| resources.tasks.iter().flatten().map(|(_, task)| task));
    let sum = |sum: i64, more: i64| sum.saturating_add(more);
    let cpu = tasks().filter_map(|task| task.cpu.as_ref()?.cpu_shares).fold(0, sum);
    let memory = tasks().filter_map(|task| task.memory.as_ref()?.memory_mb).fold(0, sum);
    let disk = live.iter().filter_map(|resources| resources.shared.as_ref()?.disk_mb).fold(0, sum);
    let has = node.node_resources.as_ref();
    let disk_max = has.and_then(|has| has.disk.as_ref()?.disk_mb).unwrap_or_default();
    page.title("Allocated Resources");
    let row = [
        format!("{cpu}/{} MHz", cpu_max(node)),
        format!("{}/{}", mebibytes(memory), mebibytes(memory_max(node))),
        format!("{}/{}", mebibytes(disk), mebibytes(disk_max)),
        live.len().to_string(),
    ];
    page.table(&["CPU", "Memory", "Disk", "Alloc Count"], [row]);
}

fn cpu_max(node: &Node) -> i64 {
    node.node_resources.as_ref().and_then(|has| has.cpu.as_ref()?.cpu_shares).unwrap_or_default()
}

fn memory_max(node: &Node) -> i64 {
    node.node_resources.as_ref().and_then(|has| has.memory.as_ref()?.memory_mb).unwrap_or_default()
}

fn mebibytes(mb: i64) -> String {
    format::bytes(u64::try_from(mb).unwrap_or_default().saturating_mul(MIB))
}

/// What the allocations use together, in MHz and bytes.
pub(super) fn used_by_allocs(page: &mut Page, node: &Node, (ticks, memory): (f64, u64)) {
    page.title("Allocation Resource Utilization");
    let row = [
        format!("{}/{} MHz", measured::mhz(ticks), cpu_max(node)),
        format!("{}/{}", format::bytes(memory), mebibytes(memory_max(node))),
    ];
    page.table(&["CPU", "Memory"], [row]);
}

/// What the whole host uses.
pub(super) fn used_by_host(page: &mut Page, node: &Node, host: &Host) {
    let none = measured::HostMemory::default();
    let memory = host.memory.as_ref().unwrap_or(&none);
    let disk = host.alloc_dir_stats.as_ref();
    page.title("Host Resource Utilization");
    let row = [
        format!("{}/{} MHz", measured::mhz(host.cpu_ticks_consumed), cpu_max(node)),
        format!("{}/{}", format::bytes(memory.used), format::bytes(memory.total)),
        disk.map(|disk| format!("{}/{}", format::bytes(disk.used), format::bytes(disk.size)))
            .unwrap_or_default(),
    ];
    page.table(&["CPU", "Memory", "Disk"], [row]);
}

/// The use of each processor, of memory, and of each disk.
pub(super) fn statistics(page: &mut Page, host: &Host) {
    page.title("CPU Stats");
    for (at, cpu) in host.cpu.iter().flatten().enumerate() {
        separate(page, at);
        page.block(&[
            ("CPU", cpu.name.clone()),
            ("User", measured::percent(cpu.user)),
            ("System", measured::percent(cpu.system)),
            ("Idle", measured::percent(cpu.idle)),
        ]);
    }
    if let Some(memory) = &host.memory {
        page.title("Memory Stats");
        page.block(&[
            ("Total", format::bytes(memory.total)),
            ("Available", format::bytes(memory.available)),
            ("Used", format::bytes(memory.used)),
            ("Free", format::bytes(memory.free)),
        ]);
    }
    page.title("Disk Stats");
    for (at, disk) in host.disk_stats.iter().flatten().enumerate() {
        separate(page, at);
        page.block(&[
            ("Device", disk.device.clone()),
            ("MountPoint", disk.mountpoint.clone()),
            ("Size", format::bytes(disk.size)),
            ("Used", format::bytes(disk.used)),
            ("Available", format::bytes(disk.available)),
            ("Used Percent", measured::percent(disk.used_percent)),
            ("Inodes Percent", measured::percent(disk.inodes_used_percent)),
        ]);
    }
}

fn separate(page: &mut Page, at: usize) {
    if at > 0 {
        page.line("");
    }
}

/// Attributes and metadata by name.
pub(super) fn attributes(page: &mut Page, node: &Node) {
    for (title, values) in [("Attributes", &node.attributes), ("Meta", &node.meta)] {
        page.title(title);
        let pairs: Vec<(&str, String)> =
            values.iter().flatten().map(|(name, value)| (name.as_str(), value.clone())).collect();
        page.block(&pairs);
    }
}

/// What lists show of a whole allocation. The version is that of the job that it runs.
pub(super) fn stub(alloc: Allocation) -> AllocListStub {
    AllocListStub {
        id: alloc.id,
        eval_id: alloc.eval_id,
        node_id: alloc.node_id,
        node_name: alloc.node_name,
        task_group: alloc.task_group,
        job_version: alloc.job.as_ref().and_then(|job| job.version).or(alloc.job_version),
        allocated_resources: alloc.allocated_resources,
        desired_status: alloc.desired_status,
        client_status: alloc.client_status,
        create_index: alloc.create_index,
        create_time: alloc.create_time,
        modify_time: alloc.modify_time,
        ..AllocListStub::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parsed<T: serde::de::DeserializeOwned>(json: &Value) -> T {
        api_types::decode::from_slice(json.to_string().as_bytes()).unwrap()
    }

    fn node() -> Node {
        parsed(&json!({
            "ID": "40000000-0000", "Name": "one", "Status": "ready",
            "HostVolumes": { "data": { "Path": "/srv", "ReadOnly": true }, "logs": {} },
            "NodeResources": { "Cpu": { "CpuShares": 4000 }, "Memory": { "MemoryMB": 24576 }, "Disk": { "DiskMB": 2048 } },
            "Events": [{ "Message": "Node registered", "Subsystem": "Cluster" },
                { "Message": "Node drain complete", "Subsystem": "Drain", "Details": { "deadline_reached": "true" } }],
        }))
    }

    #[test]
    fn an_allocation_shows_the_version_of_its_job() {
        let alloc: Allocation = parsed(&json!({ "ID": "a1", "Job": { "Version": 7 } }));
        assert_eq!(stub(alloc).job_version, Some(7));
    }

    #[test]
    fn resources_are_reserved_and_used() {
        let resources = json!({
            "Tasks": { "app": { "Cpu": { "CpuShares": 1284 }, "Memory": { "MemoryMB": 870 } } },
            "Shared": { "DiskMB": 300 },
        });
        let alloc = |status: &str| -> AllocListStub {
            parsed(&json!({ "ClientStatus": status, "AllocatedResources": resources }))
        };
        let host: Host = parsed(&json!({
            "Memory": { "Total": 25_769_803_776_u64, "Used": 1_073_741_824_u64 },
            "AllocDirStats": { "Size": 2_147_483_648_u64, "Used": 1_048_576 },
            "CPU": [{ "CPU": "cpu0", "User": 1.5, "System": 0.5, "Idle": 98.0 }],
            "CPUTicksConsumed": 80.2,
        }));
        let mut page = Page::default();
        reserved(&mut page, &node(), &[alloc("running"), alloc("complete")]);
        used_by_allocs(&mut page, &node(), (12.3, 1_572_864));
        used_by_host(&mut page, &node(), &host);
        statistics(&mut page, &host);
        let shown = page.to_string();
        for line in [
            "1284/4000 MHz  870 MiB/24 GiB  300 MiB/2 GiB  1",
            "12/4000 MHz  1.5 MiB/24 GiB",
            "80/4000 MHz  1 GiB/24 GiB  1 MiB/2 GiB",
            "CPU    = cpu0",
            "User   = 1.50%",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
        }
    }

    #[test]
    fn events_have_details_if_all_is_shown() {
        let shown = |verbose| {
            let mut page = Page::default();
            events(&mut page, &node(), verbose);
            page.to_string()
        };
        assert!(!shown(false).contains("Details"));
        let whole = shown(true);
        let newest = whole.lines().nth(2).unwrap_or_default();
        assert!(newest.ends_with("deadline_reached: true"), "{whole}");
        assert!(whole.trim_end().ends_with("<none>"), "{whole}");
    }

    #[test]
    fn the_head_is_shorter_where_less_is_asked_for() {
        let shown = |details| {
            let host = Host { uptime: 9827, ..Host::default() };
            let mut page = Page::default();
            head(&mut page, &node(), Some(&host), (details, false));
            page.to_string()
        };
        let whole = shown(true);
        assert!(whole.contains("Uptime          = 2h43m47s\nHost Volumes    = data,logs\n"), "{whole}");
        let short = shown(false);
        assert!(!short.contains("Uptime") && short.ends_with("Drivers         = <none>\n"), "{short}");
        assert_eq!((uptime(47), uptime(107)), ("47s".to_owned(), "1m47s".to_owned()));
    }
}
