//! Carries out attacks one after another, and checks after each what must hold whatever the attack was.

use std::time::Duration;

use telemetry::clock;
use tests::harness::invariants::{self, History};
use tests::skips::skip;
use tokio::time::{sleep, timeout};

use crate::attack::{Attack, Failure, Size};
use crate::guard::Guard;
use crate::neighbour::Neighbour;
use crate::scene::Scene;

/// The time within which 99 of 100 requests of others are answered.
const P99_MAX: Duration = Duration::from_millis(250);
/// How long an attack may take.
const ATTACK_MAX: Duration = Duration::from_secs(120);
/// The least time over which the requests of others are observed.
const OBSERVED_MIN: Duration = Duration::from_secs(2);
/// How many failed requests of others are printed.
const FAILURES_SHOWN: usize = 3;

/// Which attacks are carried out, and how strictly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Part of the names; `None` selects all.
    only: Option<String>,
    /// Whether all attacks are carried out and speed is judged, or only the quick attacks.
    is_full: bool,
}

impl Selection {
    /// What `HOSTILE` and `ONLY` in the environment say.
    pub(crate) fn of_environment() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        Self { only: variable("ONLY"), is_full: variable("HOSTILE").is_some() }
    }

    fn has(&self, attack: &Attack) -> bool {
        let is_named = self.only.as_ref().is_none_or(|part| attack.name.contains(part.as_str()));
        is_named && (self.is_full || attack.size == Size::Quick)
    }
}

/// Starts a cluster and carries out the selected attacks. Returns everything that went wrong.
///
/// # Panics
/// If the cluster does not start, a process ends, or the log and the tables do not agree in the end.
pub(crate) async fn carry_out(attacks: &[Attack], selection: &Selection) -> Vec<String> {
    let selected: Vec<&Attack> = attacks.iter().filter(|attack| selection.has(attack)).collect();
    assert!(!selected.is_empty(), "no attack has the name: {selection:?}");
    let mut scene = Scene::start().await;
    let neighbour = Neighbour::start(&scene.host());
    neighbour.wait_until_settled().await;
    let mut guard = Guard::new(&scene.cluster);
    println!(
        "\n{:<28} {:<7} {:>6} {:>8} {:>8} {:>6} {:>22}",
        "attack", "result", "s", "others", "p99 ms", "fds", "most memory MiB"
    );
    let mut faults = Vec::new();
    for attack in selected {
        let found = observe(attack, &mut scene, &neighbour, &mut guard, selection.is_full).await;
        faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", attack.name)));
        scene.cluster.assert_alive();
    }
    let lost = neighbour.check_acknowledged().await;
    faults.extend(lost.err());
    drop(neighbour);
    assert_consistent(&scene).await;
    faults
}

/// Carries out an attack, prints a line about it, and returns what went wrong.
async fn observe(
    attack: &Attack,
    scene: &mut Scene,
    neighbour: &Neighbour,
    guard: &mut Guard,
    is_judged: bool,
) -> Vec<String> {
    guard.reset();
    drop(neighbour.take_requests());
    let begun = clock::monotonic();
    let outcome = timeout(ATTACK_MAX, (attack.run)(scene)).await;
    let took = begun.elapsed();
    let free = guard.check_free().await;
    if is_judged {
        sleep(OBSERVED_MIN.saturating_sub(begun.elapsed())).await;
    }
    let requests = neighbour.take_requests();

    let (mut faults, mut not_possible) = (Vec::new(), None);
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(Failure::Fault(fault))) => faults.push(fault),
        Ok(Err(Failure::NotPossible(cause))) => not_possible = Some(cause),
        Err(_) => faults.push(format!("the attack did not end within {ATTACK_MAX:?}")),
    }
    faults.extend(free.err());
    faults.extend(guard.memory_faults());
    faults.extend(neighbour.check_acknowledged().await.err());
    let p99 = requests.p99();
    if is_judged && p99 > P99_MAX {
        faults.push(format!(
            "the p99 of {} requests of others was {p99:?}; {P99_MAX:?} is the bound",
            requests.count()
        ));
    }
    if !requests.failures.is_empty() {
        let shown = &requests.failures[..requests.failures.len().min(FAILURES_SHOWN)];
        faults.push(format!("{} requests of others failed: {}", requests.failures.len(), shown.join("; ")));
    }
    let most = guard.peaks().into_iter().next();
    println!(
        "{:<28} {:<7} {:>6.1} {:>8} {:>8} {:>6} {:>22}",
        attack.name,
        if not_possible.is_some() {
            "skipped"
        } else if faults.is_empty() {
            "holds"
        } else {
            "FAILS"
        },
        took.as_secs_f64(),
        requests.count(),
        p99.as_millis(),
        guard.most_connections(),
        most.map_or_else(String::new, |peak| format!("{} {}", peak.process, peak.memory_mb)),
    );
    faults.iter().for_each(|fault| println!("    {fault}"));
    if let Some(cause) = not_possible {
        skip(attack.name, "mounts", &cause);
    }
    let remaining = scene.purge_attackers().await;
    if !remaining.is_empty() {
        faults.push(format!("jobs of the attacker cannot be purged: {remaining:?}"));
    }
    faults
}

/// Asserts that the cluster has come to rest, that its steady task has run all the while, and that the log and the
/// tables agree.
async fn assert_consistent(scene: &Scene) {
    let cluster = &scene.cluster;
    scene.assert_steady().await;
    cluster
        .wait_until("no evaluation is pending", async |cluster| {
            (cluster.sql("select count(*) from evals where status = 'pending'") == ["0"]).then_some(())
        })
        .await;
    cluster.wait_until_projected().await;
    History::new(cluster).await.assert_one_writer(cluster);
    invariants::assert_rebuild_agrees(cluster).await;
}
