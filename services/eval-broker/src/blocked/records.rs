//! The state's unblock records: at which index each class, quota or resource last gained capacity, ordered by index
//!

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use model::Index;
use state::UnblockKey;

/// The last index at which each key gained capacity.
#[derive(Debug, Default)]
pub(super) struct Records {
    last: HashMap<Arc<UnblockKey>, Index>,
    in_order: BTreeSet<(Index, Arc<UnblockKey>)>,
}

impl Records {
    pub(super) fn new<'a>(records: impl Iterator<Item = (&'a UnblockKey, Index)>) -> Self {
        let mut all = Self::default();
        records.for_each(|(key, index)| all.add(key.clone(), index));
        all
    }

    pub(super) fn add(&mut self, key: UnblockKey, index: Index) {
        let key = Arc::new(key);
        if let Some(before) = self.last.insert(Arc::clone(&key), index) {
            self.in_order.remove(&(before, Arc::clone(&key)));
        }
        self.in_order.insert((index, key));
    }

    /// Keys that gained capacity after `index`.
    pub(super) fn after(&self, index: Index) -> impl Iterator<Item = &UnblockKey> {
        // The lowest entry of the next index, because no key sorts before an empty class.
        let start = (index.next(), Arc::new(UnblockKey::Class("".into())));
        self.in_order.range((Bound::Included(start), Bound::Unbounded)).map(|(_, key)| &**key)
    }

    pub(super) fn forget_before(&mut self, index: Index) {
        while self.in_order.first().is_some_and(|(oldest, _)| *oldest < index) {
            if let Some((_, key)) = self.in_order.pop_first() {
                self.last.remove(&key);
            }
        }
    }
}
