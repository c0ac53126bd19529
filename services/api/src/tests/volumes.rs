//! Tests of host volumes and the claims of sticky volumes (http-api §22), with a fake agent.

use std::sync::Arc;

use bus::Bus;
use model::change::Change;
use model::cluster::NodePool;
use model::job::{Job, JobSpec, TaskGroup, VolumeKind, VolumeRequest};
use model::node::{Node, NodeServerSide, NodeSpec, NodeStatus};
use model::volume::{HostVolume, HostVolumeState, VolumeCapability, VolumeClaim};
use model::{HostVolumeId, Index, JobKey, Timestamp, VolumeClaimId};
use serde_json::json;
use wire::command::Command;
use wire::volumes::{CreateVolume, DeleteVolume, RegisterVolume, VolumeGone, VolumeMade};
use wire::{Refusal, RefusalKind, Subject};

use super::files::{ALLOC, NODE, cluster};
use super::harness::{Harness, Response};

const VOLUME: HostVolumeId = HostVolumeId::from_bytes([7; 16]);
const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

fn volume(id: HostVolumeId, name: &str) -> HostVolume {
    HostVolume {
        id,
        namespace: "default".into(),
        name: name.into(),
        plugin_id: "mkdir".into(),
        node_id: Some(NODE),
        node_pool: "default".into(),
        constraints: Vec::new(),
        requested_bytes_min: 0,
        requested_bytes_max: 0,
        capacity_bytes: 0,
        capabilities: vec![VolumeCapability {
            attachment_mode: "file-system".into(),
            access_mode: "single-node-writer".into(),
        }],
        parameters: [].into(),
        host_path: "/srv/data".into(),
        state: HostVolumeState::Ready,
        create_index: Index(2),
        modify_index: Index(2),
        create_time: Timestamp::from_secs(1),
        modify_time: Timestamp::from_secs(1),
    }
}

fn put(volume: HostVolume) -> Change {
    Change::HostVolume(Box::new(volume))
}

/// A ready node with the built-in plugin.
fn node() -> Vec<Change> {
    let spec = NodeSpec {
        node_pool: "default".into(),
        attributes: [("plugins.host_volume.mkdir.version".into(), "0.0.1".into())].into(),
        ..NodeSpec::default()
    };
    let server = NodeServerSide { status: NodeStatus::Ready, ..NodeServerSide::default() };
    let pool = NodePool { name: "default".into(), ..NodePool::default() };
    vec![
        Change::NodePool(Box::new(pool)),
        Change::Node(Box::new(Node { id: NODE, spec: Arc::new(spec), server })),
    ]
}

/// A fake agent, which makes every volume but `broken`.
async fn serve(bus: Bus) {
    let mut requests = bus.serve(Subject::AgentVolumes(NODE).to_string()).await.unwrap();
    bus.flush().await.unwrap();
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            if request.is::<CreateVolume>() {
                let asked: CreateVolume = request.body().unwrap();
                if *asked.name == *"broken" {
                    let message = "plugin mkdir: no space".into();
                    request.refuse(Refusal { kind: RefusalKind::NotReady, message }).await;
                    continue;
                }
                request.answer(&VolumeMade { host_path: "/v/1".into(), capacity_bytes: 5 }).await;
            } else if request.is::<RegisterVolume>() {
                let asked: RegisterVolume = request.body().unwrap();
                request.answer(&VolumeMade { host_path: asked.host_path, capacity_bytes: 0 }).await;
            } else {
                let _: DeleteVolume = request.body().unwrap();
                request.answer(&VolumeGone {}).await;
            }
        }
    });
}

#[actix_web::test]
async fn volumes_are_listed_by_type_and_filtered() {
    let other = HostVolume { namespace: "other".into(), ..volume(HostVolumeId::from_bytes([9; 16]), "o") };
    let second = HostVolume { node_id: None, ..volume(HostVolumeId::from_bytes([8; 16]), "b") };
    let harness = Harness::with(vec![put(volume(VOLUME, "data")), put(other), put(second)]).await;
    let names = async |path: &str| {
        let list = harness.get(path).await.json();
        let name = |one: &serde_json::Value| one["Name"].as_str().unwrap().to_owned();
        list.as_array().unwrap().iter().map(name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("/v1/volumes?type=host").await, "data b");
    assert_eq!(names("/v1/volumes?type=host&namespace=*").await, "data b o");
    assert_eq!(names("/v1/volumes?type=host&reverse=true").await, "b data");
    assert_eq!(names("/v1/volumes?type=host&prefix=07").await, "data");
    assert_eq!(names(&format!("/v1/volumes?type=host&node_id={NODE}")).await, "data");
    assert_eq!(names("/v1/volumes?type=host&node_pool=none").await, "");
    assert_eq!(names("/v1/volumes?type=host&filter=Name%20%3D%3D%20%22b%22").await, "b");
    let page = harness.get("/v1/volumes?type=host&per_page=1").await;
    assert_eq!(page.header("x-nomad-nexttoken"), "08080808-0808-0808-0808-080808080808");
    for path in ["/v1/volumes", "/v1/volumes?type=csi"] {
        assert_eq!(harness.get(path).await.json(), json!([]), "{path}");
    }
    assert_eq!(harness.get("/v1/volumes?type=odd").await.error(), (404, "resource not found"));
    let refused = harness.put("/v1/volumes", "{}").await;
    assert_eq!(refused.error(), (501, "PUT /v1/volumes is not built yet"));
}

#[actix_web::test]
async fn a_volume_is_shown_with_the_allocations_that_use_it() {
    let request = VolumeRequest {
        name: "data".into(),
        kind: VolumeKind::Host,
        source: "data".into(),
        read_only: false,
        sticky: false,
        access_mode: None,
        attachment_mode: None,
        mount_options: None,
        per_alloc: false,
    };
    let volumes = [("data".into(), request)].into();
    let group = TaskGroup { name: "g".into(), volumes, ..TaskGroup::default() };
    let spec = JobSpec {
        namespace: "default".into(),
        id: "fs".into(),
        task_groups: vec![group].into(),
        ..JobSpec::default()
    };
    let job = Job { spec: Arc::new(spec), create_index: Index(2), ..Job::default() };
    let mut changes = cluster();
    changes[0] = Change::Job(Arc::new(job));
    changes.extend([put(volume(VOLUME, "data")), put(volume(HostVolumeId::from_bytes([8; 16]), "b"))]);
    let harness = Harness::with(changes).await;
    let path = format!("/v1/volume/host/{VOLUME}");
    let shown = harness.get(&path).await.json();
    assert_eq!((&shown["Name"], &shown["State"]), (&json!("data"), &json!("ready")));
    assert_eq!(shown["Allocations"][0]["ID"], json!(ALLOC.to_string()));
    assert_eq!(harness.get(&format!("{path}/more")).await.json(), shown);
    let unused = harness.get("/v1/volume/host/08080808-0808-0808-0808-080808080808").await.json();
    assert_eq!(unused["Allocations"], json!([]));
    for id in ["x", UNKNOWN, "create"] {
        assert_eq!(harness.get(&format!("/v1/volume/host/{id}")).await.error(), (404, "volume not found"));
    }
    assert_eq!(harness.get("/v1/volume/host/").await.error(), (404, "resource not found"));
    let used = Response::new(harness.builder("DELETE", &path)).await;
    assert_eq!(used.error(), (500, &*format!("volume {VOLUME} in use by allocations: [{ALLOC}]")));
}

#[actix_web::test]
async fn requests_to_create_are_checked_in_order() {
    let mut changes = node();
    changes.push(put(volume(VOLUME, "taken")));
    let harness = Harness::with(changes).await;
    let no_node = "no node meets constraints: 0 nodes had existing volume, 0 nodes filtered by node pool governance, 1 \
                   nodes were infeasible";
    let taken = no_node.replace("0 nodes had", "1 nodes had").replace("1 nodes were", "0 nodes were");
    for (path, body, text) in [
        ("create", json!({}), "missing volume definition".to_owned()),
        ("create", json!({ "Volume": {} }), "volume validation failed: missing name".to_owned()),
        (
            "create",
            json!({ "Volume": { "Name": "v", "ID": UNKNOWN } }),
            format!("cannot update volume \"{UNKNOWN}\": volume does not exist"),
        ),
        (
            "create",
            json!({ "Volume": { "Name": "v", "NodeID": UNKNOWN } }),
            format!("validating volume \"v\" against state failed: node \"{UNKNOWN}\" does not exist"),
        ),
        (
            "create",
            json!({ "Volume": { "Name": "v", "NodePool": "none" } }),
            "validating volume \"v\" against state failed: node pool \"none\" does not exist".to_owned(),
        ),
        ("create", json!({ "Volume": { "Name": "v" } }), format!("could not place volume \"v\": {no_node}")),
        (
            "create",
            json!({ "Volume": { "Name": "taken", "PluginID": "mkdir" } }),
            format!("could not place volume \"taken\": {taken}"),
        ),
        (
            "register",
            json!({ "Volume": { "Name": "v" } }),
            "cannot register volume: node ID is required".to_owned(),
        ),
        (
            "register",
            json!({ "Volume": { "Name": "v", "NodeID": UNKNOWN } }),
            "cannot register volume: host path is required".to_owned(),
        ),
    ] {
        let got = harness.put(&format!("/v1/volume/host/{path}"), &body.to_string()).await;
        assert_eq!(got.error(), (500, &*text), "{body}");
    }
    assert_eq!(harness.put("/v1/volume/host/x", "{}").await.error(), (404, "resource not found"));
    assert!(harness.applier.commands.lock().unwrap().is_empty());
}

#[actix_web::test]
async fn a_volume_is_made_by_its_node_before_it_is_written() {
    let harness = Harness::with(node()).await;
    serve(harness.bus.clone()).await;
    let broken = json!({ "Volume": { "Name": "broken", "PluginID": "mkdir" } }).to_string();
    assert_eq!(harness.put("/v1/volume/host/create", &broken).await.error(), (500, "plugin mkdir: no space"));
    assert!(harness.applier.commands.lock().unwrap().is_empty());
    let body = json!({ "Volume": { "Name": "v", "PluginID": "mkdir" } }).to_string();
    let got = harness.put("/v1/volume/host/create", &body).await.json();
    let made = &got["Volume"];
    assert_eq!(
        (&made["HostPath"], &made["CapacityBytes"], &made["State"]),
        (&json!("/v/1"), &json!(5), &json!("pending"))
    );
    assert_eq!((&made["NodeID"], &made["NodePool"]), (&json!(NODE.to_string()), &json!("default")));
    assert_eq!((&made["CreateIndex"], &made["Allocations"]), (&json!(0), &json!(null)));
    assert_eq!(
        made["RequestedCapabilities"],
        json!([{ "AttachmentMode": "file-system", "AccessMode": "single-node-writer" }])
    );
    assert_eq!(got["Warnings"], json!(""));
    let body =
        json!({ "Volume": { "Name": "w", "NodeID": NODE.to_string(), "HostPath": "/srv/w" } }).to_string();
    let got = harness.put("/v1/volume/host/register", &body).await.json();
    assert_eq!((&got["Volume"]["HostPath"], &got["Volume"]["PluginID"]), (&json!("/srv/w"), &json!("")));
    let commands = harness.applier.commands.lock().unwrap();
    let [Command::SetHostVolume(created), Command::SetHostVolume(registered)] = &commands[..] else {
        panic!("{commands:?}")
    };
    assert_eq!((&*created.volume.name, &*registered.volume.name), ("v", "w"));
}

#[actix_web::test]
async fn a_volume_is_deleted_on_its_node_first() {
    let mut changes = node();
    changes.push(put(volume(VOLUME, "data")));
    let harness = Harness::with(changes).await;
    let path = format!("/v1/volume/host/{VOLUME}");
    let delete = async |path: &str| Response::new(harness.builder("DELETE", path)).await;
    assert_eq!(delete(&format!("{path}?force=x")).await.error(), (400, "invalid force value"));
    for id in ["x", UNKNOWN] {
        let got = delete(&format!("/v1/volume/host/{id}")).await;
        assert_eq!(got.error(), (500, &*format!("no such volume: {id}")));
    }
    let unreachable = delete(&path).await;
    assert_eq!(unreachable.error(), (500, &*format!("No path to node \"{NODE}\"")));
    assert!(harness.applier.commands.lock().unwrap().is_empty());
    assert!(delete(&format!("{path}?force=true")).await.json()["Index"].is_u64());
    serve(harness.bus.clone()).await;
    assert!(delete(&path).await.json()["Index"].is_u64());
    let commands = harness.applier.commands.lock().unwrap();
    assert!(commands.iter().all(|command| matches!(command, Command::DeleteHostVolume(_))), "{commands:?}");
}

#[actix_web::test]
async fn claims_are_listed_and_deleted() {
    let claim = VolumeClaim {
        id: VolumeClaimId::from_bytes([5; 16]),
        job: JobKey::new("default", "db"),
        task_group: "g".into(),
        alloc_id: ALLOC,
        volume_id: VOLUME,
        volume_name: "data".into(),
        create_index: Index(2),
        modify_index: Index(2),
    };
    let id = claim.id;
    let harness = Harness::with(vec![Change::VolumeClaim(Box::new(claim))]).await;
    let count = async |path: &str| harness.get(path).await.json().as_array().unwrap().len();
    assert_eq!(count("/v1/volumes/claims").await, 1);
    assert_eq!(count("/v1/volumes/claims?job_id=db&task_group=g&volume_name=data").await, 1);
    for path in ["job_id=x", "task_group=x", "volume_name=x", "namespace=other"] {
        assert_eq!(count(&format!("/v1/volumes/claims?{path}")).await, 0, "{path}");
    }
    let path = format!("/v1/volumes/claim/{id}");
    assert_eq!(harness.get(&path).await.error(), (405, "Invalid method"));
    assert!(Response::new(harness.builder("DELETE", &path)).await.json()["Index"].is_u64());
    let unknown = Response::new(harness.builder("DELETE", "/v1/volumes/claim/x")).await;
    assert_eq!(unknown.error(), (500, "task group volume claim does not exist"));
}
