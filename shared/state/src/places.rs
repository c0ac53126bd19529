//! A persistent vector whose places are used again: entries keep their numbers until they are taken out.
//! Knows nothing of what an entry is; under which number something lies is for the tables to remember.

use std::ops::Index;

use crate::chunked::Chunked;

/// Numbered entries. Clones cost a few reference counts and keep what they saw.
#[derive(Debug, Clone)]
pub(crate) struct Places<T: Clone> {
    places: Chunked<Place<T>>,
    /// The free place that is used next.
    free: Option<u32>,
}

#[derive(Debug, Clone)]
enum Place<T> {
    Used(T),
    /// Nothing; the number of the next such place.
    Free(Option<u32>),
}

impl<T: Clone> Places<T> {
    /// Puts an entry somewhere, and says where.
    pub(crate) fn insert(&mut self, entry: T) -> u32 {
        let Some(number) = self.free else { return self.places.push(Place::Used(entry)) as u32 };
        let Place::Free(next) = self.replace(number, Place::Used(entry)) else {
            unreachable!("the list holds free places")
        };
        self.free = next;
        number
    }

    /// Takes out an entry.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn take(&mut self, number: u32) -> T {
        let next = self.free.replace(number);
        let Place::Used(entry) = self.replace(number, Place::Free(next)) else { no_entry(number) };
        entry
    }

    /// An entry, to be changed here and in no clone.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut T {
        match self.places.get_mut(number as usize) {
            Some(Place::Used(entry)) => entry,
            Some(Place::Free(_)) | None => no_entry(number),
        }
    }

    /// All entries, as they are numbered.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| match place {
            Place::Used(entry) => Some(entry),
            Place::Free(_) => None,
        })
    }

    /// Roughly the heap this takes in bytes, shared parts in full, what entries point to not at all.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.places.heap_bytes()
    }

    fn replace(&mut self, number: u32, by: Place<T>) -> Place<T> {
        let place = self.places.get_mut(number as usize).unwrap_or_else(|| no_entry(number));
        std::mem::replace(place, by)
    }
}

impl<T: Clone> Index<u32> for Places<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        match &self.places[number as usize] {
            Place::Used(entry) => entry,
            Place::Free(_) => no_entry(number),
        }
    }
}

impl<T: Clone> Default for Places<T> {
    fn default() -> Self {
        Self { places: Chunked::default(), free: None }
    }
}

#[cold]
fn no_entry(number: u32) -> ! {
    unreachable!("an index leads to an entry, and {number} is none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_their_numbers_and_places_are_used_again() {
        let mut places = Places::default();
        let numbers: Vec<u32> = (0..100).map(|n| places.insert(n)).collect();
        assert_eq!((places.take(numbers[7]), places.take(numbers[3])), (7, 3));
        let before = places.clone();
        assert_eq!((places.insert(-3), places.insert(-7)), (numbers[3], numbers[7]));
        *places.get_mut(numbers[50]) = 0;
        assert_eq!(places.insert(100), 100, "when none is free, there is one more");
        assert_eq!((places[numbers[3]], places[numbers[7]], places[numbers[50]]), (-3, -7, 0));
        assert_eq!((before.iter().count(), before[numbers[50]]), (98, 50), "as it was");
    }
}
