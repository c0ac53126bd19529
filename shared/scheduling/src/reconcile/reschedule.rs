//! Rescheduling: whether and when a failed allocation is replaced (`docs/rules/scheduling.md` §7.8).

use model::alloc::{ClientStatus, DesiredStatus, RescheduleEvent, RescheduleOutcome, RescheduleTracker};
use model::job::{DelayFunction, ReschedulePolicy};
use model::{EvalId, Nanos, Timestamp};
use state::AllocRef;

use super::classify::{is_replaced, unknown_since};
use super::rollout::Rollout;

/// Reschedules that are due within this time are done now.
const NOW_WINDOW: Nanos = Nanos::SECOND;
/// Number of reschedule events that a tracker keeps if the number of attempts is unlimited.
const EVENTS_KEPT: usize = 5;

/// When an allocation is rescheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Not for now; the allocation stays untainted.
    Never,
    /// Now.
    Now,
    /// At this time.
    At(Timestamp),
    /// Never; the allocation does not count any more.
    Dropped,
}

/// Decides about rescheduling the allocations of one group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rescheduler<'a> {
    pub(super) policy: Option<&'a ReschedulePolicy>,
    pub(super) is_batch: bool,
    pub(super) now: Timestamp,
    pub(super) eval: EvalId,
    pub(super) rollout: &'a Rollout<'a>,
}

impl Rescheduler<'_> {
    /// When an allocation whose node is not disconnecting is rescheduled.
    pub(super) fn due(self, alloc: AllocRef<'_>) -> Due {
        let reschedule_requested = alloc.transition().reschedule == Some(true);
        let may_be_due = alloc.is_terminal()
            || alloc.client_status() == ClientStatus::Unknown
            || self.is_batch && reschedule_requested;
        if !may_be_due {
            return Due::Never;
        }
        if alloc.is_terminal() && alloc.extra().next.is_some() {
            return Due::Dropped;
        }
        match self.filter(alloc, reschedule_requested) {
            Filter::Stays => Due::Never,
            Filter::Ignored => Due::Dropped,
            Filter::Considered => self.considered(alloc),
        }
    }

    /// When an allocation whose node has just been disconnected is rescheduled.
    pub(super) fn due_disconnecting(self, alloc: AllocRef<'_>) -> Due {
        let reschedule_requested = alloc.transition().reschedule == Some(true);
        if alloc.client_status() == ClientStatus::Unknown
            || alloc.is_terminal() && alloc.extra().next.is_some()
        {
            return Due::Dropped;
        }
        match self.filter(alloc, reschedule_requested) {
            Filter::Ignored => Due::Dropped,
            Filter::Stays | Filter::Considered if self.is_held_by_rollout(alloc) => Due::Never,
            Filter::Stays | Filter::Considered if !is_replaced(alloc) => Due::Never,
            Filter::Stays | Filter::Considered => self.at(alloc, self.time_after(alloc, self.now)),
        }
    }

    /// Whether an allocation belongs to the active deployment and has no reschedule request, so that it is not
    /// rescheduled (R-7.54 (a)).
    fn is_held_by_rollout(self, alloc: AllocRef<'_>) -> bool {
        alloc.transition().reschedule != Some(true)
            && alloc.deployment_id().is_some()
            && alloc.deployment_id() == self.rollout.active()
    }

    /// Whether an allocation is considered for rescheduling.
    fn filter(self, alloc: AllocRef<'_>, reschedule_requested: bool) -> Filter {
        let last_failed = || last_outcome(alloc) == Some(RescheduleOutcome::NoPlacement);
        let client = alloc.client_status();
        if !self.is_batch {
            return match alloc.desired_status() {
                DesiredStatus::Stop | DesiredStatus::Evict if last_failed() => Filter::Considered,
                DesiredStatus::Stop | DesiredStatus::Evict => Filter::Ignored,
                DesiredStatus::Run => match client {
                    ClientStatus::Complete | ClientStatus::Lost => Filter::Ignored,
                    ClientStatus::Pending
                    | ClientStatus::Running
                    | ClientStatus::Failed
                    | ClientStatus::Unknown => Filter::Considered,
                },
            };
        }
        if alloc.transition().migrate_disable_placement == Some(true) {
            return Filter::Stays;
        }
        if reschedule_requested {
            return Filter::Considered;
        }
        match alloc.desired_status() {
            DesiredStatus::Stop if ran_successfully(alloc) => Filter::Stays,
            DesiredStatus::Stop if last_failed() => Filter::Considered,
            DesiredStatus::Stop | DesiredStatus::Evict => Filter::Ignored,
            DesiredStatus::Run if client == ClientStatus::Failed => Filter::Considered,
            DesiredStatus::Run => Filter::Stays,
        }
    }

    /// When an allocation that is considered for rescheduling is rescheduled.
    fn considered(self, alloc: AllocRef<'_>) -> Due {
        if self.is_held_by_rollout(alloc) {
            return Due::Never;
        }
        if alloc.transition().force_reschedule == Some(true) && alloc.client_status().is_terminal() {
            return Due::Now;
        }
        let is_own_followup = alloc.extra().followup_eval == Some(self.eval);
        let time = if alloc.client_status() == ClientStatus::Unknown && is_own_followup {
            self.time_after(alloc, unknown_since(alloc).unwrap_or(self.now))
        } else {
            self.own_time(alloc)
        };
        self.at(alloc, time)
    }

    fn at(self, alloc: AllocRef<'_>, time: Option<Timestamp>) -> Due {
        let followup = alloc.extra().followup_eval;
        match time {
            Some(time) if followup == Some(self.eval) || time - self.now <= NOW_WINDOW => Due::Now,
            Some(time) if followup.is_none() => Due::At(time),
            Some(_) | None => Due::Never,
        }
    }

    /// The time of the next reschedule by how the allocation ended; `None` if it is not eligible.
    fn own_time(self, alloc: AllocRef<'_>) -> Option<Timestamp> {
        let is_stopped = alloc.desired_status() == DesiredStatus::Stop
            && last_outcome(alloc) != Some(RescheduleOutcome::NoPlacement);
        let is_over = matches!(alloc.client_status(), ClientStatus::Failed | ClientStatus::Lost)
            || self.is_batch && alloc.transition().reschedule == Some(true);
        if is_stopped || !is_over {
            return None;
        }
        self.time_after(alloc, failure_time(alloc))
    }

    /// The time of the next reschedule for a failure at `failed`; `None` if it is not eligible.
    fn time_after(self, alloc: AllocRef<'_>, failed: Timestamp) -> Option<Timestamp> {
        let policy = self.policy?;
        let events = events(alloc);
        let delay = next_delay(policy, events, failed);
        let recent = events.iter().filter(|event| failed - event.time < policy.interval).count();
        let has_attempts = policy.attempts > 0
            && (events.is_empty() || recent < policy.attempts as usize && delay < policy.interval);
        (policy.unlimited || has_attempts).then_some(failed + delay)
    }
}

enum Filter {
    Stays,
    Ignored,
    Considered,
}

/// The reschedule tracker of a replacement that is made `now`.
pub(crate) fn tracker(policy: &ReschedulePolicy, alloc: AllocRef<'_>, now: Timestamp) -> RescheduleTracker {
    let earlier = events(alloc);
    let mut events: Vec<RescheduleEvent> = if policy.unlimited {
        earlier[earlier.len().saturating_sub(EVENTS_KEPT)..].to_vec()
    } else {
        let counts = |event: &&RescheduleEvent| policy.attempts > 0 && now - event.time < policy.interval;
        earlier.iter().filter(counts).copied().collect()
    };
    let delay = next_delay(policy, earlier, failure_time(alloc));
    events.push(RescheduleEvent { time: now, previous: alloc.id(), previous_node: alloc.node_id(), delay });
    RescheduleTracker { events, last: Some(RescheduleOutcome::Ok) }
}

/// The delay of the next reschedule.
fn next_delay(policy: &ReschedulePolicy, events: &[RescheduleEvent], failed: Timestamp) -> Nanos {
    let Some(last) = events.last() else { return policy.delay };
    let delay = match policy.delay_function {
        Some(DelayFunction::Constant) | None => policy.delay,
        Some(DelayFunction::Exponential) => last.delay + last.delay,
        Some(DelayFunction::Fibonacci) => match events {
            [.., before, last] if before.delay == policy.max_delay && last.delay == policy.delay => {
                last.delay
            }
            [.., before, last] => before.delay + last.delay,
            _ => policy.delay,
        },
    };
    if policy.max_delay <= Nanos::ZERO || delay <= policy.max_delay {
        delay
    } else if failed - last.time > policy.max_delay {
        policy.delay
    } else {
        policy.max_delay
    }
}

fn events<'a>(alloc: AllocRef<'a>) -> &'a [RescheduleEvent] {
    alloc.extra().reschedule.as_ref().map_or(&[], |tracker| &tracker.events)
}

fn last_outcome(alloc: AllocRef<'_>) -> Option<RescheduleOutcome> {
    alloc.extra().reschedule.as_ref()?.last
}

/// The time when its last task ended; if no task has ended, its modify time.
fn failure_time(alloc: AllocRef<'_>) -> Timestamp {
    let states = alloc.task_states().unpack().unwrap_or_default();
    let last = states.iter().map(|state| state.finished_at).max().unwrap_or_default();
    if last.is_set() { last } else { alloc.modify_time() }
}

/// Whether there are task states, and all of them are successful (`docs/rules/scheduling.md` §0).
pub(crate) fn ran_successfully(alloc: AllocRef<'_>) -> bool {
    let states = alloc.task_states().unpack().unwrap_or_default();
    !states.is_empty() && states.iter().all(|state| state.successful())
}

#[cfg(test)]
mod tests {
    use model::{AllocId, NodeId};

    use super::*;

    /// The delays of a series in which each failure follows immediately on the reschedule before it.
    fn series(policy: &ReschedulePolicy, length: usize) -> Vec<i64> {
        let (mut events, mut now) = (Vec::new(), Timestamp::from_secs(1_000_000));
        for _ in 0..length {
            let delay = next_delay(policy, &events, now);
            now = now + delay;
            let (previous, previous_node) = (AllocId::from_bytes([1; 16]), NodeId::from_bytes([1; 16]));
            events.push(RescheduleEvent { time: now, previous, previous_node, delay });
        }
        events.iter().map(|event| event.delay.0 / Nanos::SECOND.0).collect()
    }

    fn policy(function: DelayFunction, delay: i64, max_delay: i64) -> ReschedulePolicy {
        ReschedulePolicy {
            delay: Nanos::from_secs(delay),
            delay_function: Some(function),
            max_delay: Nanos::from_secs(max_delay),
            unlimited: true,
            ..ReschedulePolicy::default()
        }
    }

    /// The worked example of exponential delays.
    #[test]
    fn exponential_delays_double_up_to_the_longest() {
        let policy = policy(DelayFunction::Exponential, 30, 3_600);
        assert_eq!(series(&policy, 9), [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
    }

    #[test]
    fn a_failure_after_the_longest_delay_begins_anew() {
        let policy = policy(DelayFunction::Exponential, 30, 40);
        let last = RescheduleEvent {
            time: Timestamp::from_secs(100),
            previous: AllocId::from_bytes([1; 16]),
            previous_node: NodeId::from_bytes([1; 16]),
            delay: Nanos::from_secs(30),
        };
        let delay = |failed| next_delay(&policy, &[last], Timestamp::from_secs(failed));
        assert_eq!((delay(140), delay(141)), (Nanos::from_secs(40), Nanos::from_secs(30)));
    }

    /// The worked example of Fibonacci delays.
    #[test]
    fn fibonacci_delays_are_the_sum_of_the_last_two() {
        assert_eq!(series(&policy(DelayFunction::Fibonacci, 5, 0), 6), [5, 5, 10, 15, 25, 40]);
    }
}
