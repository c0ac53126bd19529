//! Victims that free CPU, memory and disk (`docs/rules/scheduling.md` §9.2).

use model::alloc::Demand;
use state::AllocRef;

use super::Candidate;
use crate::room::Draft;

/// Amounts that may be negative.
#[derive(Debug, Clone, Copy)]
struct Amounts {
    cpu: f64,
    memory: f64,
    disk: f64,
}

impl Amounts {
    fn of(demand: Demand) -> Self {
        let [cpu, memory, disk] = [demand.cpu_mhz, demand.memory_mb, demand.disk_mb].map(f64::from);
        Self { cpu, memory, disk }
    }

    fn plus(self, other: Self) -> Self {
        Self { cpu: self.cpu + other.cpu, memory: self.memory + other.memory, disk: self.disk + other.disk }
    }

    fn minus(self, other: Self) -> Self {
        Self { cpu: self.cpu - other.cpu, memory: self.memory - other.memory, disk: self.disk - other.disk }
    }

    fn covers(self, ask: Self) -> bool {
        self.cpu >= ask.cpu && self.memory >= ask.memory && self.disk >= ask.disk
    }

    /// The distance of `x` from this request.
    fn distance(self, x: Self) -> f64 {
        let part = |ask: f64, x: f64| if ask > 0.0 { (ask - x) / ask } else { 0.0 };
        let parts = [part(self.memory, x.memory), part(self.cpu, x.cpu), part(self.disk, x.disk)];
        parts.iter().map(|part| part * part).sum::<f64>().sqrt()
    }
}

/// The victims that free `ask`; empty if there is no solution. `candidates` are sorted by priority.
pub(super) fn victims<'a>(draft: &Draft<'_>, ask: Demand, candidates: &[Candidate<'a>]) -> Vec<AllocRef<'a>> {
    let (page, bit) = draft.node.page();
    let remaining = Amounts::of(page.capacity(bit)).minus(Amounts::of(draft.used));
    let ask = Amounts::of(ask);
    let preemptible: Vec<Candidate<'a>> =
        candidates.iter().filter(|candidate| candidate.is_preemptible).copied().collect();
    let amounts = |candidate: &Candidate<'_>| Amounts::of(candidate.alloc.demand());

    // Pick candidates by ascending priority and then by distance, until the request is met.
    let (mut need, mut available) = (ask, remaining);
    let mut picks: Vec<Candidate<'a>> = Vec::new();
    let mut is_met = false;
    for group in preemptible.chunk_by(|a, b| a.priority == b.priority) {
        let mut left = group.to_vec();
        while !is_met && !left.is_empty() {
            let cost = |candidate: &Candidate<'_>| need.distance(amounts(candidate)) + candidate.penalty;
            let nearest = (0..left.len()).min_by(|a, b| cost(&left[*a]).total_cmp(&cost(&left[*b])));
            let Some(nearest) = nearest else { break };
            let pick = left.remove(nearest);
            available = available.plus(amounts(&pick));
            need = need.minus(amounts(&pick));
            picks.push(pick);
            is_met = available.covers(ask);
        }
    }
    if !is_met {
        return Vec::new();
    }

    // Large picks may make others unnecessary.
    picks.sort_by(|a, b| ask.distance(amounts(b)).total_cmp(&ask.distance(amounts(a))));
    let mut available = remaining;
    let mut needed = Vec::new();
    for pick in picks {
        available = available.plus(amounts(&pick));
        needed.push(pick.alloc);
        if available.covers(ask) {
            break;
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of.
    #[test]
    fn distance_is_relative_to_the_request() {
        let all = |value| Amounts { cpu: value, memory: value, disk: value };
        assert!((all(4.0).distance(all(2.0)) - 0.75f64.sqrt()).abs() < 1e-15);
        assert_eq!(all(0.0).distance(all(2.0)), 0.0);
    }
}
