//! [`Workload`]: what the user of a history does besides registering and stopping ordinary services, and how everything is
//! brought to rest in the end.

use std::collections::BTreeMap;
use std::fmt;

use model::change::JobSummary;
use model::job::dispatched_id;
use model::node::{DrainSpec, Eligibility};
use model::schedule::launched_until;
use model::{Nanos, NodeId, Timestamp};
use planted_bugs::{Bug, is_planted};
use rand::RngExt as _;
use state::State;
use wire::command::{Command, DeregisterJob, DispatchJob, ScaleJob, UpdateDrain};

use crate::jobs;
use crate::world::World;

/// The share of histories in which the user only registers and stops ordinary services.
const PLAIN_SHARE: f64 = 0.5;
/// The share of the other histories that each part belongs to.
const PART_SHARE: f64 = 0.4;
/// Deadlines of drains; a negative one is a drain at once.
const DEADLINES: [Nanos; 3] = [Nanos(-1), Nanos::from_secs(2), Nanos::from_secs(5)];
/// The number of idempotency tokens.
const TOKENS: u32 = 8;
/// The highest count that an ordinary service is scaled to, and the maximum that the servers enforce.
const COPIES_MAX: u32 = 3;
const COUNT_MAX: u32 = 1_000;
/// The launches of a periodic job keep up if the last one is not longer ago than this.
const KEEPS_UP: Nanos = Nanos::from_secs(6);

/// The parts of a history's workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Workload {
    /// Ordinary services are registered under names.
    pub(crate) has_services: bool,
    /// Nodes are drained.
    has_drains: bool,
    /// A periodic job is launched.
    has_launches: bool,
    /// A job is dispatched.
    has_dispatches: bool,
    /// A service is updated by deployments with canaries.
    has_rollouts: bool,
    /// Ordinary services are scaled.
    has_scaling: bool,
}

impl Workload {
    /// Draws the parts.
    pub(crate) fn random(world: &mut World) -> Self {
        let is_plain = world.chance(PLAIN_SHARE);
        let mut has = || world.chance(PART_SHARE) && !is_plain;
        let drawn = Self {
            has_services: has(),
            has_drains: has(),
            has_launches: has(),
            has_dispatches: has(),
            has_rollouts: has(),
            has_scaling: has(),
        };
        // Rollouts on nodes that drain are left out. Other rollouts are played to find the bug that concerns them: where a
        // canary and all older copies are lost at once, R-7.85 places nothing before the deployment's progress deadline.
        let has_rollouts = drawn.has_rollouts && !drawn.has_drains && is_planted(Bug::NeverPromotes);
        Self { has_rollouts, ..drawn }
    }

    /// The names of the parts.
    fn parts(self) -> Vec<&'static str> {
        let all = [
            (self.has_services, "services"),
            (self.has_drains, "drains"),
            (self.has_launches, "launches"),
            (self.has_dispatches, "dispatches"),
            (self.has_rollouts, "rollouts"),
            (self.has_scaling, "scaling"),
        ];
        all.into_iter().filter_map(|(has, name)| has.then_some(name)).collect()
    }

    /// Whether there is none.
    pub(crate) fn is_plain(self) -> bool {
        self.parts().is_empty()
    }

    /// The next command of a random part, if there is any part.
    pub(crate) fn command(self, nodes: &[NodeId], world: &mut World) -> Option<Command> {
        let parts = self.parts();
        let part = parts.get(world.rng.random_range(0..parts.len().max(1)))?;
        Some(match *part {
            "drains" => drain(nodes, world),
            "launches" => launch(world),
            "dispatches" => dispatch(world),
            // No version has the tasks of an earlier one, so none is updated in place.
            "rollouts" => jobs::register(jobs::rolling(world.rng.random_range(0..u32::MAX))),
            "scaling" => scale(world),
            // Names of ordinary services come and go with their registrations.
            _ => return None,
        })
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts();
        if parts.is_empty() { f.write_str("plain") } else { f.write_str(&parts.join(", ")) }
    }
}

/// Registers the service that drains are about, or begins, changes or cancels a drain.
fn drain(nodes: &[NodeId], world: &mut World) -> Command {
    let node = nodes[world.rng.random_range(0..nodes.len())];
    match world.rng.random_range(0..10) {
        0..3 => jobs::register(jobs::steady()),
        3..8 => {
            let deadline = DEADLINES[world.rng.random_range(0..DEADLINES.len())];
            update_drain(node, Some(DrainSpec { deadline, ignore_system_jobs: false }))
        }
        _ => update_drain(node, None),
    }
}

/// Sets or cancels a drain. A node whose drain is cancelled is eligible again.
fn update_drain(node: NodeId, drain: Option<DrainSpec>) -> Command {
    Command::UpdateDrain(UpdateDrain {
        node,
        mark_eligible: drain.is_none(),
        drain,
        meta: BTreeMap::new(),
        accessor_id: "".into(),
    })
}

/// Registers or stops the periodic job.
fn launch(world: &mut World) -> Command {
    if world.chance(0.8) { jobs::register(jobs::periodic()) } else { stop(jobs::PERIODIC) }
}

fn stop(id: &str) -> Command {
    let job = jobs::key(id);
    Command::DeregisterJob(DeregisterJob { job, purge: false, eval_priority: None, no_shutdown_delay: false })
}

/// Registers the parameterized job, or dispatches it, under one of a few tokens or without any.
fn dispatch(world: &mut World) -> Command {
    if world.chance(0.2) {
        return jobs::register(jobs::parameterized());
    }
    let token = match world.rng.random_range(0..2 * TOKENS) {
        number if number < TOKENS => format!("token-{number}"),
        _ => String::new(),
    };
    let id = dispatched_id(jobs::PARAMETERIZED, "", world.wall(), world.rng.random_range(0..u32::MAX));
    Command::DispatchJob(Box::new(DispatchJob {
        parent: jobs::key(jobs::PARAMETERIZED),
        id,
        payload: None,
        meta: BTreeMap::new(),
        priority: None,
        idempotency_token: token.into(),
    }))
}

fn scale(world: &mut World) -> Command {
    let id = format!("job-{}", world.rng.random_range(0..3));
    Command::ScaleJob(ScaleJob {
        job: jobs::key(&id),
        group: jobs::GROUP.into(),
        count: Some(world.rng.random_range(1..=COPIES_MAX)),
        count_max: COUNT_MAX,
        message: "".into(),
        error: false,
        meta: None,
        enforce_index: None,
    })
}

/// What the user does in the end, so that everything can come to rest: nodes become eligible again once all drains are
/// over, and the periodic job is stopped once its launches have kept up.
pub(crate) fn tidying(state: &State, now: Timestamp) -> Vec<Command> {
    let mut commands = Vec::new();
    if state.nodes().all(|node| node.server().drain.is_none()) {
        let ineligible = state.nodes().filter(|node| node.server().eligibility != Eligibility::Eligible);
        commands.extend(ineligible.map(|node| update_drain(node.id(), None)));
    }
    let key = jobs::key(jobs::PERIODIC);
    if let Some(job) = state.job(&key).filter(|job| !job.spec.stop) {
        let summary: Option<&JobSummary> = state.job_summary(&key).map(|summary| &**summary);
        if launched_until(job, summary) + KEEPS_UP >= now {
            commands.push(stop(jobs::PERIODIC));
        }
    }
    commands
}
