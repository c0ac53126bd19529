//! The host volumes of the node: those of the configuration, and dynamic ones, which are on the agent's disk and
//! survive its restart.

pub(crate) mod plugin;
pub(crate) mod settings;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::node::NodeHostVolume;
use model::text::quoted;
use model::{HostVolumeId, NodeId, Text};
use serde::{Deserialize, Serialize};

use self::plugin::{Created, Place, PluginError, Wanted};
use self::settings::VolumeSettings;
use crate::disk::store::{self, Durability, Saved, Store};

/// The file with the dynamic volumes.
const FILE: &str = "host-volumes";
/// Maximum number of dynamic volumes of a node.
const VOLUMES_MAX: usize = 10_000;

/// Why a volume cannot be created or deleted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    /// Another volume has its name.
    #[error("the node has another volume with the name {0}")]
    NameTaken(String),
    /// There are too many.
    #[error("the node has {VOLUMES_MAX} dynamic volumes, and cannot have more")]
    TooMany,
    /// The directory to register does not exist.
    #[error("{0} is not a directory with an absolute path on the node")]
    NoDirectory(String),
    /// The plugin failed.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The volume cannot be written to the agent's disk.
    #[error("cannot store the volume")]
    Io(#[from] io::Error),
}

/// What the node shows of its volumes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FoundVolumes {
    /// The volumes by name.
    pub(crate) volumes: BTreeMap<Text, NodeHostVolume>,
    /// The attributes of the plugins.
    pub(crate) attributes: BTreeMap<Text, Text>,
    /// Whether the servers delete the dynamic volumes with the node.
    pub(crate) gc_on_node_gc: bool,
}

/// A dynamic volume as it is kept on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Dynamic {
    wanted: Wanted,
    path: PathBuf,
}

/// Dynamic volumes by id.
type Dynamics = BTreeMap<HostVolumeId, Dynamic>;

/// The host volumes of the node.
#[derive(Debug)]
pub(crate) struct HostVolumes {
    settings: VolumeSettings,
    place: Place,
    file: PathBuf,
    dynamic: Mutex<Dynamics>,
    /// The plugins that work, with their versions.
    plugins: Mutex<BTreeMap<Text, Text>>,
}

impl HostVolumes {
    /// Reads the dynamic volumes of earlier runs of the agent. A file that cannot be read counts as absent; it is set
    /// aside.
    pub(crate) fn load(store: &Store, settings: VolumeSettings, node: NodeId, node_pool: Text) -> Self {
        let file = store.file(FILE);
        let dynamic = match store::load::<Dynamics>(&file) {
            Saved::Read(dynamic) => dynamic,
            Saved::Absent | Saved::Unreadable => Dynamics::new(),
        };
        let place = Place {
            volumes_dir: settings.volumes_dir.clone(),
            plugin_dir: settings.plugin_dir.clone(),
            node: node.to_string(),
            node_pool,
        };
        Self { settings, place, file, dynamic: Mutex::new(dynamic), plugins: Mutex::default() }
    }

    /// Finds the plugins that work.
    pub(crate) async fn detect_plugins(&self) {
        let found = self.place.detect().await;
        *self.plugins.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// Creates volumes again that are no longer there, for instance on a disk that was exchanged. The node does not show
    /// those that cannot be created.
    pub(crate) async fn restore(&self) {
        let lost = self.dynamics().clone();
        let lost =
            lost.into_values().filter(|volume| !volume.wanted.plugin.is_empty() && !volume.path.is_dir());
        for Dynamic { wanted, .. } in lost.collect::<Vec<_>>() {
            let id = wanted.id;
            match self.create(wanted).await {
                Ok(_) => tracing::info!(volume.id = %id, "created a host volume again that was lost"),
                Err(error) => tracing::warn!(
                    volume.id = %id, error = telemetry::chain(&error),
                    "cannot restore a host volume; the node does not offer it"
                ),
            }
        }
    }

    /// What the node shows: the volumes of the configuration, and the dynamic ones whose directories are there.
    pub(crate) fn found(&self) -> FoundVolumes {
        let plugins = self.plugins.lock().unwrap_or_else(PoisonError::into_inner);
        let attribute = |(name, version): (&Text, &Text)| {
            (format!("plugins.host_volume.{name}.version").into(), Text::clone(version))
        };
        let volumes =
            self.shown().into_iter().filter(|(_, volume)| volume.id.is_empty() || is_dir(&volume.path));
        FoundVolumes {
            volumes: volumes.collect(),
            attributes: plugins.iter().map(attribute).collect(),
            gc_on_node_gc: self.settings.gc_on_node_gc,
        }
    }

    /// The volume of this name; `None` if the node has none.
    pub(crate) fn named(&self, name: &str) -> Option<NodeHostVolume> {
        self.shown().remove(name)
    }

    fn shown(&self) -> BTreeMap<Text, NodeHostVolume> {
        let text = |path: &Path| path.display().to_string().into();
        let dynamic = self.dynamics();
        let dynamic = dynamic.values().map(|volume| NodeHostVolume {
            name: Text::clone(&volume.wanted.name),
            path: text(&volume.path),
            read_only: false,
            id: volume.wanted.id.to_string().into(),
        });
        let statics = self.settings.statics.iter().map(|volume| NodeHostVolume {
            name: Text::clone(&volume.name),
            path: text(&volume.path),
            read_only: volume.read_only,
            id: Text::default(),
        });
        // A volume of the configuration takes precedence.
        dynamic.chain(statics).map(|volume| (Text::clone(&volume.name), volume)).collect()
    }

    /// Creates a volume by its plugin. It is on the agent's disk when this returns.
    ///
    /// # Errors
    /// If its name is taken, the plugin fails, or it cannot be stored. A new volume is then deleted again, as far as
    /// possible.
    pub(crate) async fn create(&self, wanted: Wanted) -> Result<Created, VolumeError> {
        let is_new = self.check(&wanted)?;
        let created = self.place.create(&wanted).await?;
        let dynamic = Dynamic { wanted, path: created.path.clone() };
        if let Err(error) = self.store(&dynamic) {
            if is_new && let Err(left) = self.place.delete(&dynamic.wanted, &created.path).await {
                tracing::warn!(
                    volume.id = %dynamic.wanted.id, error = telemetry::chain(&left),
                    "cannot delete a host volume that could not be stored"
                );
            }
            return Err(error.into());
        }
        Ok(created)
    }

    /// Makes an existing directory a volume.
    ///
    /// # Errors
    /// If its name is taken, it is not a directory, or it cannot be stored.
    pub(crate) fn register(&self, wanted: Wanted, path: &Path) -> Result<Created, VolumeError> {
        if !path.is_absolute() || !path.is_dir() {
            return Err(VolumeError::NoDirectory(quoted(&path.display().to_string())));
        }
        self.check(&wanted)?;
        self.store(&Dynamic { wanted, path: path.to_owned() })?;
        Ok(Created { path: path.to_owned(), bytes: 0 })
    }

    /// Deletes a volume: its plugin deletes what it has created; a directory that was only registered stays. An unknown
    /// volume is gone already.
    ///
    /// # Errors
    /// If the plugin fails, or the change cannot be stored. The volume is kept then.
    pub(crate) async fn delete(&self, id: HostVolumeId) -> Result<(), VolumeError> {
        let Some(Dynamic { wanted, path }) = self.dynamics().get(&id).cloned() else { return Ok(()) };
        if !wanted.plugin.is_empty() {
            self.place.delete(&wanted, &path).await?;
        }
        self.change(|dynamics| drop(dynamics.remove(&id)))?;
        Ok(())
    }

    /// Checks that a volume can be added. Returns whether it is new.
    fn check(&self, wanted: &Wanted) -> Result<bool, VolumeError> {
        let dynamics = self.dynamics();
        let has_its_name =
            |volume: &&Dynamic| volume.wanted.id != wanted.id && volume.wanted.name == wanted.name;
        let is_static = self.settings.statics.iter().any(|volume| volume.name == wanted.name);
        if is_static || dynamics.values().any(|volume| has_its_name(&volume)) {
            return Err(VolumeError::NameTaken(quoted(&wanted.name)));
        }
        let is_new = !dynamics.contains_key(&wanted.id);
        if is_new && dynamics.len() >= VOLUMES_MAX {
            return Err(VolumeError::TooMany);
        }
        Ok(is_new)
    }

    fn store(&self, volume: &Dynamic) -> io::Result<()> {
        self.change(|dynamics| drop(dynamics.insert(volume.wanted.id, volume.clone())))
    }

    /// Changes the dynamic volumes, on the disk first.
    fn change(&self, change: impl FnOnce(&mut Dynamics)) -> io::Result<()> {
        let mut stored = self.dynamics();
        let mut changed = stored.clone();
        change(&mut changed);
        store::write(&self.file, &changed, Durability::Machine)?;
        *stored = changed;
        Ok(())
    }

    fn dynamics(&self) -> MutexGuard<'_, Dynamics> {
        self.dynamic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_dir(path: &str) -> bool {
    Path::new(path).is_dir()
}

#[cfg(test)]
mod tests;
