//! An applier that was stopped for longer than its lease and then resumed must not commit anything more, nor answer
//! anything except what it committed before. While it is stopped, it must not delay the next applier.
//!
//! The applier is stopped from outside, or stops itself at one of the steps of take-over, commit, check and projection.
//! Clients that know which answers are correct send requests all the time: for changes, for commands that are to be
//! refused, and for the head.

use std::time::Duration;

use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use telemetry::clock;
use tests::failpoints::{self, Failpoint};
use tests::harness::Cluster;
use tests::harness::invariants::History;

use crate::witness::Witness;
use crate::{BINARY, rounds, seed};

/// The applier's lease, in milliseconds.
const LEASE_MS: u32 = 300;
/// How many answers clients must get before the next step of a round.
const ANSWERS: usize = 40;
/// The longest time that a stopped applier may delay the answers of another one, which may have to be started.
const HELD_UP_MAX: Duration = Duration::from_secs(10);

/// The point at which the applier stops.
#[derive(Debug, Clone, Copy)]
enum Stop {
    /// At any point.
    Outside,
    /// At any point, while clients only read the head and send commands that are refused.
    Reading,
    /// While the database carries out its commit.
    InCommit,
    /// At a step that belongs to each commit, check or projection.
    At(&'static str),
    /// At a step after a commit whose answer was lost.
    AfterLoss(&'static str),
    /// At a step of the take-over, while another applier is active.
    StandingBy(&'static str),
}

/// All stops. The first ones are tried by default.
const STOPS: [Stop; 20] = [
    Stop::Outside,
    Stop::Reading,
    Stop::At("commit.judged"),
    Stop::InCommit,
    Stop::At("projection.written"),
    Stop::At("confirm.done"),
    Stop::StandingBy("take.locked"),
    Stop::AfterLoss("find-out.locked"),
    Stop::AfterLoss("find-out.renewed"),
    Stop::At("commit.done"),
    Stop::At("confirm.begin"),
    Stop::At("renew.begin"),
    Stop::At("renew.done"),
    Stop::At("feed.published"),
    Stop::At("projection.claimed"),
    Stop::At("projection.done"),
    Stop::At("take.raised"),
    Stop::At("take.done"),
    Stop::At("take-over.caught-up"),
    Stop::StandingBy("take.raised"),
];
/// How many stops are tried unless `ROUNDS` is set.
const STOPS_BY_DEFAULT: usize = 8;
/// How many stops `make chaos` tries in each of its rounds.
const STOPS_PER_ROUND: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn a_deposed_applier_answers_and_writes_nothing_more() {
    let mut rng = StdRng::seed_from_u64(seed());
    let stops: Vec<Stop> = match rounds() {
        None => STOPS[..STOPS_BY_DEFAULT].to_vec(),
        Some(rounds) => STOPS.into_iter().cycle().take(rounds * STOPS_PER_ROUND).collect(),
    };
    let lease = [("DROVER_APPLIER_LEASE_MS", LEASE_MS.to_string())];
    let mut active = name(0);
    let mut cluster = Cluster::start_processes(BINARY, &lease, &[&active]).await;
    let mut history = History::new(&cluster).await;
    for (round, stop) in (1..).zip(&stops) {
        let mut current =
            Round { cluster: &mut cluster, active, stopped: name(2 * round - 1), next: name(2 * round) };
        let held_up = current.round(*stop, &mut rng).await;
        active = current.active;
        history.follow().await;
        history.assert_one_writer(&cluster);
        println!("{round}/{} {stop:?}: others answer after {:.1} s", stops.len(), held_up.as_secs_f64());
        assert!(held_up < HELD_UP_MAX, "{stop:?} delayed others for {held_up:?}");
    }
    history.assert_tables(&cluster).await;
    cluster.assert_alive();
}

fn name(number: usize) -> String {
    format!("plan-applier@{number}")
}

/// The appliers of a round.
struct Round<'a> {
    cluster: &'a mut Cluster,
    /// The applier that is active at the beginning, and then the one that is active at the end.
    active: String,
    /// The applier that is stopped.
    stopped: String,
    /// The applier that may take over then.
    next: String,
}

impl Round<'_> {
    /// Plays a round. Returns how long no client was answered after the stop.
    async fn round(&mut self, stop: Stop, rng: &mut StdRng) -> Duration {
        let witness = Witness::start(self.cluster).await;
        let point = match stop {
            Stop::Outside | Stop::Reading | Stop::InCommit => None,
            // An applier that takes over at the first attempt reaches these steps only once.
            Stop::At(step @ ("take.raised" | "take.done" | "take-over.caught-up"))
            | Stop::AfterLoss(step) => Some(Failpoint::stop(step, 1)),
            Stop::At(step) | Stop::StandingBy(step) => Some(Failpoint::stop(step, rng.random_range(1..=4))),
        };
        let environment = point.map(|point| (failpoints::VARIABLE, point.to_string()));
        self.cluster.spawn_with(&self.stopped, environment.as_slice());

        let stands_by = matches!(stop, Stop::StandingBy(_));
        if !stands_by {
            self.cluster.wait_until_connected(&self.stopped).await;
            self.cluster.kill9(&self.active);
        }
        match stop {
            Stop::Outside | Stop::Reading => {
                self.wait_for_answers(&witness).await;
                if matches!(stop, Stop::Reading) {
                    witness.only_read();
                    self.wait_for_answers(&witness).await;
                }
                tokio::time::sleep(Duration::from_millis(rng.random_range(0..100))).await;
                self.cluster.signal(&self.stopped, Signal::SIGSTOP);
            }
            Stop::InCommit => {
                self.wait_for_answers(&witness).await;
                self.stop_in_commit().await;
            }
            Stop::AfterLoss(_) => {
                self.wait_for_answers(&witness).await;
                let is_lost = async |cluster: &Cluster| {
                    cluster.sql(LOSE_CONNECTIONS);
                    cluster.is_stopped(&self.stopped).then_some(())
                };
                self.cluster.wait_until("the outcome of a lost commit is looked up", is_lost).await;
            }
            Stop::At(_) | Stop::StandingBy(_) => {}
        }
        self.cluster.wait_until_stopped(&self.stopped).await;

        let begun = clock::monotonic();
        if !stands_by {
            self.cluster.spawn(&self.next);
        }
        let answers = witness.answers();
        self.cluster
            .wait_until("others are answered", async |_| (witness.answers() > answers).then_some(()))
            .await;
        let held_up = begun.elapsed();
        self.wait_for_answers(&witness).await;
        self.cluster.wait_until_projected().await;

        self.cluster.signal(&self.stopped, Signal::SIGCONT);
        self.wait_for_answers(&witness).await;
        witness.assert_truthful(self.cluster).await;
        self.cluster.assert_alive();
        self.cluster.kill9(&self.stopped);
        if !stands_by {
            self.active = self.next.clone();
        }
        held_up
    }

    /// Waits until clients got some more answers.
    async fn wait_for_answers(&self, witness: &Witness) {
        let enough = witness.answers() + ANSWERS;
        self.cluster
            .wait_until("more requests are answered", async |_| (witness.answers() >= enough).then_some(()))
            .await;
    }

    /// Stops the applier while the database carries out its commit, so that nobody receives the outcome.
    async fn stop_in_commit(&self) {
        self.cluster.alter(SLOW_COMMITS).await;
        let is_committing = async |cluster: &Cluster| (cluster.sql(IN_COMMIT) == ["1"]).then_some(());
        self.cluster.wait_until("a commit is under way", is_committing).await;
        self.cluster.signal(&self.stopped, Signal::SIGSTOP);
        self.cluster.alter("drop function slow cascade").await;
    }
}

/// Slows down every commit.
const SLOW_COMMITS: &str = "
    create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.3); return new; end $$;
    create trigger slow before insert on changes for each row execute function slow()";
/// Counts the commits that are being slowed down.
const IN_COMMIT: &str = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
/// Breaks the connections of the commits.
const LOSE_CONNECTIONS: &str = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                                where application_name = 'drover applier'";
