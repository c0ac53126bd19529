//! The naive solver: for each placement it scores every node from the cluster's description and the plan so far. It
//! shares no code with the scheduler. It does not compute preemptions.

use std::collections::{BTreeMap, BTreeSet};

use model::alloc::{ClientStatus, Reason, Shortfall};
use model::cluster::SchedulerAlgorithm;

use super::cluster::{Cluster, Owner, TestGroup, TestNode, TestSpread};

/// The result of checking a node.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    Filtered(String),
    Exhausted(String),
    Scores(f64),
}

/// An allocation that the plan places.
#[derive(Debug, Clone)]
pub(super) struct NewAlloc {
    pub(super) node: usize,
    pub(super) group: usize,
    pub(super) ports: Vec<u16>,
    pub(super) gpus: Vec<u64>,
    pub(super) cores: Vec<u16>,
}

/// The plan so far.
#[derive(Debug, Default)]
pub(super) struct Naive {
    /// Allocations that are stopped or preempted.
    pub(super) gone: BTreeSet<usize>,
    pub(super) stopped: BTreeSet<usize>,
    pub(super) updated: Vec<usize>,
    pub(super) placed: Vec<NewAlloc>,
    /// Groups and classes whose reason was reported.
    reported: BTreeSet<(usize, String)>,
}

/// The resources that would be in use on a node.
struct Totals {
    lacks_cores: bool,
    /// CPU and memory of the new allocation.
    own: [u32; 2],
    cpu: u32,
    memory: u32,
    allocs: u32,
}

impl Totals {
    fn add(&mut self, cpu: u32, memory: u32) {
        self.cpu += cpu;
        self.memory += memory;
        self.allocs += 1;
    }
}

fn ended(client: ClientStatus) -> bool {
    matches!(client, ClientStatus::Failed | ClientStatus::Complete | ClientStatus::Lost)
}

fn class(cluster: &Cluster, node: usize) -> String {
    let spec = &cluster.nodes[node];
    format!("{}{:?}{}{}", spec.class, spec.rack, spec.gpus > 0, spec.has_driver)
}

/// Reasons against a node that do not depend on other allocations.
fn static_failures(cluster: &Cluster, group: &TestGroup, node: usize) -> Vec<String> {
    let spec = &cluster.nodes[node];
    let mut failures = Vec::new();
    if !spec.has_driver {
        failures.push("missing drivers".into());
    }
    if let Some(rack) = group.not_rack
        && spec.rack == Some(rack)
    {
        failures.push(format!("${{meta.rack}} != r{rack}"));
    }
    if group.gpus > spec.gpus.saturating_sub(1) {
        failures.push("missing devices".into());
    }
    failures
}

/// A reason against a node, and how much of an amount is missing.
type Obstacle = (Verdict, u32);

impl Naive {
    /// The verdict on each node for a placement, in the order of the nodes.
    pub(super) fn verdicts(
        &mut self,
        cluster: &Cluster,
        group: usize,
        penalised: Option<usize>,
    ) -> Vec<Verdict> {
        (0..cluster.nodes.len()).map(|node| self.verdict(cluster, group, node, penalised)).collect()
    }

    /// The reason against a node; a class reports its own reason only once.
    pub(super) fn reason(&mut self, cluster: &Cluster, group: usize, node: usize) -> Option<String> {
        let reason = static_failures(cluster, &cluster.groups[group], node).into_iter().next()?;
        let is_new = self.reported.insert((group, class(cluster, node)));
        Some(if is_new { reason } else { "computed class ineligible".into() })
    }

    fn verdict(&mut self, cluster: &Cluster, group: usize, node: usize, penalised: Option<usize>) -> Verdict {
        if let Some(reason) = self.reason(cluster, group, node) {
            return Verdict::Filtered(reason);
        }
        if let Some((first, _)) = self.obstacles(cluster, group, node).into_iter().next() {
            return first;
        }
        let (ask, spec) = (&cluster.groups[group], &cluster.nodes[node]);
        let others = self.of_group(cluster, group, node);
        let totals = self.totals(cluster, group, node);
        let free = |used: u32, has: u32| 10f64.powf(1.0 - f64::from(used) / f64::from(has));
        let total = free(totals.cpu, spec.cpu_mhz) + free(totals.memory, spec.memory_mb);
        let mut scores = vec![match cluster.algorithm {
            SchedulerAlgorithm::Binpack => (20.0 - total).clamp(0.0, 18.0) / 18.0,
            SchedulerAlgorithm::Spread => (total - 2.0).clamp(0.0, 18.0) / 18.0,
            SchedulerAlgorithm::Align => align(cluster, ask, spec, &totals),
        }];
        if others > 0 {
            scores.push(-(f64::from(others) + 1.0) / f64::from(ask.count));
        }
        if penalised == Some(node) {
            scores.push(-1.0);
        }
        if let Some((rack, weight)) = ask.rack_affinity {
            let matches = spec.rack == Some(rack);
            scores.push(if matches { (weight as f64).signum() } else { 0.0 });
        }
        let spread = self.spread(cluster, group, node);
        if spread.abs() > 1e-13 {
            scores.push(spread);
        }
        Verdict::Scores(scores.iter().sum::<f64>() / scores.len() as f64)
    }

    /// All reasons against a node, in the order in which they are checked.
    fn obstacles(&self, cluster: &Cluster, group: usize, node: usize) -> Vec<Obstacle> {
        let (ask, spec) = (&cluster.groups[group], &cluster.nodes[node]);
        let filtered = |what: String| (Verdict::Filtered(what), 0);
        let exhausted = |what: &str, missing: u32| (Verdict::Exhausted(what.to_owned()), missing);
        let mut obstacles: Vec<Obstacle> =
            static_failures(cluster, ask, node).into_iter().map(filtered).collect();
        if ask.wants_volume && !spec.has_volume {
            obstacles.push(filtered("missing compatible host volumes".into()));
        }
        if ask.distinct_hosts && self.of_group(cluster, group, node) > 0 {
            obstacles.push(filtered("distinct_hosts".into()));
        }
        if let Some(allowed) = ask.racks_each {
            match spec.rack {
                None => obstacles.push(filtered("missing property \"${meta.rack}\"".into())),
                Some(rack) => {
                    let used = self.used(cluster, group, |node| cluster.nodes[node].rack == Some(rack));
                    if used >= allowed {
                        let text = format!("distinct_property: ${{meta.rack}}=r{rack} used by {used} allocs");
                        obstacles.push(filtered(text));
                    }
                }
            }
        }
        let here = |new: &&NewAlloc| new.node == node;
        let there: Vec<_> = self.present(cluster, node).map(|number| &cluster.allocs[number]).collect();
        let dynamic =
            self.placed.iter().filter(here).flat_map(|new| &new.ports).filter(|port| **port >= 1_000);
        if ask.static_port.is_some()
            && (there.iter().any(|alloc| alloc.static_port.is_some())
                || self.placed.iter().filter(here).any(|new| new.ports.contains(&80)))
        {
            obstacles.push(exhausted("network: reserved port collision s=80", 0));
        } else if ask.dynamic_ports > usize::from(spec.ports) - dynamic.count() {
            obstacles.push(exhausted("network: dynamic port selection failed", 0));
        }
        if ask.gpus > 0 && spec.gpus > ask.gpus {
            let taken: BTreeSet<u64> = there
                .iter()
                .flat_map(|alloc| alloc.gpus.clone())
                .chain(self.placed.iter().filter(here).flat_map(|new| new.gpus.clone()))
                .collect();
            let free = (0..spec.gpus.saturating_sub(1)).filter(|gpu| !taken.contains(gpu)).count() as u64;
            if free < ask.gpus {
                obstacles.push(exhausted("devices: no devices match request", 0));
            }
        }
        let totals = self.totals(cluster, group, node);
        if totals.lacks_cores {
            obstacles.push(exhausted("cores", 0));
        }
        if spec.max_allocs > 0 && totals.allocs > spec.max_allocs {
            obstacles.push(exhausted("max allocation exceeded", totals.allocs - spec.max_allocs));
        }
        if totals.cpu > spec.cpu_mhz {
            obstacles.push(exhausted("cpu", totals.cpu - spec.cpu_mhz));
        }
        if totals.memory > spec.memory_mb {
            obstacles.push(exhausted("memory", totals.memory - spec.memory_mb));
        }
        obstacles
    }

    /// The resources that would be in use on a node with one more allocation of a group.
    fn totals(&self, cluster: &Cluster, group: usize, node: usize) -> Totals {
        let (ask, spec) = (&cluster.groups[group], &cluster.nodes[node]);
        let here = |new: &&NewAlloc| new.node == node;
        let there: Vec<_> = self.present(cluster, node).map(|number| &cluster.allocs[number]).collect();
        let taken_cores: BTreeSet<u16> = there
            .iter()
            .flat_map(|alloc| alloc.cores.clone())
            .chain(self.placed.iter().filter(here).flat_map(|new| new.cores.clone()))
            .collect();
        let free_cores: Vec<u16> =
            (0..spec.cores.len() as u16).filter(|core| !taken_cores.contains(core)).collect();
        let mhz = |cores: &[u16]| cores.iter().map(|core| spec.cores[usize::from(*core)]).sum::<u32>();
        let own_cores = free_cores.get(..ask.cores as usize);
        let amounts = |group: &TestGroup| (if group.cores > 0 { 0 } else { group.cpu_mhz }, group.memory_mb);
        let (ask_cpu, ask_memory) = amounts(ask);
        let own_mhz = own_cores.map_or(0, mhz);
        let mut totals = Totals {
            lacks_cores: own_cores.is_none(),
            own: [ask_cpu + own_mhz, ask_memory],
            cpu: ask_cpu + own_mhz,
            memory: ask_memory,
            allocs: 1,
        };
        for alloc in &there {
            let (own_cpu, own_memory) = match alloc.owner {
                Owner::Group(group) => amounts(&cluster.groups[group]),
                Owner::Other { cpu_mhz, memory_mb, .. } => (cpu_mhz, memory_mb),
            };
            totals.add(own_cpu + mhz(&alloc.cores), own_memory);
        }
        for new in self.placed.iter().filter(here) {
            let (own_cpu, own_memory) = amounts(&cluster.groups[new.group]);
            totals.add(own_cpu + mhz(&new.cores), own_memory);
        }
        totals
    }

    /// All reasons against placing a group, in the form that metrics have.
    pub(super) fn reasons(&self, cluster: &Cluster, group: usize) -> Vec<Reason> {
        let mut obstacles: BTreeMap<String, Vec<(u32, bool)>> = BTreeMap::new();
        for node in 0..cluster.nodes.len() {
            let here = self.obstacles(cluster, group, node);
            let alone = here.len() == 1;
            for (obstacle, missing) in here {
                let (Verdict::Filtered(name) | Verdict::Exhausted(name)) = obstacle else { continue };
                obstacles.entry(name).or_default().push((missing, alone));
            }
        }
        let reason = |(name, nodes): (String, Vec<(u32, bool)>)| {
            let of_alone: Vec<u32> =
                nodes.iter().filter(|(_, alone)| *alone).map(|(missing, _)| *missing).collect();
            let all = || nodes.iter().map(|(missing, _)| *missing).collect();
            let amounts = if of_alone.is_empty() { all() } else { of_alone.clone() };
            let least = *amounts.iter().min().expect("each reason is against some node");
            let such = amounts.iter().filter(|missing| **missing == least).count() as u32;
            Reason {
                name: name.into(),
                nodes: nodes.len() as u32,
                alone: of_alone.len() as u32,
                shortfall: (least > 0).then_some(Shortfall { amount: least, nodes: such }),
            }
        };
        obstacles.into_iter().map(reason).collect()
    }

    /// Allocations of the snapshot that count on a node.
    fn present(&self, cluster: &Cluster, node: usize) -> impl Iterator<Item = usize> {
        let counts = move |number: &usize| {
            let alloc = &cluster.allocs[*number];
            alloc.node == node && !ended(alloc.client) && !self.gone.contains(number)
        };
        (0..cluster.allocs.len()).filter(counts)
    }

    fn of_group(&self, cluster: &Cluster, group: usize, node: usize) -> u32 {
        let stored_allocs = self.present(cluster, node);
        let stored_allocs =
            stored_allocs.filter(|number| cluster.allocs[*number].owner == Owner::Group(group)).count();
        let new = self.placed.iter().filter(|new| new.node == node && new.group == group).count();
        (stored_allocs + new) as u32
    }

    /// Existing, proposed and cleared allocations of a group on some nodes.
    fn uses(&self, cluster: &Cluster, group: usize, on: impl Fn(usize) -> bool) -> [u32; 3] {
        let own = |number: &usize| {
            cluster.allocs[*number].owner == Owner::Group(group) && on(cluster.allocs[*number].node)
        };
        let all = 0..cluster.allocs.len();
        let existing = all.filter(own).filter(|number| !ended(cluster.allocs[*number].client)).count();
        let placed = self.placed.iter().filter(|new| new.group == group && on(new.node)).count();
        let updated = self.updated.iter().filter(|number| own(number)).count();
        let cleared = self.stopped.iter().filter(|number| own(number)).count();
        [existing as u32, (placed + updated) as u32, cleared as u32]
    }

    fn used(&self, cluster: &Cluster, group: usize, on: impl Fn(usize) -> bool) -> u32 {
        let [existing, proposed, cleared] = self.uses(cluster, group, on);
        let cleared = if proposed > 0 && cleared > 1 { cleared - 1 } else { cleared };
        (existing + proposed).saturating_sub(cleared)
    }

    fn spread(&self, cluster: &Cluster, group: usize, node: usize) -> f64 {
        let ask = &cluster.groups[group];
        let weight = 1.0 / ask.spreads.len() as f64;
        let one = |spread: &TestSpread| match spread {
            TestSpread::Racks => {
                let racks: BTreeSet<u64> = cluster.nodes.iter().filter_map(|node| node.rack).collect();
                let value = |rack: u64| {
                    let on = move |node: usize| cluster.nodes[node].rack == Some(rack);
                    (self.uses(cluster, group, on), self.used(cluster, group, on))
                };
                even(cluster.nodes[node].rack.map(|rack| value(rack).1), racks.into_iter().map(value))
            }
            TestSpread::Nodes => {
                let value = |node: usize| {
                    let on = move |other: usize| other == node;
                    (self.uses(cluster, group, on), self.used(cluster, group, on))
                };
                even(Some(value(node).1), (0..cluster.nodes.len()).map(value))
            }
            TestSpread::SomeRacks(targets) if targets.is_empty() => {
                unreachable!("there is at least one target")
            }
            TestSpread::SomeRacks(targets) => {
                let lowest = self.lowest(cluster, group, weight);
                let Some(rack) = cluster.nodes[node].rack else { return -1.0 };
                self.target_boost(cluster, group, targets, rack, weight).unwrap_or(lowest)
            }
        };
        ask.spreads.iter().map(one).sum()
    }

    /// `None` if the desired number is zero, so that the boost is the lowest of all.
    fn target_boost(
        &self,
        cluster: &Cluster,
        group: usize,
        targets: &[(u64, u64)],
        rack: u64,
        weight: f64,
    ) -> Option<f64> {
        let count = f64::from(cluster.groups[group].count);
        let share = |percent: u64| percent as f64 / 100.0 * count;
        let sum: f64 = targets.iter().map(|(_, percent)| share(*percent)).sum();
        let rest = (sum > 0.0 && sum < count).then_some(count - sum);
        let named =
            |rack: u64| targets.iter().rev().find(|(of, _)| *of == rack).map(|(_, percent)| share(*percent));
        let racks: BTreeSet<u64> = cluster.nodes.iter().filter_map(|node| node.rack).collect();
        let used_of =
            |rack: u64| self.used(cluster, group, move |node| cluster.nodes[node].rack == Some(rack));
        let used: u32 = match named(rack) {
            Some(_) => used_of(rack),
            None => racks.into_iter().filter(|rack| named(*rack).is_none()).map(used_of).sum(),
        };
        match named(rack).or(rest) {
            None => Some(-1.0),
            Some(0.0) => None,
            Some(desired) => Some((desired - f64::from(used) - 1.0) / desired * weight),
        }
    }

    fn lowest(&self, cluster: &Cluster, group: usize, weight: f64) -> f64 {
        let ask = &cluster.groups[group];
        let feasible =
            (0..cluster.nodes.len()).filter(|node| static_failures(cluster, ask, *node).is_empty());
        let racks: BTreeSet<u64> = feasible.filter_map(|node| cluster.nodes[node].rack).collect();
        let mut lowest = -1.0f64;
        for spread in &ask.spreads {
            let TestSpread::SomeRacks(targets) = spread else { continue };
            for rack in &racks {
                if let Some(boost) = self.target_boost(cluster, group, targets, *rack, weight) {
                    lowest = lowest.min(boost);
                }
            }
        }
        lowest
    }
}

/// How well a node suits by the shape of its free resources, and by how little is left.
fn align(cluster: &Cluster, ask: &TestGroup, spec: &TestNode, totals: &Totals) -> f64 {
    let feasible = |node: &usize| static_failures(cluster, ask, *node).is_empty();
    let feasible: Vec<&TestNode> =
        (0..cluster.nodes.len()).filter(feasible).map(|node| &cluster.nodes[node]).collect();
    let average = |of: fn(&TestNode) -> u32| {
        feasible.iter().map(|node| f64::from(of(node))).sum::<f64>() / feasible.len() as f64
    };
    let averages = [average(|node| node.cpu_mhz), average(|node| node.memory_mb)];
    let rest = [spec.cpu_mhz - totals.cpu, spec.memory_mb - totals.memory];
    let [own, rest] = [totals.own, rest].map(|of| [0, 1].map(|axis| f64::from(of[axis]) / averages[axis]));
    let left = [0, 1].map(|axis| own[axis] + rest[axis]);
    let length = |of: [f64; 2]| of[0].hypot(of[1]);
    let cosine = (left[0] * own[0] + left[1] * own[1]) / length(left) / length(own);
    let tightness = 1.0 / (1.0 + rest[0].max(rest[1]));
    (cosine + 0.2 * tightness) / 1.2
}

/// The boost of a value that is used `used` times; `values` are the uses and counts of all values.
fn even(used: Option<u32>, values: impl Iterator<Item = ([u32; 3], u32)>) -> f64 {
    let Some(used) = used else { return -1.0 };
    let present = values.filter(|([existing, proposed, _], _)| existing + proposed > 0);
    let counts: Vec<f64> = present.map(|(_, count)| f64::from(count)).collect();
    if counts.is_empty() {
        return 0.0;
    }
    let min = counts.iter().copied().fold(f64::INFINITY, f64::min);
    let max = counts.iter().copied().fold(0.0, f64::max);
    let used = f64::from(used);
    match () {
        () if used != min && min == 0.0 => -1.0,
        () if used != min => (min - used) / min,
        () if min == max => -1.0,
        () if min == 0.0 => 1.0,
        () => (max - min) / min,
    }
}

/// Counters of a pass.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) filtered: BTreeMap<String, u32>,
    pub(super) exhausted: BTreeMap<String, u32>,
}

impl Counts {
    pub(super) fn of(verdicts: &[Verdict]) -> Self {
        let mut counts = Self::default();
        for verdict in verdicts {
            let (of, what) = match verdict {
                Verdict::Filtered(reason) => (&mut counts.filtered, reason),
                Verdict::Exhausted(dimension) => (&mut counts.exhausted, dimension),
                Verdict::Scores(_) => continue,
            };
            *of.entry(what.clone()).or_default() += 1;
        }
        counts
    }
}
