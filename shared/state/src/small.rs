//! [`SmallObjects`]: the tables of small objects, a map by key for each kind.

use std::sync::Arc;

use model::change::SmallChange;
use model::small_object::ObjectWrite;
use model::{AllocId, SmallObject};

use crate::btree::BTree;

/// A kind of small object that the state has a table of: every kind in [`model::for_each_small_object`].
pub trait Stored: SmallObject {
    /// The objects of the kind.
    fn table(objects: &SmallObjects) -> &SmallTable<Self>;
}

/// The objects of a kind.
#[derive(Debug)]
pub struct SmallTable<T: SmallObject> {
    by_key: BTree<T::Key, Arc<T>>,
    /// The keys of the objects of each allocation, sorted, for kinds whose objects belong to one ([`SmallObject::owner`]).
    by_owner: BTree<AllocId, Arc<Vec<T::Key>>>,
}

impl<T: SmallObject> Default for SmallTable<T> {
    fn default() -> Self {
        Self { by_key: BTree::default(), by_owner: BTree::default() }
    }
}

impl<T: SmallObject> Clone for SmallTable<T> {
    fn clone(&self) -> Self {
        Self { by_key: self.by_key.clone(), by_owner: self.by_owner.clone() }
    }
}

impl<T: SmallObject> SmallTable<T> {
    /// The objects by key.
    pub(crate) fn by_key(&self) -> &BTree<T::Key, Arc<T>> {
        &self.by_key
    }

    /// The keys of the objects that belong to an allocation, sorted.
    pub(crate) fn keys_of(&self, owner: AllocId) -> &[T::Key] {
        self.by_owner.get(&owner).map_or(&[], |keys| keys.as_slice())
    }

    fn apply(&mut self, write: ObjectWrite<'_, T>) {
        match write {
            ObjectWrite::Put(object) => {
                self.add_owned(object);
                self.by_key.insert(object.key().clone(), Arc::new(object.clone()));
            }
            ObjectWrite::Deleted(key) => {
                if let Some(removed) = self.by_key.remove(key) {
                    self.remove_owned(&removed);
                }
            }
        }
    }

    fn add_owned(&mut self, object: &T) {
        let Some(owner) = object.owner() else { return };
        let Err(position) = self.keys_of(owner).binary_search(object.key()) else { return };
        let mut keys = self.keys_of(owner).to_vec();
        keys.insert(position, object.key().clone());
        self.by_owner.insert(owner, Arc::new(keys));
    }

    fn remove_owned(&mut self, object: &T) {
        let Some(owner) = object.owner() else { return };
        let keys: Vec<T::Key> =
            self.keys_of(owner).iter().filter(|key| *key != object.key()).cloned().collect();
        if keys.is_empty() {
            self.by_owner.remove(&owner);
        } else {
            self.by_owner.insert(owner, Arc::new(keys));
        }
    }
}

macro_rules! small_objects {
    ($( $one:ident, $all:ident: $small:ident { $put:ident, $deleted:ident } of $object:ty; )+) => {
        /// The small objects of a state.
        #[derive(Debug, Clone, Default)]
        pub struct SmallObjects {
            $( $all: SmallTable<$object>, )+
        }

        impl SmallObjects {
            /// Stores a change of an object of any kind.
            pub(crate) fn apply(&mut self, change: SmallChange<'_>) {
                match change {
                    $( SmallChange::$small(write) => self.$all.apply(write), )+
                }
            }
        }

        $(
            impl Stored for $object {
                fn table(objects: &SmallObjects) -> &SmallTable<Self> {
                    &objects.$all
                }
            }
        )+
    };
}

model::for_each_small_object!(small_objects);

#[cfg(test)]
mod tests {
    use model::service::{ServiceKey, ServiceRegistration};
    use model::{Index, NodeId};

    use super::*;

    const FIRST: AllocId = AllocId::from_bytes([1; 16]);
    const SECOND: AllocId = AllocId::from_bytes([2; 16]);

    fn service(alloc_id: AllocId, name: &str, port: u16) -> ServiceRegistration {
        ServiceRegistration {
            key: ServiceKey {
                namespace: "default".into(),
                name: name.into(),
                id: format!("{alloc_id}-{name}").into(),
            },
            node_id: NodeId::from_bytes([3; 16]),
            datacenter: "dc1".into(),
            job_id: "web".into(),
            alloc_id,
            tags: Vec::new(),
            address: "10.0.0.1".into(),
            port,
            create_index: Index(1),
            modify_index: Index(1),
        }
    }

    fn names(table: &SmallTable<ServiceRegistration>, owner: AllocId) -> Vec<&str> {
        table.keys_of(owner).iter().map(|key| key.name.as_str()).collect()
    }

    #[test]
    fn objects_are_found_by_their_allocation() {
        let mut table = SmallTable::default();
        for object in [service(FIRST, "web", 80), service(SECOND, "web", 80), service(FIRST, "api", 80)] {
            table.apply(ObjectWrite::Put(&object));
        }
        assert_eq!((names(&table, FIRST), names(&table, SECOND)), (vec!["api", "web"], vec!["web"]));
        let before = table.clone();
        let changed = service(FIRST, "web", 81);
        table.apply(ObjectWrite::Put(&changed));
        assert_eq!(names(&table, FIRST), ["api", "web"], "a changed object is there once");
        assert_eq!(table.by_key().get(&changed.key).map(|object| object.port), Some(81));
        table.apply(ObjectWrite::Deleted(&changed.key));
        table.apply(ObjectWrite::Deleted(&changed.key));
        assert_eq!(names(&table, FIRST), ["api"]);
        table.apply(ObjectWrite::Deleted(&service(FIRST, "api", 80).key));
        assert_eq!((names(&table, FIRST).len(), names(&table, SECOND)), (0, vec!["web"]));
        assert_eq!(names(&before, FIRST), ["api", "web"], "a clone does not change");
    }
}
