//! The images of tasks: where they come from, and when they go. Tasks that need the same image share one pull, a
//! node pulls a limited number of images at once, and an image goes some time after the last task that used it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex as BlockingMutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use model::alloc::TaskEventKind;
use model::text::quoted;
use nix::fcntl::OFlag;
use telemetry::chain;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::config::ImageConfig;
use super::credentials;
use super::layers::Layers;
use super::reference::ImageName;
use super::settings::Settings;
use crate::disk::dirs::TaskDirs;
use crate::disk::tree::{Links, explained};
use crate::driver::StartError;
use crate::driver::start::Progress;
use crate::engine::{Engine, EngineError};

/// How often a long pull shows its progress as an event of the task.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);
/// How often a pull is tried before the task's own restarts decide, and the pause between two tries.
const PULL_ATTEMPTS: u32 = 3;
const PULL_PAUSE: Duration = Duration::from_secs(2);

/// How long an image that was fetched early stays for the start of its task.
const EARLY_TIMEOUT: Duration = Duration::from_secs(600);

/// Texts of registries and engines by which a retry does not help.
const PERMANENT: [&str; 9] = [
    "access denied",
    "authentication required",
    "denied:",
    "does not exist",
    "invalid reference format",
    "manifest unknown",
    "no basic auth credentials",
    "not found",
    "unauthorized",
];

/// The images of the node's tasks.
#[derive(Clone)]
pub(super) struct Images(Arc<Inner>);

struct Inner {
    engine: Engine,
    settings: Settings,
    /// What limits the number of pulls; `None` is no limit.
    slots: Option<Semaphore>,
    pulls: BlockingMutex<BTreeMap<PullKey, Joined>>,
    /// The users of each image, by its id. Held while an image is looked for or removed.
    users: Mutex<BTreeMap<String, Users>>,
}

/// Which pulls are the same: those of one name with the same credentials.
type PullKey = (String, Option<String>);
type Pull = Shared<BoxFuture<'static, Result<(), PullError>>>;

/// A pull that others can join.
struct Joined {
    pull: WeakShared<BoxFuture<'static, Result<(), PullError>>>,
    layers: watch::Receiver<Layers>,
}

/// Why a pull failed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PullError {
    message: String,
    recoverable: bool,
}

/// The users of an image.
#[derive(Debug, Default)]
struct Users {
    /// Their names.
    names: BTreeSet<String>,
    /// How often the last user has gone. Only the newest delayed removal applies.
    abandoned: u64,
}

impl Images {
    pub(super) fn new(engine: Engine, settings: Settings) -> Self {
        let slots = (settings.pulls_max > 0).then(|| Semaphore::new(settings.pulls_max));
        Self(Arc::new(Inner {
            engine,
            settings,
            slots,
            pulls: BlockingMutex::default(),
            users: Mutex::default(),
        }))
    }

    /// Finds, loads or pulls an image, and returns its id. The image stays until [`Self::release`] with the same user.
    /// Without directories, there is no archive to load: then it may be `None`.
    ///
    /// An image that was fetched early for the same task, as the user `early`, is not fetched again.
    pub(super) async fn fetch(
        &self,
        config: &ImageConfig,
        dirs: Option<&TaskDirs>,
        (user, early): (&str, Option<&str>),
        progress: &Progress,
    ) -> Result<Option<String>, StartError> {
        let name = ImageName::read(&config.name);
        let full = name.full();
        if let Some(early) = early
            && let Some(id) = self.hold_fetched(&full, early, user).await?
        {
            return Ok(Some(id));
        }
        if !config.force_pull
            && !name.is_latest()
            && let Some(id) = self.hold(&full, user).await?
        {
            return Ok(Some(id));
        }
        if config.load.is_empty() {
            self.pull(config, &name, progress).await?;
        } else {
            let Some(dirs) = dirs else { return Ok(None) };
            self.load(&config.load, dirs).await?;
        }
        match self.hold(&full, user).await? {
            Some(id) => Ok(Some(id)),
            None if config.load.is_empty() => Err(StartError {
                message: format!("the image {} was removed as soon as it was pulled", quoted(&full)),
                recoverable: true,
            }),
            None => Err(StartError::unrecoverable(format!(
                "the archive {} does not contain the image {}",
                quoted(&config.load),
                quoted(&full)
            ))),
        }
    }

    /// Adds a user of an image that is there, by the image's name. Returns the image's id.
    async fn hold(&self, name: &str, user: &str) -> Result<Option<String>, StartError> {
        let mut users = self.0.users.lock().await;
        let found = self.0.engine.image(name).await.map_err(failed("Failed to look for the image"))?;
        let Some(image) = found else { return Ok(None) };
        users.entry(image.id.clone()).or_default().names.insert(user.to_owned());
        Ok(Some(image.id))
    }

    /// Adds a user of an image that has another user.
    async fn hold_fetched(&self, name: &str, other: &str, user: &str) -> Result<Option<String>, StartError> {
        let mut users = self.0.users.lock().await;
        let found = self.0.engine.image(name).await.map_err(failed("Failed to look for the image"))?;
        let Some(image) = found else { return Ok(None) };
        let known = users.get_mut(&image.id).filter(|known| known.names.contains(other));
        Ok(known.map(|known| {
            known.names.insert(user.to_owned());
            image.id
        }))
    }

    /// Removes a user of an image after a while, if it has not been removed before.
    pub(super) fn release_later(&self, id: String, user: String) {
        let images = self.clone();
        tokio::spawn(async move {
            sleep(EARLY_TIMEOUT).await;
            images.release(&id, &user).await;
        });
    }

    /// Adds a user of an image that a running container uses.
    pub(super) async fn hold_again(&self, id: &str, user: &str) {
        self.0.users.lock().await.entry(id.to_owned()).or_default().names.insert(user.to_owned());
    }

    /// Removes a user of an image. An image without users is removed after the operator's delay.
    pub(super) async fn release(&self, id: &str, user: &str) {
        let abandoned = {
            let mut users = self.0.users.lock().await;
            let Some(image) = users.get_mut(id) else { return };
            if !image.names.remove(user) || !image.names.is_empty() {
                return;
            }
            image.abandoned += 1;
            image.abandoned
        };
        if self.0.settings.gc_image {
            tokio::spawn(Arc::clone(&self.0).remove_later(id.to_owned(), abandoned));
        }
    }

    async fn load(&self, archive: &str, dirs: &TaskDirs) -> Result<(), StartError> {
        let opened = open_archive(archive, dirs).map_err(|error| {
            StartError::unrecoverable(format!("cannot open the archive {}: {error}", quoted(archive)))
        })?;
        self.0.engine.load(opened).await.map_err(failed("Failed to load image from archive"))
    }

    /// Pulls an image, or joins a pull of it.
    async fn pull(
        &self,
        config: &ImageConfig,
        name: &ImageName,
        progress: &Progress,
    ) -> Result<(), StartError> {
        let auth = match credentials::header(&self.0.settings, config, name).await {
            Ok(auth) => auth,
            Err(error) if config.auth_soft_fail => {
                tracing::warn!(image = name.full(), error, "pulling an image without credentials");
                None
            }
            Err(error) => {
                let message =
                    format!("Failed to find docker auth for repo {}: {error}", quoted(&name.repository));
                return Err(StartError::unrecoverable(message));
            }
        };
        progress.event(TaskEventKind::Driver { message: "Downloading image".into() });
        let within = config.pull_timeout.unwrap_or(self.0.settings.image_pull_timeout);
        let (mut pull, layers) = self.join(name, auth, within);
        let mut ticks = interval(PROGRESS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        let pulled = loop {
            tokio::select! {
                pulled = &mut pull => break pulled,
                _ = ticks.tick() => {
                    let message = layers.borrow().message();
                    progress.event(TaskEventKind::Driver { message: message.into() });
                }
            }
        };
        pulled.map_err(|PullError { message, recoverable }| StartError { message, recoverable })
    }

    /// The pull of an image: one that is at work, or a new one. It ends when nobody waits for it any more.
    fn join(
        &self,
        name: &ImageName,
        auth: Option<String>,
        within: Duration,
    ) -> (Pull, watch::Receiver<Layers>) {
        let key = (name.full(), auth.clone());
        // A poisoned lock is harmless, because each change is a single step.
        let mut pulls = self.0.pulls.lock().unwrap_or_else(PoisonError::into_inner);
        pulls.retain(|_, joined| joined.pull.upgrade().is_some());
        if let Some(joined) = pulls.get(&key)
            && let Some(pull) = joined.pull.upgrade()
        {
            return (pull, joined.layers.clone());
        }
        let (seen, layers) = watch::channel(Layers::default());
        let pull = Arc::clone(&self.0).pull(name.clone(), auth, within, seen).boxed().shared();
        if let Some(weak) = pull.downgrade() {
            pulls.insert(key, Joined { pull: weak, layers: layers.clone() });
        }
        (pull, layers)
    }
}

impl Inner {
    async fn pull(
        self: Arc<Self>,
        name: ImageName,
        auth: Option<String>,
        within: Duration,
        seen: watch::Sender<Layers>,
    ) -> Result<(), PullError> {
        // The semaphore is never closed.
        let _slot = match &self.slots {
            Some(slots) => slots.acquire().await.ok(),
            None => None,
        };
        tracing::info!(image = name.full(), "pulling an image");
        let mut attempt = 1;
        loop {
            let see = |status: &crate::engine::PullStatus| seen.send_modify(|layers| layers.see(status));
            let silence = self.settings.pull_activity_timeout.min(within);
            let pull = self.engine.pull(&name.repository, name.version(), auth.as_deref(), silence, see);
            let error = match timeout(within, pull).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) if is_permanent(&error) => {
                    return Err(PullError {
                        message: pull_message(&name, &chain(&error)),
                        recoverable: false,
                    });
                }
                Ok(Err(error)) => chain(&error),
                Err(_) => {
                    let message = format!("it took longer than {} s", within.as_secs());
                    return Err(PullError { message: pull_message(&name, &message), recoverable: true });
                }
            };
            if attempt == PULL_ATTEMPTS {
                return Err(PullError { message: pull_message(&name, &error), recoverable: true });
            }
            tracing::warn!(image = name.full(), error, "pulling an image again");
            attempt += 1;
            sleep(PULL_PAUSE).await;
        }
    }

    /// Removes an image after the delay if no user has come meanwhile.
    async fn remove_later(self: Arc<Self>, id: String, abandoned: u64) {
        sleep(self.settings.gc_image_delay).await;
        let mut users = self.users.lock().await;
        let unused =
            users.get(&id).is_some_and(|image| image.names.is_empty() && image.abandoned == abandoned);
        if !unused {
            return;
        }
        users.remove(&id);
        match self.engine.remove_image(&id).await {
            Ok(()) => tracing::info!(image = id, "removed an image that no task uses"),
            // Containers of others use it, or it has further names.
            Err(error) if error.is_conflict() || error.is_absent() => {
                tracing::debug!(image = id, error = chain(&error), "an image is still in use");
            }
            Err(error) => tracing::warn!(image = id, error = chain(&error), "cannot remove an image"),
        }
    }
}

fn pull_message(name: &ImageName, error: &str) -> String {
    format!("Failed to pull `{}`: {error}", name.full())
}

/// Converts an error of the engine.
pub(super) fn failed(what: &'static str) -> impl Fn(EngineError) -> StartError {
    move |error| StartError {
        message: format!("{what}: {}", chain(&error)),
        recoverable: error.is_transient(),
    }
}

/// Whether a retry of a pull cannot help: the image does not exist, or the registry refuses the credentials.
fn is_permanent(error: &EngineError) -> bool {
    match error {
        EngineError::Refused { status, message } => {
            let message = message.to_ascii_lowercase();
            // Errors of the connection may contain `not found`, such as those of name servers.
            let is_network = message.contains("dial ") || message.contains("lookup ");
            matches!(status, 400 | 401 | 403 | 404)
                || (!is_network && PERMANENT.iter().any(|text| message.contains(text)))
        }
        EngineError::Unreachable { .. } | EngineError::Late(_) | EngineError::Invalid(_) => false,
    }
}

/// Opens an archive in the task's directories. Links that lead out of them are not followed.
fn open_archive(archive: &str, dirs: &TaskDirs) -> io::Result<tokio::fs::File> {
    let path = Path::new(archive);
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let open = |dir: io::Result<crate::disk::tree::OpenDir>| {
        dir?.open_beneath(path, flags, Links::Inside).map_err(|errno| explained(path, errno))
    };
    open(dirs.open_local()).or_else(|_| open(dirs.open())).map(tokio::fs::File::from_std)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_retry_cannot_help_is_told_apart() {
        let refused = |status, message: &str| EngineError::Refused { status, message: message.to_owned() };
        for permanent in [
            refused(404, "pull access denied for a, repository does not exist or may require 'docker login'"),
            refused(200, "manifest for a:1 not found: manifest unknown: manifest unknown"),
            refused(500, "Head \"https://r.example/v2/a/manifests/1\": no basic auth credentials"),
            refused(500, "unauthorized: incorrect username or password"),
        ] {
            assert!(is_permanent(&permanent), "{permanent}");
        }
        for transient in [
            refused(500, "Get \"https://r.example/v2/\": dial tcp: lookup r.example: server not found"),
            refused(500, "toomanyrequests: You have reached your pull rate limit"),
            refused(200, "unexpected EOF"),
            EngineError::Late(120),
        ] {
            assert!(!is_permanent(&transient), "{transient}");
        }
    }

    #[test]
    fn archives_are_in_the_directories_of_the_task() {
        use crate::disk::dirs::AllocDirs;
        use crate::testing::secrets;

        let dir = tempfile::tempdir().unwrap();
        let alloc = AllocDirs::new(dir.path().join("1"));
        alloc.build().unwrap();
        let task = alloc.task("web");
        task.build(&secrets()).unwrap();
        std::fs::write(task.local.join("a.tar"), "").unwrap();
        std::fs::write(dir.path().join("b.tar"), "").unwrap();
        std::os::unix::fs::symlink(dir.path().join("b.tar"), task.local.join("b.tar")).unwrap();
        open_archive("a.tar", &task).unwrap();
        open_archive("local/a.tar", &task).unwrap();
        for outside in ["b.tar", "../../../b.tar", "/etc/passwd", "c.tar"] {
            open_archive(outside, &task).unwrap_err();
        }
    }
}
