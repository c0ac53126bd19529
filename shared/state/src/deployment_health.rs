//! [`DeploymentHealth`]: how many allocations of a deployment are healthy, and what follows from that for its groups.

use std::collections::BTreeMap;

use model::Text;
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus};

use crate::tables::State;
use crate::views::AllocRef;

/// The healthy allocations of a deployment that are not terminal, by group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeploymentHealth {
    groups: BTreeMap<Text, GroupHealth>,
}

/// The healthy allocations of one group of a deployment that are not terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupHealth {
    /// How many there are.
    pub healthy: u32,
    /// How many of them are canaries that were not promoted.
    pub canaries: u32,
}

impl DeploymentHealth {
    /// Counts the allocations of a deployment.
    pub fn of(state: &State, deployment: &Deployment) -> Self {
        let mut health = Self::default();
        let allocs = state.allocs_of_job(&deployment.job.job);
        allocs
            .filter(|alloc| alloc.deployment_id() == Some(deployment.id))
            .for_each(|alloc| health.add(alloc));
        health
    }

    /// Counts an allocation of the deployment, if it is healthy and not terminal.
    pub fn add(&mut self, alloc: AllocRef<'_>) {
        let Some(health) = alloc.health() else { return };
        if health.healthy == Some(true) && !alloc.is_terminal() {
            let group = self.groups.entry(Text::clone(alloc.group_name())).or_default();
            group.healthy += 1;
            group.canaries += u32::from(health.canary);
        }
    }

    /// The counts of a group.
    pub fn group(&self, name: &Text) -> GroupHealth {
        self.groups.get(name).copied().unwrap_or_default()
    }

    /// Whether a group has all the healthy allocations that it needs for now. Until its canaries are promoted, these are the
    /// canaries (N-14.4).
    pub fn is_enough(&self, name: &Text, group: &DeploymentGroup) -> bool {
        let needed = if group.needs_promotion() { group.desired_canaries } else { group.desired_total };
        self.group(name).healthy >= needed
    }

    /// Whether the canaries of a deployment are promoted without a user: all groups with canaries ask for it, have placed
    /// their canaries, and have exactly as many healthy ones as they desire (N-14.7, R-7.94).
    pub fn promotes_itself(&self, deployment: &Deployment) -> bool {
        let with_canaries = || deployment.groups.iter().filter(|(_, group)| group.desired_canaries > 0);
        let is_ready = |name: &Text, group: &DeploymentGroup| {
            let is_placed = group.placed_canaries.len() >= group.desired_canaries as usize;
            let has_all = group.promoted || self.group(name).canaries == group.desired_canaries;
            group.auto_promote && is_placed && has_all
        };
        deployment.status == DeploymentStatus::Running
            && with_canaries().any(|(_, group)| group.needs_promotion())
            && with_canaries().all(|(name, group)| is_ready(name, group))
    }
}
