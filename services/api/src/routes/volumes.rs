//! Routes that read volumes and the claims of sticky volumes, and that delete them (http-api §22).

use actix_web::http::Method;
use model::features::Feature;
use model::volume::{CsiVolume, HostVolume, VolumeClaim};
use model::{HostVolumeId, VolumeClaimId};
use serde_json::{Value, json};
use state::{State, Table, WatchKey};
use wire::command::{Command, DeleteHostVolume, DeleteVolumeClaim};
use wire::volumes::{DeleteVolume, VolumeGone};

use super::{Request, small_objects};
use crate::Api;
use crate::admission::host_volumes::users;
use crate::agent_client::request_volumes;
use crate::filter::{FilterError, matches_filter};
use crate::http::{Body, Effort, Error, Query, Response, Watched, ordered, piece};
use crate::shapes::{self, AllocParts};

/// Error text for an unknown volume.
const NOT_FOUND: &str = "volume not found";
/// Error text for an unknown path.
pub(super) const NO_RESOURCE: &str = "resource not found";

/// Lists volumes of one type. Without a type there are none.
pub(crate) async fn list(api: &Api, request: &Request) -> Result<Response, Error> {
    match request.query.text("type") {
        "" => Ok(Response::json(&json!([]))),
        "csi" => list_csi(api, &request.query).await,
        "host" => list_host(api, &request.query).await,
        _ => Err(Error::not_found(NO_RESOURCE)),
    }
}

/// Refuses the registration of CSI volumes.
pub(crate) fn register_csi(_: &Api, request: &Request) -> Result<Response, Error> {
    Err(Error::not_built(Feature::CsiPlugins.refusal_of(format_args!("{} /v1/volumes", request.method))))
}

/// There are no CSI volumes as long as there are no CSI plugins.
async fn list_csi(api: &Api, query: &Query) -> Result<Response, Error> {
    let page = query.page()?;
    api.check_region(query)?;
    let filter = query.filter::<api_types::CsiVolume>(&api.limits)?;
    let (effort, namespace) = (Effort::of(filter.as_ref()), query.namespace());
    let is_wanted = move |volume: &CsiVolume| -> Result<bool, FilterError> {
        Ok(namespace.holds(&volume.key.namespace) && matches_filter(filter.as_ref(), volume)?)
    };
    small_objects::list(api, query, query.text("prefix"), page, effort, is_wanted).await
}

async fn list_host(api: &Api, query: &Query) -> Result<Response, Error> {
    let page = query.page()?;
    api.check_region(query)?;
    let filter = query.filter::<api_types::HostVolume>(&api.limits)?;
    let (effort, namespace) = (Effort::of(filter.as_ref()), query.namespace());
    let prefix = query.text("prefix").to_owned();
    let (node, pool) = (query.text("node_id").to_owned(), query.text("node_pool").to_owned());
    let is_wanted = move |volume: &HostVolume| -> Result<bool, FilterError> {
        let is_on = node.is_empty() || volume.node_id.is_some_and(|id| id.to_string() == node);
        let is_in = pool.is_empty() || *volume.node_pool == *pool;
        Ok(is_on && is_in && namespace.holds(&volume.namespace) && matches_filter(filter.as_ref(), volume)?)
    };
    let reverse = page.reverse;
    let watched = Watched::prefix(Table::HostVolumes, &prefix);
    let make = move |state: &State, from: Option<&str>, limit: usize| {
        let id = |volume: &HostVolume| volume.id.to_string();
        let is_before = |id: &str| from.is_some_and(|from| if reverse { id > from } else { id < from });
        let volumes = ordered(state.small_objects::<HostVolume>(), reverse)
            .filter(|volume| id(volume).starts_with(&*prefix))
            .skip_while(|volume| is_before(&id(volume)));
        piece(volumes, limit, |volume| is_wanted(volume), |volume| id(volume), |volume| stub(volume))
    };
    api.list(query, watched, page, effort, make).await
}

/// A host volume in a list.
fn stub(volume: &HostVolume) -> Value {
    json!({
        "Namespace": volume.namespace,
        "ID": volume.id.to_string(),
        "Name": volume.name,
        "PluginID": volume.plugin_id,
        "NodePool": volume.node_pool,
        "NodeID": volume.node_id.map(|id| id.to_string()).unwrap_or_default(),
        "CapacityBytes": volume.capacity_bytes,
        "State": volume.state.as_str(),
        "CreateIndex": volume.create_index.0,
        "CreateTime": volume.create_time.0,
        "ModifyIndex": volume.modify_index.0,
        "ModifyTime": volume.modify_time.0,
    })
}

/// A whole host volume. What it does not have is null.
pub(super) fn whole(volume: &HostVolume, allocations: Option<Vec<api_types::AllocListStub>>) -> Value {
    let api = api_types::HostVolume { allocations, ..volume.to_api() };
    let mut value = serde_json::to_value(api).expect("plain data always serializes to JSON");
    if let Some(members) = value.as_object_mut() {
        for name in ["Constraints", "Parameters", "Allocations"] {
            members.entry(name).or_insert(Value::Null);
        }
    }
    value
}

/// Reads a host volume with the allocations that use it. What follows the id in the path is ignored.
pub(crate) async fn read(api: &Api, request: &Request) -> Result<Response, Error> {
    let id = request.id().split('/').next().unwrap_or_default();
    if id.is_empty() {
        return Err(Error::not_found(NO_RESOURCE));
    }
    let found = id.parse::<HostVolumeId>().ok();
    let index = |state: &State| {
        let volume = found.and_then(|id| state.host_volume(&id));
        volume.map_or_else(|| state.table_index(Table::HostVolumes), |volume| volume.modify_index)
    };
    let watched = Watched::new([WatchKey::Prefix(Table::HostVolumes, id.into())], index);
    api.read(&request.query, watched, |snapshot| {
        let volume = found.and_then(|id| snapshot.host_volume(&id));
        let volume = volume.ok_or_else(|| Error::not_found(NOT_FOUND))?;
        let allocs = users(snapshot, volume).map(|alloc| shapes::alloc_stub(alloc, AllocParts::default()));
        Ok(Body::json(&whole(volume, Some(allocs.collect()))).into())
    })
    .await
}

/// Deletes a host volume, on its node first. With `force` the volume is deleted even if its node does not answer.
pub(crate) async fn delete(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let force = query.flag("force", false).map_err(|_| Error::bad_request("invalid force value"))?;
    api.check_region(query)?;
    let missing = || Error::failed(format!("no such volume: {}", request.id()));
    let id: HostVolumeId = request.id().parse().map_err(|_| missing())?;
    let node = {
        let snapshot = api.fresh_snapshot(false).await?;
        let volume = snapshot.host_volume(&id).ok_or_else(missing)?;
        let users: Vec<String> = users(&snapshot, volume).map(|alloc| alloc.id().to_string()).collect();
        if !users.is_empty() {
            return Err(Error::failed(format!("volume {id} in use by allocations: [{}]", users.join(" "))));
        }
        volume.node_id.filter(|node| snapshot.node(*node).is_some())
    };
    if let Some(node) = node {
        let deleted = request_volumes::<_, VolumeGone>(&api.bus, node, &DeleteVolume { id }).await;
        if let Err(error) = deleted
            && !force
        {
            return Err(error);
        }
    }
    let done = api.command(query, &Command::DeleteHostVolume(DeleteHostVolume { id })).await?;
    Ok(Response::written(&json!({ "Index": done.index.0 }), done.index))
}

/// Lists the claims of task groups on sticky volumes.
pub(crate) async fn claims(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let page = query.page()?;
    api.check_region(query)?;
    let filter = query.filter::<api_types::TaskGroupHostVolumeClaim>(&api.limits)?;
    let (effort, namespace) = (Effort::of(filter.as_ref()), query.namespace());
    let (job, group) = (query.text("job_id").to_owned(), query.text("task_group").to_owned());
    let volume = query.text("volume_name").to_owned();
    let is_wanted = move |claim: &VolumeClaim| -> Result<bool, FilterError> {
        let matches = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let is_meant = matches(&job, &claim.job.id)
            && matches(&group, &claim.task_group)
            && matches(&volume, &claim.volume_name)
            && namespace.holds(&claim.job.namespace);
        Ok(is_meant && matches_filter(filter.as_ref(), claim)?)
    };
    small_objects::list(api, query, "", page, effort, is_wanted).await
}

/// Deletes a claim.
pub(crate) async fn claim(api: &Api, request: &Request) -> Result<Response, Error> {
    if request.method != Method::DELETE {
        return Err(Error::wrong_method());
    }
    let missing = || Error::failed("task group volume claim does not exist");
    let id: VolumeClaimId = request.id().parse().map_err(|_| missing())?;
    let command = Command::DeleteVolumeClaim(DeleteVolumeClaim { id });
    let done = api.command(&request.query, &command).await?;
    Ok(Response::written(&json!({ "Index": done.index.0 }), done.index))
}
