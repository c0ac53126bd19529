//! Sets up and removes the networks of allocations. What was begun is on disk before plugins run, so that
//! it is found and removed whatever happens.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Mutex as StdMutex;
use std::time::Duration;

use model::AllocId;
use serde_json::{Map, Value};
use telemetry::chain;
use tokio::sync::{Mutex, OnceCell, Semaphore};
use tokio::time::sleep;

use super::AllocNetwork;
use super::attachment::{Attachment, Mode};
use super::chain::{Chain, NotAttached};
use super::conflist::ConfList;
use super::place::{Place, Record};
use super::plugin::{PluginError, Plugins};
use super::settings::Settings;
use super::versions::Versions;
use super::{configs, firewall, namespace, outcome};

/// How often an allocation is attached before it fails.
const ATTEMPTS: u32 = 3;
/// The minimum pause between attempts; the maximum is twice as long.
const PAUSE: Duration = Duration::from_secs(1);
/// The number of networks that are set up or removed at the same time. Each runs one process at a time.
const CONCURRENT_MAX: usize = 8;
/// The plugin of the bridge, and the first version of it whose check can be relied on.
const CHECKED_PLUGIN: &str = "bridge";
const CHECKED_SINCE: [u64; 2] = [1, 3];

/// What was last logged about networks that the node cannot have. It is logged again when it changes.
#[derive(Debug, Default)]
pub(super) struct Logged {
    /// Why there is no bridge.
    pub(super) no_bridge: Option<String>,
    /// Configurations that cannot be used.
    pub(super) unusable: Vec<String>,
}

/// The networks of the node's allocations.
pub(crate) struct Networks {
    pub(super) settings: Settings,
    pub(super) plugins: Plugins,
    pub(super) versions: Versions,
    /// The minimum pause between attempts to attach an allocation.
    pub(super) pause: Duration,
    /// The name server for allocations on the bridge, if the agent has one.
    name_server: Option<IpAddr>,
    dir: PathBuf,
    permits: Semaphore,
    /// Held while the rule of the bridge is looked for and added, so that it is added once.
    rules: Mutex<()>,
    /// Whether the kernel makes bridges, once that was tried.
    pub(super) has_bridges: OnceCell<Result<(), String>>,
    /// What was last logged about networks that the node cannot have.
    pub(super) logged: StdMutex<Logged>,
}

impl Networks {
    /// Networks whose state is kept in a directory.
    pub(crate) fn new(settings: Settings, dir: PathBuf) -> Self {
        Self {
            plugins: Plugins::new(settings.plugin_dirs.clone()),
            settings,
            versions: Versions::default(),
            pause: PAUSE,
            name_server: None,
            dir,
            permits: Semaphore::new(CONCURRENT_MAX),
            rules: Mutex::new(()),
            has_bridges: OnceCell::new(),
            logged: StdMutex::default(),
        }
    }

    /// Offers a name server to the allocations on the bridge that are set up from now on.
    pub(crate) fn with_name_server(self, name_server: Option<IpAddr>) -> Self {
        Self { name_server, ..self }
    }

    /// Sets up the network of an allocation, or finds the one that was set up before.
    ///
    /// # Errors
    /// Why it cannot be set up. Whatever was begun is removed.
    pub(crate) async fn set_up(&self, attachment: &Attachment) -> Result<AllocNetwork, String> {
        let _permit = self.permits.acquire().await;
        let place = Place::new(&self.dir, attachment.alloc);
        let set_up = self.find_or_attach(&place, attachment).await;
        if set_up.is_err()
            && let Err(error) = self.detach(&place).await
        {
            tracing::warn!(alloc.id = %attachment.alloc, error, "cannot remove what was set up of a network");
        }
        set_up
    }

    /// Removes the network of an allocation, if it has one.
    ///
    /// # Errors
    /// What is left of it. It is tried again when the agent starts.
    pub(crate) async fn remove(&self, alloc: AllocId) -> Result<(), String> {
        let place = Place::new(&self.dir, alloc);
        if !place.exists() {
            return Ok(());
        }
        let _permit = self.permits.acquire().await;
        self.detach(&place).await
    }

    /// Removes the networks of all allocations but these.
    pub(crate) async fn remove_others(&self, kept: &BTreeSet<AllocId>) {
        let allocs = match Place::allocs(&self.dir) {
            Ok(allocs) => allocs,
            Err(error) => {
                tracing::warn!(dir = %self.dir.display(), error = chain(&error), "cannot list the networks of allocations");
                return;
            }
        };
        for alloc in allocs.into_iter().filter(|alloc| !kept.contains(alloc)) {
            match self.remove(alloc).await {
                Ok(()) => {
                    tracing::info!(alloc.id = %alloc, "removed the network of an allocation that is gone")
                }
                Err(error) => {
                    tracing::warn!(alloc.id = %alloc, error, "cannot remove the network of an allocation that is gone");
                }
            }
        }
    }

    async fn find_or_attach(&self, place: &Place, attachment: &Attachment) -> Result<AllocNetwork, String> {
        let text = |error: io::Error| chain(&error);
        place.build().map_err(text)?;
        let record = place.load();
        let is_there = match &attachment.made {
            Some(made) => namespace::is_same(&place.namespace(), made),
            None => namespace::exists(&place.namespace()),
        };
        if let Some(record) = &record {
            match &record.network {
                Some(network) if is_there => match self.check(place, record).await {
                    Ok(()) => return Ok(network.clone()),
                    Err(error) => tracing::warn!(
                        alloc.id = %attachment.alloc, error,
                        "the network of an allocation is damaged; setting it up again"
                    ),
                },
                Some(_) | None => {}
            }
            self.undo(place, record).await.map_err(|error| chain(&error))?;
        }
        // Tasks that still run stay in their namespace. A namespace in which nothing was complete is not trusted.
        let is_in_use = is_there && record.is_some_and(|record| record.network.is_some());
        if !is_in_use {
            let (path, made) = (place.namespace(), attachment.made.clone());
            let make = move || match made {
                Some(made) => namespace::adopt(&path, &made),
                None => namespace::create(&path),
            };
            let made = tokio::task::spawn_blocking(make).await;
            made.map_err(io::Error::other)
                .flatten()
                .map_err(|error| format!("cannot make a network namespace: {error}"))?;
        }
        self.attach(place, attachment).await
    }

    /// Attaches an allocation whose namespace exists.
    async fn attach(&self, place: &Place, attachment: &Attachment) -> Result<AllocNetwork, String> {
        let list = match &attachment.mode {
            Mode::None => None,
            Mode::Bridge => Some(ConfList::of_bridge(&self.settings.bridge)),
            Mode::Cni(name) => Some(configs::find(&self.settings.config_dir, name)?),
        };
        let is_bridge = attachment.mode == Mode::Bridge;
        if is_bridge {
            let _held = self.rules.lock().await;
            firewall::accept(&self.settings.bridge).await?;
        }
        let (args, left_out) = attachment.cni_args();
        if !left_out.is_empty() {
            tracing::warn!(
                alloc.id = %attachment.alloc, arguments = ?left_out,
                "arguments for CNI plugins are left out, because they have a semicolon"
            );
        }
        let abilities = attachment.abilities();
        let mut record = Record {
            list: list.as_ref().map(ConfList::to_text),
            is_bridge,
            args,
            abilities: Value::Object(abilities.clone()).to_string(),
            result: None,
            network: None,
        };
        let text = |error: io::Error| chain(&error);
        place.save(&record).await.map_err(text)?;
        let mut status = None;
        if let Some(list) = &list {
            let target = place.target(&record.args);
            let run = Chain { plugins: &self.plugins, list, target: &target, abilities: &abilities };
            // If the agent ends in between, the next one undoes what the plugins have done, with their results.
            let note = |result: &Value| {
                let noted = Record { result: Some(result.to_string()), ..record.clone() };
                if let Err(error) = place.note(&noted) {
                    tracing::warn!(alloc.id = %attachment.alloc, error = chain(&error), "cannot record what was set up of a network");
                }
            };
            let result = add(&run, &note, self.pause).await.map_err(|error| chain(&error))?;
            record.result = Some(result.to_string());
            status = Some(outcome::status(&result)?);
        }
        let offered = self.name_server.filter(|_| matches!(attachment.mode, Mode::Bridge));
        let network = place.complete(attachment, status, offered).map_err(text)?;
        record.network = Some(network.clone());
        place.save(&record).await.map_err(text)?;
        Ok(network)
    }

    /// Checks what was set up, as far as the plugins can tell.
    async fn check(&self, place: &Place, record: &Record) -> Result<(), String> {
        let (Some(list), Some(result)) = (read_list(record), read(record.result.as_deref())) else {
            return Ok(());
        };
        let is_reliable = match record.is_bridge {
            true => self.versions.of(&self.plugins, CHECKED_PLUGIN).await.is_some_and(|version| {
                let mut numbers = version.split('.').map(|number| number.parse::<u64>().unwrap_or(0));
                [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)] >= CHECKED_SINCE
            }),
            false => true,
        };
        if !is_reliable {
            return Ok(());
        }
        let (target, abilities) = (place.target(&record.args), read_abilities(record));
        let run = Chain { plugins: &self.plugins, list: &list, target: &target, abilities: &abilities };
        let is_checked = |name: &str| !record.is_bridge || name == CHECKED_PLUGIN;
        run.check(&result, is_checked).await.map_err(|error| chain(&error))
    }

    /// Undoes what plugins did. The namespace stays.
    async fn undo(&self, place: &Place, record: &Record) -> Result<(), PluginError> {
        let Some(list) = read_list(record) else { return Ok(()) };
        let (target, abilities) = (place.target(&record.args), read_abilities(record));
        let run = Chain { plugins: &self.plugins, list: &list, target: &target, abilities: &abilities };
        let undone = run.del(read(record.result.as_deref()).as_ref()).await;
        if record.is_bridge && target.namespace.is_none() {
            for address in record.addresses() {
                firewall::stop_masking(&target.container, address).await;
            }
        }
        undone
    }

    /// Undoes what plugins did, and removes the namespace and the files. If a plugin fails, the record stays.
    async fn detach(&self, place: &Place) -> Result<(), String> {
        let undone = match place.load() {
            Some(record) => self.undo(place, &record).await.map_err(|error| chain(&error)),
            None => Ok(()),
        };
        let removed = place.clone();
        let is_undone = undone.is_ok();
        let removed = tokio::task::spawn_blocking(move || {
            removed.remove_namespace()?;
            if is_undone { removed.remove() } else { Ok(()) }
        });
        let removed = removed.await.map_err(io::Error::other).flatten();
        undone.and(removed.map_err(|error| chain(&error)))
    }
}

/// Attaches an allocation, if need be at a later attempt, with pauses between them. What a failed attempt left is removed.
async fn add(
    run: &Chain<'_>,
    note: &(impl Fn(&Value) + Sync),
    pause: Duration,
) -> Result<Value, PluginError> {
    let mut first = None;
    for attempt in 1..=ATTEMPTS {
        let NotAttached { error, result } = match run.add(note).await {
            Ok(result) => return Ok(result),
            Err(failed) => failed,
        };
        if let Err(error) = run.del(result.as_ref()).await {
            tracing::debug!(error = chain(&error), "cannot remove what a failed attempt left of a network");
        }
        let is_final = matches!(error, PluginError::NotFound { .. }) || attempt == ATTEMPTS;
        let error = first.get_or_insert(error);
        if is_final {
            break;
        }
        tracing::warn!(
            alloc.id = run.target.container,
            attempt,
            error = chain(error),
            "cannot set up the network of an allocation; trying again"
        );
        sleep(pause.mul_f64(1.0 + rand::random::<f64>())).await;
    }
    Err(first.expect("an attempt failed"))
}

fn read(text: Option<&str>) -> Option<Value> {
    serde_json::from_str(text?).ok()
}

fn read_list(record: &Record) -> Option<ConfList> {
    ConfList::read(record.list.as_deref()?).ok()
}

fn read_abilities(record: &Record) -> Map<String, Value> {
    serde_json::from_str(&record.abilities).unwrap_or_default()
}
