//! Nodes and node pools (http-api §17), for reading.

use model::NodeId;
use state::{NodeRef, State, Table, WatchKey};

use super::Request;
use super::shapes::{self, NodeParts, node_stub};
use crate::Api;
use crate::frame::{Answer, Body, Error, Piece, Shown, list, ordered, parse_id, piece, prefix_range};

const WHAT: &str = "node";

/// Lists nodes by id.
pub(crate) async fn list(api: &Api, request: &Request) -> Result<Answer, Error> {
    let query = &request.query;
    query.refuse_filter()?;
    let page = query.page()?;
    let flag = |name| {
        query
            .flag(name, false)
            .map_err(|error| Error::bad_request(format!("Failed to parse node list fields: {}", error.text)))
    };
    let parts = NodeParts { resources: flag("resources")?, os: flag("os")? };
    let prefix = query.text("prefix");
    let (first, last) = prefix_range(WHAT, prefix)?.into_inner();
    let ids = (NodeId::from_bytes(first), NodeId::from_bytes(last));
    let reverse = page.reverse;
    let make = move |state: &State, from: Option<&str>, limit: usize| {
        let Some(bounds) = list::id_bounds(ids, from, reverse) else { return Piece::empty() };
        let nodes = ordered(state.nodes_in(bounds), reverse);
        let token = |node: &NodeRef<'_>| node.id().to_string();
        piece(nodes, limit, token, |node| node_stub(node.node(), parts))
    };
    let shown = Shown::prefix(Table::Nodes, prefix);
    api.read(query, shown, |snapshot| Ok(list::body(snapshot, page, make))).await
}

/// Reads a node.
pub(crate) async fn read(api: &Api, request: &Request) -> Result<Answer, Error> {
    if request.id().is_empty() {
        return Err(Error::failed("missing node ID"));
    }
    let id: NodeId = parse_id(WHAT, request.id())?;
    let index = |state: &State| match state.node(id) {
        Some(node) => node.server().modify_index,
        None => state.table_index(Table::Nodes),
    };
    api.read(&request.query, Shown::new([WatchKey::Node(id)], index), |snapshot| {
        let node = snapshot.node(id).ok_or_else(|| Error::not_found("node not found"))?;
        Ok(Body::json(&node.node().to_api()).into())
    })
    .await
}

/// The allocations on a node, whole.
pub(crate) async fn allocations(api: &Api, request: &Request) -> Result<Answer, Error> {
    let id = request.id().parse::<NodeId>().ok();
    let keys: Vec<_> = id.into_iter().map(WatchKey::NodeAllocs).collect();
    let shown = Shown::new(keys, |state: &State| state.table_index(Table::Allocs));
    api.read(&request.query, shown, |snapshot| {
        let mut allocs: Vec<_> = id.into_iter().flat_map(|id| snapshot.allocs_of_node(id)).collect();
        allocs.sort_by_key(|alloc| (alloc.create_index(), alloc.id()));
        let allocs: Vec<_> = allocs.into_iter().map(shapes::alloc).collect();
        Ok(Body::json(&allocs).into())
    })
    .await
}

/// Lists node pools by name.
pub(crate) async fn pools(api: &Api, request: &Request) -> Result<Answer, Error> {
    let query = &request.query;
    query.refuse_filter()?;
    let page = query.page()?;
    let (prefix, reverse) = (query.text("prefix").to_owned(), page.reverse);
    let make = move |state: &State, from: Option<&str>, limit: usize| {
        let pools =
            ordered(state.node_pools(), reverse).filter(|pool| pool.name.starts_with(&prefix)).skip_while(
                |pool| from.is_some_and(|from| if reverse { &*pool.name > from } else { &*pool.name < from }),
            );
        piece(pools, limit, |pool| pool.name.to_string(), |pool| shapes::pool(pool))
    };
    let shown = Shown::prefix(Table::NodePools, query.text("prefix"));
    api.read(query, shown, |snapshot| Ok(list::body(snapshot, page, make))).await
}

/// Reads a node pool.
pub(crate) async fn pool(api: &Api, request: &Request) -> Result<Answer, Error> {
    let name = request.id();
    let index = |state: &State| match state.node_pool(name) {
        Some(pool) => pool.modify_index,
        None => state.table_index(Table::NodePools),
    };
    let shown = Shown::new([WatchKey::Prefix(Table::NodePools, name.into())], index);
    api.read(&request.query, shown, |snapshot| {
        let pool = snapshot.node_pool(name).ok_or_else(|| Error::not_found("node pool not found"))?;
        Ok(Body::json(&shapes::pool(pool)).into())
    })
    .await
}
