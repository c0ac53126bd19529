//! Routes about this process and the servers of the cluster (http-api §27, §28), and the placeholder of the web interface
//! (§34).
//!
//! Drover has no Raft peers and no gossip. Clients request them nevertheless, for display or to see whether a server is
//! alive. The responses contain this server only, with the ports that the configuration names for RPC and Serf. Nothing
//! listens on them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use actix_web::http::StatusCode;
use model::NOMAD_VERSION;
use model::features::Feature;
use model::job::JobType;
use model::node::NodeStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use wire::stats::{AgentStats, GetAgentStats};

use super::Request;
use crate::Api;
use crate::agent_client::request_stats;
use crate::http::{Body, Error, NO_LEADER, Query, Response, decode};

/// Timeout of the request to this process's own agent, whose stats are only a part of the response.
const OWN_AGENT_TIMEOUT: Duration = Duration::from_millis(500);

/// Health of one role of this process. Members are in the order of their names, as clients see them.
#[derive(Debug, Serialize)]
struct Health {
    message: String,
    ok: bool,
}

impl Health {
    /// Healthy if there is no problem.
    fn of(problem: Option<String>) -> Self {
        Self { ok: problem.is_none(), message: problem.unwrap_or_else(|| "ok".to_owned()) }
    }
}

impl Api {
    /// Address of this server for clients. If it listens on all addresses, this is the loopback address.
    fn host(&self) -> IpAddr {
        match self.addr.ip() {
            ip if ip.is_unspecified() && ip.is_ipv4() => IpAddr::from([127, 0, 0, 1]),
            ip if ip.is_unspecified() => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
            ip => ip,
        }
    }

    pub(super) fn rpc_addr(&self) -> String {
        std::net::SocketAddr::new(self.host(), self.args.rpc_port).to_string()
    }

    /// Whether a message of an active applier was received recently.
    pub(super) fn has_leader(&self) -> bool {
        self.contact(true).1
    }

    /// Name of this server with its region.
    pub(super) fn member_name(&self) -> String {
        format!("{}.{}", self.args.server_name, self.args.region)
    }

    /// What is wrong with a request for another server: there is no such server. Requests are not forwarded.
    pub(super) fn wrong_server(&self, query: &Query) -> Option<String> {
        let server = query.text("server_id");
        let names = [self.member_name(), self.args.server_name.clone(), self.process.to_string()];
        let is_this = matches!(server, "" | "leader") || names.iter().any(|name| name == server);
        (!is_this).then(|| format!("unknown Nomad server {server}"))
    }

    fn member(&self) -> Value {
        json!({
            "Name": self.member_name(),
            "Addr": self.host().to_string(),
            "Port": self.args.serf_port,
            "Tags": {
                "role": "nomad",
                "region": self.args.region,
                "dc": self.args.server_datacenter,
                "build": NOMAD_VERSION,
                "revision": "",
                "vsn": "1",
                "raft_vsn": "3",
                "id": self.process.to_string(),
                "rpc_addr": self.host().to_string(),
                "port": self.args.rpc_port.to_string(),
                "bootstrap": "1",
            },
            "Status": "alive",
            "ProtocolMin": 1,
            "ProtocolMax": 5,
            "ProtocolCur": 2,
            "DelegateMin": 2,
            "DelegateMax": 5,
            "DelegateCur": 4,
        })
    }
}

/// Configuration and stats of this process.
pub(crate) async fn this(api: &Api, _: &Request) -> Result<Response, Error> {
    let args = &api.args;
    let listening = || std::net::SocketAddr::new(api.host(), api.addr.port()).to_string();
    let http = args.http_advertise.clone().unwrap_or_else(listening);
    let config = json!({
        "Region": args.region,
        "Datacenter": args.server_datacenter,
        "NodeName": args.server_name,
        "Version": {
            "Version": NOMAD_VERSION,
            "VersionPrerelease": "",
            "VersionMetadata": "drover",
            "Revision": "",
            "BuildDate": "0001-01-01T00:00:00Z",
        },
        "ACL": { "Enabled": false },
        "UI": {
            "Enabled": true,
            "Consul": { "BaseUIURL": "" },
            "Vault": { "BaseUIURL": "" },
            "Label": { "Text": "", "BackgroundColor": "", "TextColor": "" },
        },
        "Server": { "Enabled": true },
        "Client": { "Enabled": api.colocated.node.is_some() },
        "Ports": { "HTTP": api.addr.port(), "RPC": args.rpc_port, "Serf": args.serf_port },
        "BindAddr": api.addr.ip().to_string(),
        "AdvertiseAddrs": {
            "HTTP": http,
            "RPC": api.rpc_addr(),
            "Serf": std::net::SocketAddr::new(api.host(), args.serf_port).to_string(),
        },
        "Telemetry": {},
        "TLSConfig": { "EnableHTTP": false },
        "Vaults": [],
        "Consuls": [],
        "Sentinel": {},
        "DevMode": api.colocated.dev,
        "DataDir": api.colocated.data_dir,
        "EnableDebug": api.colocated.dev,
        "LogLevel": telemetry::log_level(),
    });
    let index = api.replica.snapshot().index().to_string();
    let has_leader = api.has_leader();
    let mut stats = json!({
        "nomad": {
            "server": "true",
            "leader": has_leader.to_string(),
            "leader_addr": if has_leader { api.rpc_addr() } else { String::new() },
            "bootstrap": "true",
            "known_regions": "1",
        },
        "raft": {
            "state": if has_leader { "Leader" } else { "Follower" },
            "num_peers": "0",
            "applied_index": index,
            "commit_index": index,
            "last_log_index": index,
        },
        "serf": { "members": "1" },
        "runtime": {
            "version": concat!("drover ", env!("CARGO_PKG_VERSION")),
            "arch": std::env::consts::ARCH,
            "kernel.name": std::env::consts::OS,
            "cpu_count": std::thread::available_parallelism().map_or(1, usize::from).to_string(),
        },
    });
    if let Some(client) = own_agent(api).await {
        stats["client"] = client;
    }
    Ok(Response::json(&json!({ "config": config, "member": api.member(), "stats": stats })))
}

/// Stats of this process's own agent; `None` if there is no agent or it does not answer in time.
async fn own_agent(api: &Api) -> Option<Value> {
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

/// The servers of the cluster: this one.
pub(crate) fn members(api: &Api, _: &Request) -> Result<Response, Error> {
    Ok(Response::json(&json!({
        "ServerName": api.args.server_name,
        "ServerRegion": api.args.region,
        "ServerDC": api.args.server_datacenter,
        "Members": [api.member()],
    })))
}

/// The servers that the client of this process uses.
pub(crate) fn servers(api: &Api, _: &Request) -> Result<Response, Error> {
    if api.colocated.node.is_some() { Ok(Response::json(&[api.rpc_addr()])) } else { Err(not_a_client()) }
}

/// Accepts new servers for the client and ignores them, because it finds servers by NATS.
pub(crate) fn set_servers(api: &Api, request: &Request) -> Result<Response, Error> {
    if api.colocated.node.is_none() {
        return Err(not_a_client());
    }
    match request.query.text("address") {
        "" => Err(Error::bad_request("missing server address")),
        _ => Ok(Response::ok(Body::Empty)),
    }
}

fn not_a_client() -> Error {
    Error::new(StatusCode::NOT_IMPLEMENTED, "Invalid method")
}

/// Response to a join.
#[derive(Debug, Serialize)]
struct Joined {
    num_joined: u32,
    error: &'static str,
    warning: &'static str,
}

/// Servers do not join each other: all servers with the same NATS and database form one cluster.
pub(crate) fn join(_: &Api, request: &Request) -> Result<Response, Error> {
    if request.query.get("address").is_none() {
        return Err(Error::bad_request("missing address to join"));
    }
    let error = "servers do not join each other: all servers with the same NATS and the same PostgreSQL are one cluster";
    Ok(Response::json(&Joined { num_joined: 0, error, warning: "" }))
}

/// Does nothing, because servers that have left are not remembered.
pub(crate) fn force_leave(_: &Api, request: &Request) -> Result<Response, Error> {
    if request.query.text("node").is_empty() {
        return Err(Error::bad_request("missing node to force leave"));
    }
    request.query.flag("prune", false).map_err(|_| Error::bad_request("invalid prune value"))?;
    Ok(Response::ok(Body::Empty))
}

/// The scheduler type of Nomad's garbage collection, which the applier does here.
const CORE: &str = "_core";

/// Lists scheduler workers by id. The list is empty, because workers are anonymous threads.
pub(crate) fn schedulers(api: &Api, _: &Request) -> Result<Response, Error> {
    Ok(Response::json(&json!({ "server_id": api.member_name(), "schedulers": [] })))
}

/// Number of scheduler threads of this process, and their job types.
pub(crate) fn schedulers_config(api: &Api, _: &Request) -> Result<Response, Error> {
    let kinds = api.colocated.schedulers.iter().map(|kind| kind.as_str());
    Ok(Response::json(&json!({
        "server_id": api.member_name(),
        "num_schedulers": api.colocated.workers,
        "enabled_schedulers": kinds.chain([CORE]).collect::<Vec<_>>(),
    })))
}

/// Body of a request to change the workers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WorkersRequest {
    num_schedulers: i64,
    enabled_schedulers: Option<Vec<String>>,
}

/// Accepts the configuration that the workers have, and rejects any other: their number is set when the process starts.
pub(crate) fn set_schedulers_config(api: &Api, request: &Request) -> Result<Response, Error> {
    let invalid = |error: Error| Error { text: format!("Invalid request: {}", error.text), ..error };
    let body: WorkersRequest = decode(&request.body, &api.limits).map_err(invalid)?;
    let wanted: BTreeSet<String> = body.enabled_schedulers.unwrap_or_default().into_iter().collect();
    let is_known = |kind: &String| *kind == *CORE || kind.parse::<JobType>().is_ok();
    if body.num_schedulers < 0 || wanted.is_empty() || !wanted.iter().all(is_known) {
        return Err(Error::bad_request("Invalid request"));
    }
    let present = api.colocated.schedulers.iter().map(|kind| kind.as_str()).chain([CORE]);
    let is_present = usize::try_from(body.num_schedulers) == Ok(api.colocated.workers)
        && present.map(str::to_owned).collect::<BTreeSet<_>>() == wanted;
    if is_present {
        return schedulers_config(api, request);
    }
    Err(Error::bad_request(
        "the workers of a running process cannot be changed: start it with --workers and --schedulers",
    ))
}

/// Rejects keyring operations as a server without gossip encryption does: there are no gossip keys, because NATS secures
/// the connections.
pub(crate) fn keyring(api: &Api, request: &Request) -> Result<Response, Error> {
    match request.id() {
        "list" => {}
        "install" | "use" | "remove" => {
            decode::<Map<String, Value>>(&request.body, &api.limits)?;
        }
        _ => return Err(Error::not_found("resource not found")),
    }
    Err(Error::failed("1/1 nodes reported failure"))
}

/// Health of this process. The server role is healthy while there is an active applier, the client role while its node is
/// ready, which it is as soon as its agent has registered it. The message of an unhealthy role names each part that is down.
pub(crate) fn health(api: &Api, request: &Request) -> Result<Response, Error> {
    let mut roles = BTreeMap::new();
    if matches!(request.query.text("type"), "" | "server") {
        let problem = (!api.has_leader()).then(|| format!("{NO_LEADER}: {}", api.outages().join("; ")));
        roles.insert("server", Health::of(problem));
    }
    if let Some(node) = api.colocated.node
        && matches!(request.query.text("type"), "" | "client")
    {
        let state = api.replica.snapshot();
        let status = state.node(node).map(|node| node.server().status);
        let problem = match status {
            Some(NodeStatus::Ready) => None,
            None | Some(NodeStatus::Initializing) => {
                Some(format!("node {node}: its agent has not registered it yet"))
            }
            Some(status @ (NodeStatus::Down | NodeStatus::Disconnected)) => {
                Some(format!("node {node}: {status}: its heartbeats do not arrive"))
            }
        };
        roles.insert("client", Health::of(problem));
    }
    if roles.values().all(|health| health.ok) {
        return Ok(Response::json(&roles));
    }
    let text = serde_json::to_string(&roles).expect("plain data always serializes to JSON");
    Ok(Response::ok(Body::text(text)).status(StatusCode::INTERNAL_SERVER_ERROR))
}

/// Address of the leader: this server's address while there is an active applier, otherwise empty.
pub(crate) fn leader(api: &Api, request: &Request) -> Result<Response, Error> {
    request.query.read_options()?;
    api.check_region(&request.query)?;
    Ok(Response::json(&if api.has_leader() { api.rpc_addr() } else { String::new() }))
}

/// Addresses of the servers: this server's.
pub(crate) fn peers(api: &Api, request: &Request) -> Result<Response, Error> {
    request.query.read_options()?;
    api.check_region(&request.query)?;
    Ok(Response::json(&[api.rpc_addr()]))
}

/// The regions: this cluster's.
pub(crate) fn regions(api: &Api, _: &Request) -> Result<Response, Error> {
    Ok(Response::json(&[&api.args.region]))
}

/// Placeholder of the web interface.
pub(crate) fn ui(_: &Api, _: &Request) -> Result<Response, Error> {
    let page = format!(
        "<!doctype html><title>Drover</title><p>The {}. The API is at <code>/v1/</code>.</p>\n",
        Feature::WebInterface.refusal()
    );
    let content_type = "text/html; charset=utf-8".to_owned();
    Ok(Response::ok(Body::Other { content_type, bytes: page.into() }))
}
