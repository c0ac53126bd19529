//! The base set of a job: ready nodes of the job's pool and datacenters (`docs/rules/scheduling.md` ).

use std::collections::BTreeMap;

use model::Text;
use model::cluster::NodePool;
use model::job::JobSpec;
use model::text::matches_pattern;
use state::{NodePage, NodeRef, PAGE, State};

use crate::columns::{bits, equal_to};

/// Number of datacenters of a page that are handled for all of its nodes at once.
const DATACENTERS_AT_ONCE: usize = 2;

/// A job's base set, with its counts for metrics.
#[derive(Debug)]
pub(crate) struct BaseNodes {
    /// The set, a word for each page.
    pub(crate) words: Vec<u64>,
    /// Number of nodes in the set.
    pub(crate) count: u32,
    /// Number of nodes by datacenter; datacenters without nodes are omitted.
    pub(crate) by_datacenter: BTreeMap<Text, u32>,
    /// By number of a datacenter, whether it is one of the job's.
    datacenters: Vec<bool>,
    pool: Pool,
}

#[derive(Debug, Clone, Copy)]
enum Pool {
    All,
    /// The number of a pool; `None` if no node is in the pool.
    One(Option<u32>),
}

impl BaseNodes {
    pub(crate) fn of(state: &State, pages: &[&NodePage], spec: &JobSpec) -> Self {
        let pool = match &*spec.node_pool {
            "" | NodePool::ALL => Pool::All,
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

    /// Whether the node in a slot is in the base set.
    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.words[slot as usize / PAGE] >> (slot as usize % PAGE) & 1 != 0
    }

    /// Whether a node is in the job's pool and datacenters, ready or not.
    pub(crate) fn covers(&self, node: NodeRef<'_>) -> bool {
        let (page, bit) = node.page();
        let of_pool = match self.pool {
            Pool::All => true,
            Pool::One(number) => number == Some(page.pool[bit]),
        };
        of_pool && self.datacenters[page.datacenter[bit] as usize]
    }
}

/// The nodes of a page whose datacenter is `wanted`; adds their numbers to `counts`. `wanted` and `counts` are indexed by
/// the number of the datacenter.
fn in_datacenters(page: &NodePage, nodes: u64, wanted: &[bool], counts: &mut [u32]) -> u64 {
    let (mut found, mut rest) = (0, nodes);
    // Pages mostly have few datacenters, so all nodes of one datacenter are handled at once.
    for _ in 0..DATACENTERS_AT_ONCE {
        let Some(first) = bits(rest).next() else { return found };
        let datacenter = page.datacenter[first];
        let same = rest & equal_to(&page.datacenter, datacenter);
        if wanted[datacenter as usize] {
            counts[datacenter as usize] += same.count_ones();
            found |= same;
        }
        rest &= !same;
    }
    for bit in bits(rest) {
        let datacenter = page.datacenter[bit] as usize;
        counts[datacenter] += u32::from(wanted[datacenter]);
        found |= u64::from(wanted[datacenter]) << bit;
    }
    found
}

fn in_pool(page: &NodePage, pool: Pool) -> u64 {
    match pool {
        Pool::All => u64::MAX,
        Pool::One(None) => 0,
        Pool::One(Some(number)) => equal_to(&page.pool, number),
    }
}
