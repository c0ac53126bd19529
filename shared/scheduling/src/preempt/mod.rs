//! Preemption: which allocations of lower-priority jobs are stopped to free resources on a node (`docs/rules/scheduling.md`
//! §9).
//!
//! Shortages are resolved one by one in the order in which a placement meets them: ports, devices, and last CPU, memory
//! and disk. Victims accumulate; resources that earlier victims free count for later steps.

mod amounts;
mod devices;
mod network;
mod prospect;

use model::AllocId;
use model::alloc::Demand;
use model::job::Job;
use state::AllocRef;

pub(crate) use prospect::{Prospect, prospect};

use crate::place::World;
use crate::room::{Ask, Dimension, Draft, Exhausted, Offer};

/// Minimum difference between the priority of a job and the priority of its victims.
const PRIORITY_DELTA: u16 = 10;
/// Penalty of each victim of a group beyond the group's `migrate.max_parallel`.
const PENALTY: f64 = 50.0;
/// Steepness of the score's curve, and the net priority at its middle.
const STEEPNESS: f64 = 0.0048;
const MIDDLE: f64 = 2048.0;

/// An offer of a node after preemption.
#[derive(Debug)]
pub(crate) struct Preemption<'a> {
    pub(crate) offer: Offer,
    /// Amounts in use when the allocation was found to fit, including those of victims that free amounts.
    pub(crate) used: Demand,
    /// Empty if no preemption was necessary.
    pub(crate) victims: Vec<AllocRef<'a>>,
}

/// An allocation of another job on the node.
#[derive(Debug, Clone, Copy)]
struct Candidate<'a> {
    alloc: AllocRef<'a>,
    /// Priority of the job version that the allocation runs.
    priority: u16,
    /// Whether the priority is low enough for preemption.
    is_preemptible: bool,
    /// Penalty for preempting more of its group.
    penalty: f64,
}

/// Frees resources on a node where necessary; the error names the resource that is exhausted.
pub(crate) fn make_room<'a>(
    world: &World<'a>,
    slot: u32,
    ask: &Ask<'_>,
    id: AllocId,
    job: &Job,
) -> Result<Preemption<'a>, Exhausted> {
    let without_victims = || {
        let used = world.room.used_on(slot);
        Ok(Preemption { offer: world.room.offer(slot, ask, id)?, used, victims: Vec::new() })
    };
    if ask.is_plain() {
        // Nothing has to be preempted, or the node is too small even when empty.
        let unaided = without_victims();
        if unaided.is_ok() || !world.room.is_big_enough(slot, ask.demand) {
            return unaided;
        }
    }
    let candidates = candidates(world, slot, job);
    if !candidates.iter().any(|candidate| candidate.is_preemptible) {
        return without_victims();
    }
    make_room_from(world, slot, ask, id, candidates)
}

/// [`make_room`] with every step, on a node where nothing is known beforehand.
#[cfg(test)]
pub(crate) fn make_room_step_by_step<'a>(
    world: &World<'a>,
    slot: u32,
    ask: &Ask<'_>,
    id: AllocId,
    job: &Job,
) -> Result<Preemption<'a>, Exhausted> {
    make_room_from(world, slot, ask, id, candidates(world, slot, job))
}

/// Goes through the steps of a placement and preempts candidates where one fails.
fn make_room_from<'a>(
    world: &World<'a>,
    slot: u32,
    ask: &Ask<'_>,
    id: AllocId,
    mut candidates: Vec<Candidate<'a>>,
) -> Result<Preemption<'a>, Exhausted> {
    let mut victims: Vec<AllocRef<'a>> = Vec::new();
    let mut draft = world.room.draft(slot, id);
    draft.check_node()?;
    if let Some(network) = ask.network {
        let step = |draft: &mut Draft<'_>| draft.group_network(network);
        retry(&mut draft, &mut candidates, &mut victims, step, |draft, candidates| {
            network::victims(draft, network, candidates)
        })?;
    }
    for task in &ask.tasks {
        if let Some(network) = task.network {
            let step = |draft: &mut Draft<'_>| draft.task_network(network);
            retry(&mut draft, &mut candidates, &mut victims, step, |draft, candidates| {
                network::victims(draft, network, candidates)
            })?;
        }
        // First without preemption, then request by request.
        if draft.task_devices(task).is_err() {
            for request in &task.devices {
                let step = |draft: &mut Draft<'_>| draft.device(task.name, request);
                retry(&mut draft, &mut candidates, &mut victims, step, |draft, candidates| {
                    devices::victims(draft, request, candidates)
                })?;
            }
        }
        draft.task_cores(task)?;
    }
    let used = draft.used;
    if let Some(dimension) = draft.shortage(ask.demand) {
        let exhausted = |dimension: Dimension| Exhausted(dimension.as_str().into());
        let wanted = draft.demand(ask.demand);
        let found = amounts::victims(&draft, wanted, &candidates);
        if found.is_empty() {
            return Err(exhausted(dimension));
        }
        remove_victims(&mut draft, &mut candidates, &mut victims, found);
        if let Some(dimension) = draft.shortage(ask.demand) {
            return Err(exhausted(dimension));
        }
    }
    Ok(Preemption { offer: draft.finish(ask.demand), used, victims })
}

/// Score of a placement that preempts these allocations.
pub(crate) fn score(victims: &[AllocRef<'_>]) -> f64 {
    score_of(victims.iter().map(|alloc| f64::from(alloc.job().spec.priority)))
}

/// The score of victims with these priorities.
fn score_of(priorities: impl Iterator<Item = f64> + Clone) -> f64 {
    let max = priorities.clone().fold(0.0, f64::max);
    let net = if max > 0.0 { max + priorities.sum::<f64>() / max } else { 0.0 };
    1.0 / (1.0 + e_to(STEEPNESS * (net - MIDDLE)))
}

/// eˣ with the same result on every machine.
fn e_to(x: f64) -> f64 {
    crate::rank::ten_to(x * std::f64::consts::LOG10_E)
}

/// Whether a job may preempt allocations of another job with this priority.
fn is_preemptible(priority: u16, by: &Job) -> bool {
    priority.saturating_add(PRIORITY_DELTA) <= by.spec.priority
}

fn candidates<'a>(world: &World<'a>, slot: u32, job: &Job) -> Vec<Candidate<'a>> {
    let own = job.key();
    let others = world.room.stored_allocs(slot).filter(|alloc| *alloc.job_key() != own);
    let mut candidates: Vec<Candidate<'a>> = others
        .map(|alloc| {
            let of = alloc.job().spec.priority;
            let is_preemptible = is_preemptible(of, job);
            let penalty = if is_preemptible { penalty(world, alloc) } else { 0.0 };
            Candidate { alloc, priority: of, is_preemptible, penalty }
        })
        .collect();
    candidates.sort_unstable_by_key(|candidate| (candidate.priority, candidate.alloc.id()));
    candidates
}

/// The penalty for preempting one more allocation of the same group.
fn penalty(world: &World<'_>, alloc: AllocRef<'_>) -> f64 {
    let gone = world.victims_of(alloc);
    if gone == 0 {
        return 0.0;
    }
    let most =
        alloc.group().and_then(|group| group.migrate.as_ref()).map_or(0, |migrate| migrate.max_parallel);
    match most > 0 && gone >= most {
        true => PENALTY * f64::from(gone + 1 - most),
        false => 0.0,
    }
}

/// Runs a step. If it fails, preempts what `find` returns and runs the step once more.
fn retry<'r, 'a>(
    draft: &mut Draft<'r>,
    candidates: &mut Vec<Candidate<'a>>,
    victims: &mut Vec<AllocRef<'a>>,
    mut step: impl FnMut(&mut Draft<'r>) -> Result<(), Exhausted>,
    find: impl FnOnce(&Draft<'r>, &[Candidate<'a>]) -> Vec<AllocRef<'a>>,
) -> Result<(), Exhausted> {
    let before = draft.clone();
    let Err(exhausted) = step(draft) else { return Ok(()) };
    *draft = before;
    let found = find(draft, candidates);
    if found.is_empty() {
        return Err(exhausted);
    }
    remove_victims(draft, candidates, victims, found);
    step(draft)
}

fn remove_victims<'a>(
    draft: &mut Draft<'_>,
    candidates: &mut Vec<Candidate<'a>>,
    victims: &mut Vec<AllocRef<'a>>,
    found: Vec<AllocRef<'a>>,
) {
    candidates.retain(|candidate| !found.iter().any(|alloc| alloc.id() == candidate.alloc.id()));
    found.iter().for_each(|alloc| draft.release(*alloc));
    victims.extend(found);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked examples of the preemption score.
    #[test]
    fn fewer_and_less_important_victims_are_worth_more() {
        for (priorities, expected) in
            [(&[50.0][..], 0.999_931), (&[50.0, 60.0], 0.999_928), (&[90.0, 90.0, 90.0], 0.999_916)]
        {
            assert!((score_of(priorities.iter().copied()) - expected).abs() < 5e-7, "{priorities:?}");
        }
    }
}
