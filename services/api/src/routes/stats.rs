//! Routes of resource usage of nodes and tasks, and of the checks of allocations (http-api §18, §27), which agents answer.

use std::collections::BTreeMap;

use model::Text;
use serde_json::{Value, json};
use wire::checks::{AllocChecks, CheckState, GetAllocChecks};
use wire::stats::{AllocStats, GetAllocStats, GetHostFacts, GetHostStats, HostFacts, HostStats};

use super::Request;
use crate::Api;
use crate::agent_client::{AllocAgent, request_stats};
use crate::http::{Error, Response};
use crate::shapes::usage::{self, AllocUsage};

/// Reads the resource usage of a node's host.
pub(crate) async fn host(api: &Api, request: &Request) -> Result<Response, Error> {
    let node = api.node_of(&request.query).await?;
    let stats: HostStats = request_stats(&api.bus, node, &GetHostStats {}).await?;
    Ok(Response::json(&usage::host(&stats)))
}

/// Reads the resource usage of an allocation's tasks, or of one of them.
pub(crate) async fn alloc(api: &Api, request: &Request) -> Result<Response, Error> {
    let agent = AllocAgent::find(api, request.id()).await?;
    let task = Some(request.query.text("task")).filter(|task| !task.is_empty()).map(Text::from);
    let AllocStats { tasks } = agent.request_stats(&GetAllocStats { alloc: agent.alloc(), task }).await?;
    Ok(Response::json(&AllocUsage::new(&tasks)))
}

/// Maximum number of requests to the agent for one response of the route of checks.
const CHECK_REQUESTS_MAX: usize = 64;

/// Reads the results of the checks that a node runs for an allocation, by the id of the check; `null` without checks.
pub(crate) async fn checks(api: &Api, request: &Request) -> Result<Response, Error> {
    let agent = AllocAgent::find(api, request.id()).await?;
    let mut found = BTreeMap::new();
    let mut after = Text::default();
    for _ in 0..CHECK_REQUESTS_MAX {
        let message = GetAllocChecks { alloc: agent.alloc(), after };
        let AllocChecks { checks, more } = agent.request_stats(&message).await?;
        let Some(last) = checks.last().map(|check| Text::clone(&check.id)) else { break };
        found.extend(checks.iter().map(|check| (Text::clone(&check.id), check_result(check))));
        if !more {
            break;
        }
        after = last;
    }
    Ok(Response::json(&(!found.is_empty()).then_some(found)))
}

/// The result of a check (http-api §18).
fn check_result(check: &CheckState) -> Value {
    json!({
        "ID": check.id,
        "Mode": check.mode,
        "Status": check.status,
        "StatusCode": check.status_code,
        "Output": check.output,
        "Timestamp": check.at.as_secs(),
        "Group": check.group,
        "Task": check.task,
        "Service": check.service,
        "Check": check.check,
    })
}

/// Reads how a node's host is set up. Without a node id, the node is this process.
pub(crate) async fn facts(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    if !query.text("server_id").is_empty() && !query.text("node_id").is_empty() {
        return Err(Error::bad_request("Can only forward to either client node or server"));
    }
    if let Some(problem) = api.wrong_server(query) {
        return Err(Error::failed(problem));
    }
    let node = api.node_of(query).await?;
    let facts: HostFacts = request_stats(&api.bus, node, &GetHostFacts {}).await?;
    let network = |(name, addresses): &(Text, Vec<Text>)| json!({ "Name": name, "Addresses": addresses });
    let environment: BTreeMap<_, _> = facts.environment.iter().map(|(name, value)| (name, value)).collect();
    let disks: BTreeMap<_, _> =
        facts.disks.iter().map(|disk| (&disk.mountpoint, usage::disk(disk))).collect();
    Ok(Response::json(&json!({
        "OS": facts.os,
        "Network": facts.networks.iter().map(network).collect::<Vec<_>>(),
        "ResolvConf": facts.resolv_conf,
        "Hosts": facts.hosts,
        "Environment": environment,
        "Disk": disks,
    })))
}
