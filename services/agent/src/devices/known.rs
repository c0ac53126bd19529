//! What is known of the devices of one plugin, over time. Pure.

use std::time::{Duration, Instant};

use model::node::{NodeDevice, NodeDeviceGroup};

/// The pause after the first failure to find devices. It doubles with each further failure.
const BACKOFF_MIN: Duration = Duration::from_secs(5);
/// The maximum pause.
const BACKOFF_MAX: Duration = Duration::from_secs(30 * 60);
/// The number of failures after which the pause does not grow any more.
const DOUBLINGS_MAX: u32 = 9;

/// Why an instance that was there before is unhealthy.
const GONE: &str = "the device is not found any more";

/// The devices that a plugin has found since the agent started.
#[derive(Debug, Default)]
pub(super) struct Known {
    groups: Vec<NodeDeviceGroup>,
    /// Failures since the last success.
    failures: u32,
    next_at: Option<Instant>,
}

impl Known {
    /// The devices, as they were last found.
    pub(super) fn groups(&self) -> &[NodeDeviceGroup] {
        &self.groups
    }

    /// Whether the devices are to be looked for again.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next_at.is_none_or(|at| at <= now)
    }

    /// Records what was found, or why nothing could be found. Devices that were there before and are not any more become
    /// unhealthy, so that the tasks that use them are not forgotten and no others are placed on them.
    pub(super) fn update(&mut self, found: Result<Vec<NodeDeviceGroup>, String>, now: Instant) {
        match found {
            Ok(mut found) => {
                for group in &self.groups {
                    keep(&mut found, group);
                }
                *self = Self { groups: found, failures: 0, next_at: None };
            }
            Err(reason) => {
                let pause = BACKOFF_MIN.saturating_mul(1_u32 << self.failures.min(DOUBLINGS_MAX));
                self.failures = self.failures.saturating_add(1);
                self.next_at = Some(now + pause.min(BACKOFF_MAX));
                let instances = self.groups.iter_mut().flat_map(|group| &mut group.instances);
                instances.for_each(|instance| fail(instance, &reason));
            }
        }
    }
}

/// Adds what `found` lacks of a group that was there before.
fn keep(found: &mut Vec<NodeDeviceGroup>, before: &NodeDeviceGroup) {
    let is_same = |group: &&mut NodeDeviceGroup| {
        (&group.vendor, &group.kind, &group.name) == (&before.vendor, &before.kind, &before.name)
    };
    let gone = |instance: &NodeDevice| {
        let mut instance = instance.clone();
        fail(&mut instance, GONE);
        instance
    };
    match found.iter_mut().find(is_same) {
        Some(group) => {
            let known: Vec<_> = group.instances.iter().map(|instance| instance.id.clone()).collect();
            let missing = before.instances.iter().filter(|instance| !known.contains(&instance.id));
            group.instances.extend(missing.map(gone));
        }
        None => {
            let instances = before.instances.iter().map(gone).collect();
            found.push(NodeDeviceGroup { instances, ..before.clone() });
        }
    }
}

fn fail(instance: &mut NodeDevice, reason: &str) {
    instance.healthy = false;
    instance.health_description = reason.into();
}

#[cfg(test)]
mod tests {
    use telemetry::clock;

    use super::*;

    fn group(ids: &[&str]) -> NodeDeviceGroup {
        let instance = |id: &&str| NodeDevice { id: (*id).into(), healthy: true, ..NodeDevice::default() };
        NodeDeviceGroup {
            vendor: "v".into(),
            kind: "gpu".into(),
            name: "n".into(),
            instances: ids.iter().map(instance).collect(),
            ..NodeDeviceGroup::default()
        }
    }

    fn health(known: &Known) -> Vec<(&str, bool)> {
        let instances = known.groups().iter().flat_map(|group| &group.instances);
        instances.map(|instance| (&*instance.id, instance.healthy)).collect()
    }

    #[test]
    fn devices_that_vanish_stay_unhealthy_until_they_are_back() {
        let (mut known, now) = (Known::default(), clock::monotonic());
        known.update(Ok(vec![group(&["a", "b"])]), now);
        assert_eq!(health(&known), [("a", true), ("b", true)]);
        known.update(Ok(vec![group(&["b"])]), now);
        assert_eq!(health(&known), [("b", true), ("a", false)]);
        known.update(Ok(Vec::new()), now);
        assert_eq!(health(&known), [("b", false), ("a", false)]);
        known.update(Ok(vec![group(&["a", "b"])]), now);
        assert_eq!(health(&known), [("a", true), ("b", true)]);
    }

    #[test]
    fn a_failure_makes_devices_unhealthy_and_the_next_attempt_waits() {
        let (mut known, now) = (Known::default(), clock::monotonic());
        known.update(Ok(vec![group(&["a"])]), now);
        assert!(known.is_due(now));
        known.update(Err("broken".to_owned()), now);
        assert_eq!(&*known.groups()[0].instances[0].health_description, "broken");
        assert!(!known.is_due(now) && known.is_due(now + BACKOFF_MIN));
        for _ in 0..100 {
            known.update(Err("broken".to_owned()), now);
        }
        assert!(known.is_due(now + BACKOFF_MAX));
        known.update(Ok(vec![group(&["a"])]), now);
        assert_eq!(health(&known), [("a", true)]);
        assert!(known.is_due(now));
    }
}
