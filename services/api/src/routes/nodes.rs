//! Routes of nodes (http-api §17): reading, drains, eligibility, evaluation, purging.

use std::collections::BTreeMap;

use model::cluster::NodePool;
use model::node::{DrainSpec, Eligibility};
use model::text::quoted;
use model::{AllocId, Nanos, NodeId, Text};
use serde::{Deserialize, Serialize};
use state::{NodeRef, State, Table, WatchKey};
use wire::command::{Command, DeregisterNodes, Done, EvaluateNode, SetEligibility, UpdateDrain};

use super::Request;
use super::allocations::{found, ids_by_creation};
use crate::Api;
use crate::filter::matches_filter;
use crate::http::{
    Body, Effort, Error, Piece, Query, Response, Watched, decode, list, ordered, parse_id, piece,
    prefix_range,
};
use crate::shapes::{self, NodeParts, node_stub};

/// How errors of the lookup of a node begin.
pub(super) const LOOKUP: &str = "node lookup failed: ";
const NOT_FOUND: &str = "node not found";

/// Lists nodes by id.
pub(crate) async fn list(api: &Api, request: &Request) -> Result<Response, Error> {
    list_of(api, &request.query, None).await
}

/// Lists nodes by id, or the nodes of a pool.
pub(super) async fn list_of(api: &Api, query: &Query, pool: Option<Text>) -> Result<Response, Error> {
    let pool = pool.filter(|pool| **pool != *NodePool::ALL);
    let page = query.page()?;
    let flag = |name| {
        query
            .flag(name, false)
            .map_err(|error| Error::bad_request(format!("Failed to parse node list fields: {}", error.text)))
    };
    let parts = NodeParts { resources: flag("resources")?, os: flag("os")? };
    let prefix = query.text("prefix");
    api.check_region(query)?;
    let (first, last) = prefix_range(LOOKUP, prefix)?.into_inner();
    let filter = query.filter::<api_types::Node>(&api.limits)?;
    let effort = Effort::of(filter.as_ref());
    let ids = (NodeId::from_bytes(first), NodeId::from_bytes(last));
    let reverse = page.reverse;
    let make = move |state: &State, from: Option<&str>, limit: usize| {
        let Some(bounds) = list::id_bounds(ids, from, reverse) else { return Ok(Piece::empty()) };
        let nodes = ordered(state.nodes_in(bounds), reverse);
        let token = |node: &NodeRef<'_>| node.id().to_string();
        let wanted = |node: &NodeRef<'_>| {
            let is_in_pool = pool.as_ref().is_none_or(|pool| node.spec().node_pool == *pool);
            if is_in_pool { matches_filter(filter.as_ref(), &**node.node()) } else { Ok(false) }
        };
        piece(nodes, limit, wanted, token, |node| node_stub(node.node(), parts))
    };
    let watched = Watched::prefix(Table::Nodes, prefix);
    api.list(query, watched, page, effort, make).await
}

/// Reads a node.
pub(crate) async fn read(api: &Api, request: &Request) -> Result<Response, Error> {
    request.query.read_options()?;
    api.check_region(&request.query)?;
    if request.id().is_empty() {
        return Err(Error::failed("missing node ID"));
    }
    let id: NodeId = parse_id(LOOKUP, request.id())?;
    let index = |state: &State| match state.node(id) {
        Some(node) => node.server().modify_index,
        None => state.table_index(Table::Nodes),
    };
    api.read(&request.query, Watched::new([WatchKey::Node(id)], index), |snapshot| {
        let node = snapshot.node(id).ok_or_else(|| Error::not_found(NOT_FOUND))?;
        Ok(Body::json(&node.node().to_api()).into())
    })
    .await
}

/// Lists the allocations on a node as whole objects.
pub(crate) async fn allocations(api: &Api, request: &Request) -> Result<Response, Error> {
    let id = request.id().parse::<NodeId>().ok();
    let keys: Vec<_> = id.into_iter().map(WatchKey::NodeAllocs).collect();
    let watched = Watched::new(keys, |state: &State| state.table_index(Table::Allocs));
    let find = |state: &State| ids_by_creation(id.into_iter().flat_map(|id| state.allocs_of_node(id)));
    let shape = |state: &State, id: &AllocId| shapes::alloc_with_key(found(state, *id), state);
    api.list_found(&request.query, watched, find, shape).await
}

/// Body of a change of eligibility.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct EligibilityRequest {
    #[serde(rename = "NodeID")]
    node_id: Option<String>,
    eligibility: Option<String>,
}

/// Response to a change of eligibility or of a drain.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct NodeChanged {
    node_modify_index: u64,
    #[serde(rename = "EvalIDs")]
    eval_ids: Option<Vec<String>>,
    eval_create_index: u64,
    index: u64,
}

/// The evaluations that resulted from a command; `None` if there are none.
fn eval_ids(done: &Done) -> Option<Vec<String>> {
    (!done.evals.is_empty()).then(|| done.evals.iter().map(ToString::to_string).collect())
}

/// Sets whether a node is eligible for new allocations (N-9.9). A node that the body names replaces that of the path.
pub(crate) async fn set_eligibility(api: &Api, request: &Request) -> Result<Response, Error> {
    let EligibilityRequest { node_id, eligibility } = decode(&request.body, &api.limits)?;
    api.check_region(&request.query)?;
    let wanted = eligibility.unwrap_or_default();
    let eligibility: Eligibility = wanted
        .parse()
        .map_err(|_| Error::failed(format!("invalid scheduling eligibility {}", quoted(&wanted))))?;
    let named = node_id.as_deref().filter(|id| !id.is_empty()).unwrap_or_else(|| request.id());
    let node: NodeId = parse_id(LOOKUP, named)?;
    let done =
        api.command(&request.query, &Command::SetEligibility(SetEligibility { node, eligibility })).await?;
    let updated = NodeChanged {
        node_modify_index: 0,
        eval_ids: eval_ids(&done),
        eval_create_index: done.evals.first().map_or(0, |_| done.index.0),
        index: if done.written { done.index.0 } else { 0 },
    };
    Ok(Response::written(&updated, done.index))
}

/// The accessor id of requests while there are no ACLs (http-api §17).
const ACCESSOR: &str = "token:acls-disabled";

/// Body of a change of a drain. A node that it names is not looked at.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct DrainRequest {
    drain_spec: Option<api_types::DrainSpec>,
    mark_eligible: Option<bool>,
    meta: Option<BTreeMap<String, String>>,
}

/// Starts, changes or cancels the drain of a node (N-9).
pub(crate) async fn update_drain(api: &Api, request: &Request) -> Result<Response, Error> {
    let DrainRequest { drain_spec, mark_eligible, meta } = decode(&request.body, &api.limits)?;
    api.check_region(&request.query)?;
    let node: NodeId = parse_id(LOOKUP, request.id())?;
    let drain = drain_spec.map(|spec| DrainSpec {
        deadline: Nanos(spec.deadline.unwrap_or_default()),
        ignore_system_jobs: spec.ignore_system_jobs.unwrap_or_default(),
    });
    let meta = meta.unwrap_or_default().into_iter();
    let command = Command::UpdateDrain(UpdateDrain {
        node,
        drain,
        mark_eligible: mark_eligible.unwrap_or_default(),
        meta: meta.map(|(key, value)| (Text::from(key), Text::from(value))).collect(),
        accessor_id: ACCESSOR.into(),
    });
    let done = api.command(&request.query, &command).await?;
    let updated = NodeChanged {
        node_modify_index: done.object_index.0,
        eval_ids: eval_ids(&done),
        eval_create_index: done.evals.first().map_or(0, |_| done.index.0),
        index: done.index.0,
    };
    Ok(Response::written(&updated, done.index))
}

/// Response to a change of a node (http-api A.9).
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Updated {
    #[serde(rename = "HeartbeatTTL")]
    heartbeat_ttl: u64,
    #[serde(rename = "EvalIDs")]
    eval_ids: Option<Vec<String>>,
    eval_create_index: u64,
    node_modify_index: u64,
    features: u64,
    #[serde(rename = "LeaderRPCAddr")]
    leader_rpc_addr: String,
    num_nodes: usize,
    servers: Option<Vec<Server>>,
    scheduling_eligibility: &'static str,
    signed_identity: Option<()>,
    #[serde(flatten)]
    meta: shapes::Meta,
}

/// A server that nodes may use.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Server {
    #[serde(rename = "RPCAdvertiseAddr")]
    rpc_advertise_addr: String,
    #[serde(rename = "RPCMajorVersion")]
    rpc_major_version: u32,
    #[serde(rename = "RPCMinorVersion")]
    rpc_minor_version: u32,
    datacenter: String,
}

impl Updated {
    fn new(done: &Done) -> Self {
        Self {
            eval_create_index: done.evals.first().map_or(0, |_| done.index.0),
            eval_ids: eval_ids(done),
            ..Self::default()
        }
    }
}

/// Creates evaluations for the jobs on a node, and for the system jobs that should run on it (N-22.1).
pub(crate) async fn evaluate(api: &Api, request: &Request) -> Result<Response, Error> {
    api.check_region(&request.query)?;
    let node: NodeId = parse_id(LOOKUP, request.id())?;
    let done = api.command(&request.query, &Command::EvaluateNode(EvaluateNode { node })).await?;
    let state = api.replica.snapshot();
    let server = Server {
        rpc_advertise_addr: api.rpc_addr(),
        rpc_major_version: 0,
        rpc_minor_version: 0,
        datacenter: api.args.server_datacenter.clone(),
    };
    let evaluated = Updated {
        leader_rpc_addr: api.rpc_addr(),
        num_nodes: state.nodes().count(),
        servers: Some(vec![server]),
        scheduling_eligibility: state.node(node).map_or("", |node| node.server().eligibility.as_str()),
        // Without evaluations, nothing was written.
        meta: shapes::Meta { index: if done.written { done.index.0 } else { 0 }, ..shapes::Meta::default() },
        ..Updated::new(&done)
    };
    Ok(Response::written(&evaluated, done.index))
}

/// Purges a node (N-11).
pub(crate) async fn purge(api: &Api, request: &Request) -> Result<Response, Error> {
    api.check_region(&request.query)?;
    let node: NodeId = parse_id(LOOKUP, request.id())?;
    let command = Command::DeregisterNodes(DeregisterNodes { nodes: vec![node] });
    let done = api.command(&request.query, &command).await?;
    let purged = Updated {
        node_modify_index: done.object_index.0,
        meta: shapes::Meta { index: done.index.0, ..shapes::Meta::default() },
        ..Updated::new(&done)
    };
    Ok(Response::written(&purged, done.index))
}
