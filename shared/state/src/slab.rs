//! [`Slab`]: a persistent vector of entries whose slots are reused. An entry keeps its slot until it is removed.

use std::ops::Index;

use crate::chunked::Chunked;

/// Entries in numbered slots. A clone costs a few reference counts and does not see later changes of the original.
#[derive(Debug, Clone)]
pub(crate) struct Slab<T: Clone> {
    entries: Chunked<Entry<T>>,
    /// The vacant slot that is used next. Vacant slots form a linked list.
    next_vacant: Option<u32>,
}

#[derive(Debug, Clone)]
enum Entry<T> {
    Occupied(T),
    /// A vacant slot, with the number of the next one in the list.
    Vacant(Option<u32>),
}

impl<T: Clone> Slab<T> {
    /// Inserts an entry and returns its slot.
    pub(crate) fn insert(&mut self, entry: T) -> u32 {
        let Some(slot) = self.next_vacant else { return self.entries.push(Entry::Occupied(entry)) as u32 };
        let Entry::Vacant(next) = self.replace(slot, Entry::Occupied(entry)) else {
            unreachable!("the list contains only vacant slots")
        };
        self.next_vacant = next;
        slot
    }

    /// Removes the entry in `slot` and returns it.
    ///
    /// # Panics
    /// If the slot is vacant.
    pub(crate) fn remove(&mut self, slot: u32) -> T {
        let next = self.next_vacant.replace(slot);
        let Entry::Occupied(entry) = self.replace(slot, Entry::Vacant(next)) else { vacant(slot) };
        entry
    }

    /// The entry in `slot`, for modification. Clones do not see the change.
    ///
    /// # Panics
    /// If the slot is vacant.
    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut T {
        match self.entries.get_mut(slot as usize) {
            Some(Entry::Occupied(entry)) => entry,
            Some(Entry::Vacant(_)) | None => vacant(slot),
        }
    }

    /// All entries, in the order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Occupied(entry) => Some(entry),
            Entry::Vacant(_) => None,
        })
    }

    /// Approximate heap memory in bytes. Memory shared with clones counts in full; memory that entries point to does not
    /// count.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.entries.heap_bytes()
    }

    fn replace(&mut self, slot: u32, by: Entry<T>) -> Entry<T> {
        let entry = self.entries.get_mut(slot as usize).unwrap_or_else(|| vacant(slot));
        std::mem::replace(entry, by)
    }
}

impl<T: Clone> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        match &self.entries[slot as usize] {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(_) => vacant(slot),
        }
    }
}

impl<T: Clone> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Chunked::default(), next_vacant: None }
    }
}

#[cold]
fn vacant(slot: u32) -> ! {
    unreachable!("indexes refer to occupied slots only, but slot {slot} is vacant")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_their_slots_and_vacant_slots_are_reused() {
        let mut slab = Slab::default();
        let slots: Vec<u32> = (0..100).map(|n| slab.insert(n)).collect();
        assert_eq!((slab.remove(slots[7]), slab.remove(slots[3])), (7, 3));
        let before = slab.clone();
        assert_eq!((slab.insert(-3), slab.insert(-7)), (slots[3], slots[7]));
        *slab.get_mut(slots[50]) = 0;
        assert_eq!(slab.insert(100), 100, "without a vacant slot, a new one is added");
        assert_eq!((slab[slots[3]], slab[slots[7]], slab[slots[50]]), (-3, -7, 0));
        assert_eq!((before.iter().count(), before[slots[50]]), (98, 50), "the clone is unchanged");
    }
}
