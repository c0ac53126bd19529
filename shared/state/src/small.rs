//! [`SmallObjects`]: the tables of small objects, a map by key for each kind.

use std::sync::Arc;

use model::SmallObject;
use model::change::SmallChange;
use model::small_object::ObjectWrite;

use crate::btree::BTree;

/// A kind of small object that the state has a table of: every kind in [`model::for_each_small_object`].
pub trait Stored: SmallObject {
    /// The objects of the kind, by key.
    fn table(objects: &SmallObjects) -> &BTree<Self::Key, Arc<Self>>;
}

macro_rules! small_objects {
    ($( $one:ident, $all:ident: $small:ident { $put:ident, $deleted:ident } of $object:ty; )+) => {
        /// The small objects of a state.
        #[derive(Debug, Clone, Default)]
        pub struct SmallObjects {
            $( $all: BTree<<$object as SmallObject>::Key, Arc<$object>>, )+
        }

        impl SmallObjects {
            /// Stores a change of an object of any kind.
            pub(crate) fn apply(&mut self, change: SmallChange<'_>) {
                match change {
                    $( SmallChange::$small(write) => apply(&mut self.$all, write), )+
                }
            }
        }

        $(
            impl Stored for $object {
                fn table(objects: &SmallObjects) -> &BTree<Self::Key, Arc<Self>> {
                    &objects.$all
                }
            }
        )+
    };
}

model::for_each_small_object!(small_objects);

fn apply<T: SmallObject>(table: &mut BTree<T::Key, Arc<T>>, write: ObjectWrite<'_, T>) {
    match write {
        ObjectWrite::Put(object) => {
            table.insert(object.key().clone(), Arc::new(object.clone()));
        }
        ObjectWrite::Deleted(key) => {
            table.remove(key);
        }
    }
}
