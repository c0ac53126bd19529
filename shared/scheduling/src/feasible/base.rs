//! The nodes that a job may run on at all: ready ones of its pool and its datacenters (`spec/scheduling.md` ).

use std::collections::BTreeMap;

use model::Text;
use model::job::JobSpec;
use model::text::matches_pattern;
use state::{NodePage, NodeRef, PAGE, State};

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
        let words: Vec<u64> = pages
            .iter()
            .map(|page| {
                let mut word = page.ready & in_pool(page, pool);
                for place in places(word) {
                    let datacenter = page.datacenter[place] as usize;
                    if datacenters[datacenter] {
                        by_number[datacenter] += 1;
                    } else {
                        word &= !(1 << place);
                    }
                }
                word
            })
            .collect();
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

fn in_pool(page: &NodePage, pool: Pool) -> u64 {
    match pool {
        Pool::All => u64::MAX,
        Pool::One(None) => 0,
        Pool::One(Some(number)) => {
            (0..PAGE).fold(0, |word, place| word | u64::from(page.pool[place] == number) << place)
        }
    }
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
    fn places_of_a_word() {
        assert_eq!(places(1 | 1 << 5 | 1 << 63).collect::<Vec<_>>(), [0, 5, 63]);
    }
}
