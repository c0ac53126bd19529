//! Sums of the CPU and memory that blocked evaluations lack, for users and autoscalers.

use std::collections::BTreeMap;

use model::Text;
use model::eval::Evaluation;

/// Where resources are missing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Location {
    pub(crate) datacenter: Text,
    pub(crate) node_class: Text,
    pub(crate) node_pool: Text,
}

/// Missing resources by location.
#[derive(Debug, Default)]
pub(crate) struct Shortages {
    sums: BTreeMap<Location, Sum>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    evals: usize,
    cpu_mhz: u64,
    memory_mb: u64,
}

impl Shortages {
    pub(super) fn add(&mut self, eval: &Evaluation) {
        for (location, share) in shares(eval) {
            let sum = self.sums.entry(location).or_default();
            sum.evals += 1;
            sum.cpu_mhz += share.cpu_mhz;
            sum.memory_mb += share.memory_mb;
        }
    }

    /// Subtracts what [`Self::add`] added for the same evaluation.
    pub(super) fn remove(&mut self, eval: &Evaluation) {
        for (location, share) in shares(eval) {
            let Some(sum) = self.sums.get_mut(&location) else { continue };
            sum.evals -= 1;
            sum.cpu_mhz -= share.cpu_mhz;
            sum.memory_mb -= share.memory_mb;
            if sum.evals == 0 {
                self.sums.remove(&location);
            }
        }
    }

    /// Missing CPU in MHz and memory in MB, by location.
    pub(crate) fn sums(&self) -> impl Iterator<Item = (&Location, u64, u64)> {
        self.sums.iter().map(|(location, sum)| (location, sum.cpu_mhz, sum.memory_mb))
    }
}

/// CPU in MHz and memory in MB that the groups of an evaluation lack.
pub(super) fn shortage_of(eval: &Evaluation) -> (u64, u64) {
    let short = eval.failed_groups.values().flat_map(|metric| metric.resources_exhausted.values());
    short.fold((0, 0), |(cpu_mhz, memory_mb), short| {
        (cpu_mhz + u64::from(short.cpu_mhz), memory_mb + u64::from(short.memory_mb))
    })
}

/// The missing resources of each group of an evaluation, in each datacenter and node class that was considered.
fn shares(eval: &Evaluation) -> impl Iterator<Item = (Location, Sum)> {
    eval.failed_groups.values().flat_map(|metric| {
        let cpu_mhz = metric.resources_exhausted.values().map(|short| u64::from(short.cpu_mhz)).sum();
        let memory_mb = metric.resources_exhausted.values().map(|short| u64::from(short.memory_mb)).sum();
        let no_class = metric.class_exhausted.is_empty().then(Text::default);
        let classes: Vec<Text> = metric.class_exhausted.keys().cloned().chain(no_class).collect();
        metric.nodes_available.keys().flat_map(move |datacenter| {
            let location = |node_class: &Text| Location {
                datacenter: datacenter.clone(),
                node_class: node_class.clone(),
                node_pool: metric.node_pool.clone(),
            };
            let sum = Sum { evals: 1, cpu_mhz, memory_mb };
            classes.iter().map(|class| (location(class), sum)).collect::<Vec<_>>()
        })
    })
}
