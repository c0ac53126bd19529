//! [`Heartbeats`]: the core of the node-tracker, the heartbeat timers of all nodes (`docs/rules/nodes-and-deployments.md`
//! N-4). They are kept in memory only: a heartbeat costs no write. Pure: times and chance come from the caller.
//!
//! Standbys receive every heartbeat, too, so that a process that takes over knows which nodes are silent.

use std::collections::{BTreeSet, HashMap};

use model::{Nanos, NodeId, Timestamp};
use planted_bugs::{Bug, is_planted};

/// Timers that expire within this time are reported in one command, because nodes that fail together are handled together
/// (`docs/architecture/agents.md`).
const EXPIRY_WINDOW: Nanos = Nanos(250 * Nanos::MILLISECOND.0);
/// The pause before a node whose missed heartbeat could not be reported is reported again.
const REPORT_RETRY: Nanos = Nanos::SECOND;
/// The maximum random addition to a TTL, as a fraction of it. It spreads the heartbeats of nodes that started together.
const JITTER: f64 = 0.25;
/// A tracker that has received no messages for longer than this does not expire any node for that time.
const DEAF_MAX: Nanos = Nanos::from_secs(2);

/// The settings of the heartbeat timers.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The minimum time between two heartbeats of a node.
    pub ttl_min: Nanos,
    /// How late a heartbeat may be.
    pub grace: Nanos,
    /// The maximum rate of heartbeats of all nodes together, per second.
    pub per_second_max: u32,
    /// The minimum time to live granted to nodes after a failover (N-4.4). The maximum time that a node may be silent
    /// applies if it is longer.
    pub failover_ttl: Nanos,
}

/// A timer for each node that is not down.
#[derive(Debug)]
pub struct Heartbeats {
    settings: Settings,
    due: HashMap<NodeId, Timestamp>,
    by_due: BTreeSet<(Timestamp, NodeId)>,
    /// The time of the last check, and the wall clock's time then.
    last_check: Option<(Timestamp, Timestamp)>,
}

impl Heartbeats {
    /// Creates an empty set of timers.
    pub fn new(settings: Settings) -> Self {
        Self { settings, due: HashMap::new(), by_due: BTreeSet::new(), last_check: None }
    }

    /// Returns the number of timers.
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    /// Replaces all timers. `nodes` are the nodes that are not down.
    pub fn restore(&mut self, nodes: impl IntoIterator<Item = NodeId>, now: Timestamp) {
        self.due.clear();
        self.by_due.clear();
        let nodes: Vec<NodeId> = nodes.into_iter().collect();
        let due = now + self.settings.failover_ttl.max(self.longest_silence(nodes.len()));
        nodes.into_iter().for_each(|node| self.set(node, due));
    }

    /// Makes this process the active one. `nodes` are the nodes that are not down. Nodes that were about to be reported
    /// when the process was last active have no timers any more and get new ones.
    pub fn take_over(&mut self, nodes: impl IntoIterator<Item = NodeId>, now: Timestamp) {
        if is_planted(Bug::ForgetsTimers) {
            return self.restore([], now);
        }
        nodes.into_iter().for_each(|node| self.track(node, now));
    }

    /// Restarts all timers as after a failover, because heartbeats may have been lost.
    pub(crate) fn extend_all(&mut self, now: Timestamp) {
        let nodes: Vec<NodeId> = self.due.keys().copied().collect();
        self.restore(nodes, now);
    }

    /// Checks for lost time; must be called several times a second. Messages that were sent within the last `receive_lag` may
    /// not have been received yet. A long time since the last call also means lost messages: the process was stopped or
    /// starved, or its machine slept. Only the wall clock shows that; nothing else depends on it, because it may be set to
    /// any time.
    pub fn check_clock(&mut self, now: Timestamp, wall: Timestamp, receive_lag: Nanos) {
        let last_check = self.last_check.replace((now, wall));
        let was_away =
            last_check.is_some_and(|(last, last_wall)| now - last > DEAF_MAX || wall - last_wall > DEAF_MAX);
        if receive_lag > DEAF_MAX || was_away {
            self.extend_all(now);
        }
    }

    /// Restarts the timer of a node that sent a heartbeat, and returns its TTL (N-4.2). `chance` is a random number between
    /// 0 and 1.
    pub fn beat(&mut self, node: NodeId, now: Timestamp, chance: f64) -> Nanos {
        let nodes = self.due.len() + usize::from(!self.due.contains_key(&node));
        let ttl = self.ttl(nodes, chance);
        self.set(node, now + ttl + self.settings.grace);
        ttl
    }

    /// Restarts the timer of a node whose heartbeat a standby received. The standby does not know the TTL that the active
    /// process granted, so it uses the longest possible one.
    pub fn record_standby_heartbeat(&mut self, node: NodeId, now: Timestamp) {
        if self.due.contains_key(&node) {
            self.set(node, now + self.longest_silence(self.due.len()));
        }
    }

    /// Starts a timer for a node that is not down, if it has none.
    pub fn track(&mut self, node: NodeId, now: Timestamp) {
        if !self.due.contains_key(&node) {
            self.set(node, now + self.longest_silence(self.due.len() + 1));
        }
    }

    /// Removes the timer of a node that is down or deleted.
    pub fn forget(&mut self, node: NodeId) {
        if let Some(due) = self.due.remove(&node) {
            self.by_due.remove(&(due, node));
        }
    }

    /// Starts timers for nodes that missed their heartbeats but could not be reported.
    pub fn retry_report(&mut self, nodes: &[NodeId], now: Timestamp) {
        for node in nodes {
            if !self.due.contains_key(node) {
                self.set(*node, now + REPORT_RETRY);
            }
        }
    }

    /// When [`Self::handle_timeout`] next has something to do.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.by_due.first().map(|(due, _)| *due + EXPIRY_WINDOW)
    }

    /// Removes the timers that have expired, at most `max`, and returns their nodes.
    pub fn handle_timeout(&mut self, now: Timestamp, max: usize) -> Vec<NodeId> {
        if self.poll_timeout().is_none_or(|due| due > now) {
            return Vec::new();
        }
        let overdue = self.by_due.iter().take_while(|(due, _)| *due <= now).take(max);
        let missed: Vec<NodeId> = overdue.map(|(_, node)| *node).collect();
        missed.iter().for_each(|node| self.forget(*node));
        missed
    }

    /// The TTL of a node in a cluster of `nodes` nodes. It grows with their number.
    fn ttl(&self, nodes: usize, chance: f64) -> Nanos {
        let stretched = nodes as f64 / f64::from(self.settings.per_second_max) * Nanos::SECOND.0 as f64;
        Nanos((stretched.max(self.settings.ttl_min.0 as f64) * (1.0 + JITTER * chance)) as i64)
    }

    /// The maximum time that a node may be silent in a cluster of `nodes` nodes.
    fn longest_silence(&self, nodes: usize) -> Nanos {
        self.ttl(nodes, 1.0) + self.settings.grace
    }

    fn set(&mut self, node: NodeId, due: Timestamp) {
        if let Some(before) = self.due.insert(node, due) {
            self.by_due.remove(&(before, node));
        }
        self.by_due.insert((due, node));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SETTINGS: Settings = Settings {
        ttl_min: Nanos::from_secs(5),
        grace: Nanos::from_secs(5),
        per_second_max: 2_000,
        failover_ttl: Nanos::from_secs(15),
    };
    const NOW: Timestamp = Timestamp::from_secs(1_000);
    const ALL: usize = usize::MAX;

    fn node(number: u16) -> NodeId {
        let mut bytes = [0; 16];
        bytes[14..].copy_from_slice(&number.to_be_bytes());
        NodeId::from_bytes(bytes)
    }

    fn after(secs: i64) -> Timestamp {
        NOW + Nanos::from_secs(secs)
    }

    #[test]
    fn extending_all_timers_gives_every_node_more_time() {
        let mut heartbeats = Heartbeats::new(SETTINGS);
        heartbeats.beat(node(1), NOW, 0.0);
        heartbeats.extend_all(after(9));
        assert_eq!(heartbeats.handle_timeout(after(23), ALL), []);
        assert_eq!(heartbeats.handle_timeout(after(25), ALL), [node(1)]);
    }

    #[test]
    fn a_node_is_missed_after_its_ttl_and_the_grace() {
        let mut heartbeats = Heartbeats::new(SETTINGS);
        assert_eq!(heartbeats.beat(node(1), NOW, 0.0), Nanos::from_secs(5));
        assert_eq!(heartbeats.handle_timeout(after(10), ALL), []);
        assert_eq!(heartbeats.poll_timeout(), Some(after(10) + EXPIRY_WINDOW));
        assert_eq!(heartbeats.handle_timeout(after(11), ALL), [node(1)]);
        assert_eq!((heartbeats.poll_timeout(), heartbeats.len()), (None, 0));
    }

    #[test]
    fn jitter_adds_up_to_a_quarter() {
        let mut heartbeats = Heartbeats::new(SETTINGS);
        assert_eq!(heartbeats.beat(node(1), NOW, 1.0), Nanos(6_250 * Nanos::MILLISECOND.0));
    }

    #[test]
    fn ttls_stretch_with_the_number_of_nodes() {
        let mut heartbeats = Heartbeats::new(Settings { per_second_max: 10, ..SETTINGS });
        heartbeats.restore((0..99).map(node), NOW);
        assert_eq!(heartbeats.beat(node(99), NOW, 0.0), Nanos::from_secs(10));
        assert_eq!(
            heartbeats.beat(node(99), NOW, 0.0),
            Nanos::from_secs(10),
            "a second heartbeat of the same node counts once"
        );
    }

    #[test]
    fn nodes_that_fail_together_are_missed_together() {
        let mut heartbeats = Heartbeats::new(SETTINGS);
        heartbeats.beat(node(1), NOW, 0.0);
        heartbeats.beat(node(2), NOW + Nanos(200 * Nanos::MILLISECOND.0), 0.0);
        heartbeats.beat(node(3), after(1), 0.0);
        let due = heartbeats.poll_timeout().unwrap();
        assert_eq!(heartbeats.handle_timeout(due, ALL), [node(1), node(2)]);
        let due = heartbeats.poll_timeout().unwrap();
        assert_eq!(heartbeats.handle_timeout(due, ALL), [node(3)]);
    }

    #[test]
    fn after_a_fail_over_nodes_have_longer() {
        let mut heartbeats = Heartbeats::new(SETTINGS);
        heartbeats.restore([node(1), node(2)], NOW);
        heartbeats.forget(node(2));
        assert_eq!(heartbeats.poll_timeout(), Some(after(15) + EXPIRY_WINDOW));
        heartbeats.track(node(1), NOW);
        assert_eq!(
            heartbeats.poll_timeout(),
            Some(after(15) + EXPIRY_WINDOW),
            "a running timer is not changed"
        );
    }

    #[test]
    fn a_missed_heartbeat_that_could_not_be_reported_is_reported_later() {
        let mut heartbeats = Heartbeats::new(SETTINGS);
        heartbeats.beat(node(1), NOW, 0.0);
        heartbeats.beat(node(2), NOW, 0.0);
        let missed = heartbeats.handle_timeout(after(11), ALL);
        heartbeats.beat(node(1), after(11), 0.0);
        heartbeats.retry_report(&missed, after(11));
        assert_eq!(heartbeats.handle_timeout(after(13), ALL), [node(2)], "node 1 sent a heartbeat meanwhile");
    }

    #[test]
    fn after_a_fail_over_nodes_have_as_long_as_they_were_told_to_wait() {
        let mut heartbeats = Heartbeats::new(Settings { per_second_max: 1, ..SETTINGS });
        heartbeats.restore((0..100).map(node), NOW);
        assert_eq!(
            heartbeats.poll_timeout(),
            Some(after(125 + 5) + EXPIRY_WINDOW),
            "a TTL of up to 125 s, and the grace period"
        );
        heartbeats.track(node(100), NOW);
        heartbeats.record_standby_heartbeat(node(0), NOW);
        assert_eq!(heartbeats.handle_timeout(after(131), ALL).len(), 99);
    }

    #[test]
    fn a_standby_knows_which_nodes_were_silent() {
        let (mut active, mut standby) = (Heartbeats::new(SETTINGS), Heartbeats::new(SETTINGS));
        standby.restore([node(1), node(2)], NOW);
        for secs in 0..20 {
            active.beat(node(1), after(secs), 1.0);
            standby.record_standby_heartbeat(node(1), after(secs));
            // A node that is down has no timer. Only the applier brings it back.
            standby.record_standby_heartbeat(node(3), after(secs));
        }
        assert_eq!(standby.handle_timeout(after(20), ALL), [node(2)]);
        assert!(standby.poll_timeout() >= active.poll_timeout(), "a standby never gives a node less time");
        assert_eq!(standby.len(), 1);
    }

    #[test]
    fn no_node_is_missed_by_a_process_that_was_stopped() {
        let mut heartbeats = Heartbeats::new(SETTINGS);
        heartbeats.beat(node(1), NOW, 0.0);
        let check = |heartbeats: &mut Heartbeats, secs| {
            heartbeats.check_clock(after(secs), after(secs), Nanos::ZERO);
        };
        [0, 1, 3].into_iter().for_each(|secs| check(&mut heartbeats, secs));
        assert_eq!(heartbeats.poll_timeout(), Some(after(10) + EXPIRY_WINDOW));
        check(&mut heartbeats, 3_600);
        assert_eq!(heartbeats.handle_timeout(after(3_600), ALL), []);
        assert_eq!(heartbeats.poll_timeout(), Some(after(3_615) + EXPIRY_WINDOW));
    }

    #[test]
    fn a_clock_that_is_set_delays_a_missed_heartbeat_once_and_hides_none() {
        let mut heartbeats = Heartbeats::new(SETTINGS);
        heartbeats.beat(node(1), NOW, 0.0);
        for (secs, wall) in [(0, 0), (1, -3_599), (2, -3_598), (3, 3)] {
            heartbeats.check_clock(after(secs), after(wall), Nanos::ZERO);
        }
        assert_eq!(
            heartbeats.poll_timeout(),
            Some(after(3 + 15) + EXPIRY_WINDOW),
            "the machine may have slept"
        );
        assert_eq!(heartbeats.handle_timeout(after(19), ALL), [node(1)]);
    }

    #[test]
    fn no_node_is_missed_while_echoes_are_missing() {
        let mut heartbeats = Heartbeats::new(SETTINGS);
        heartbeats.beat(node(1), NOW, 0.0);
        for secs in 1..30 {
            heartbeats.check_clock(after(secs), after(secs), Nanos::from_secs(secs));
            assert_eq!(heartbeats.handle_timeout(after(secs), ALL), []);
        }
        heartbeats.check_clock(after(30), after(30), Nanos::ZERO);
        assert_eq!(
            heartbeats.poll_timeout(),
            Some(after(29 + 15) + EXPIRY_WINDOW),
            "counted from the last check while deaf"
        );
    }

    proptest! {
        #[test]
        fn no_node_is_missed_that_sent_heartbeats_in_time(
            beats in proptest::collection::vec((0u16..8, 0i64..4_000), 1..200)
        ) {
            let mut heartbeats = Heartbeats::new(SETTINGS);
            let mut now = NOW;
            let mut last = std::collections::BTreeMap::new();
            for (number, millis) in beats {
                now = now + Nanos(millis * Nanos::MILLISECOND.0);
                for missed in heartbeats.handle_timeout(now, ALL) {
                    let heard: Timestamp = last.remove(&missed).unwrap();
                    prop_assert!((now - heard).0 >= Nanos::from_secs(10).0);
                }
                heartbeats.beat(node(number), now, 0.0);
                last.insert(node(number), now);
                prop_assert_eq!(heartbeats.len(), last.len());
            }
        }
    }
}
