//! Columns of nodes: the place of a node in the pages, counters for each node, and operations on all nodes of a page at
//! once, written without branches so that the compiler vectorizes them.

use state::{NodePage, PAGE, Usage};

/// The page of a slot, and the index in that page.
pub(crate) fn locate(slot: u32) -> (usize, usize) {
    (slot as usize / PAGE, slot as usize % PAGE)
}

/// One counter for each node. Only pages with a counter other than zero are stored, because nearly all counters are
/// zero.
#[derive(Debug)]
pub(crate) struct NodeCounters {
    pages: Vec<Option<Box<[u32; PAGE]>>>,
}

impl NodeCounters {
    /// Zero for every node of `pages` pages.
    pub(crate) fn new(pages: usize) -> Self {
        Self { pages: vec![None; pages] }
    }

    #[inline]
    pub(crate) fn at(&self, slot: u32) -> u32 {
        let (page, bit) = locate(slot);
        self.pages[page].as_ref().map_or(0, |page| page[bit])
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, slot: u32) -> &mut u32 {
        let (page, bit) = locate(slot);
        &mut self.pages[page].get_or_insert_with(|| Box::new([0; PAGE]))[bit]
    }

    /// Whether all counters of a page are zero.
    pub(crate) fn is_zero(&self, page: usize) -> bool {
        self.pages[page].as_ref().is_none_or(|page| page.iter().all(|number| *number == 0))
    }
}

/// The entry of `table` for the kind of each node of a page.
pub(crate) fn by_kind(page: &NodePage, table: &[u8]) -> [u8; PAGE] {
    page.kind.map(|kind| table[kind as usize])
}

/// Whether all nodes of a page have the same capacity and the same usage. This is common, because many nodes are empty
/// or full.
pub(crate) fn are_alike(page: &NodePage, used: &Usage) -> bool {
    let is_even = |column: &[u32; PAGE]| column.iter().fold(0, |differs, it| differs | (it ^ column[0])) == 0;
    let used_alike =
        || [&used.allocs, &used.cpu_mhz, &used.memory_mb, &used.disk_mb].into_iter().all(is_even);
    page.is_even() && (used.is_empty() || used_alike())
}

/// The set of nodes of a page whose CPU and memory capacity and usage equal those of the node at index `bit`.
pub(crate) fn equal_nodes(page: &NodePage, used: &Usage, bit: usize) -> u64 {
    let mut same = [1; PAGE];
    let columns: &[&[u32; PAGE]] = match page.is_even() {
        true => &[&used.cpu_mhz, &used.memory_mb],
        false => &[&used.cpu_mhz, &used.memory_mb, &page.cpu_mhz, &page.memory_mb],
    };
    for column in columns {
        for (same, value) in same.iter_mut().zip(*column) {
            *same &= u8::from(*value == column[bit]);
        }
    }
    pack_bits(&same)
}

/// The set of nodes of a page whose value in a column is `value`.
pub(crate) fn equal_to(column: &[u32; PAGE], value: u32) -> u64 {
    pack_bits(&column.map(|other| u8::from(other == value)))
}

/// Packs 64 bytes, each 0 or 1, into the bits of a word.
pub(crate) fn pack_bits(bytes: &[u8; PAGE]) -> u64 {
    /// Multiplication by this constant moves the lowest bits of eight bytes into the highest byte.
    const PACK: u64 = 0x0102_0408_1020_4080;
    let mut word = 0;
    for (number, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        word |= (u64::from_le_bytes(*eight).wrapping_mul(PACK) >> 56) << (number * 8);
    }
    word
}

/// Indexes of the set bits of a word, ascending.
pub(crate) fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if word == 0 {
            return None;
        }
        let bit = word.trailing_zeros() as usize;
        word &= word - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_zero_until_they_are_set() {
        let mut numbers = NodeCounters::new(2);
        assert_eq!((numbers.at(100), numbers.is_zero(1)), (0, true));
        *numbers.at_mut(100) += 3;
        assert_eq!((numbers.at(100), numbers.at(99), numbers.at(1)), (3, 0, 0));
        assert_eq!((numbers.is_zero(0), numbers.is_zero(1)), (true, false));
        *numbers.at_mut(100) -= 3;
        assert!(numbers.is_zero(1));
    }

    #[test]
    fn a_word_of_bytes() {
        let word = 1 | 1 << 9 | 1 << 30 | 1 << 63;
        let bytes: [u8; PAGE] = std::array::from_fn(|bit| (word >> bit & 1) as u8);
        assert_eq!(pack_bits(&bytes), word);
        assert_eq!(pack_bits(&[1; PAGE]), u64::MAX);
    }

    #[test]
    fn places_of_a_word() {
        assert_eq!(bits(1 | 1 << 5 | 1 << 63).collect::<Vec<_>>(), [0, 5, 63]);
    }
}
