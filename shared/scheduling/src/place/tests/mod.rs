//! Compares the fast path with a scan of all nodes, and both with a naive solver and with invariants of every plan.

mod cluster;
mod naive;
mod preempting;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use cluster::{Cluster, Dice, Owner, alloc_id, evaluation, node_id};
use naive::{Counts, Naive, NewAlloc, Verdict};

/// Maximum difference between scores that count as equal.
const TOLERANCE: f64 = 1e-9;

/// A call to the placer.
#[derive(Debug, Clone, Copy)]
enum Step {
    Stop(usize),
    Update(usize),
    Place { group: usize, previous: Option<usize>, replaces: bool },
}

fn steps(dice: &mut Dice, cluster: &Cluster) -> Vec<Step> {
    let own: Vec<(usize, usize)> = (0..)
        .zip(&cluster.allocs)
        .filter_map(|(number, alloc)| match alloc.owner {
            Owner::Group(group) => Some((number, group)),
            Owner::Other { .. } => None,
        })
        .collect();
    let mut steps = Vec::new();
    for (number, _) in &own {
        match dice.roll(5) {
            0 => steps.push(Step::Stop(*number)),
            1 if cluster.allocs[*number].client == ClientStatus::Running => steps.push(Step::Update(*number)),
            _ => {}
        }
    }
    for _ in 0..1 + dice.roll(12) {
        let group = dice.roll(cluster.groups.len() as u64) as usize;
        let of_group: Vec<usize> =
            own.iter().filter(|(_, of)| *of == group).map(|(number, _)| *number).collect();
        let previous = (!of_group.is_empty() && dice.once_in(3))
            .then(|| of_group[dice.roll(of_group.len() as u64) as usize]);
        steps.push(Step::Place { group, previous, replaces: dice.once_in(2) });
    }
    steps
}

/// A placer and what its calls refer to.
struct Run<'a> {
    state: &'a State,
    cluster: &'a Cluster,
    placer: Placer<'a>,
    version: Version,
}

impl<'a> Run<'a> {
    fn new(cluster: &'a Cluster, state: &'a State, pages: &'a [&'a NodePage], eval: &'a Evaluation) -> Self {
        let mut placer = Placer::of(state, pages, eval);
        let version = placer.version(state.job(&eval.job).unwrap());
        Self { state, cluster, placer, version }
    }

    fn alloc(&self, number: usize) -> AllocRef<'a> {
        self.state.alloc(alloc_id(number)).unwrap()
    }

    fn update(&mut self, of: usize) -> bool {
        let Owner::Group(group) = self.cluster.allocs[of].owner else {
            unreachable!("only allocations of the job are updated")
        };
        self.placer.update_in_place(self.version, group, self.alloc(of))
    }

    fn request(
        &self,
        number: u32,
        group: usize,
        previous: Option<usize>,
        replaces: bool,
        explain: bool,
    ) -> PlacementRequest<'a> {
        PlacementRequest {
            version: self.version,
            group,
            id: AllocId::from_bytes(u128::from(crate::hash::mix(number.into())).to_be_bytes()),
            name_index: number,
            previous: previous.map(|of| self.alloc(of)),
            replaces,
            explain,
        }
    }
}

/// How a test chooses nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// By the fast path, with or without metrics.
    Fast { explain: bool },
    /// By scanning all nodes.
    Scan,
}

/// The result of each placement.
fn run(cluster: &Cluster, steps: &[Step], method: Method) -> Vec<Result<Chosen, Box<AllocMetric>>> {
    let (state, eval) = (cluster.state(), evaluation());
    let pages: Vec<&NodePage> = state.node_pages().collect();
    let mut run = Run::new(cluster, &state, &pages, &eval);
    let mut placed = Vec::new();
    for (number, step) in (0u32..).zip(steps) {
        match *step {
            Step::Stop(of) => run.placer.stop(run.alloc(of)),
            Step::Update(of) => drop(run.update(of)),
            Step::Place { group, previous, replaces } => {
                let request =
                    run.request(number, group, previous, replaces, method != Method::Fast { explain: false });
                placed.push(match method {
                    Method::Fast { .. } => run.placer.place(&request),
                    Method::Scan => run.placer.place_by_scan(&request),
                });
            }
        }
    }
    placed
}

/// Removes what only the fast path reports.
fn without_reasons(
    mut placed: Vec<Result<Chosen, Box<AllocMetric>>>,
) -> Vec<Result<Chosen, Box<AllocMetric>>> {
    for chosen in &mut placed {
        match chosen {
            Ok(Chosen { metric: Some(metric), .. }) | Err(metric) => metric.reasons.clear(),
            Ok(Chosen { metric: None, .. }) => {}
        }
    }
    placed
}

fn without_metric(placed: Vec<Result<Chosen, Box<AllocMetric>>>) -> Vec<Result<Chosen, Box<AllocMetric>>> {
    placed.into_iter().map(|chosen| chosen.map(|chosen| Chosen { metric: None, ..chosen })).collect()
}

/// Checks the metrics of a pass against the verdicts of the naive solver.
fn check_metrics(metric: &AllocMetric, verdicts: &[Verdict], is_second: bool) -> Result<(), TestCaseError> {
    let by_name = |counts: &BTreeMap<Text, u32>| -> BTreeMap<String, u32> {
        counts.iter().map(|(what, count)| (what.to_string(), *count)).collect()
    };
    let counts = Counts::of(verdicts);
    prop_assert_eq!(metric.nodes_evaluated as usize, verdicts.len());
    prop_assert_eq!(metric.nodes_filtered, counts.filtered.values().sum::<u32>());
    prop_assert_eq!(by_name(&metric.constraint_filtered), counts.filtered);
    if is_second {
        return Ok(());
    }
    prop_assert_eq!(metric.nodes_exhausted, counts.exhausted.values().sum::<u32>());
    prop_assert_eq!(by_name(&metric.dimension_exhausted), counts.exhausted);
    let mut scores = scores(verdicts);
    scores.sort_by(|a, b| b.total_cmp(a));
    scores.truncate(5);
    let best: Vec<f64> = metric.scores.iter().map(|score| score.normalized).collect();
    let agree = best.iter().zip(&scores).all(|(reported, score)| (reported - score).abs() < TOLERANCE);
    prop_assert!(best.len() == scores.len() && agree, "{:?} reported, {:?} found", best, scores);
    Ok(())
}

fn scores(verdicts: &[Verdict]) -> Vec<f64> {
    let score = |verdict: &Verdict| match verdict {
        Verdict::Scores(score) => Some(*score),
        Verdict::Filtered(_) | Verdict::Exhausted(_) => None,
    };
    verdicts.iter().filter_map(score).collect()
}

/// Converts a choice for the naive solver.
fn new(chosen: &Chosen, node: usize, group: usize) -> NewAlloc {
    let tasks = &chosen.assigned.tasks;
    let ids = tasks.iter().flat_map(|task| &task.devices).flat_map(|device| &device.ids);
    NewAlloc {
        node,
        group,
        ports: chosen.assigned.ports.iter().map(|port| port.value).collect(),
        gpus: ids.map(|id| id.strip_prefix("gpu-").unwrap().parse().unwrap()).collect(),
        cores: tasks.iter().flat_map(|task| task.cores.clone()).collect(),
    }
}

/// Checks every placement against a naive solver that scores all nodes each time.
fn check_against_naive(cluster: &Cluster, steps: &[Step]) -> Result<(), TestCaseError> {
    let (state, eval) = (cluster.state(), evaluation());
    let pages: Vec<&NodePage> = state.node_pages().collect();
    let mut run = Run::new(cluster, &state, &pages, &eval);
    let mut naive = Naive::default();
    let node_of =
        |slot: u32| (0..cluster.nodes.len()).find(|node| state.node(node_id(*node)).unwrap().slot() == slot);
    for (number, step) in (0u32..).zip(steps) {
        match *step {
            Step::Stop(of) => {
                run.placer.stop(run.alloc(of));
                naive.gone.insert(of);
                naive.stopped.insert(of);
            }
            Step::Update(of) => {
                let alloc = &cluster.allocs[of];
                let Owner::Group(group) = alloc.owner else {
                    unreachable!("only allocations of the job are updated")
                };
                let fits = run.update(of);
                if naive.reason(cluster, group, alloc.node).is_some() {
                    prop_assert!(!fits);
                } else if fits {
                    naive.updated.push(of);
                }
            }
            Step::Place { group, previous, replaces } => {
                let leaves = previous.filter(|of| replaces && naive.stopped.insert(*of));
                naive.gone.extend(leaves);
                let failed_on = previous
                    .map(|of| &cluster.allocs[of])
                    .filter(|alloc| alloc.client == ClientStatus::Failed)
                    .map(|alloc| alloc.node);
                let verdicts = naive.verdicts(cluster, group, failed_on);
                let chosen = run.placer.place(&run.request(number, group, previous, replaces, true));
                let best = scores(&verdicts).into_iter().fold(f64::NEG_INFINITY, f64::max);
                match chosen {
                    Ok(chosen) => {
                        let node = node_of(chosen.slot).unwrap();
                        let metric = chosen.metric.as_deref().unwrap();
                        if chosen.victims.is_empty() {
                            let Verdict::Scores(score) = verdicts[node] else {
                                return Err(TestCaseError::fail(format!("{node} is {:?}", verdicts[node])));
                            };
                            prop_assert!(score > best - TOLERANCE, "{score} instead of {best}");
                            check_metrics(metric, &verdicts, false)?;
                        } else {
                            prop_assert!(scores(&verdicts).is_empty(), "no preemption was necessary");
                            check_metrics(metric, &naive.verdicts(cluster, group, failed_on), true)?;
                            let victims = (0..cluster.allocs.len())
                                .filter(|number| chosen.victims.contains(&alloc_id(*number)));
                            naive.gone.extend(victims);
                        }
                        naive.placed.push(new(&chosen, node, group));
                    }
                    Err(metric) => {
                        prop_assert!(scores(&verdicts).is_empty(), "a node had enough free resources");
                        let mut reasons = metric.reasons.clone();
                        reasons.sort_by_key(|reason| reason.name.to_string());
                        prop_assert_eq!(reasons, naive.reasons(cluster, group));
                        let second = cluster.preempts.then(|| naive.verdicts(cluster, group, failed_on));
                        check_metrics(&metric, second.as_ref().unwrap_or(&verdicts), second.is_some())?;
                        if let Some(of) = leaves {
                            naive.gone.remove(&of);
                            naive.stopped.remove(&of);
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

fn check_fast_path(dice: &mut Dice, cluster: &Cluster) -> Result<(), TestCaseError> {
    let steps = steps(dice, cluster);
    let whole = run(cluster, &steps, Method::Scan);
    let explained = without_reasons(run(cluster, &steps, Method::Fast { explain: true }));
    prop_assert_eq!(explained, whole.clone(), "{:#?}\n{:?}", cluster, steps);
    let fast = without_metric(without_reasons(run(cluster, &steps, Method::Fast { explain: false })));
    prop_assert_eq!(fast, without_metric(whole), "{:#?}\n{:?}", cluster, steps);
    Ok(())
}

fn check_naive(dice: &mut Dice, cluster: &Cluster) -> Result<(), TestCaseError> {
    let steps = steps(dice, cluster);
    let agrees = check_against_naive(cluster, &steps);
    prop_assert!(agrees.is_ok(), "{:?}\n{:#?}\n{:?}", agrees, cluster, steps);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn the_fast_path_finds_the_same_nodes_as_a_scan(seed: u64) {
        let mut dice = Dice(seed);
        let cluster = Cluster::random(&mut dice);
        check_fast_path(&mut dice, &cluster)?;
    }

    #[test]
    fn a_naive_solver_finds_the_same(seed: u64) {
        let mut dice = Dice(seed);
        let cluster = Cluster::random(&mut dice);
        check_naive(&mut dice, &cluster)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_fast_path_finds_the_same_nodes_in_whole_pages(seed: u64) {
        let mut dice = Dice(seed);
        let cluster = Cluster::of_whole_pages(&mut dice);
        check_fast_path(&mut dice, &cluster)?;
    }

    #[test]
    fn a_naive_solver_finds_the_same_in_whole_pages(seed: u64) {
        let mut dice = Dice(seed);
        let cluster = Cluster::of_whole_pages(&mut dice);
        check_naive(&mut dice, &cluster)?;
    }
}
