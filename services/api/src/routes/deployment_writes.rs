//! Routes that change deployments: promote, pause, resume, fail, unblock, and set the health of allocations (http-api §16).

use model::deployment::DeploymentStatus;
use model::text::quoted;
use model::{AllocId, DeploymentId, Text};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use state::State;
use wire::command::{Command, Done, FailDeployment, PauseDeployment, PromoteDeployment, SetAllocHealth};

use super::Request;
use super::deployments::deployment_id;
use crate::Api;
use crate::http::{Error, Response, decode, parse_id};

const NOT_FOUND: &str = "deployment not found";

/// A body that names the deployment of the path.
trait NamesDeployment: DeserializeOwned + Default {
    fn deployment_id(&self) -> Option<&str>;
}

/// Decodes the body of a request.
fn body<T: NamesDeployment>(api: &Api, request: &Request) -> Result<T, Error> {
    let body = decode::<T>(&request.body, &api.limits)?;
    match body.deployment_id().unwrap_or_default() {
        "" => return Err(Error::bad_request("DeploymentID must be specified")),
        id if id != request.id() => return Err(Error::bad_request("Deployment ID does not match")),
        _ => {}
    }
    api.check_region(&request.query)?;
    Ok(body)
}

/// Declares the body of a request, which names its deployment.
macro_rules! body {
    ($(#[$doc:meta])* $name:ident { $( $(#[$field_doc:meta])* $field:ident: $type:ty ),* }) => {
        $(#[$doc])*
        #[derive(Debug, Default, Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        struct $name {
            #[serde(rename = "DeploymentID")]
            deployment_id: Option<String>,
            $( $(#[$field_doc])* $field: $type, )*
        }

        impl NamesDeployment for $name {
            fn deployment_id(&self) -> Option<&str> {
                self.deployment_id.as_deref()
            }
        }
    };
}

body! {
    /// Body of a request to pause or resume.
    PauseRequest { pause: Option<bool> }
}

body! {
    /// Body of a promotion.
    PromoteRequest { all: Option<bool>, groups: Option<Vec<String>> }
}

body! {
    /// Body of a request that says which allocations are healthy.
    HealthRequest {
        #[serde(rename = "HealthyAllocationIDs")]
        healthy_allocation_ids: Option<Vec<String>>,
        #[serde(rename = "UnhealthyAllocationIDs")]
        unhealthy_allocation_ids: Option<Vec<String>>
    }
}

body! {
    /// Body of a request to unblock.
    UnblockRequest {}
}

/// Response to a change of a deployment.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Updated {
    #[serde(rename = "EvalID")]
    eval_id: String,
    eval_create_index: u64,
    deployment_modify_index: u64,
    /// The version that the job returns to, because its deployment failed.
    reverted_job_version: Option<u64>,
    index: u64,
}

fn updated(done: &Done) -> Response {
    let updated = Updated {
        eval_id: done.evals.first().map(ToString::to_string).unwrap_or_default(),
        eval_create_index: done.evals.first().map_or(0, |_| done.index.0),
        deployment_modify_index: done.object_index.0,
        reverted_job_version: done.reverted_version,
        index: done.index.0,
    };
    Response::written(&updated, done.index)
}

/// Fails a deployment. The body is not read.
pub(crate) async fn fail(api: &Api, request: &Request) -> Result<Response, Error> {
    api.check_region(&request.query)?;
    let id = deployment_id(request)?;
    let done = api.command(&request.query, &Command::FailDeployment(FailDeployment { id })).await?;
    Ok(updated(&done))
}

/// Pauses a deployment, or resumes it.
pub(crate) async fn pause(api: &Api, request: &Request) -> Result<Response, Error> {
    let PauseRequest { pause, deployment_id: _ } = body(api, request)?;
    let id = deployment_id(request)?;
    let pause = pause.unwrap_or_default();
    let done = api.command(&request.query, &Command::PauseDeployment(PauseDeployment { id, pause })).await?;
    Ok(updated(&done))
}

/// Promotes the canaries of all groups, or of those that the request names.
pub(crate) async fn promote(api: &Api, request: &Request) -> Result<Response, Error> {
    let PromoteRequest { all, groups, deployment_id: _ } = body(api, request)?;
    let id = deployment_id(request)?;
    let named = || groups.unwrap_or_default().into_iter().map(Text::from).collect();
    let groups = if all.unwrap_or_default() { None } else { Some(named()) };
    let done =
        api.command(&request.query, &Command::PromoteDeployment(PromoteDeployment { id, groups })).await?;
    Ok(updated(&done))
}

/// Sets the health of allocations.
pub(crate) async fn set_health(api: &Api, request: &Request) -> Result<Response, Error> {
    let HealthRequest { healthy_allocation_ids, unhealthy_allocation_ids, deployment_id: _ } =
        body(api, request)?;
    let (healthy, unhealthy) =
        (healthy_allocation_ids.unwrap_or_default(), unhealthy_allocation_ids.unwrap_or_default());
    if healthy.is_empty() && unhealthy.is_empty() {
        return Err(Error::failed("must specify at least one healthy/unhealthy allocation ID"));
    }
    let id = deployment_id(request)?;
    let parsed = |ids: &[String]| ids.iter().map(|id| parse_id("", id)).collect::<Result<Vec<AllocId>, _>>();
    let (Ok(healthy), Ok(unhealthy)) = (parsed(&healthy), parsed(&unhealthy)) else {
        let state = api.fresh_snapshot(false).await?;
        return Err(wrong_alloc(&state, id, healthy.iter().chain(&unhealthy)));
    };
    let done = api
        .command(&request.query, &Command::SetAllocHealth(SetAllocHealth { id, healthy, unhealthy }))
        .await?;
    Ok(updated(&done))
}

/// Why allocations, of which at least one has a malformed id, cannot get a verdict. What is wrong with the deployment comes
/// first.
fn wrong_alloc<'a>(state: &State, id: DeploymentId, mut allocs: impl Iterator<Item = &'a String>) -> Error {
    let Some(deployment) = state.deployment(id) else { return Error::failed(NOT_FOUND) };
    if deployment.status.is_terminal() {
        return Error::failed("can't set health of allocations for a terminal deployment");
    }
    let problem = |alloc: &String| match parse_id::<AllocId>(
        &format!("alloc {} lookup failed: ", quoted(alloc)),
        alloc,
    ) {
        Err(malformed) => Some(malformed),
        Ok(found) if state.alloc(found).is_some_and(|found| found.deployment_id() == Some(id)) => None,
        Ok(_) => Some(Error::failed(format!("unknown alloc {}", quoted(alloc)))),
    };
    allocs.find_map(problem).unwrap_or_else(|| Error::failed("an allocation ID is malformed"))
}

/// Lets a deployment that waits for other regions go on. There is only one region, so a deployment never waits, and there is
/// nothing to do (N-15).
pub(crate) async fn unblock(api: &Api, request: &Request) -> Result<Response, Error> {
    let UnblockRequest { deployment_id: _ } = body(api, request)?;
    let id = deployment_id(request)?;
    let state = api.fresh_snapshot(false).await?;
    let deployment = state.deployment(id).ok_or_else(|| Error::failed(NOT_FOUND))?;
    if deployment.status.is_terminal() {
        return Err(Error::failed("can't unblock terminal deployment"));
    }
    if deployment.status == DeploymentStatus::Running {
        return Err(Error::failed("can't unblock running deployment"));
    }
    let unchanged = Updated {
        deployment_modify_index: deployment.modify_index.0,
        index: state.index().0,
        ..Updated::default()
    };
    Ok(Response::written(&unchanged, state.index()))
}
