//! `docker`: runs a task as a container of an engine on the same machine. The engine is Docker, or Podman by the same
//! API.
//!
//! | module | holds |
//! |---|---|
//! | `config`, `values` | the configuration of a task |
//! | `settings` | what the operator allows |
//! | `create`, `mounts` | the translation of a task to a container; pure |
//! | `images`, `layers`, `reference`, `credentials` | where images come from, and when they go |
//! | `container`, `commands`, `usage` | a running container, and commands inside it |
//! | `holder` | the container that holds the network of an allocation |
//! | `processes` | processes of containers, as the agent sees them |
//! | `collecting` | the log collector beside each container |
//! | `sweep` | containers that no task has any more |
//!
//! Everything that is said to the engine is in `crate::engine`.

mod collecting;
mod commands;
mod config;
mod container;
pub(crate) mod create;
mod credentials;
mod holder;
mod images;
mod layers;
mod mounts;
mod processes;
mod reference;
pub(crate) mod settings;
mod sweep;
mod usage;
mod values;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use model::text::quoted;
use model::{AllocId, Text};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use serde_json::json;
use telemetry::chain;
use tokio::time::{sleep, timeout};

use self::config::TaskConfig;
use self::container::{ContainerHandle, RunningContainer, Shared, remove_dir};
use self::create::{ALLOC_LABEL, Creation, Facts, NodeNames, creation};
use self::images::{Images, failed};
use self::settings::Settings;
use self::sweep::Tracked;
use super::process::ExecutorCommand;
use super::start::{Prepare, Start, TaskId};
use super::{
    Capabilities, Driver, Fingerprint, Handle, Isolation, NetworkMode, NotRecovered, Running, StartError,
};
use crate::collector::Collect;
use crate::disk::dirs::TaskDirs;
use crate::disk::tree::{Links, explained};
use crate::engine::{Container, Engine, EngineError, EngineInfo, Version};

/// The driver's name.
pub(crate) const NAME: &str = "docker";

/// How long a restarted agent waits for an engine that is away, before it gives up its containers.
const RECOVER_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause before the engine is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Networks of the engine in which a container has no name or address that others could know.
const PLAIN_NETWORKS: [&str; 5] = ["bridge", "default", "host", "none", "podman"];

/// The driver.
pub(crate) struct Docker {
    settings: Settings,
    node: NodeNames,
    shared: Shared,
    /// Whether the engine has been there since the agent started.
    was_detected: AtomicBool,
}

impl Docker {
    /// Creates the driver for the engine with this socket. In a runtime, it also begins to look for dangling containers.
    pub(crate) fn new(
        settings: Settings,
        socket: PathBuf,
        node: NodeNames,
        executor: ExecutorCommand,
    ) -> Self {
        let engine = Engine::new(socket);
        let tracked = Tracked::default();
        let dangling = settings.dangling.clone();
        if dangling.enabled
            && settings.gc_container
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(sweep::run(engine.clone(), node.id.clone(), dangling, tracked.clone()));
        }
        let images = Images::new(engine.clone(), settings.clone());
        let shared = Shared { engine, images, tracked, executor, gc_container: settings.gc_container };
        Self { settings, node, shared, was_detected: AtomicBool::new(false) }
    }

    /// Starts a container whose image is there.
    async fn start_container(
        &self,
        start: &Start,
        config: &TaskConfig,
        creation: Creation,
        image: String,
        user: String,
    ) -> Result<Arc<dyn Running>, StartError> {
        let engine = &self.shared.engine;
        let container = self.create(start, config, &creation).await?;
        self.shared.tracked.add(&container);
        let started = async {
            self.describe_output(start, config, &container)?;
            engine.start(&container).await.map_err(failed("Failed to start container"))?;
            let found = engine.container(&container).await.map_err(failed("Failed to inspect container"))?;
            found.ok_or_else(|| StartError {
                message: "the container was removed as soon as it was started".to_owned(),
                recoverable: true,
            })
        };
        let found = match started.await {
            Ok(found) => found,
            Err(error) => {
                self.take_back(&container, start).await;
                return Err(error);
            }
        };
        let (ip, advertise) = address(&found, config.network.advertise_ipv6);
        let handle = ContainerHandle {
            container,
            image,
            user,
            dir: start.state_dir.clone(),
            ip,
            ports: creation.ports,
            advertise,
        };
        Ok(RunningContainer::watch(handle, self.shared.clone()))
    }

    /// Creates the container. One of the same name is what an earlier start of the task has left, and is removed.
    async fn create(
        &self,
        start: &Start,
        config: &TaskConfig,
        creation: &Creation,
    ) -> Result<String, StartError> {
        let engine = &self.shared.engine;
        let attempts = config.container_exists_attempts.unwrap_or(self.settings.container_exists_attempts);
        let mut attempt = 1;
        loop {
            let error = match engine.create(&creation.name, creation.body.clone()).await {
                Ok(container) => return Ok(container),
                Err(error) if error.is_conflict() && attempt <= attempts => error,
                Err(error) => return Err(failed("Failed to create container")(error)),
            };
            attempt += 1;
            let found =
                engine.container(&creation.name).await.map_err(failed("Failed to inspect container"))?;
            let Some(found) = found else { continue };
            let label = found.config.labels.as_ref().and_then(|labels| labels.get(ALLOC_LABEL));
            if label.is_none_or(|alloc| *alloc != start.id.alloc.to_string()) {
                return Err(failed("Failed to create container")(error));
            }
            tracing::info!(
                container = found.id,
                name = creation.name,
                "removing what an earlier start has left"
            );
            engine.remove(&found.id).await.map_err(failed("Failed to purge container"))?;
            self.shared.tracked.remove(&found.id);
        }
    }

    /// Describes to a log collector what it will collect.
    fn describe_output(&self, start: &Start, config: &TaskConfig, container: &str) -> Result<(), StartError> {
        let Some(logs) = start.logs.clone().filter(|_| !self.settings.disable_log_collection) else {
            return Ok(());
        };
        let collect = Collect {
            socket: self.shared.engine.socket().to_owned(),
            container: container.to_owned(),
            tty: config.process.tty,
            logs,
        };
        collecting::describe(&start.state_dir, &collect).map_err(|error| StartError {
            message: format!("cannot prepare the log collector: {error}"),
            recoverable: true,
        })
    }

    /// Removes what a failed start has made.
    async fn take_back(&self, container: &str, start: &Start) {
        if let Err(error) = self.shared.engine.remove(container).await {
            tracing::warn!(container, error = chain(&error), "cannot remove a container that did not start");
        }
        self.shared.tracked.remove(container);
        remove_dir(&start.state_dir).await;
    }

    /// A container of an earlier agent. Waits for an engine that is away.
    async fn find(&self, container: &str) -> Result<Option<Container>, EngineError> {
        let found = async {
            loop {
                match self.shared.engine.container(container).await {
                    Err(error) if error.is_transient() => {
                        tracing::debug!(container, error = chain(&error), "waiting for the engine");
                        sleep(RETRY_PAUSE).await;
                    }
                    found => return found,
                }
            }
        };
        timeout(RECOVER_TIMEOUT, found).await.unwrap_or(Err(EngineError::Late(RECOVER_TIMEOUT.as_secs())))
    }
}

/// The address of a container in the network of the engine that it is in, and whether others know it by that address.
fn address(container: &Container, is_ipv6: bool) -> (String, bool) {
    let networks = container.network_settings.networks.iter().flatten();
    let mut addresses = networks.map(|(name, endpoint)| {
        let address = if is_ipv6 { &endpoint.ipv6 } else { &endpoint.ip };
        (address.clone(), is_ipv6 || !PLAIN_NETWORKS.contains(&name.as_str()))
    });
    addresses.find(|(address, _)| !address.is_empty()).unwrap_or_default()
}

/// Refuses mounts whose source leads out of the allocation's directory by a link that the task has made.
fn check_links(creation: &Creation, dirs: &TaskDirs) -> Result<(), StartError> {
    if creation.own_sources.is_empty() {
        return Ok(());
    }
    let refused = |error: std::io::Error| StartError::unrecoverable(format!("cannot mount: {error}"));
    let alloc = dirs.open_alloc().map_err(refused)?;
    for source in &creation.own_sources {
        let own = source.strip_prefix(&dirs.alloc).unwrap_or(source);
        match alloc.open_beneath(own, OFlag::O_PATH, Links::Inside) {
            // The engine makes a directory there.
            Ok(_) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(refused(explained(own, errno))),
        }
    }
    Ok(())
}

/// The attributes of the node by which jobs choose it.
fn attributes(
    settings: &Settings,
    version: &Version,
    info: &EngineInfo,
    bridge_ip: Option<String>,
) -> BTreeMap<Text, Text> {
    let runtimes = info.runtimes.keys().map(String::as_str).collect::<Vec<_>>().join(",");
    let pids_limit = if settings.pids_limit > 0 { settings.pids_limit.to_string() } else { String::new() };
    let flag = |is_set: bool| if is_set { "true".to_owned() } else { String::new() };
    let all = [
        ("driver.docker", "true".to_owned()),
        ("driver.docker.version", version.version.clone()),
        ("driver.docker.volumes.enabled", flag(settings.volumes_enabled)),
        ("driver.docker.privileged.enabled", flag(settings.allow_privileged)),
        ("driver.docker.pids.limit", pids_limit),
        ("driver.docker.bridge_ip", bridge_ip.unwrap_or_default()),
        ("driver.docker.runtimes", runtimes),
        ("driver.docker.os_type", info.os_type.clone()),
    ];
    let known = all.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| (Text::from(name), Text::from(value))).collect()
}

#[async_trait]
impl Driver for Docker {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            signals: true,
            exec: true,
            isolation: Isolation::Image,
            networks: &[NetworkMode::Host, NetworkMode::Group],
            mounts: true,
            devices: true,
        }
    }

    /// The engine makes its own, by the limits of the container.
    fn uses_cgroups(&self) -> bool {
        false
    }

    fn fingerprint(&self) -> Fingerprint {
        let engine = &self.shared.engine;
        let asked = engine.version_blocking().and_then(|version| Ok((version, engine.info_blocking()?)));
        match asked {
            Ok((version, info)) => {
                self.was_detected.store(true, Ordering::Relaxed);
                Fingerprint {
                    detected: true,
                    healthy: true,
                    description: "Healthy".into(),
                    attributes: attributes(&self.settings, &version, &info, engine.bridge_ip_blocking()),
                }
            }
            Err(error) => Fingerprint {
                detected: self.was_detected.load(Ordering::Relaxed),
                healthy: false,
                description: format!("Failed to connect to docker daemon: {}", chain(&error)),
                attributes: BTreeMap::new(),
            },
        }
    }

    async fn prepare(&self, prepare: &Prepare) -> Result<(), StartError> {
        let config = read_config(prepare.config.clone())?;
        let user = early_user(&prepare.id);
        let users = (&*user, Some(&*user));
        if let Some(image) = self.shared.images.fetch(&config.image, None, users, &prepare.progress).await? {
            self.shared.images.release_later(image, user);
        }
        Ok(())
    }

    async fn make_namespace(
        &self,
        alloc: AllocId,
        hostname: Option<&str>,
    ) -> Result<Option<PathBuf>, StartError> {
        self.hold_network(alloc, hostname).await
    }

    async fn remove_namespace(&self, alloc: AllocId) -> Result<(), StartError> {
        self.release_network(alloc).await
    }

    async fn start(&self, start: Start) -> Result<Arc<dyn Running>, StartError> {
        let config = read_config(start.config.clone())?;
        let engine = &self.shared.engine;
        let (info, version) = tokio::try_join!(engine.info(), engine.version())
            .map_err(failed("Failed to connect to docker daemon"))?;
        let facts = Facts {
            settings: &self.settings,
            node: &self.node,
            image: &config.image.name,
            processors: info.processors,
            runtimes: &info.runtimes,
            is_podman: version.is_podman(),
        };
        let invalid = |error| StartError::unrecoverable(format!("failed driver config validation: {error}"));
        let mut creation = creation(facts, &config, &start).map_err(invalid)?;
        check_links(&creation, &start.dirs)?;
        let user = format!("{}/{}/{}", start.id.alloc, start.id.task, start.id.start);
        let (images, early) = (&self.shared.images, early_user(&start.id));
        let users = (&*user, Some(&*early));
        let image = images.fetch(&config.image, Some(&start.dirs), users, &start.progress).await?;
        let Some(image) = image else {
            let name = quoted(&config.image.name);
            return Err(StartError::unrecoverable(format!("there is no image {name}")));
        };
        images.release(&image, &early).await;
        creation.body["Image"] = json!(image);
        let started = self.start_container(&start, &config, creation, image.clone(), user.clone()).await;
        if started.is_err() {
            self.shared.images.release(&image, &user).await;
        }
        started
    }

    async fn recover(&self, handle: &Handle) -> Result<Arc<dyn Running>, NotRecovered> {
        let handle = ContainerHandle::read(handle)?;
        match self.find(&handle.container).await {
            Ok(Some(_)) => {
                self.shared.tracked.add(&handle.container);
                self.shared.images.hold_again(&handle.image, &handle.user).await;
                Ok(RunningContainer::watch(handle, self.shared.clone()))
            }
            Ok(None) => Err(NotRecovered("its container is gone".into())),
            Err(error) => Err(NotRecovered(chain(&error))),
        }
    }

    async fn discard(&self, handle: &Handle) {
        let Ok(handle) = ContainerHandle::read(handle) else { return };
        if let Err(error) = self.shared.engine.remove(&handle.container).await {
            // It is removed as a dangling one when the engine is back.
            tracing::warn!(
                container = handle.container,
                error = chain(&error),
                "cannot remove a container that was not recovered"
            );
        }
        self.shared.tracked.remove(&handle.container);
        remove_dir(&handle.dir).await;
    }
}

/// The user of an image that was fetched before its task starts.
fn early_user(id: &TaskId) -> String {
    format!("{}/{} early", id.alloc, id.task)
}

/// Reads a task's configuration.
fn read_config(config: model::Map<String, serde_json::Value>) -> Result<TaskConfig, StartError> {
    TaskConfig::read(config)
        .map_err(|error| StartError::unrecoverable(format!("failed to decode driver config: {error}")))
}

#[cfg(test)]
mod tests;
