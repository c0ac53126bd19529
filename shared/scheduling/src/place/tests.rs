//! One pass with a heap against k full passes.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use model::NodeId;
use model::job::Port;

use super::*;
use crate::scene::Scene;

/// The obvious way: all nodes looked at for each allocation.
fn choose_by_full_pass(
    candidates: &mut Candidates<'_>,
    room: &mut Room<'_>,
    wish: Wish<'_>,
) -> Option<Chosen> {
    let pages = room.pages;
    let mut all: Vec<Entry> = Vec::new();
    for slot in slots(&candidates.feasible).collect::<Vec<_>>() {
        let (page, place) = (slot as usize / PAGE, slot as usize % PAGE);
        let fit = candidates.ranking.fit(pages[page], room.used(page), place);
        candidates.fits[page].set(place, fit);
        if room.short(slot, candidates.ask).is_none() {
            let rank = candidates.rank(slot, wish.penalised.contains(&slot));
            all.push(Entry { rank, ..candidates.entry(pages[page], slot) });
        }
    }
    all.sort_unstable();
    if let Some(slot) = wish.preferred {
        let preferred = all.iter().position(|entry| entry.slot == slot);
        all.extend(preferred.map(|place| all[place]));
    }
    let offered = all
        .into_iter()
        .rev()
        .find_map(|entry| Some((entry.slot, candidates.offer(room, entry.slot, wish.id).ok()?)));
    let (slot, assigned) = offered?;
    candidates.take(room, slot, &assigned, false);
    Some(Chosen { slot, assigned })
}

#[derive(Debug, Clone)]
struct Cluster {
    /// MHz, MB and dynamic ports of each node.
    nodes: Vec<(u32, u32, u16)>,
    ask: (u32, u32),
    ports: usize,
    static_port: bool,
    affinity: bool,
}

fn cluster() -> impl Strategy<Value = Cluster> {
    let node = (1u32..6, 1u32..6, 1u16..4);
    (vec(node, 1..90), (1u32..5, 1u32..5), 0usize..3, any::<bool>(), any::<bool>()).prop_map(
        |(nodes, ask, ports, static_port, affinity)| Cluster { nodes, ask, ports, static_port, affinity },
    )
}

impl Cluster {
    fn scene(&self) -> Scene {
        let mut scene = Scene::default().count(10).job_with(|spec| {
            let group = &mut spec.task_groups[0];
            group.tasks[0].resources.cpu_mhz = self.ask.0 * 100;
            group.tasks[0].resources.memory_mb = self.ask.1 * 100;
            if self.ports > 0 || self.static_port {
                let port = Port { label: "http".into(), ..Port::default() };
                group.networks.push(NetworkResource {
                    dynamic_ports: vec![port.clone(); self.ports],
                    reserved_ports: vec![Port { value: 80, ..port }; usize::from(self.static_port)],
                    ..NetworkResource::default()
                });
            }
            if self.affinity {
                spec.affinities.push(model::job::Affinity {
                    l_target: "${node.unique.name}".into(),
                    r_target: "[13579]$".into(),
                    operand: model::job::Operand::Regexp,
                    weight: 50,
                });
            }
        });
        for (number, (cpu, memory, ports)) in (1..).zip(&self.nodes) {
            scene = scene.node_with(number, |spec| {
                spec.resources.cpu.cpu_mhz = cpu * 500;
                spec.resources.memory_mb = memory * 500;
                spec.resources.dynamic_port_min = 1_000;
                spec.resources.dynamic_port_max = 999 + ports;
            });
        }
        scene
    }
}

/// Who is placed where, with which ports: by the heap, or by a full pass for each.
fn place_all(scene: &Scene, wishes: &[(Vec<u8>, Option<u8>)], by_heap: bool) -> Vec<Option<Chosen>> {
    let (state, spec) = (scene.state(), scene.job_spec());
    let pages: Vec<&NodePage> = state.node_pages().collect();
    let feasible: Vec<u64> = pages.iter().map(|page| page.ready).collect();
    let group = &spec.task_groups[0];
    let ask = common_share(&state, &spec, group).demand();
    let others = vec![0; pages.len() * PAGE];
    let mut room = Room::of(&state, &pages);
    let mut candidates = Candidates::new(&state, scene.eval(), (&spec, group), ask, &pages, feasible, others);
    candidates.rank_all(&room);
    let slot = |number: &u8| {
        let id = NodeId::from_bytes([1 + number % state.node_count() as u8; 16]);
        state.node(id).unwrap().slot()
    };
    (0u64..)
        .zip(wishes)
        .map(|(number, (penalised, preferred))| {
            let penalised: Vec<u32> = penalised.iter().map(slot).collect();
            let id = AllocId::from_bytes(u128::from(hash::mix(number)).to_be_bytes());
            let wish = Wish { id, penalised: &penalised, preferred: preferred.as_ref().map(slot) };
            match by_heap {
                true => candidates.choose(&mut room, wish),
                false => choose_by_full_pass(&mut candidates, &mut room, wish),
            }
        })
        .collect()
}

fn wish() -> impl Strategy<Value = (Vec<u8>, Option<u8>)> {
    let penalised = prop_oneof![4 => Just(Vec::new()), 1 => vec(any::<u8>(), 1..4)];
    (penalised, prop_oneof![9 => Just(None), 1 => any::<u8>().prop_map(Some)])
}

proptest! {
    #[test]
    fn one_pass_chooses_what_a_full_pass_for_each_would(cluster in cluster(), wishes in vec(wish(), 1..60)) {
        let scene = cluster.scene();
        prop_assert_eq!(place_all(&scene, &wishes, true), place_all(&scene, &wishes, false));
    }

    #[test]
    fn no_node_is_over_capacity_and_no_port_is_given_twice(cluster in cluster(), wishes in vec(wish(), 1..60)) {
        let scene = cluster.scene();
        let placed: Vec<Chosen> = place_all(&scene, &wishes, true).into_iter().flatten().collect();
        let mut ports: BTreeMap<(u32, u16), u32> = BTreeMap::new();
        let mut used: BTreeMap<u32, u32> = BTreeMap::new();
        for chosen in &placed {
            *used.entry(chosen.slot).or_default() += 1;
            for port in &chosen.assigned.ports {
                *ports.entry((chosen.slot, port.value)).or_default() += 1;
            }
        }
        prop_assert!(ports.values().all(|times| *times == 1));
        let state = scene.state();
        for (slot, times) in used {
            let has = state.node_at(slot).unwrap().capacity();
            prop_assert!(times * cluster.ask.0 * 100 <= has.cpu_mhz && times * cluster.ask.1 * 100 <= has.memory_mb);
        }
    }
}
