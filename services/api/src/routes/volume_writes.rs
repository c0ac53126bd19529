//! Creates and registers dynamic host volumes (http-api §22): chooses the node, lets its agent do the work, and then writes
//! the volume. The agent reports the volume with its node, which makes it ready.

use model::text::quoted;
use model::volume::{HostVolume, HostVolumeState};
use model::{HostVolumeId, Index, NodeId, Text, Timestamp};
use serde::Deserialize;
use serde_json::json;
use state::State;
use telemetry::clock;
use wire::Wire;
use wire::command::{Command, SetHostVolume};
use wire::volumes::{CreateVolume, DeleteVolume, RegisterVolume, VolumeGone, VolumeMade};

use super::{Request, volumes};
use crate::Api;
use crate::admission::host_volumes::{default_capability, joined, place, problems};
use crate::agent_client::request_volumes;
use crate::http::{Cause, Error, Namespace, Query, Response, decode};

/// Body of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct VolumeRequest {
    volume: Option<api_types::HostVolume>,
}

/// Creates or registers a host volume.
pub(crate) async fn write(api: &Api, request: &Request) -> Result<Response, Error> {
    match request.id() {
        "create" => create(api, request).await,
        "register" => register(api, request).await,
        _ => Err(Error::not_found(volumes::NO_RESOURCE)),
    }
}

/// Creates a volume by a plugin, on the node that the request names, or on one that is suitable.
async fn create(api: &Api, request: &Request) -> Result<Response, Error> {
    let asked = asked(api, request)?;
    let (volume, is_new) = {
        let snapshot = api.fresh_snapshot(false).await?;
        let (mut volume, is_new) = checked(&snapshot, &request.query, asked)?;
        check_state(&snapshot, &volume, &volume.name)?;
        let node = match volume.node_id {
            Some(node) => node,
            None => place(&snapshot, &volume).map_err(|no_node| {
                Error::failed(format!("could not place volume {}: {no_node}", quoted(&volume.name)))
            })?,
        };
        volume.node_id = Some(node);
        if let Some(node) = snapshot.node(node) {
            volume.node_pool = Text::clone(&node.spec().node_pool);
        }
        (volume, is_new)
    };
    let message = CreateVolume {
        id: volume.id,
        namespace: volume.namespace.clone(),
        name: volume.name.clone(),
        plugin: volume.plugin_id.clone(),
        bytes_min: volume.requested_bytes_min,
        bytes_max: volume.requested_bytes_max,
        parameters: volume.parameters.clone(),
    };
    make(api, &request.query, volume, is_new, &message).await
}

/// Makes an existing directory of a node a volume.
async fn register(api: &Api, request: &Request) -> Result<Response, Error> {
    let asked = asked(api, request)?;
    let is_missing = |text: &Option<String>| text.as_ref().is_none_or(String::is_empty);
    if is_missing(&asked.node_id) {
        return Err(Error::failed("cannot register volume: node ID is required"));
    }
    if is_missing(&asked.host_path) {
        return Err(Error::failed("cannot register volume: host path is required"));
    }
    let (volume, is_new) = {
        let snapshot = api.fresh_snapshot(false).await?;
        let (volume, is_new) = checked(&snapshot, &request.query, asked)?;
        check_state(&snapshot, &volume, &volume.id.to_string())?;
        (volume, is_new)
    };
    let message = RegisterVolume {
        id: volume.id,
        namespace: volume.namespace.clone(),
        name: volume.name.clone(),
        host_path: volume.host_path.clone(),
    };
    make(api, &request.query, volume, is_new, &message).await
}

/// The volume in the body of a request.
fn asked(api: &Api, request: &Request) -> Result<api_types::HostVolume, Error> {
    let body: VolumeRequest = decode(&request.body, &api.limits)?;
    api.check_region(&request.query)?;
    body.volume.ok_or_else(|| Error::failed("missing volume definition"))
}

/// The requested volume, and whether it is new. A volume that exists keeps its node and its name.
fn checked(state: &State, query: &Query, asked: api_types::HostVolume) -> Result<(HostVolume, bool), Error> {
    let found = problems(&asked);
    if !found.is_empty() {
        return Err(Error::failed(format!("volume validation failed: {}", joined(&found))));
    }
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let id = given(&asked.id).map(|id| id.parse::<HostVolumeId>()).transpose();
    let id = id.map_err(|error| Error::failed(format!("volume validation failed: {error}")))?;
    let stored = id.map(|id| {
        let missing = || Error::failed(format!("cannot update volume \"{id}\": volume does not exist"));
        state.host_volume(&id).ok_or_else(missing)
    });
    let stored = stored.transpose()?;
    let name = given(&asked.name).unwrap_or_default();
    // An id that no node can have stands for a node that does not exist.
    let node = match given(&asked.node_id) {
        Some(node) => Some(node.parse::<NodeId>().map_err(|_| no_such_node(&name, &node))?),
        None => stored.and_then(|stored| stored.node_id),
    };
    if let Some(stored) = stored
        && (*stored.name != *name || stored.node_id != node)
    {
        let text = format!("cannot update volume \"{}\": its name and its node cannot be changed", stored.id);
        return Err(Error::failed(text));
    }
    let namespace = given(&asked.namespace).unwrap_or_else(|| match query.namespace() {
        Namespace::Only(name) => name,
        Namespace::Any => model::cluster::Namespace::DEFAULT.to_owned(),
    });
    let host_path = given(&asked.host_path).unwrap_or_default();
    // The servers choose these.
    let plain = api_types::HostVolume {
        id: Some(id.unwrap_or_else(new_id).to_string()),
        namespace: Some(namespace),
        node_id: node.map(|node| node.to_string()),
        state: Some(HostVolumeState::Pending.as_str().to_owned()),
        create_index: None,
        modify_index: None,
        create_time: None,
        modify_time: None,
        allocations: None,
        capacity_bytes: None,
        host_path: Some(host_path),
        ..asked
    };
    let mut volume = HostVolume::from_api(plain).map_err(|error| Error::bad_request(error.to_string()))?;
    if volume.capabilities.is_empty() {
        volume.capabilities = vec![default_capability()];
    }
    Ok((volume, stored.is_none()))
}

fn new_id() -> HostVolumeId {
    let mut bytes = clock::random_bytes();
    // The version and the variant of a random UUID.
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    HostVolumeId::from_bytes(bytes)
}

/// Checks that the node and the node pool that a volume names exist. `shown` is how the volume is called.
fn check_state(state: &State, volume: &HostVolume, shown: &str) -> Result<(), Error> {
    if let Some(node) = volume.node_id
        && state.node(node).is_none()
    {
        return Err(no_such_node(shown, &node.to_string()));
    }
    let pool = &volume.node_pool;
    if !pool.is_empty() && state.node_pool(pool).is_none() {
        let text = format!("node pool {} does not exist", quoted(pool));
        return Err(Error::failed(format!(
            "validating volume {} against state failed: {text}",
            quoted(shown)
        )));
    }
    Ok(())
}

fn no_such_node(shown: &str, node: &str) -> Error {
    let (shown, node) = (quoted(shown), quoted(node));
    Error::failed(format!("validating volume {shown} against state failed: node {node} does not exist"))
}

/// Lets the agent make the volume, and writes it. A new volume that cannot be written is deleted again.
async fn make(
    api: &Api,
    query: &Query,
    mut volume: HostVolume,
    is_new: bool,
    message: &impl Wire,
) -> Result<Response, Error> {
    let node = volume.node_id.ok_or_else(|| Error::failed("the volume has no node"))?;
    let made = match request_volumes::<_, VolumeMade>(&api.bus, node, message).await {
        Ok(made) => made,
        Err(error) => {
            if is_new && error.cause == Cause::Cluster {
                // An agent that is late makes the volume nevertheless, and nobody would know its id. It carries out one
                // request after the other.
                let (bus, id) = (api.bus.clone(), volume.id);
                tokio::spawn(async move {
                    let _ = request_volumes::<_, VolumeGone>(&bus, node, &DeleteVolume { id }).await;
                });
            }
            return Err(error);
        }
    };
    (volume.host_path, volume.capacity_bytes) = (made.host_path, made.capacity_bytes);
    let (id, now) = (volume.id, clock::now());
    let command = Command::SetHostVolume(Box::new(SetHostVolume { volume: volume.clone() }));
    let done = match api.command(query, &command).await {
        Ok(done) => done,
        Err(error) => {
            // A command that may have been carried out keeps its volume.
            if is_new && error.cause == Cause::Request {
                let _ = request_volumes::<_, VolumeGone>(&api.bus, node, &DeleteVolume { id }).await;
            }
            return Err(error);
        }
    };
    Ok(Response::written(&answer(&volume, now, done.index), done.index))
}

fn answer(volume: &HostVolume, now: Timestamp, index: Index) -> serde_json::Value {
    let shown = HostVolume { create_time: now, modify_time: now, ..volume.clone() };
    json!({ "Volume": volumes::whole(&shown, None), "Warnings": "", "Index": index.0 })
}
