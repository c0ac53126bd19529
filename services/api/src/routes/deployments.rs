//! Routes that read deployments (http-api §16).

use std::sync::Arc;

use model::DeploymentId;
use model::deployment::Deployment;
use state::{State, Table, WatchKey};

use super::Request;
use super::allocations::{found_stub, ids_by_creation};
use crate::Api;
use crate::filter::matches_filter;
use crate::http::{
    Body, Effort, Error, Piece, Response, Watched, creation_token, list, ordered, parse_id, piece,
    prefix_range,
};

/// How errors of the lookup of a deployment begin. In lists there is no such beginning (http-api §9.4).
const LOOKUP: &str = "deployment lookup failed: ";
const LIST_LOOKUP: &str = "";

/// Lists deployments by creation, or by id if an id prefix is given.
pub(crate) async fn list(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let page = query.page()?;
    api.check_region(query)?;
    let (prefix, namespace, reverse) = (query.text("prefix"), query.namespace(), page.reverse);
    let (first, last) = prefix_range(LIST_LOOKUP, prefix)?.into_inner();
    let filter = query.filter::<api_types::Deployment>(&api.limits)?;
    let effort = Effort::of(filter.as_ref());
    let wanted = move |deployment: &&Arc<Deployment>| {
        let is_selected = namespace.holds(&deployment.job.job.namespace);
        if is_selected { matches_filter(filter.as_ref(), &***deployment) } else { Ok(false) }
    };
    let watched = Watched::prefix(Table::Deployments, prefix);
    if prefix.is_empty() {
        let make = move |state: &State, from: Option<&str>, limit: usize| {
            let Some(bounds) = list::creation_bounds(from, reverse) else { return Ok(Piece::empty()) };
            let deployments = ordered(state.deployments_by_creation(bounds), reverse);
            let token = |one: &&Arc<Deployment>| creation_token(one.create_index, one.id);
            piece(deployments, limit, &wanted, token, |one| one.to_api())
        };
        return api.list(query, watched, page, effort, make).await;
    }
    let ids = (DeploymentId::from_bytes(first), DeploymentId::from_bytes(last));
    let make = move |state: &State, from: Option<&str>, limit: usize| {
        let Some(bounds) = list::id_bounds(ids, from, reverse) else { return Ok(Piece::empty()) };
        let deployments = ordered(state.deployments_in(bounds), reverse);
        piece(deployments, limit, &wanted, |one| one.id.to_string(), |one| one.to_api())
    };
    api.list(query, watched, page, effort, make).await
}

/// The id of the deployment that the path names.
pub(super) fn deployment_id(request: &Request) -> Result<DeploymentId, Error> {
    match request.id() {
        "" => Err(Error::failed("missing deployment ID")),
        id => parse_id(LOOKUP, id),
    }
}

/// Reads a deployment.
pub(crate) async fn read(api: &Api, request: &Request) -> Result<Response, Error> {
    request.query.read_options()?;
    api.check_region(&request.query)?;
    let id = deployment_id(request)?;
    let index = |state: &State| match state.deployment(id) {
        Some(deployment) => deployment.modify_index,
        None => state.table_index(Table::Deployments),
    };
    api.read(&request.query, Watched::new([WatchKey::Deployment(id)], index), |snapshot| {
        let deployment = snapshot.deployment(id).ok_or_else(|| Error::not_found("deployment not found"))?;
        Ok(Body::json(&deployment.to_api()).into())
    })
    .await
}

/// Lists the allocations of a deployment; empty if the deployment does not exist.
pub(crate) async fn allocations(api: &Api, request: &Request) -> Result<Response, Error> {
    request.query.read_options()?;
    api.check_region(&request.query)?;
    let id: DeploymentId = parse_id(LIST_LOOKUP, request.id())?;
    let find = |state: &State| {
        let job = state.deployment(id).map(|deployment| &deployment.job.job);
        let allocs = job.into_iter().flat_map(|job| state.allocs_of_job(job));
        ids_by_creation(allocs.filter(|alloc| alloc.deployment_id() == Some(id)))
    };
    api.list_found(&request.query, Watched::table(Table::Allocs), find, found_stub).await
}
