//! Routes of deployments (http-api §16). Promoting, pausing and setting allocation health are not built yet.

use std::sync::Arc;

use model::DeploymentId;
use model::deployment::Deployment;
use serde::Serialize;
use state::{State, Table, WatchKey};
use wire::command::{Command, FailDeployment};

use super::Request;
use super::allocations::{found_stub, ids_by_creation};
use crate::Api;
use crate::filter::matches_filter;
use crate::http::{
    Body, Effort, Error, Piece, Response, Watched, creation_token, list, ordered, parse_id, piece,
    prefix_range,
};

const KIND: &str = "deployment";

/// Lists deployments by creation, or by id if an id prefix is given.
pub(crate) async fn list(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let filter = query.filter::<api_types::Deployment>(&api.limits)?;
    let effort = Effort::of(filter.as_ref());
    let page = query.page()?;
    let (namespace, reverse) = (query.namespace(), page.reverse);
    let wanted = move |deployment: &&Arc<Deployment>| {
        let is_selected = namespace.holds(&deployment.job.job.namespace);
        if is_selected { matches_filter(filter.as_ref(), &***deployment) } else { Ok(false) }
    };
    let prefix = query.text("prefix");
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
    let (first, last) = prefix_range(KIND, prefix)?.into_inner();
    let ids = (DeploymentId::from_bytes(first), DeploymentId::from_bytes(last));
    let make = move |state: &State, from: Option<&str>, limit: usize| {
        let Some(bounds) = list::id_bounds(ids, from, reverse) else { return Ok(Piece::empty()) };
        let deployments = ordered(state.deployments_in(bounds), reverse);
        piece(deployments, limit, &wanted, |one| one.id.to_string(), |one| one.to_api())
    };
    api.list(query, watched, page, effort, make).await
}

/// Reads a deployment.
pub(crate) async fn read(api: &Api, request: &Request) -> Result<Response, Error> {
    let id: DeploymentId = parse_id(KIND, request.id())?;
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
    let id = request.id().parse::<DeploymentId>().ok();
    let find = |state: &State| {
        let job = id.and_then(|id| state.deployment(id)).map(|deployment| &deployment.job.job);
        let allocs = job.into_iter().flat_map(|job| state.allocs_of_job(job));
        ids_by_creation(allocs.filter(|alloc| alloc.deployment_id() == id))
    };
    api.list_found(&request.query, Watched::table(Table::Allocs), find, found_stub).await
}

/// Response to a change of a deployment.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Updated {
    #[serde(rename = "EvalID")]
    eval_id: String,
    eval_create_index: u64,
    deployment_modify_index: u64,
    /// Reverting to an older version is not built yet.
    reverted_job_version: Option<u64>,
    index: u64,
}

/// Fails a deployment.
pub(crate) async fn fail(api: &Api, request: &Request) -> Result<Response, Error> {
    let id: DeploymentId = parse_id(KIND, request.id())?;
    let done = api.command(&Command::FailDeployment(FailDeployment { id })).await?;
    let updated = Updated {
        eval_id: done.evals.first().map(ToString::to_string).unwrap_or_default(),
        eval_create_index: done.evals.first().map_or(0, |_| done.index.0),
        deployment_modify_index: done.object_index.0,
        reverted_job_version: None,
        index: done.index.0,
    };
    Ok(Response::written(&updated, done.index))
}
