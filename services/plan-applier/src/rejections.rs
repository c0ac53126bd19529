//! Which nodes are rejected in plans again and again. On such a node, what the schedulers assume and what the
//! applier finds differ for some reason, so it gets no new work until an operator has looked at it. Pure: time comes from
//! the caller.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use model::NodeId;

/// Maximum number of nodes that are tracked. Beyond it, the node whose last rejection is the oldest is forgotten.
const NODES_MAX: usize = 50;
/// Maximum number of nodes that are reported at once.
const BURST: u32 = 10;
/// The time after which another node may be reported: five in half an hour.
const REFILL: Duration = Duration::from_secs(6 * 60);

/// When a node counts as rejected too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Threshold {
    /// The number of rejections; at least one.
    pub(crate) rejections: usize,
    /// The time in which they happen.
    pub(crate) window: Duration,
}

/// The outcome of a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Score {
    /// How often the node was rejected within the window.
    pub(crate) rejections: usize,
    /// Whether it should get no new work.
    pub(crate) is_reported: bool,
}

/// The rejections of nodes.
#[derive(Debug)]
pub(crate) struct Rejections {
    threshold: Threshold,
    /// The last rejections of each node, the oldest first, no more than the threshold; never empty.
    nodes: BTreeMap<NodeId, VecDeque<Instant>>,
    /// How many nodes may be reported now.
    reports_left: u32,
    /// When that number last grew.
    refilled: Instant,
}

impl Rejections {
    /// Knows no rejections yet.
    pub(crate) fn new(threshold: Threshold, now: Instant) -> Self {
        Self { threshold, nodes: BTreeMap::new(), reports_left: BURST, refilled: now }
    }

    /// Records that a node was rejected in a plan.
    pub(crate) fn record(&mut self, node: NodeId, now: Instant) -> Score {
        let Threshold { rejections: threshold, window } = self.threshold;
        if self.nodes.len() >= NODES_MAX && !self.nodes.contains_key(&node) {
            let oldest = self.nodes.iter().min_by_key(|(_, rejections)| rejections.back().copied());
            if let Some(oldest) = oldest.map(|(oldest, _)| *oldest) {
                self.nodes.remove(&oldest);
            }
        }
        let found = self.nodes.entry(node).or_default();
        found.retain(|rejected| now.saturating_duration_since(*rejected) < window);
        found.push_back(now);
        if found.len() > threshold {
            found.pop_front();
        }
        let rejections = found.len();
        let is_reported = rejections >= threshold && self.may_report(now);
        if is_reported {
            self.nodes.remove(&node);
        }
        Score { rejections, is_reported }
    }

    fn may_report(&mut self, now: Instant) -> bool {
        while self.reports_left < BURST && now.saturating_duration_since(self.refilled) >= REFILL {
            self.reports_left += 1;
            self.refilled += REFILL;
        }
        if self.reports_left == BURST {
            self.refilled = now;
        }
        let may_report = self.reports_left > 0;
        self.reports_left = self.reports_left.saturating_sub(1);
        may_report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(300);

    fn node(number: u8) -> NodeId {
        NodeId::from_bytes([number; 16])
    }

    fn rejections(threshold: usize) -> (Rejections, Instant) {
        let now = telemetry::clock::monotonic();
        (Rejections::new(Threshold { rejections: threshold, window: WINDOW }, now), now)
    }

    #[test]
    fn a_node_is_reported_when_it_was_rejected_too_often_within_the_window() {
        //
        let (mut tracker, now) = rejections(3);
        let mut record = |secs| tracker.record(node(1), now + Duration::from_secs(secs));
        assert_eq!(record(0), Score { rejections: 1, is_reported: false });
        assert_eq!(record(200), Score { rejections: 2, is_reported: false });
        assert_eq!(record(300), Score { rejections: 2, is_reported: false }, "the first one is too old");
        assert_eq!(record(301), Score { rejections: 3, is_reported: true });
        assert_eq!(record(302), Score { rejections: 1, is_reported: false }, "it begins anew");
    }

    #[test]
    fn few_nodes_are_reported_at_once() {
        // five in half an hour, ten at once.
        let (mut tracker, now) = rejections(1);
        let reported = (0..12).filter(|number| tracker.record(node(*number), now).is_reported).count();
        assert_eq!(reported, 10);
        let later = now + REFILL;
        assert!(tracker.record(node(20), later).is_reported);
        assert!(!tracker.record(node(21), later).is_reported);
    }

    #[test]
    fn the_number_of_tracked_nodes_is_limited() {
        let (mut tracker, now) = rejections(2);
        for number in 0..60_u8 {
            tracker.record(node(number), now + Duration::from_millis(number.into()));
        }
        assert_eq!(tracker.nodes.len(), NODES_MAX);
        assert!(!tracker.nodes.contains_key(&node(9)) && tracker.nodes.contains_key(&node(10)));
    }
}
