//! [`ClusterClock`]: the cluster's time, as the active applier keeps it. Pure: readings of clocks come from the caller.
//!
//! The time follows the database's clock, which every write reads without a further round trip, and is carried on by the
//! applier's monotonic clock in between. So a jump of the applier's own wall clock has no effect, and neither has a failover
//! to a host whose clock is wrong. Much depends on this time: what the log keeps, which requests are too old, what is
//! garbage, and when something is due. A wrong time must therefore do as little as possible at once:
//!
//! - It never goes back and never stands still. While it is ahead of the database's clock, it advances at half the speed.
//! - It follows a forward jump of the database's clock at once only if the applier's wall clock agrees with it, as it does
//!   after a machine with both has slept. Otherwise it advances at double speed until it has caught up.

use std::time::{Duration, Instant};

use model::{Nanos, Timestamp};
use planted_bugs::{Bug, is_planted};

/// Clocks agree if they differ by less than this.
const AGREEMENT: Nanos = Nanos::from_secs(10);
/// The cluster's time agrees with the database's clock if they differ by less than this. The time that a write takes leaves
/// a smaller uncertainty.
const CLOSE: Nanos = Nanos::from_secs(2);

/// A reading of the database's clock.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// What the clock showed.
    pub time: Timestamp,
    /// When the statement that read it was sent.
    pub begun: Instant,
    /// When its result arrived.
    pub ended: Instant,
    /// The wall clock of this process's host at that moment.
    pub wall: Timestamp,
}

/// What an operator should know about clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// The wall clock of this host has begun to differ from the database's clock by this much; negative if it is behind.
    HostDiffers(Nanos),
    /// It agrees again.
    HostAgrees,
    /// The cluster's time has begun to differ from the database's clock by this much, and approaches it; negative if it is
    /// behind.
    TimeDiffers(Nanos),
    /// It agrees again.
    TimeAgrees,
}

/// The cluster's time.
#[derive(Debug)]
pub struct ClusterClock {
    /// The time by the database's clock at a moment.
    database: (Timestamp, Instant),
    /// The time that was last returned, and the moment.
    last: (Timestamp, Instant),
    host_agrees: bool,
    /// What the last finding about the host said.
    host_said_to_agree: bool,
    /// What the last finding about the time said.
    time_said_to_agree: bool,
}

impl ClusterClock {
    /// The clock of an applier that takes over a log whose last change set has the time `head`.
    pub fn new(head: Timestamp, reading: Reading) -> Self {
        let Reading { time, ended, wall, .. } = reading;
        let host_agrees = agree(wall, time);
        // Without a clock that agrees, nothing shows how long there was no applier. A wall clock that is behind the log is
        // certainly wrong.
        let is_doubtful = !host_agrees && head.is_set() && wall >= head;
        let begin = if is_doubtful { time.min(wall) } else { time };
        let mut clock = Self {
            database: (time, ended),
            last: (begin.max(head), ended),
            host_agrees,
            host_said_to_agree: true,
            time_said_to_agree: true,
        };
        if is_planted(Bug::TrustsHostClock) {
            clock.database = (wall, ended);
            clock.last.0 = wall.max(head);
        }
        clock
    }

    /// The cluster's time at a moment. It never decreases.
    pub fn now(&mut self, at: Instant) -> Timestamp {
        let database = self.database_at(at);
        let (last, last_at) = self.last;
        let elapsed = nanos(at.saturating_duration_since(last_at));
        let (slow, fast) = (last + Nanos(elapsed.0 / 2), last + Nanos(elapsed.0.saturating_mul(2)));
        let may_jump = self.host_agrees || is_planted(Bug::TrustsHostClock);
        let fast = if may_jump { database.max(fast) } else { fast };
        let time = database.clamp(slow, fast);
        self.last = (time, at.max(last_at));
        time
    }

    /// Takes a reading of the database's clock. Returns what has begun or ended with it.
    pub fn observe(&mut self, reading: Reading) -> Vec<Finding> {
        let Reading { time, begun, ended, wall } = reading;
        // When the result arrives, the clock shows between `time` and this.
        let latest = time + nanos(ended.saturating_duration_since(begun));
        let database = self.database_at(ended).clamp(time, latest);
        self.database = (if is_planted(Bug::TrustsHostClock) { wall } else { database }, ended);
        self.host_agrees = agree(wall, database);
        let mut findings = Vec::new();
        if self.host_agrees != std::mem::replace(&mut self.host_said_to_agree, self.host_agrees) {
            let differs = Finding::HostDiffers(wall - database);
            findings.push(if self.host_agrees { Finding::HostAgrees } else { differs });
        }
        let difference = self.now(ended) - database;
        let agrees = difference.0.abs() < CLOSE.0;
        if agrees != std::mem::replace(&mut self.time_said_to_agree, agrees) {
            let differs = Finding::TimeDiffers(difference);
            findings.push(if agrees { Finding::TimeAgrees } else { differs });
        }
        findings
    }

    /// The database's clock at a moment, by the last reading and the monotonic clock.
    fn database_at(&self, at: Instant) -> Timestamp {
        let (time, read_at) = self.database;
        time + nanos(at.saturating_duration_since(read_at))
    }
}

fn agree(wall: Timestamp, database: Timestamp) -> bool {
    (wall - database).0.abs() < AGREEMENT.0
}

fn nanos(duration: Duration) -> Nanos {
    Nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The database's clock at the beginning.
    const BEGIN: Timestamp = Timestamp::from_secs(1_767_225_600);
    const HOUR: i64 = 3_600;

    /// A database and a host with clocks of their own.
    struct Scene {
        begin: Instant,
        clock: ClusterClock,
    }

    impl Scene {
        /// An applier that takes over a log that ended some seconds ago, on a host whose clock is ahead by `host` seconds.
        fn new(ended_ago: i64, host: i64) -> Self {
            let begin = telemetry::clock::monotonic();
            let reading = Reading { time: BEGIN, begun: begin, ended: begin, wall: after(host) };
            Self { begin, clock: ClusterClock::new(after(-ended_ago), reading) }
        }

        fn at(&self, secs: i64) -> Instant {
            self.begin + Duration::from_secs(secs.unsigned_abs())
        }

        /// The cluster's time after `secs` seconds, in seconds after the beginning.
        fn now(&mut self, secs: i64) -> i64 {
            (self.clock.now(self.at(secs)) - BEGIN).0 / Nanos::SECOND.0
        }

        /// A write after `secs` seconds, when the clocks of database and host are ahead by so many seconds.
        fn write(&mut self, secs: i64, database: i64, host: i64) -> Vec<Finding> {
            let at = self.at(secs);
            let (time, wall) = (after(secs + database), after(secs + host));
            self.clock.observe(Reading { time, begun: at, ended: at, wall })
        }
    }

    fn after(secs: i64) -> Timestamp {
        BEGIN + Nanos::from_secs(secs)
    }

    #[test]
    fn a_jump_of_the_hosts_clock_has_no_effect_and_is_said() {
        let mut scene = Scene::new(60, 0);
        assert_eq!((scene.now(0), scene.now(5)), (0, 5));
        let differs = |secs| vec![Finding::HostDiffers(Nanos::from_secs(secs))];
        assert_eq!(scene.write(6, 0, HOUR), differs(HOUR));
        assert_eq!((scene.write(7, 0, HOUR), scene.now(8)), (vec![], 8));
        assert_eq!(scene.write(9, 0, 0), [Finding::HostAgrees]);
        assert_eq!(scene.write(10, 0, -HOUR), differs(-HOUR));
        assert_eq!(scene.now(20), 20);
    }

    #[test]
    fn an_applier_on_a_host_with_a_wrong_clock_takes_over_with_the_right_time() {
        assert_eq!(Scene::new(60, HOUR).now(0), 0);
        assert_eq!(Scene::new(60, -HOUR).now(0), 0);
        assert_eq!(Scene::new(24 * HOUR, 0).now(0), 0);
    }

    #[test]
    fn a_time_that_only_the_database_shows_is_approached_at_double_speed() {
        // The clock of the database may be ahead by an hour, or that of the host behind.
        let mut scene = Scene::new(24 * HOUR, -HOUR);
        assert_eq!((scene.now(0), scene.now(100)), (-HOUR, -HOUR + 200));
        let findings = scene.write(100, 0, -HOUR);
        assert!(matches!(findings[..], [Finding::HostDiffers(_), Finding::TimeDiffers(_)]), "{findings:?}");
        assert_eq!(scene.now(200), -HOUR + 400);
        assert_eq!((scene.now(3_700), scene.now(3_800)), (3_700, 3_800));
    }

    #[test]
    fn it_follows_the_databases_clock_forward_if_the_host_agrees() {
        let mut scene = Scene::new(0, 0);
        assert_eq!((scene.write(10, HOUR, HOUR), scene.now(10)), (vec![], 10 + HOUR));

        let mut scene = Scene::new(0, 0);
        let findings = scene.write(10, HOUR, 0);
        assert!(
            matches!(findings[..], [Finding::HostDiffers(_), Finding::TimeDiffers(by)] if by.0 < 0),
            "{findings:?}"
        );
        let begin = scene.now(10);
        assert!(begin <= 20, "{begin}");
        assert_eq!(scene.now(110), begin + 200);
        assert_eq!(scene.write(HOUR + 20, HOUR, HOUR), [Finding::HostAgrees, Finding::TimeAgrees]);
    }

    #[test]
    fn ahead_of_the_databases_clock_it_advances_at_half_the_speed() {
        let mut scene = Scene::new(-100, 0);
        assert_eq!((scene.now(0), scene.now(50), scene.now(100)), (100, 125, 150));
        let differs = scene.write(100, 0, 0);
        assert_eq!(differs, [Finding::TimeDiffers(Nanos::from_secs(50))]);
        assert_eq!((scene.now(199), scene.now(200), scene.now(300)), (199, 200, 300));
        assert_eq!(scene.write(300, 0, 0), [Finding::TimeAgrees]);
    }

    #[test]
    fn a_slow_write_leaves_the_time_uncertain_and_does_not_move_it() {
        let mut scene = Scene::new(0, 0);
        let (begun, ended) = (scene.at(10), scene.at(14));
        for read_after in [10, 12, 14] {
            let reading = Reading { time: after(read_after), begun, ended, wall: after(14) };
            assert_eq!(scene.clock.observe(reading), []);
            assert_eq!(scene.now(14), 14, "read after {read_after} s");
        }
        // A clock that runs a little fast is followed, without going back.
        let reading = Reading { time: after(9), begun, ended, wall: after(14) };
        scene.clock.observe(reading);
        assert_eq!(scene.now(14), 14);
        assert_eq!(scene.now(16), 15);
    }
}
