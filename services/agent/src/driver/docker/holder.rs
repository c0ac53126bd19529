//! The container that holds the network of an allocation. Docker's containers join the network of a container, and of
//! nothing else. So a container that does nothing comes first; its namespace gets the interfaces of the allocation, and the
//! allocation's containers join it. Podman's containers join any namespace, and need none.

use std::path::PathBuf;

use model::AllocId;
use serde_json::{Value, json};

use super::Docker;
use super::config::ImageConfig;
use super::create::{ALLOC_LABEL, NODE_LABEL, holder_name};
use super::images::failed;
use super::processes::is_process_of;
use crate::driver::StartError;
use crate::driver::start::Progress;
use crate::engine::Container;

/// The user of the image. It stays, because every allocation with a network needs it.
const IMAGE_USER: &str = "networks of allocations";
/// What the container may use, in bytes and processes.
const MEMORY_BYTES: u64 = 16 << 20;
const PROCESSES_MAX: u64 = 16;

impl Docker {
    /// Makes the container, or finds it, and returns its network namespace. `None` if the engine needs none.
    pub(super) async fn hold_network(
        &self,
        alloc: AllocId,
        hostname: Option<&str>,
    ) -> Result<Option<PathBuf>, StartError> {
        let engine = &self.shared.engine;
        let version = engine.version().await.map_err(failed("Failed to connect to docker daemon"))?;
        if version.is_podman() {
            return Ok(None);
        }
        let name = holder_name(alloc);
        let found = engine.container(&name).await.map_err(failed("Failed to inspect container"))?;
        let holder = match found {
            Some(found) if found.state.running => found,
            Some(ended) => {
                engine.remove(&ended.id).await.map_err(failed("Failed to purge container"))?;
                self.make_holder(&name, alloc, hostname).await?
            }
            None => self.make_holder(&name, alloc, hostname).await?,
        };
        self.shared.tracked.add(&holder.id);
        namespace(&holder).map(Some).ok_or_else(|| {
            StartError::unrecoverable(
                "the agent does not see the processes of the engine, whose containers cannot get a network then: both have \
                 to be in the same PID namespace",
            )
        })
    }

    async fn make_holder(
        &self,
        name: &str,
        alloc: AllocId,
        hostname: Option<&str>,
    ) -> Result<Container, StartError> {
        let engine = &self.shared.engine;
        let config = ImageConfig {
            name: self.settings.infra_image.clone(),
            pull_timeout: Some(self.settings.infra_image_pull_timeout),
            ..ImageConfig::default()
        };
        let image = self.shared.images.fetch(&config, None, (IMAGE_USER, None), &Progress::default()).await?;
        let body = body(image.as_deref().unwrap_or(&config.name), alloc, &self.node.id, hostname);
        let container = engine.create(name, body).await.map_err(failed("Failed to create container"))?;
        self.shared.tracked.add(&container);
        engine.start(&container).await.map_err(failed("Failed to start container"))?;
        let found = engine.container(&container).await.map_err(failed("Failed to inspect container"))?;
        found.filter(|found| found.state.running).ok_or_else(|| StartError {
            message: format!("the container of the image {} does not stay", self.settings.infra_image),
            recoverable: true,
        })
    }

    /// Removes the container, if there is one.
    pub(super) async fn release_network(&self, alloc: AllocId) -> Result<(), StartError> {
        let engine = &self.shared.engine;
        let found =
            engine.container(&holder_name(alloc)).await.map_err(failed("Failed to inspect container"))?;
        if let Some(found) = found {
            engine.remove(&found.id).await.map_err(failed("Failed to purge container"))?;
            self.shared.tracked.remove(&found.id);
        }
        Ok(())
    }
}

fn body(image: &str, alloc: AllocId, node: &str, hostname: Option<&str>) -> Value {
    json!({
        "Image": image,
        "Hostname": hostname.unwrap_or_default(),
        "Labels": { ALLOC_LABEL: alloc.to_string(), NODE_LABEL: node },
        "HostConfig": {
            "NetworkMode": "none",
            "CapDrop": ["ALL"],
            "ReadonlyRootfs": true,
            "Memory": MEMORY_BYTES,
            "PidsLimit": PROCESSES_MAX,
            "LogConfig": { "Type": "none" },
        },
    })
}

/// The network namespace of a container. `None` if the agent does not see the container's process.
fn namespace(container: &Container) -> Option<PathBuf> {
    let pid = i32::try_from(container.state.pid).ok()?;
    is_process_of(pid, &container.id).then(|| PathBuf::from(format!("/proc/{pid}/ns/net")))
}
