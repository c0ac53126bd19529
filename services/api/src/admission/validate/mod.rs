//! Validation of a job by itself (N-19). Pure, on the API's form with all defaults filled in. All problems are collected,
//! so that one response lists them all, in the order and the words of http-api, appendix E. Checks that depend on the cluster
//! are in the parent module.

mod destinations;
mod group;
mod network;
mod placement;
mod policies;
mod schedule;
mod services;
mod task;
mod volumes;

use std::collections::BTreeMap;

use api_types::Job;
use model::job::JobType;
use model::text::quoted;

use self::placement::Level;
use super::Rules;
use super::fields::{items, number, text};
use super::problems::Problems;
use super::regions;

/// Maximum length of a job's description for the web interface, in bytes (N-19.2).
const DESCRIPTION_BYTES_MAX: usize = 1_000;

/// Maximum length of a job id, in bytes. PostgreSQL indexes jobs by namespace and id, and its index entries are limited in
/// size.
const ID_BYTES_MAX: usize = 1_024;

/// All problems of a job.
pub(crate) fn job(job: &Job, rules: &Rules) -> Problems {
    let expressions = placement::expressions(job);
    if !expressions.is_empty() {
        return expressions;
    }
    let mut problems = Problems::default();
    identity(job, &mut problems);
    let given = text(&job.r#type);
    let kind = given.parse::<JobType>().ok();
    problems.add_if(given.is_empty(), || "Missing job type");
    problems.add_if(!given.is_empty() && kind.is_none(), || format!("Invalid job type: {}", quoted(given)));
    datacenters(job, &mut problems);
    problems.append(regions::problems(job));
    problems.add_if(items(&job.task_groups).is_empty(), || "Missing job task groups");
    problems.append(placement::constraints(&job.constraints, Level::Group));
    problems.append(placement::affinities(&job.affinities, kind));
    problems.append(placement::spreads(&job.spreads, kind));
    groups(job, kind, &mut problems);
    schedule::schedule(job, kind, &mut problems);
    check_limits(job, rules, &mut problems);
    problems
}

fn identity(job: &Job, problems: &mut Problems) {
    let (id, name) = (text(&job.id), text(&job.name));
    problems.add_if(text(&job.region).is_empty(), || "Missing job region");
    problems.add_if(id.is_empty(), || "Missing job ID");
    problems.add_if(id.len() > ID_BYTES_MAX, || {
        format!("Job ID has {} bytes; at most {ID_BYTES_MAX} are allowed", id.len())
    });
    problems.add_if(id.contains(' '), || "Job ID contains a space");
    problems.add_if(id.contains('\0'), || "Job ID contains a null character");
    problems.add_if(name.is_empty(), || "Missing job name");
    problems.add_if(name.contains('\0'), || "Job Name contains a null character");
    problems.add_if(text(&job.namespace).is_empty(), || "Missing job namespace");
}

fn datacenters(job: &Job, problems: &mut Problems) {
    problems.add_if(items(&job.datacenters).is_empty(), || "Missing job datacenters");
    for datacenter in items(&job.datacenters) {
        problems.add_if(datacenter.is_empty(), || "Job datacenter must be non-empty string");
    }
    if let Some(ui) = &job.ui {
        problems.add_if(text(&ui.description).len() > DESCRIPTION_BYTES_MAX, || {
            format!("UI description must be under {DESCRIPTION_BYTES_MAX} characters")
        });
    }
}

fn groups(job: &Job, kind: Option<JobType>, problems: &mut Problems) {
    let groups = items(&job.task_groups);
    let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
    for (position, group) in (1..).zip(groups) {
        let (name, count) = (text(&group.name), number(group.count));
        if name.is_empty() {
            problems.add(format!("Job task group {position} missing name"));
        } else if let Some(first) = positions.get(name) {
            problems.add(format!("Job task group {position} redefines '{name}' from group {first}"));
        } else {
            positions.insert(name, position);
        }
        problems.add_if(number(group.shutdown_delay) < 0, || "ShutdownDelay must be a positive value");
        if let Some(kind @ (JobType::System | JobType::SysBatch)) = kind {
            problems.add_if(count > 1, || {
                format!(
                    "Job task group {name} has count {count}. Count cannot exceed 1 with {kind} scheduler"
                )
            });
        }
    }
    for group in groups {
        let name = text(&group.name);
        problems.nest(format_args!("Task group {name} validation failed: "), &group::group(group, kind));
    }
}

/// Checks the server's limits (N-19.3).
fn check_limits(job: &Job, rules: &Rules, problems: &mut Problems) {
    let max = rules.priority_max;
    problems.add_if(!(1..=i64::from(max)).contains(&number(job.priority)), || {
        format!("job priority must be between [1, {max}]")
    });
    problems.add_if(
        job.payload.as_ref().is_some_and(|payload| !payload.0.is_empty()),
        || "job can't be submitted with a payload, only dispatched",
    );
    let total =
        items(&job.task_groups).iter().fold(0_i64, |sum, group| sum.saturating_add(number(group.count)));
    let max = rules.count_max;
    problems.add_if(total > i64::from(max), || {
        format!("total count was greater than configured job_max_count: {total} > {max}")
    });
}
