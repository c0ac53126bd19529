//! Routes of resource usage of nodes and tasks (http-api §18, §27), measured by agents.

use std::collections::BTreeMap;
use std::time::Duration;

use model::text::quoted;
use model::{NodeId, Text};
use serde::Serialize;
use serde_json::{Value, json};
use state::State;
use wire::stats::{
    AgentStats, AllocStats, CpuStats, DiskStats, GetAgentStats, GetAllocStats, GetHostFacts, GetHostStats,
    HostFacts, HostStats, TaskStats, Usage,
};

use super::Request;
use crate::Api;
use crate::files::{AllocAgent, request_stats};
use crate::http::{Error, Query, Response, parse_id};

/// Timeout of the request to this process's own agent, whose stats are only a part of the response.
const OWN_AGENT_TIMEOUT: Duration = Duration::from_millis(500);
/// Memory values that are measured, by their names in Nomad.
const MEMORY_MEASURED: [&str; 3] = ["RSS", "Swap", "Usage"];
/// CPU values that are measured, by their names in Nomad.
const CPU_MEASURED: [&str; 3] = ["System Mode", "User Mode", "Percent"];

impl Api {
    /// The node that a request names, or the node of this process.
    ///
    /// # Errors
    /// If the node does not exist, or the request names none and this process is not a node.
    pub(super) async fn node_of(&self, query: &Query) -> Result<NodeId, Error> {
        let id: NodeId = match query.text("node_id") {
            "" => {
                let missing = || Error::bad_request("No local Node and node_id not provided");
                return self.colocated.node.ok_or_else(missing);
            }
            id => parse_id("node", id)?,
        };
        let is_there = |state: &State| state.node(id).is_some();
        if is_there(&self.replica.snapshot()) || is_there(&*self.fresh_snapshot(false).await?) {
            return Ok(id);
        }
        Err(Error::not_found(format!("Unknown node {id}")))
    }
}

/// Reads the resource usage of a node's host.
pub(crate) async fn host(api: &Api, request: &Request) -> Result<Response, Error> {
    let node = api.node_of(&request.query).await?;
    let stats: HostStats = request_stats(&api.bus, node, &GetHostStats {}).await?;
    Ok(Response::json(&host_shape(&stats)))
}

/// Stats of this process's own agent; `None` if there is no agent or it does not answer in time.
pub(super) async fn own_agent(api: &Api) -> Option<Value> {
    let node = api.colocated.node?;
    let response = request_stats(&api.bus, node, &GetAgentStats {});
    let stats: AgentStats = tokio::time::timeout(OWN_AGENT_TIMEOUT, response).await.ok()?.ok()?;
    let last_heartbeat = stats.heard_ago_ms.map(|ms| format!("{}s", Duration::from_millis(ms).as_secs_f64()));
    Some(json!({
        "node_id": node,
        "known_servers": "1",
        "num_allocations": stats.allocs.to_string(),
        "last_heartbeat": last_heartbeat.unwrap_or_else(|| "never".to_owned()),
        "heartbeat_ttl": format!("{}s", Duration::from_millis(stats.ttl_ms).as_secs_f64()),
    }))
}

fn host_shape(stats: &HostStats) -> Value {
    let cpu = |cpu: &CpuStats| {
        json!({
            "CPU": cpu.name,
            "User": cpu.user_percent,
            "System": cpu.system_percent,
            "Idle": cpu.idle_percent,
            "TotalPercent": cpu.busy_percent,
            "TotalTicks": cpu.used_mhz,
        })
    };
    json!({
        "Memory": {
            "Total": stats.memory.total,
            "Available": stats.memory.available,
            "Used": stats.memory.used,
            "Free": stats.memory.free,
        },
        "CPU": stats.cpus.iter().map(cpu).collect::<Vec<_>>(),
        "DiskStats": stats.disks.iter().map(disk_shape).collect::<Vec<_>>(),
        "AllocDirStats": stats.alloc_disk.as_ref().map(disk_shape),
        "DeviceStats": [],
        "Uptime": stats.uptime_secs,
        "Timestamp": stats.at.0,
        "CPUTicksConsumed": stats.cpus.iter().map(|cpu| cpu.used_mhz).sum::<f64>(),
    })
}

fn disk_shape(disk: &DiskStats) -> Value {
    json!({
        "Device": disk.device,
        "Mountpoint": disk.mountpoint,
        "Size": disk.size_bytes,
        "Used": disk.used_bytes,
        "Available": disk.available_bytes,
        "UsedPercent": disk.used_percent,
        "InodesUsedPercent": disk.inodes_percent,
    })
}

/// Resource usage of an allocation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct AllocUsage<'a> {
    resource_usage: ResourceUsage,
    tasks: BTreeMap<&'a str, TaskUsage>,
    timestamp: i64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct TaskUsage {
    resource_usage: ResourceUsage,
    timestamp: i64,
    pids: BTreeMap<u32, ResourceUsage>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ResourceUsage {
    memory_stats: MemoryUsage,
    cpu_stats: CpuUsage,
    device_stats: [(); 0],
}

/// Memory, in bytes. Values that are not measured are 0.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct MemoryUsage {
    #[serde(rename = "RSS")]
    rss: u64,
    cache: u64,
    swap: u64,
    mapped_file: u64,
    usage: u64,
    max_usage: u64,
    kernel_usage: u64,
    kernel_max_usage: u64,
    measured: Option<[&'static str; 3]>,
}

/// CPU: percentages of one processor, and ticks in MHz. Values that are not measured are 0.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct CpuUsage {
    system_mode: f64,
    user_mode: f64,
    total_ticks: f64,
    throttled_periods: u64,
    throttled_time: u64,
    percent: f64,
    measured: Option<[&'static str; 3]>,
}

impl From<Usage> for ResourceUsage {
    fn from(usage: Usage) -> Self {
        let Usage { rss_bytes, swap_bytes, user_percent, system_percent, used_mhz } = usage;
        Self {
            memory_stats: MemoryUsage {
                rss: rss_bytes,
                swap: swap_bytes,
                usage: rss_bytes,
                measured: Some(MEMORY_MEASURED),
                ..MemoryUsage::default()
            },
            cpu_stats: CpuUsage {
                system_mode: system_percent,
                user_mode: user_percent,
                total_ticks: used_mhz,
                percent: system_percent + user_percent,
                measured: Some(CPU_MEASURED),
                ..CpuUsage::default()
            },
            device_stats: [],
        }
    }
}

impl From<&TaskStats> for TaskUsage {
    fn from(stats: &TaskStats) -> Self {
        Self {
            resource_usage: stats.sum.into(),
            timestamp: stats.at.0,
            pids: stats.processes.iter().map(|(pid, usage)| (*pid, (*usage).into())).collect(),
        }
    }
}

/// Reads the resource usage of an allocation's tasks, or of one of them.
pub(crate) async fn alloc(api: &Api, request: &Request) -> Result<Response, Error> {
    let agent = AllocAgent::find(api, request.id()).await?;
    let task = Some(request.query.text("task")).filter(|task| !task.is_empty()).map(Text::from);
    let message = GetAllocStats { alloc: agent.alloc(), task };
    let AllocStats { tasks } = agent.request_stats(&message).await?;
    // The total is left empty if one task is requested.
    let sum = match message.task {
        Some(_) => ResourceUsage::default(),
        None => tasks.iter().fold(Usage::default(), |sum, task| sum.and(task.sum)).into(),
    };
    Ok(Response::json(&AllocUsage {
        resource_usage: sum,
        timestamp: tasks.iter().map(|task| task.at.0).max().unwrap_or_default(),
        tasks: tasks.iter().map(|task| (&*task.task, task.into())).collect(),
    }))
}

/// Reads how a node's host is set up. Without a node id, the node is this process.
pub(crate) async fn facts(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    api.check_server(query)?;
    let node = api.node_of(query).await?;
    let facts: HostFacts = request_stats(&api.bus, node, &GetHostFacts {}).await?;
    let network = |(name, addresses): &(Text, Vec<Text>)| json!({ "Name": name, "Addresses": addresses });
    let environment: BTreeMap<_, _> = facts.environment.iter().map(|(name, value)| (name, value)).collect();
    let disks: BTreeMap<_, _> = facts.disks.iter().map(|disk| (&disk.mountpoint, disk_shape(disk))).collect();
    Ok(Response::json(&json!({
        "OS": facts.os,
        "Network": facts.networks.iter().map(network).collect::<Vec<_>>(),
        "ResolvConf": facts.resolv_conf,
        "Hosts": facts.hosts,
        "Environment": environment,
        "Disk": disks,
    })))
}

impl Api {
    /// Checks that a requested server is this one. Requests are not forwarded to other servers.
    ///
    /// # Errors
    /// If it is another server, or a node is requested as well.
    pub(super) fn check_server(&self, query: &Query) -> Result<(), Error> {
        let server = query.text("server_id");
        if server.is_empty() {
            return Ok(());
        }
        if !query.text("node_id").is_empty() {
            return Err(Error::bad_request("Cannot target node and server simultaneously"));
        }
        let names = [self.member_name(), self.args.server_name.clone(), self.process.to_string()];
        if server == "leader" || names.iter().any(|name| name == server) {
            return Ok(());
        }
        Err(Error::not_found(format!("unknown Nomad server {}", quoted(server))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_measured_is_not_said_to_be() {
        let usage =
            Usage { rss_bytes: 100, swap_bytes: 1, user_percent: 1.0, system_percent: 0.5, used_mhz: 30.0 };
        let shown = serde_json::to_value(ResourceUsage::from(usage)).unwrap();
        assert_eq!((&shown["MemoryStats"]["RSS"], &shown["MemoryStats"]["Cache"]), (&json!(100), &json!(0)));
        assert_eq!(shown["CpuStats"]["Percent"], json!(1.5));
        assert_eq!(shown["CpuStats"]["Measured"], json!(["System Mode", "User Mode", "Percent"]));
        let nothing = serde_json::to_value(ResourceUsage::default()).unwrap();
        assert_eq!(nothing["MemoryStats"]["Measured"], Value::Null);
        assert_eq!(nothing["DeviceStats"], json!([]));
    }
}
