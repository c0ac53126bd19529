//! Default values of jobs.
//!
//! [`canonicalise`] fills in the defaults of a job of the API, as the parse route does on request (`docs/rules/jobspec.md` §11,
//! §12). [`canonicalise_for_registration`] also applies the changes that the server makes at admission. Both work in place
//! and are idempotent. The default values are in `defaults`, the rules in the other files. Nothing here validates a job:
//! invalid values are left unchanged.
//!
//! Some members cannot be omitted by clients, which send `""` or 0 instead. An empty value of such a member counts as
//! unset (`fill_empty`). All other members are unset only if they are absent (`fill`).

mod defaults;
mod merge;
mod registration;
mod resources;
mod service;
mod task;
mod zeros;

use api_types::{
    Affinity, Job, Multiregion, PeriodicConfig, ScalingPolicy, Spread, TaskGroup, UpdateStrategy,
};

use self::defaults::{Block, Policies};
use self::merge::merge_block;
use self::zeros::Zeros as _;
use crate::job::JobType;
use crate::mirror::Mirror as _;

pub use registration::{RegistrationDefaults, canonicalise_for_registration};

/// Fills in the defaults of a job, its groups and its tasks.
pub fn canonicalise(job: &mut Job) {
    fill(&mut job.id, "");
    fill(&mut job.name, text(&job.id));
    fill(&mut job.region, defaults::REGION);
    fill(&mut job.namespace, defaults::NAMESPACE);
    fill(&mut job.r#type, JobType::default().as_str());
    fill(&mut job.priority, defaults::PRIORITY);
    each(&mut job.affinities).for_each(affinity);
    each(&mut job.spreads).for_each(spread);
    if let Some(regions) = &mut job.multiregion {
        multiregion(regions);
    }
    if let Some(config) = &mut job.periodic {
        periodic(config);
    }
    job.fill_zeros();

    let policies = Policies::for_type(text(&job.r#type).parse().ok());
    let Job { id, task_groups, update, reschedule, migrate, .. } = job;
    let update = match update {
        Some(unused) if *unused == unused_update() => None,
        update => {
            merge_block(update, None, &policies.update);
            update.as_ref()
        }
    };
    for group in each(task_groups) {
        merge_block(&mut group.update, update, &policies.update);
        merge_block(&mut group.migrate, migrate.as_ref(), &policies.migrate);
        merge_block(&mut group.reschedule_policy, reschedule.as_ref(), &policies.reschedule);
        merge_block(&mut group.restart_policy, None, &policies.restart);
        task_group(group, text(id));
        let TaskGroup { name, tasks, restart_policy, .. } = group;
        for task in each(tasks) {
            merge_block(&mut task.restart_policy, restart_policy.as_ref(), &policies.restart);
            task::canonicalise(task, text(id), text(name));
        }
    }
}

/// Fills in the defaults of a group that do not depend on the type of the job. The tasks are not included.
fn task_group(group: &mut TaskGroup, job_id: &str) {
    fill(&mut group.name, "");
    let min = group.scaling.as_ref().and_then(|scaling| scaling.min);
    let count = *group.count.get_or_insert(min.unwrap_or(defaults::COUNT));
    if let Some(scaling) = &mut group.scaling {
        scaling_bounds(scaling, count);
        fill_empty(&mut scaling.r#type, defaults::SCALING_TYPE);
    }
    merge_block(&mut group.ephemeral_disk, None, &Block::always(defaults::EPHEMERAL_DISK));
    each(&mut group.affinities).for_each(affinity);
    each(&mut group.spreads).for_each(spread);
    if let Some(disconnect) = &mut group.disconnect {
        fill(&mut disconnect.replace, true);
        fill(&mut disconnect.reconcile, defaults::RECONCILE);
    }
    if let Some(consul) = &mut group.consul {
        fill_empty(&mut consul.cluster, defaults::CLUSTER);
    }
    for service in each(&mut group.services) {
        service::canonicalise(service, || format!("{job_id}-{}", text(&group.name)));
    }
}

/// Fills in the bounds of a scaling policy. `min` is the group's count, or 0 for the policy of a task.
fn scaling_bounds(scaling: &mut ScalingPolicy, min: i64) {
    fill(&mut scaling.enabled, true);
    fill(&mut scaling.min, min);
}

fn affinity(affinity: &mut Affinity) {
    fill(&mut affinity.weight, defaults::WEIGHT);
}

fn spread(spread: &mut Spread) {
    fill(&mut spread.weight, defaults::WEIGHT);
}

fn multiregion(multiregion: &mut Multiregion) {
    multiregion.strategy.get_or_insert_default().fill_zeros();
    for region in each(&mut multiregion.regions) {
        fill(&mut region.count, defaults::REGION_COUNT);
        fill(&mut region.datacenters, Vec::new());
    }
}

fn periodic(periodic: &mut PeriodicConfig) {
    fill(&mut periodic.enabled, true);
    fill(&mut periodic.spec, "");
    fill(&mut periodic.specs, Vec::new());
    fill(&mut periodic.spec_type, defaults::SPEC_TYPE);
    fill(&mut periodic.prohibit_overlap, false);
    fill(&mut periodic.time_zone, defaults::TIME_ZONE);
}

/// The update block that responses contain for a job without one. A job that is read and registered again has this block.
fn unused_update() -> UpdateStrategy {
    crate::job::UpdateStrategy::default().to_api()
}

/// Sets a member if it is absent.
fn fill<T>(member: &mut Option<T>, default: impl Into<T>) {
    member.get_or_insert_with(|| default.into());
}

/// Sets a text if it is absent or empty.
fn fill_empty(member: &mut Option<String>, default: impl Into<String>) {
    if text(member).is_empty() {
        *member = Some(default.into());
    }
}

/// Sets a number if it is absent or 0.
fn fill_zero(member: &mut Option<i64>, default: i64) {
    if member.unwrap_or(0) == 0 {
        *member = Some(default);
    }
}

/// The text, or an empty one if it is absent.
fn text(member: &Option<String>) -> &str {
    member.as_deref().unwrap_or_default()
}

/// Iterates over the items of a list that may be absent.
fn each<T>(list: &mut Option<Vec<T>>) -> impl Iterator<Item = &mut T> {
    list.iter_mut().flatten()
}
