//! Victims that free ports and bandwidth (`docs/rules/scheduling.md` §9.3).

use std::collections::BTreeMap;

use model::Text;
use model::job::NetworkResource;
use state::AllocRef;

use super::Candidate;
use crate::room::Draft;

/// A candidate and its network.
#[derive(Debug)]
struct Holder<'a> {
    candidate: Candidate<'a>,
    network: NetworkResource,
}

/// The victims that free a network; empty if there is no solution.
pub(super) fn victims<'a>(
    draft: &Draft<'_>,
    ask: &NetworkResource,
    candidates: &[Candidate<'a>],
) -> Vec<AllocRef<'a>> {
    let mut blocked: BTreeMap<Text, Vec<u16>> = BTreeMap::new();
    let mut devices: BTreeMap<Text, Vec<Holder<'a>>> = BTreeMap::new();
    for candidate in candidates {
        let Some(network) = first_network(candidate.alloc) else { continue };
        let device = Text::clone(&network.device);
        if candidate.is_preemptible {
            devices.entry(device).or_default().push(Holder { candidate: *candidate, network });
        } else {
            let ports = network.reserved_ports.iter().map(|port| port.value);
            blocked.entry(device).or_default().extend(ports);
        }
    }
    let mut found = devices.iter().filter_map(|(device, holders)| {
        let blocked = blocked.get(device).map_or(&[][..], Vec::as_slice);
        of_device(draft, ask, device, (holders, blocked))
    });
    found.next().unwrap_or_default()
}

/// The network of an allocation that counts here, with its assigned ports.
fn first_network(alloc: AllocRef<'_>) -> Option<NetworkResource> {
    if !alloc.common().resources.has_networks() {
        return None;
    }
    let resources = alloc.resources();
    let of_tasks = resources.tasks.into_iter().flat_map(|task| task.networks);
    of_tasks.chain(resources.networks).next()
}

/// The victims on one network device: those that hold the static ports, then as many as the bandwidth needs (R-9.14,
///
fn of_device<'a>(
    draft: &Draft<'_>,
    ask: &NetworkResource,
    device: &str,
    (holders, blocked): (&[Holder<'a>], &[u16]),
) -> Option<Vec<AllocRef<'a>>> {
    let total = draft.node.spec().resources.networks.iter().find(|network| *network.device == *device);
    let total = total.map_or(0, |network| network.mbits);
    if total < ask.mbits {
        return None;
    }
    let free = total.saturating_sub(draft.discrete.ports.used_mbits(device));
    let mut picks: Vec<&Holder<'a>> = Vec::new();
    for port in &ask.reserved_ports {
        if blocked.contains(&port.value) {
            return None;
        }
        let holds =
            |holder: &&Holder<'_>| holder.network.reserved_ports.iter().any(|held| held.value == port.value);
        if let Some(holder) = holders.iter().find(holds)
            && !picks.iter().any(|pick| std::ptr::eq(*pick, holder))
        {
            picks.push(holder);
        }
    }
    let given = |picks: &[&Holder<'_>]| picks.iter().map(|pick| pick.network.mbits).sum::<u32>();
    if free + given(&picks) < ask.mbits {
        let mut others: Vec<&Holder<'a>> =
            holders.iter().filter(|holder| !picks.iter().any(|pick| std::ptr::eq(*pick, *holder))).collect();
        let cost = |holder: &Holder<'_>| distance(ask, &holder.network) + holder.candidate.penalty;
        others.sort_by(|a, b| {
            a.candidate.priority.cmp(&b.candidate.priority).then(cost(a).total_cmp(&cost(b)))
        });
        for holder in others {
            if free + given(&picks) >= ask.mbits {
                break;
            }
            picks.push(holder);
        }
    }
    (free + given(&picks) >= ask.mbits).then(|| needed(ask, free, picks))
}

/// Removes victims that larger ones make unnecessary. If no bandwidth is requested, all victims are kept.
fn needed<'a>(ask: &NetworkResource, free: u32, mut picks: Vec<&Holder<'a>>) -> Vec<AllocRef<'a>> {
    picks.sort_by(|a, b| distance(ask, &b.network).total_cmp(&distance(ask, &a.network)));
    let mut available = free;
    let mut needed = Vec::new();
    for pick in picks {
        available = available.saturating_add(pick.network.mbits);
        needed.push(pick.candidate.alloc);
        if ask.mbits > 0 && available >= ask.mbits {
            break;
        }
    }
    needed
}

fn distance(ask: &NetworkResource, held: &NetworkResource) -> f64 {
    if ask.mbits == 0 {
        return 0.0;
    }
    let [ask, held] = [ask.mbits, held.mbits].map(f64::from);
    ((ask - held) / ask).abs()
}
