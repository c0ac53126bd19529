//! Settings of what an agent does with its node before it ends (N-10.13).

use std::time::Duration;

use clap::Parser as _;
use model::Nanos;
use model::node::DrainSpec;

/// The default deadline of the drain, one hour, in milliseconds.
const DEADLINE_MS: u32 = 3_600_000;
/// How long after the deadline of the drain the agent ends anyway.
const AFTER_DEADLINE: Duration = Duration::from_secs(5);
/// How long the tasks of a node that is drained by force have to end.
const BY_FORCE: Duration = Duration::from_secs(60);

/// Settings of what an agent does with its node before it ends.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Agent")]
pub struct LeaveArgs {
    /// On SIGINT, drain the node before the agent ends, if -drain-on-shutdown is given.
    #[arg(long, env = "DROVER_LEAVE_ON_INTERRUPT")]
    pub leave_on_interrupt: bool,
    /// On SIGTERM, drain the node before the agent ends, if -drain-on-shutdown is given.
    #[arg(long, env = "DROVER_LEAVE_ON_TERMINATE")]
    pub leave_on_terminate: bool,
    /// Drain the node before the agent ends on a signal on which it leaves.
    #[arg(long, env = "DROVER_DRAIN_ON_SHUTDOWN")]
    pub drain_on_shutdown: bool,
    /// Deadline of that drain, in milliseconds.
    #[arg(long, env = "DROVER_DRAIN_DEADLINE_MS", default_value_t = DEADLINE_MS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub drain_deadline_ms: u32,
    /// Stop all allocations at once in that drain, regardless of the deadline.
    #[arg(long, env = "DROVER_DRAIN_FORCE")]
    pub drain_force: bool,
    /// Leave the allocations of system jobs in that drain.
    #[arg(long, env = "DROVER_DRAIN_IGNORE_SYSTEM_JOBS")]
    pub drain_ignore_system_jobs: bool,
}

impl Default for LeaveArgs {
    /// The settings without any flags. Environment variables apply.
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct NoFlags {
            #[command(flatten)]
            args: LeaveArgs,
        }
        NoFlags::parse_from(["agent"]).args
    }
}

/// The drain of the node of an agent that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leave {
    /// The drain.
    pub(crate) drain: DrainSpec,
    /// How long the agent waits for it.
    pub(crate) within: Duration,
}

impl Leave {
    /// The drain, if the settings ask for one.
    pub(crate) fn new(args: &LeaveArgs) -> Option<Self> {
        let &LeaveArgs { drain_on_shutdown, drain_deadline_ms, drain_force, .. } = args;
        let limit = Duration::from_millis(drain_deadline_ms.into()).saturating_add(AFTER_DEADLINE);
        let deadline = Nanos(i64::from(drain_deadline_ms).saturating_mul(Nanos::MILLISECOND.0));
        let ignore_system_jobs = args.drain_ignore_system_jobs;
        let (deadline, within) = if drain_force { (Nanos(-1), BY_FORCE) } else { (deadline, limit) };
        drain_on_shutdown.then_some(Self { drain: DrainSpec { deadline, ignore_system_jobs }, within })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drain_of_an_agent_that_leaves_has_an_end() {
        // The deadline is an hour, and the agent gives up five seconds later (N-10.13).
        let none = LeaveArgs {
            leave_on_interrupt: true,
            leave_on_terminate: true,
            drain_on_shutdown: false,
            drain_deadline_ms: DEADLINE_MS,
            drain_force: false,
            drain_ignore_system_jobs: true,
        };
        assert_eq!(Leave::new(&none), None);
        let slow = LeaveArgs { drain_on_shutdown: true, ..none };
        let drain = DrainSpec { deadline: Nanos::from_hours(1), ignore_system_jobs: true };
        assert_eq!(Leave::new(&slow), Some(Leave { drain, within: Duration::from_secs(3_605) }));
        let forced = LeaveArgs { drain_force: true, ..slow };
        let leave = Leave::new(&forced).expect("it drains");
        assert_eq!((leave.drain.deadline, leave.within), (Nanos(-1), BY_FORCE));
    }
}
