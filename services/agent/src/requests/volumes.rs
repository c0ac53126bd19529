//! Answers the API's requests to create, register and delete host volumes (http-api §22), one at a time. The node is then
//! registered again with its volumes.

use std::path::Path;
use std::sync::Arc;

use bus::{Request, Requests};
use model::node::NodeSpec;
use telemetry::chain;
use tokio::sync::watch;
use wire::volumes::{CreateVolume, DeleteVolume, RegisterVolume, VolumeGone, VolumeMade};
use wire::{Refusal, RefusalKind};

use crate::node::fingerprint::with_volumes;
use crate::volumes::plugin::{Created, Wanted};
use crate::volumes::{HostVolumes, VolumeError};

/// Answers requests until the subscription ends. `spec` is what the node registers.
pub(crate) async fn serve(
    volumes: Arc<HostVolumes>,
    spec: Arc<watch::Sender<Arc<NodeSpec>>>,
    mut requests: Requests,
) {
    while let Some(request) = requests.next().await {
        answer(&volumes, request).await;
        // The contact with the servers follows the specification.
        spec.send_if_modified(|current| {
            let found = with_volumes(NodeSpec::clone(current), volumes.found());
            let is_changed = found.host_volumes != current.host_volumes;
            if is_changed {
                *current = Arc::new(found);
            }
            is_changed
        });
    }
}

async fn answer(volumes: &HostVolumes, request: Request) {
    if request.is::<CreateVolume>() {
        request.answer_with(async |ask: CreateVolume| create(volumes, ask).await).await;
    } else if request.is::<RegisterVolume>() {
        request.answer_with(async |ask: RegisterVolume| register(volumes, ask)).await;
    } else {
        let delete = async |ask: DeleteVolume| {
            volumes.delete(ask.id).await.map(|()| VolumeGone {}).map_err(|error| refusal(&error))
        };
        request.answer_with(delete).await;
    }
}

async fn create(volumes: &HostVolumes, ask: CreateVolume) -> Result<VolumeMade, Refusal> {
    let CreateVolume { id, namespace, name, plugin, bytes_min, bytes_max, parameters } = ask;
    let wanted = Wanted { id, namespace, name, plugin, bytes_min, bytes_max, parameters };
    volumes.create(wanted).await.map(made).map_err(|error| refusal(&error))
}

fn register(volumes: &HostVolumes, ask: RegisterVolume) -> Result<VolumeMade, Refusal> {
    let RegisterVolume { id, namespace, name, host_path } = ask;
    let wanted =
        Wanted { id, namespace, name, plugin: "".into(), bytes_min: 0, bytes_max: 0, parameters: [].into() };
    volumes.register(wanted, Path::new(&*host_path)).map(made).map_err(|error| refusal(&error))
}

fn made(created: Created) -> VolumeMade {
    VolumeMade { host_path: created.path.display().to_string().into(), capacity_bytes: created.bytes }
}

fn refusal(error: &VolumeError) -> Refusal {
    let kind = match error {
        VolumeError::NameTaken(_) | VolumeError::NoDirectory(_) | VolumeError::TooMany => {
            RefusalKind::Invalid
        }
        VolumeError::Plugin(_) | VolumeError::Io(_) => RefusalKind::NotReady,
    };
    Refusal { kind, message: chain(error).into() }
}
