//! The nodes that a job may run on at all: ready ones of its pool and its datacenters (`spec/scheduling.md` ).

use std::collections::BTreeMap;

use model::Text;
use model::job::JobSpec;
use model::text::matches_pattern;
use state::{NodePage, NodeRef, PAGE, State};

/// How many datacenters of a page are looked for in all of its nodes at once.
const DATACENTERS_AT_ONCE: usize = 2;
/// The pool that stands for every node.
const ALL_POOLS: &str = "all";

/// A job's base set, and how it is told.
#[derive(Debug)]
pub(crate) struct BaseNodes {
    /// The set, a word for each page.
    pub(crate) words: Vec<u64>,
    /// How many nodes there are in it.
    pub(crate) count: u32,
    /// The same by datacenter, less those without any.
    pub(crate) by_datacenter: BTreeMap<Text, u32>,
    /// Which datacenters are the job's, by number.
    datacenters: Vec<bool>,
    pool: Pool,
}

#[derive(Debug, Clone, Copy)]
enum Pool {
    All,
    /// By its number; `None` where no node is in it.
    One(Option<u32>),
}

impl BaseNodes {
    pub(crate) fn of(state: &State, pages: &[&NodePage], spec: &JobSpec) -> Self {
        let pool = match &*spec.node_pool {
            "" | ALL_POOLS => Pool::All,
            name => Pool::One(state.pools_in_use().number(name)),
        };
        let names =
            (0..state.datacenters().len() as u32).filter_map(|number| state.datacenters().name(number));
        let is_wanted = |name: &Text| spec.datacenters.iter().any(|pattern| matches_pattern(pattern, name));
        let datacenters: Vec<bool> = names.map(is_wanted).collect();
        let mut by_number = vec![0u32; datacenters.len()];
        let of_page = |page: &&NodePage| {
            in_datacenters(page, page.ready & in_pool(page, pool), &datacenters, &mut by_number)
        };
        let words: Vec<u64> = pages.iter().map(of_page).collect();
        let counted = by_number.iter().enumerate().filter(|(_, count)| **count > 0);
        let by_datacenter = counted.filter_map(|(number, count)| {
            Some((Text::clone(state.datacenters().name(number as u32)?), *count))
        });
        let by_datacenter = by_datacenter.collect();
        let count = by_number.iter().sum();
        Self { words, count, by_datacenter, datacenters, pool }
    }

    /// Whether the node in a slot is one of them.
    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.words[slot as usize / PAGE] >> (slot as usize % PAGE) & 1 != 0
    }

    /// Whether a node is of the job's pool and datacenters, ready or not.
    pub(crate) fn covers(&self, node: NodeRef<'_>) -> bool {
        let (page, place) = node.page();
        let of_pool = match self.pool {
            Pool::All => true,
            Pool::One(number) => number == Some(page.pool[place]),
        };
        of_pool && self.datacenters[page.datacenter[place] as usize]
    }
}

/// Those of a page's nodes that are in datacenters that are `wanted`, both by number; counts them.
fn in_datacenters(page: &NodePage, nodes: u64, wanted: &[bool], counts: &mut [u32]) -> u64 {
    let (mut there, mut rest) = (0, nodes);
    // Mostly there are few, of which all nodes of a page are taken at once.
    for _ in 0..DATACENTERS_AT_ONCE {
        let Some(first) = places(rest).next() else { return there };
        let datacenter = page.datacenter[first];
        let same = rest & equal_to(&page.datacenter, datacenter);
        if wanted[datacenter as usize] {
            counts[datacenter as usize] += same.count_ones();
            there |= same;
        }
        rest &= !same;
    }
    for place in places(rest) {
        let datacenter = page.datacenter[place] as usize;
        counts[datacenter] += u32::from(wanted[datacenter]);
        there |= u64::from(wanted[datacenter]) << place;
    }
    there
}

fn in_pool(page: &NodePage, pool: Pool) -> u64 {
    match pool {
        Pool::All => u64::MAX,
        Pool::One(None) => 0,
        Pool::One(Some(number)) => equal_to(&page.pool, number),
    }
}

/// The places of a page that have a value in a column.
fn equal_to(column: &[u32; PAGE], value: u32) -> u64 {
    word_of(&column.map(|other| u8::from(other == value)))
}

/// A bit for each byte, which is 0 or 1.
pub(crate) fn word_of(bytes: &[u8; PAGE]) -> u64 {
    /// Multiplied by it, the lowest bits of eight bytes come to lie side by side in the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut word = 0;
    for (number, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        word |= (u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56) << (number * 8);
    }
    word
}

/// The places whose bits are set, ascending.
pub(crate) fn places(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if word == 0 {
            return None;
        }
        let place = word.trailing_zeros() as usize;
        word &= word - 1;
        Some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_bytes() {
        let word = 1 | 1 << 9 | 1 << 30 | 1 << 63;
        let bytes: [u8; PAGE] = std::array::from_fn(|place| (word >> place & 1) as u8);
        assert_eq!(word_of(&bytes), word);
        assert_eq!(word_of(&[1; PAGE]), u64::MAX);
    }

    #[test]
    fn places_of_a_word() {
        assert_eq!(places(1 | 1 << 5 | 1 << 63).collect::<Vec<_>>(), [0, 5, 63]);
    }
}
