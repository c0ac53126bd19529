//! [`SmallObject`]: an object that is declared once. It gets its part of the state, of the log and of the object
//! tables, and its watches, lists and events, by that declaration.
//!
//! A kind suits if there are few objects of it, if an object changes as a whole, and if it is found by its key alone.
//! [`for_each_small_object!`](crate::for_each_small_object) lists the kinds.

use std::borrow::Cow;
use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::table::Table;
use crate::{AllocId, Index, Timestamp};

/// A kind of small object.
pub trait SmallObject:
    Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// Identifies an object of the kind.
    type Key: Clone + Debug + Ord + Send + Sync + 'static;
    /// The object in the JSON of the API.
    type Api: Serialize + 'static;

    /// The table of the state that the objects are in.
    const TABLE: Table;
    /// The word for one object in error messages.
    const NAME: &'static str;
    /// The topic of events about the objects (`docs/rules/http-api.md` §26.3), which is also the name of the object in
    /// the event's payload. `None` if there are no events about them.
    const TOPIC: Option<&'static str> = None;
    /// The types of events about an object that was created or changed, and of those about one that was deleted. `None` if
    /// events are named after the cause of their change set.
    const EVENT_TYPES: Option<[&'static str; 2]> = None;
    /// The name of the object in the payload of its events; `None` if that is the topic.
    const EVENT_MEMBER: Option<&'static str> = None;
    /// The columns of the object table that are its primary key.
    const KEY_COLUMNS: &'static [Column<Self::Key>];
    /// The further columns that people can query. Every table of small objects also has `create_index`, `modify_index`
    /// and `body`, the encoded object, which people cannot read.
    const COLUMNS: &'static [Column<Self>];

    /// The object's key.
    fn key(&self) -> &Self::Key;

    /// Index of the change set that created it.
    fn create_index(&self) -> Index;

    /// Index of the change set that last changed it.
    fn modify_index(&self) -> Index;

    /// The text by whose beginning an object is found: its name or its id.
    fn search_text(key: &Self::Key) -> Cow<'_, str>;

    /// The key of events about an object; unique among the objects of a topic.
    fn event_key(key: &Self::Key) -> Cow<'_, str> {
        Self::search_text(key)
    }

    /// The namespace that an object belongs to; empty if objects of the kind belong to none.
    fn namespace(_key: &Self::Key) -> &str {
        ""
    }

    /// The namespace of events about the object: that of its key, unless only the object knows it.
    fn event_namespace(&self) -> &str {
        Self::namespace(self.key())
    }

    /// Additional keys by which a topic finds events about the object (http-api §26.3).
    fn filter_keys(&self) -> Option<Vec<String>> {
        None
    }

    /// The allocation that the object belongs to, by which the state finds it; it never changes. `None` if objects of the
    /// kind are not found by allocation.
    fn owner(&self) -> Option<AllocId> {
        None
    }

    /// The object as the API shows it, in responses and in events.
    fn shape(&self) -> Self::Api;
}

/// A column of an object table, derived from a `T`.
pub struct Column<T> {
    /// The name of the column.
    pub name: &'static str,
    /// The content of the column in the row of a `T`.
    pub cell: Cell<T>,
}

/// How the content of a column is derived from a `T`, by type of the column.
pub enum Cell<T> {
    /// A `text`.
    Text(fn(&T) -> &str),
    /// A `bigint`.
    Number(fn(&T) -> i64),
    /// A `uuid`.
    Id(fn(&T) -> Option<Uuid>),
    /// A `timestamptz`; null if the time is not set.
    Time(fn(&T) -> Timestamp),
}

impl<T> Column<T> {
    /// A column of texts.
    pub const fn text(name: &'static str, cell: fn(&T) -> &str) -> Self {
        Self { name, cell: Cell::Text(cell) }
    }

    /// A column of numbers.
    pub const fn number(name: &'static str, cell: fn(&T) -> i64) -> Self {
        Self { name, cell: Cell::Number(cell) }
    }

    /// A column of ids.
    pub const fn id(name: &'static str, cell: fn(&T) -> Option<Uuid>) -> Self {
        Self { name, cell: Cell::Id(cell) }
    }

    /// A column of points in time.
    pub const fn time(name: &'static str, cell: fn(&T) -> Timestamp) -> Self {
        Self { name, cell: Cell::Time(cell) }
    }
}

/// A change of one small object.
#[derive(Debug)]
pub enum ObjectWrite<'a, T: SmallObject> {
    /// The object was created or changed.
    Put(&'a T),
    /// The object with this key was deleted.
    Deleted(&'a T::Key),
}

impl<T: SmallObject> Clone for ObjectWrite<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: SmallObject> Copy for ObjectWrite<'_, T> {}

impl<'a, T: SmallObject> ObjectWrite<'a, T> {
    /// The key of the object.
    pub fn key(self) -> &'a T::Key {
        match self {
            Self::Put(object) => object.key(),
            Self::Deleted(key) => key,
        }
    }
}

/// A hash that changes whenever the object does. Clients expect nothing else of it (`docs/rules/http-api.md` A.12).
pub(crate) fn hash(object: &impl SmallObject) -> api_types::Base64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(object).expect("plain data always serializes to JSON").hash(&mut hasher);
    api_types::Base64(hasher.finish().to_be_bytes().to_vec())
}
