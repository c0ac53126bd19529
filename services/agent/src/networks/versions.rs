//! The versions of the plugins on this machine. A plugin is asked once, and again when its file has changed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use super::plugin::Plugins;

/// When a file was changed, and its size.
type Stamp = (Option<SystemTime>, u64);

/// What is known of plugins, by their programs.
#[derive(Debug, Default)]
pub(crate) struct Versions(Mutex<BTreeMap<PathBuf, (Stamp, Option<String>)>>);

impl Versions {
    /// The version of a plugin; `None` if there is none of this name.
    pub(crate) async fn of(&self, plugins: &Plugins, name: &str) -> Option<String> {
        self.of_program(plugins, plugins.find(name).ok()?).await
    }

    /// The versions of all plugins, by name.
    pub(crate) async fn all(&self, plugins: &Plugins) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for (name, path) in plugins.all() {
            if let Some(version) = self.of_program(plugins, path).await {
                found.insert(name, version);
            }
        }
        found
    }

    async fn of_program(&self, plugins: &Plugins, path: PathBuf) -> Option<String> {
        let file = std::fs::metadata(&path).ok()?;
        let stamp = (file.modified().ok(), file.len());
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&path).cloned();
        if let Some((_, version)) = known.filter(|(known, _)| *known == stamp) {
            return version;
        }
        let version = plugins.version(&path).await;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(path, (stamp, version.clone()));
        version
    }
}
