//! Reads of small objects: for any kind, and by the name of each kind.

use std::borrow::Borrow;
use std::sync::Arc;

use model::{AllocId, SmallObject};

use crate::small::Stored;
use crate::tables::State;

impl State {
    /// The small object with a key.
    pub fn small_object<T: Stored, Q: Ord + ?Sized>(&self, key: &Q) -> Option<&Arc<T>>
    where
        T::Key: Borrow<Q>,
    {
        self.assert_in_scope(T::TABLE);
        T::table(&self.small).by_key().get(key)
    }

    /// All small objects of a kind, by key.
    pub fn small_objects<T: Stored>(&self) -> impl DoubleEndedIterator<Item = &Arc<T>> {
        self.assert_in_scope(T::TABLE);
        T::table(&self.small).by_key().values()
    }

    /// The small objects of a kind from a key on, by key.
    pub fn small_objects_from<'a, T: Stored>(
        &'a self,
        first: &T::Key,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<T>> + use<'a, T> {
        self.assert_in_scope(T::TABLE);
        T::table(&self.small).by_key().range::<T::Key>(first..).map(|(_, object)| object)
    }

    /// The small objects of a kind that belong to an allocation, by key.
    pub fn small_objects_of<T: Stored>(&self, owner: AllocId) -> impl Iterator<Item = &Arc<T>> {
        self.assert_in_scope(T::TABLE);
        let table = T::table(&self.small);
        table.keys_of(owner).iter().filter_map(|key| table.by_key().get(key))
    }
}

macro_rules! named_reads {
    ($( $one:ident, $all:ident: $small:ident { $put:ident, $deleted:ident } of $object:ty; )+) => {
        impl State {
            $(
                #[doc = concat!("The object of the table `", stringify!($all), "` with a key.")]
                pub fn $one<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&Arc<$object>>
                where
                    <$object as SmallObject>::Key: Borrow<Q>,
                {
                    self.small_object::<$object, Q>(key)
                }

                #[doc = concat!("All objects of the table `", stringify!($all), "`, by key.")]
                pub fn $all(&self) -> impl DoubleEndedIterator<Item = &Arc<$object>> {
                    self.small_objects::<$object>()
                }
            )+
        }
    };
}

model::for_each_small_object!(named_reads);
