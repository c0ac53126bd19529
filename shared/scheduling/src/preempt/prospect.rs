//! Whether preemption can make room on a node, found from sums of amounts and without choosing victims. Most nodes of a
//! pass need no more, because few of them are among the best.

use model::alloc::Demand;
use model::job::Job;

use super::{is_preemptible, score_of};
use crate::place::World;
use crate::room::{Ask, Dimension};

/// What preemption can achieve on a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Prospect {
    /// No victims free enough of the amounts; the first amount of which there is too little.
    Exhausted(Dimension),
    /// Victims are necessary and free enough. The score of the preemption is at most this one.
    Victims { score_max: f64 },
    /// Only an attempt to make room tells.
    Unknown,
}

/// The amounts that preempting all allocations of one priority frees.
#[derive(Debug, Clone, Copy)]
struct Band {
    priority: u16,
    freed: [u64; 3],
}

/// Tells what [`super::make_room`] can achieve on a node. The answer holds until the plan changes something there.
pub(crate) fn prospect(world: &World<'_>, slot: u32, ask: &Ask<'_>, job: &Job) -> Prospect {
    let room = &world.room;
    if !ask.is_plain() || !room.is_decided_by_amounts(slot) {
        return Prospect::Unknown;
    }
    let dimension = match room.shortage(slot, ask.demand) {
        None | Some(Dimension::Allocs | Dimension::Cores) => return Prospect::Unknown,
        Some(dimension) => dimension,
    };
    if !room.is_big_enough(slot, ask.demand) {
        return Prospect::Exhausted(dimension);
    }
    let (used, has) = (room.used_on(slot), room.node(slot).capacity());
    let needed = columns(used).into_iter().zip(columns(ask.demand)).map(|(used, ask)| used + ask);
    let mut missing = columns(has);
    missing.iter_mut().zip(needed).for_each(|(missing, needed)| *missing = needed.saturating_sub(*missing));
    match priority_needed(bands(world, slot, job), missing) {
        Some(priority) => Prospect::Victims { score_max: score_max(priority) },
        None => Prospect::Exhausted(dimension),
    }
}

/// What the preemptible allocations of a node hold, by priority.
fn bands(world: &World<'_>, slot: u32, job: &Job) -> Vec<Band> {
    let own = job.key();
    let mut bands: Vec<Band> = Vec::new();
    for alloc in world.room.stored_allocs(slot) {
        let priority = alloc.job().spec.priority;
        if !is_preemptible(priority, job) || *alloc.job_key() == own {
            continue;
        }
        let held = columns(alloc.demand());
        match bands.iter_mut().find(|band| band.priority == priority) {
            Some(band) => band.freed.iter_mut().zip(held).for_each(|(freed, held)| *freed += held),
            None => bands.push(Band { priority, freed: held }),
        }
    }
    bands
}

/// The lowest priority such that preempting everything up to it frees what is missing. Victims that suffice include one
/// of this priority or a higher one.
fn priority_needed(mut bands: Vec<Band>, mut missing: [u64; 3]) -> Option<u16> {
    bands.sort_unstable_by_key(|band| band.priority);
    for band in bands {
        missing
            .iter_mut()
            .zip(band.freed)
            .for_each(|(missing, freed)| *missing = missing.saturating_sub(freed));
        if missing == [0; 3] {
            return Some(band.priority);
        }
    }
    None
}

/// The score of the best victims whose highest priority is `priority` or more: a single one. The score of any others is
/// at most this one, bit for bit: their net priority is equal or differs by more than the error of the exponential.
fn score_max(priority: u16) -> f64 {
    score_of(std::iter::once(f64::from(priority)))
}

fn columns(demand: Demand) -> [u64; 3] {
    [demand.cpu_mhz, demand.memory_mb, demand.disk_mb].map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_priorities_are_preempted_first() {
        let band = |priority, cpu_mhz, memory_mb| Band { priority, freed: [cpu_mhz, memory_mb, 0] };
        let bands = || vec![band(40, 500, 500), band(20, 100, 900), band(30, 200, 0)];
        assert_eq!(priority_needed(bands(), [100, 900, 0]), Some(20));
        assert_eq!(priority_needed(bands(), [300, 900, 0]), Some(30));
        assert_eq!(priority_needed(bands(), [100, 901, 0]), Some(40));
        assert_eq!(priority_needed(bands(), [801, 0, 0]), None);
        assert_eq!(priority_needed(bands(), [0, 0, 1]), None);
    }

    #[test]
    fn no_victims_score_higher_than_one_of_the_priority_that_is_needed() {
        for priority in (0..200).chain([1_000, 2_047, 2_048, 5_000, 32_766]) {
            let most = score_max(priority);
            for other in [0, 1, priority / 2, priority, priority.saturating_add(1)] {
                let victims = [priority.max(other), other].map(f64::from);
                assert!(score_of(victims.into_iter()) <= most, "{victims:?}");
                assert!(score_of([victims[0]].into_iter()) <= most, "{victims:?}");
            }
        }
    }
}
