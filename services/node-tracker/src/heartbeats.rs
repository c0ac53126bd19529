//! When each node is to be heard of next (`spec/nodes-and-deployments.md` N-4). Memory only: heartbeats cost no write.
//!
//! Processes that stand by overhear every heartbeat, so that whoever takes over knows who was silent.

use std::collections::{BTreeSet, HashMap};

use model::{Nanos, NodeId, Timestamp};
use planted_bugs::{Bug, is_planted};

/// Expiries within so long are one command: nodes that fail together are dealt with together (design §10).
const TOGETHER: Nanos = Nanos(250 * Nanos::MILLISECOND.0);
/// When an expiry that could not be reported is tried again.
const AGAIN: Nanos = Nanos::SECOND;
/// Up to which share of a TTL is added to it, so that nodes that began together part.
const JITTER: f64 = 0.25;
/// Who could hear nothing for so long does not say of a node that it was silent.
const DEAF: Nanos = Nanos::from_secs(2);

/// How often nodes are to be heard of.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The shortest time between two heartbeats of a node.
    pub ttl_min: Nanos,
    /// How late one may be.
    pub grace: Nanos,
    /// How many are wanted in a second, of all nodes together.
    pub per_second_max: u32,
    /// How long nodes have that this process knows no more of than that they are there (N-4.4); at least as long as any
    /// may be silent.
    pub failover_ttl: Nanos,
}

/// A timer for each node that is not down.
#[derive(Debug)]
pub struct Heartbeats {
    settings: Settings,
    due: HashMap<NodeId, Timestamp>,
    by_due: BTreeSet<(Timestamp, NodeId)>,
    /// When the clock was last looked at.
    looked: Option<Timestamp>,
}

impl Heartbeats {
    /// With no timers yet.
    pub fn new(settings: Settings) -> Self {
        Self { settings, due: HashMap::new(), by_due: BTreeSet::new(), looked: None }
    }

    /// How many timers there are.
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    /// Begins anew, with `nodes` that are not down.
    pub fn restore(&mut self, nodes: impl IntoIterator<Item = NodeId>, now: Timestamp) {
        self.due.clear();
        self.by_due.clear();
        let nodes: Vec<NodeId> = nodes.into_iter().collect();
        let due = now + self.settings.failover_ttl.max(self.longest_silence(nodes.len()));
        nodes.into_iter().for_each(|node| self.set(node, due));
    }

    /// This process becomes the active one, and `nodes` are not down. Those that it was about to report when it was last
    /// active have no timers any more.
    pub fn take_over(&mut self, nodes: impl IntoIterator<Item = NodeId>, now: Timestamp) {
        if is_planted(Bug::ForgetsTimers) {
            return self.restore([], now);
        }
        nodes.into_iter().for_each(|node| self.track(node, now));
    }

    /// For a while nobody could be heard of: all nodes have as long as if this process had just begun.
    pub(crate) fn was_deaf(&mut self, now: Timestamp) {
        let nodes: Vec<NodeId> = self.due.keys().copied().collect();
        self.restore(nodes, now);
    }

    /// Looks at the clock, which is to be done several times a second; what was sent within `unheard` may not be heard yet.
    /// A process that did not look was deaf, too: it was stopped or starved, or its machine slept, which no other clock
    /// shows.
    pub fn look(&mut self, now: Timestamp, unheard: Nanos) {
        let looked = self.looked.replace(now);
        if unheard > DEAF || looked.is_some_and(|looked| now - looked > DEAF) {
            self.was_deaf(now);
        }
    }

    /// A node was heard of; `chance` is between 0 and 1. Says how long it may wait until its next heartbeat (N-4.2).
    pub fn beat(&mut self, node: NodeId, now: Timestamp, chance: f64) -> Nanos {
        let nodes = self.due.len() + usize::from(!self.due.contains_key(&node));
        let ttl = self.ttl(nodes, chance);
        self.set(node, now + ttl + self.settings.grace);
        ttl
    }

    /// A node was heard of by the active process, and by this one that stands by. How long that one lets it wait is not
    /// known; it is never longer than this.
    pub fn overhear(&mut self, node: NodeId, now: Timestamp) {
        if self.due.contains_key(&node) {
            self.set(node, now + self.longest_silence(self.due.len()));
        }
    }

    /// Sees to it that a node has a timer, because it turned out not to be down.
    pub fn track(&mut self, node: NodeId, now: Timestamp) {
        if !self.due.contains_key(&node) {
            self.set(node, now + self.longest_silence(self.due.len() + 1));
        }
    }

    /// A node is down or gone.
    pub fn forget(&mut self, node: NodeId) {
        if let Some(due) = self.due.remove(&node) {
            self.by_due.remove(&(due, node));
        }
    }

    /// Nodes were missed, and nobody could be told.
    pub fn again(&mut self, nodes: &[NodeId], now: Timestamp) {
        for node in nodes {
            if !self.due.contains_key(node) {
                self.set(*node, now + AGAIN);
            }
        }
    }

    /// When [`Self::handle_timeout`] next has something to do.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.by_due.first().map(|(due, _)| *due + TOGETHER)
    }

    /// The nodes that are missed, which have no timer any more; at most `max` of them.
    pub fn handle_timeout(&mut self, now: Timestamp, max: usize) -> Vec<NodeId> {
        if self.poll_timeout().is_none_or(|due| due > now) {
            return Vec::new();
        }
        let overdue = self.by_due.iter().take_while(|(due, _)| *due <= now).take(max);
        let missed: Vec<NodeId> = overdue.map(|(_, node)| *node).collect();
        missed.iter().for_each(|node| self.forget(*node));
        missed
    }

    /// How long one of so many nodes may wait until its next heartbeat. With many, all wait longer.
    fn ttl(&self, nodes: usize, chance: f64) -> Nanos {
        let stretched = nodes as f64 / f64::from(self.settings.per_second_max) * Nanos::SECOND.0 as f64;
        Nanos((stretched.max(self.settings.ttl_min.0 as f64) * (1.0 + JITTER * chance)) as i64)
    }

    /// How long one of so many nodes may be silent at most.
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
    fn nobody_is_missed_whom_nobody_could_hear() {
        let mut heartbeats = Heartbeats::new(SETTINGS);
        heartbeats.beat(node(1), NOW, 0.0);
        heartbeats.was_deaf(after(9));
        assert_eq!(heartbeats.handle_timeout(after(23), ALL), []);
        assert_eq!(heartbeats.handle_timeout(after(25), ALL), [node(1)]);
    }

    #[test]
    fn a_node_has_its_ttl_and_the_grace_to_be_heard_of() {
        let mut heartbeats = Heartbeats::new(SETTINGS);
        assert_eq!(heartbeats.beat(node(1), NOW, 0.0), Nanos::from_secs(5));
        assert_eq!(heartbeats.handle_timeout(after(10), ALL), []);
        assert_eq!(heartbeats.poll_timeout(), Some(after(10) + TOGETHER));
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
        assert_eq!(heartbeats.beat(node(99), NOW, 0.0), Nanos::from_secs(10), "and not by one node twice");
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
        assert_eq!(heartbeats.poll_timeout(), Some(after(15) + TOGETHER));
        heartbeats.track(node(1), NOW);
        assert_eq!(heartbeats.poll_timeout(), Some(after(15) + TOGETHER), "a timer that runs is left alone");
    }

    #[test]
    fn what_could_not_be_reported_is_reported_later() {
        let mut heartbeats = Heartbeats::new(SETTINGS);
        heartbeats.beat(node(1), NOW, 0.0);
        heartbeats.beat(node(2), NOW, 0.0);
        let missed = heartbeats.handle_timeout(after(11), ALL);
        heartbeats.beat(node(1), after(11), 0.0);
        heartbeats.again(&missed, after(11));
        assert_eq!(heartbeats.handle_timeout(after(13), ALL), [node(2)], "node 1 was heard of meanwhile");
    }

    #[test]
    fn after_a_fail_over_nodes_have_as_long_as_they_were_told_to_wait() {
        let mut heartbeats = Heartbeats::new(Settings { per_second_max: 1, ..SETTINGS });
        heartbeats.restore((0..100).map(node), NOW);
        assert_eq!(heartbeats.poll_timeout(), Some(after(125 + 5) + TOGETHER), "up to 125 s, and the grace");
        heartbeats.track(node(100), NOW);
        heartbeats.overhear(node(0), NOW);
        assert_eq!(heartbeats.handle_timeout(after(131), ALL).len(), 99);
    }

    #[test]
    fn who_takes_over_knows_who_was_silent() {
        let (mut active, mut standby) = (Heartbeats::new(SETTINGS), Heartbeats::new(SETTINGS));
        standby.restore([node(1), node(2)], NOW);
        for secs in 0..20 {
            active.beat(node(1), after(secs), 1.0);
            standby.overhear(node(1), after(secs));
            // One that is down, and has no timer, is brought back by the applier only.
            standby.overhear(node(3), after(secs));
        }
        assert_eq!(standby.handle_timeout(after(20), ALL), [node(2)]);
        assert!(standby.poll_timeout() >= active.poll_timeout(), "it never gives a node less time");
        assert_eq!(standby.len(), 1);
    }

    #[test]
    fn nobody_is_missed_by_a_process_that_was_stopped() {
        let mut heartbeats = Heartbeats::new(SETTINGS);
        heartbeats.beat(node(1), NOW, 0.0);
        [0, 1, 3].into_iter().for_each(|secs| heartbeats.look(after(secs), Nanos::ZERO));
        assert_eq!(heartbeats.poll_timeout(), Some(after(10) + TOGETHER));
        heartbeats.look(after(3_600), Nanos::ZERO);
        assert_eq!(heartbeats.handle_timeout(after(3_600), ALL), []);
        assert_eq!(heartbeats.poll_timeout(), Some(after(3_615) + TOGETHER));
    }

    #[test]
    fn nobody_is_missed_while_nobody_can_be_heard() {
        let mut heartbeats = Heartbeats::new(SETTINGS);
        heartbeats.beat(node(1), NOW, 0.0);
        for secs in 1..30 {
            heartbeats.look(after(secs), Nanos::from_secs(secs));
            assert_eq!(heartbeats.handle_timeout(after(secs), ALL), []);
        }
        heartbeats.look(after(30), Nanos::ZERO);
        assert_eq!(heartbeats.poll_timeout(), Some(after(29 + 15) + TOGETHER), "from when it could be last");
    }

    proptest! {
        #[test]
        fn no_node_is_missed_that_was_heard_in_time(
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
