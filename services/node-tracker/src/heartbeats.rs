//! When each node is to be heard of next (`spec/nodes-and-deployments.md` N-4). Memory only: heartbeats cost no write.

use std::collections::{BTreeSet, HashMap};

use model::{Nanos, NodeId, Timestamp};

/// Expiries within so long are one command: nodes that fail together are dealt with together (design §10).
const TOGETHER: Nanos = Nanos(250 * Nanos::MILLISECOND.0);
/// When an expiry that could not be reported is tried again.
const AGAIN: Nanos = Nanos::SECOND;
/// Up to which share of a TTL is added to it, so that nodes that began together part.
const JITTER: f64 = 0.25;

/// How often nodes are to be heard of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// The shortest time between two heartbeats of a node.
    pub(crate) ttl_min: Nanos,
    /// How late one may be.
    pub(crate) grace: Nanos,
    /// How many are wanted in a second, of all nodes together.
    pub(crate) per_second_max: u32,
    /// How long nodes have after another process has become active (N-4.4).
    pub(crate) failover_ttl: Nanos,
}

/// A timer for each node that is not down.
#[derive(Debug)]
pub(crate) struct Heartbeats {
    settings: Settings,
    due: HashMap<NodeId, Timestamp>,
    by_due: BTreeSet<(Timestamp, NodeId)>,
}

impl Heartbeats {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, due: HashMap::new(), by_due: BTreeSet::new() }
    }

    /// How many timers there are.
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    /// Begins anew, with `nodes` that are not down.
    pub(crate) fn restore(&mut self, nodes: impl IntoIterator<Item = NodeId>, now: Timestamp) {
        self.due.clear();
        self.by_due.clear();
        nodes.into_iter().for_each(|node| self.set(node, now + self.settings.failover_ttl));
    }

    /// A node was heard of; `chance` is between 0 and 1. Says how long it may wait until its next heartbeat (N-4.2).
    pub(crate) fn beat(&mut self, node: NodeId, now: Timestamp, chance: f64) -> Nanos {
        let nodes = self.due.len() + usize::from(!self.due.contains_key(&node));
        let stretched = nodes as f64 / f64::from(self.settings.per_second_max) * Nanos::SECOND.0 as f64;
        let ttl = stretched.max(self.settings.ttl_min.0 as f64) * (1.0 + JITTER * chance);
        let ttl = Nanos(ttl as i64);
        self.set(node, now + ttl + self.settings.grace);
        ttl
    }

    /// Sees to it that a node has a timer, because it turned out not to be down.
    pub(crate) fn track(&mut self, node: NodeId, now: Timestamp) {
        if !self.due.contains_key(&node) {
            self.set(node, now + self.settings.ttl_min + self.settings.grace);
        }
    }

    /// A node is down or gone.
    pub(crate) fn forget(&mut self, node: NodeId) {
        if let Some(due) = self.due.remove(&node) {
            self.by_due.remove(&(due, node));
        }
    }

    /// Nodes were missed, and nobody could be told.
    pub(crate) fn again(&mut self, nodes: &[NodeId], now: Timestamp) {
        for node in nodes {
            if !self.due.contains_key(node) {
                self.set(*node, now + AGAIN);
            }
        }
    }

    /// When [`Self::handle_timeout`] next has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.by_due.first().map(|(due, _)| *due + TOGETHER)
    }

    /// The nodes that are missed, which have no timer any more; at most `max` of them.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp, max: usize) -> Vec<NodeId> {
        if self.poll_timeout().is_none_or(|due| due > now) {
            return Vec::new();
        }
        let overdue = self.by_due.iter().take_while(|(due, _)| *due <= now).take(max);
        let missed: Vec<NodeId> = overdue.map(|(_, node)| *node).collect();
        missed.iter().for_each(|node| self.forget(*node));
        missed
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
