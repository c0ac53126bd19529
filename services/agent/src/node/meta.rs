//! The node's metadata: the values of the configuration, overlaid by those that requests set, which are kept in the
//! state directory.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use model::Text;
use wire::meta::{self, NODE_META_BYTES_MAX};

use crate::disk::store::{self, Durability, Saved, Store};

/// The file with what requests have set.
const FILE: &str = "node-meta";

/// Values by key that requests have set; `None` hides a value of the configuration.
type Dynamic = BTreeMap<Text, Option<Text>>;

/// The node's metadata as it is at the moment. All clones show the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct CurrentMeta(Arc<RwLock<BTreeMap<Text, Text>>>);

impl CurrentMeta {
    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<Text> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// All values.
    pub(crate) fn all(&self) -> BTreeMap<Text, Text> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, meta: BTreeMap<Text, Text>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = meta;
    }
}

impl From<BTreeMap<Text, Text>> for CurrentMeta {
    fn from(meta: BTreeMap<Text, Text>) -> Self {
        Self(Arc::new(RwLock::new(meta)))
    }
}

impl PartialEq for CurrentMeta {
    fn eq(&self, other: &Self) -> bool {
        self.all() == other.all()
    }
}

impl Eq for CurrentMeta {}

/// Why the metadata cannot be changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    /// There would be too many.
    #[error("the metadata that requests have set would have more than {NODE_META_BYTES_MAX} bytes")]
    TooLarge,
    /// They cannot be written to the disk.
    #[error("cannot store the metadata")]
    Io(#[from] io::Error),
}

/// The node's metadata, which requests change.
#[derive(Debug)]
pub(crate) struct NodeMeta {
    path: PathBuf,
    statics: BTreeMap<Text, Text>,
    /// `None` until a request has set something.
    dynamic: Mutex<Option<Dynamic>>,
    current: CurrentMeta,
}

impl NodeMeta {
    /// Reads what requests have set in earlier runs of the agent. A file that cannot be read counts as absent; it is set
    /// aside.
    pub(crate) fn load(store: &Store, statics: BTreeMap<Text, Text>) -> Self {
        let path = store.file(FILE);
        let dynamic = match store::load::<Dynamic>(&path) {
            Saved::Read(dynamic) => Some(dynamic),
            Saved::Absent | Saved::Unreadable => None,
        };
        let current = CurrentMeta::from(merged(&statics, dynamic.as_ref()));
        Self { path, statics, dynamic: Mutex::new(dynamic), current }
    }

    /// The metadata as it is at the moment.
    pub(crate) fn current(&self) -> CurrentMeta {
        self.current.clone()
    }

    /// The metadata with its parts.
    pub(crate) fn shown(&self) -> meta::NodeMeta {
        let dynamic = self.dynamic.lock().unwrap_or_else(PoisonError::into_inner);
        let (dynamic, statics) = (dynamic.clone(), self.statics.clone());
        meta::NodeMeta { meta: merged(&statics, dynamic.as_ref()), dynamic, statics }
    }

    /// Sets and removes values. They are on the disk when this returns. Blocks while it writes.
    ///
    /// # Errors
    /// If they are too large, or cannot be written. Nothing has changed then.
    pub(crate) fn change(&self, changes: Dynamic) -> Result<(), ChangeError> {
        let mut stored = self.dynamic.lock().unwrap_or_else(PoisonError::into_inner);
        let mut dynamic = stored.clone().unwrap_or_default();
        for (key, value) in changes {
            if value.is_none() && !self.statics.contains_key(&key) {
                dynamic.remove(&key);
            } else {
                dynamic.insert(key, value);
            }
        }
        let bytes = dynamic
            .iter()
            .map(|(key, value)| key.len().saturating_add(value.as_ref().map_or(0, |value| value.len())));
        if bytes.fold(0, usize::saturating_add) > NODE_META_BYTES_MAX {
            return Err(ChangeError::TooLarge);
        }
        store::write(&self.path, &dynamic, Durability::Machine)?;
        self.current.set(merged(&self.statics, Some(&dynamic)));
        *stored = Some(dynamic);
        Ok(())
    }
}

/// The values of the configuration, overlaid by those that requests have set.
fn merged(statics: &BTreeMap<Text, Text>, dynamic: Option<&Dynamic>) -> BTreeMap<Text, Text> {
    let mut merged = statics.clone();
    for (key, value) in dynamic.into_iter().flatten() {
        match value {
            Some(value) => drop(merged.insert(key.clone(), value.clone())),
            None => drop(merged.remove(key)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pairs: &[(&str, &str)]) -> BTreeMap<Text, Text> {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    fn changes(pairs: &[(&str, Option<&str>)]) -> Dynamic {
        pairs.iter().map(|(key, value)| ((*key).into(), value.map(Text::from))).collect()
    }

    #[test]
    fn what_requests_set_overlays_the_configuration_and_survives_a_restart() {
        //
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let statics = texts(&[("rack", "r7"), ("zone", "a")]);
        let meta = NodeMeta::load(&store, statics.clone());
        assert_eq!((meta.shown().meta, meta.shown().dynamic), (statics.clone(), None));
        let current = meta.current();
        meta.change(changes(&[("rack", None), ("zone", Some("b")), ("new", Some("")), ("gone", None)]))
            .unwrap();
        assert_eq!(current.all(), texts(&[("new", ""), ("zone", "b")]));
        assert_eq!((current.get("zone").as_deref(), current.get("rack")), (Some("b"), None));

        let again = NodeMeta::load(&store, statics.clone());
        assert_eq!(again.current(), current);
        assert_eq!(
            again.shown().dynamic,
            Some(changes(&[("rack", None), ("zone", Some("b")), ("new", Some(""))]))
        );
        again.change(changes(&[("new", None), ("rack", Some("r8"))])).unwrap();
        assert_eq!(again.shown().meta, texts(&[("rack", "r8"), ("zone", "b")]));
        assert_eq!(again.shown().statics, statics);
    }

    #[test]
    fn metadata_that_grows_without_end_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let meta = NodeMeta::load(&store, BTreeMap::new());
        let long = "x".repeat(NODE_META_BYTES_MAX);
        let refused = meta.change(changes(&[("a", Some(&long))]));
        assert!(matches!(refused, Err(ChangeError::TooLarge)));
        assert_eq!(meta.shown().dynamic, None);
        assert!(meta.current().all().is_empty());
    }
}
