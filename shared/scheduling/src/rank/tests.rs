//! Scores of nodes, compared with the figures of the specification.

use model::job::Affinity;

use super::*;
use crate::testing::Scene;

fn ranking_with(scene: &Scene, ask: Demand, algorithm: SchedulerAlgorithm) -> (Fit, f64) {
    let state = scene.state();
    let spec = scene.job_spec();
    let pages: Vec<&NodePage> = state.node_pages().collect();
    let nodes: Vec<_> = pages.iter().map(|page| (*page, page.ready)).collect();
    let ranking = Ranking { algorithm, ..Ranking::of(&state, &spec, &spec.task_groups[0], ask, &nodes) };
    let fit = ranking.fit(pages[0], 0, pages[0].held.at(0), ask);
    (fit, ranking.sum(&ScoreFactors { fit, others: 1, ..ScoreFactors::default() }).mean())
}

fn fitness(cpu_mhz: u32, memory_mb: u32, ask: [u32; 2], algorithm: SchedulerAlgorithm) -> f64 {
    let scene = Scene::default().node(1, cpu_mhz, memory_mb);
    let ask = Demand { cpu_mhz: ask[0], memory_mb: ask[1], disk_mb: 0 };
    ranking_with(&scene, ask, algorithm).0.fitness
}

/// The worked examples of both fitness functions.
#[test]
fn fuller_nodes_pack_better_and_emptier_ones_spread_better() {
    let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-4, "{value} {expected}");
    let pack = |ask| fitness(2_048, 4_096, ask, SchedulerAlgorithm::Binpack) * 18.0;
    let spread = |ask| fitness(2_048, 4_096, ask, SchedulerAlgorithm::Spread) * 18.0;
    near(pack([2_048, 4_096]), 18.0);
    near(spread([2_048, 4_096]), 0.0);
    near(pack([0, 0]), 0.0);
    near(spread([0, 0]), 18.0);
    near(pack([1_024, 2_048]), 13.675_44);
    near(spread([1_024, 2_048]), 4.324_55);
    near(fitness(4_000, 8_192, [500, 256], SchedulerAlgorithm::Binpack), 0.1775);
    near(fitness(4_000, 8_192, [500, 256], SchedulerAlgorithm::Spread), 0.8225);
}

/// Each allocation of the group on a node lowers the node's score.
#[test]
fn other_allocations_of_the_group_on_a_node_lower_its_score() {
    let scene = Scene::default().node(1, 4_000, 8_192).count(4);
    let ask = Demand { cpu_mhz: 500, memory_mb: 256, disk_mb: 0 };
    let (fit, with_another) = ranking_with(&scene, ask, SchedulerAlgorithm::Binpack);
    assert!((with_another - (fit.fitness - 0.5) / 2.0).abs() < 1e-12);
}

/// The affinity score is the sum of matching weights divided by the sum of their absolute values.
#[test]
fn affinities_count_by_their_weights() {
    let affinity = |value: &str, weight| Affinity {
        l_target: "${node.class}".into(),
        r_target: value.into(),
        weight,
        ..Affinity::default()
    };
    let scene = Scene::default().node_with(1, |spec| spec.node_class = "big".into());
    let scene = scene.job_with(|spec| spec.affinities = vec![affinity("big", 100), affinity("big", -50)]);
    let (state, spec) = (scene.state(), scene.job_spec());
    let affinities = Affinities::of(&spec, &spec.task_groups[0]).unwrap();
    let scores = affinities.scores(state.nodes(), state.node_kinds());
    assert!((scores[0] - 50.0 / 150.0).abs() < 1e-15);
}

#[test]
fn the_shape_of_what_is_left_decides_between_equal_scores() {
    let ask = Demand { cpu_mhz: 100, memory_mb: 100, disk_mb: 0 };
    let nodes = Scene::default().node(1, 1_000, 1_000).node(2, 1_000, 1_000);
    let (fit, _) = ranking_with(&nodes, ask, SchedulerAlgorithm::Align);
    assert!((fit.alignment - 1.0).abs() < 1e-12, "free and requested amounts have the same ratio");
    let rank = |score: f64, alignment| Rank {
        sum: Sum { steps: to_steps(score), parts: 1 },
        alignment: to_steps(alignment),
    };
    assert!(rank(0.5, 0.9) > rank(0.5 + 1e-14, 0.8));
    assert!(rank(0.5 + 1e-11, 0.1) > rank(0.5, 0.9));
    let mean_of_two = Rank { sum: Sum { steps: to_steps(1.0), parts: 2 }, alignment: 0 };
    assert_eq!(mean_of_two.cmp(&rank(0.5, 0.0)), Ordering::Equal);
}
