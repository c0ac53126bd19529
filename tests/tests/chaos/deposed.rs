//! Does an applier that was stopped longer than its lease, and goes on, commit anything more, or tell anybody anything but
//! what it had committed before? Does one that is stopped hold up the next?
//!
//! It is stopped from outside, or stops itself at one of the steps of take-over, commit, check and projection. Users
//! who know what they must be told go on asking meanwhile: for changes, for what is to be refused, and for the head.

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
/// How many answers are to be given before something happens, or before it is enough.
const ANSWERS: usize = 40;
/// The longest that a stopped applier may hold up the answers of another one, which may have to be started.
const HELD_UP_MAX: Duration = Duration::from_secs(10);

/// Where the applier stops.
#[derive(Debug, Clone, Copy)]
enum Stop {
    /// Anywhere.
    Outside,
    /// Anywhere, while only the head is asked for, and what is refused.
    Reading,
    /// While the database is at its commit.
    InCommit,
    /// At a step that each of its commits, checks or projections comes by.
    At(&'static str),
    /// At a step after a commit whose answer was lost.
    AfterLoss(&'static str),
    /// At a step of taking over, while another applier is active.
    StandingBy(&'static str),
}

/// The first are those that are always looked at.
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
/// How many of them are looked at where nobody has asked for more.
const STOPS_LOOKED_AT: usize = 8;
/// How often `make chaos` does it for each of its rounds.
const TIMES: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn a_deposed_applier_says_and_writes_nothing_more() {
    let mut chance = StdRng::seed_from_u64(seed());
    let stops: Vec<Stop> = match rounds() {
        None => STOPS[..STOPS_LOOKED_AT].to_vec(),
        Some(rounds) => STOPS.into_iter().cycle().take(rounds * TIMES).collect(),
    };
    let lease = [("DROVER_APPLIER_LEASE_MS", LEASE_MS.to_string())];
    let mut active = name(0);
    let mut cluster = Cluster::start_processes(BINARY, &lease, &[&active]).await;
    let mut history = History::new(&cluster).await;
    for (round, stop) in (1..).zip(&stops) {
        let mut lineup =
            Lineup { cluster: &mut cluster, active, stopped: name(2 * round - 1), next: name(2 * round) };
        let held_up = lineup.round(*stop, &mut chance).await;
        active = lineup.active;
        history.follow().await;
        history.assert_one_writer(&cluster);
        println!("{round}/{} {stop:?}: answers again after {:.1} s", stops.len(), held_up.as_secs_f64());
        assert!(held_up < HELD_UP_MAX, "{stop:?} held up others for {held_up:?}");
    }
    history.assert_tables(&cluster).await;
    cluster.assert_alive();
}

fn name(number: usize) -> String {
    format!("plan-applier@{number}")
}

/// Who is who in a round.
struct Lineup<'a> {
    cluster: &'a mut Cluster,
    /// The one that is active in the beginning, and the one that is in the end.
    active: String,
    /// The one that is stopped.
    stopped: String,
    /// One that may take over then.
    next: String,
}

impl Lineup<'_> {
    /// How long nobody was answered after the stop.
    async fn round(&mut self, stop: Stop, chance: &mut StdRng) -> Duration {
        let witness = Witness::start(self.cluster).await;
        let point = match stop {
            Stop::Outside | Stop::Reading | Stop::InCommit => None,
            // Who takes over at the first attempt comes by these steps but once.
            Stop::At(step @ ("take.raised" | "take.done" | "take-over.caught-up"))
            | Stop::AfterLoss(step) => Some(Failpoint::stop(step, 1)),
            Stop::At(step) | Stop::StandingBy(step) => {
                Some(Failpoint::stop(step, chance.random_range(1..=4)))
            }
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
                self.more(&witness).await;
                if matches!(stop, Stop::Reading) {
                    witness.only_read();
                    self.more(&witness).await;
                }
                tokio::time::sleep(Duration::from_millis(chance.random_range(0..100))).await;
                self.cluster.signal(&self.stopped, Signal::SIGSTOP);
            }
            Stop::InCommit => {
                self.more(&witness).await;
                self.stop_in_commit().await;
            }
            Stop::AfterLoss(_) => {
                self.more(&witness).await;
                let is_lost = async |cluster: &Cluster| {
                    cluster.sql(LOSE_CONNECTIONS);
                    cluster.is_stopped(&self.stopped).then_some(())
                };
                self.cluster.wait_until("a lost commit is looked for", is_lost).await;
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
        self.more(&witness).await;
        self.cluster.wait_until_projected().await;

        self.cluster.signal(&self.stopped, Signal::SIGCONT);
        self.more(&witness).await;
        witness.assert_truthful(self.cluster).await;
        self.cluster.assert_alive();
        self.cluster.kill9(&self.stopped);
        if !stands_by {
            self.active = self.next.clone();
        }
        held_up
    }

    /// Waits until some more is answered.
    async fn more(&self, witness: &Witness) {
        let enough = witness.answers() + ANSWERS;
        self.cluster
            .wait_until("more is answered", async |_| (witness.answers() >= enough).then_some(()))
            .await;
    }

    /// Stops the applier while the database does what it was told, and says so to nobody who listens.
    async fn stop_in_commit(&self) {
        self.cluster.alter(SLOW_COMMITS).await;
        let is_at_it = async |cluster: &Cluster| (cluster.sql(IN_COMMIT) == ["1"]).then_some(());
        self.cluster.wait_until("a commit is under way", is_at_it).await;
        self.cluster.signal(&self.stopped, Signal::SIGSTOP);
        self.cluster.alter("drop function slow cascade").await;
    }
}

/// Makes every commit take a while.
const SLOW_COMMITS: &str = "
    create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.3); return new; end $$;
    create trigger slow before insert on changes for each row execute function slow()";
/// How many commits are at that.
const IN_COMMIT: &str = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
/// Breaks the connections that commits go over.
const LOSE_CONNECTIONS: &str = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                                where application_name = 'drover applier'";
