//! Routes that scale the task groups of a job, and read their scaling policies (http-api §11.3, §24).
//!
//! Policies are parts of jobs, not objects: their ids are derived from those of the jobs. Finding a policy by its id
//! therefore looks at all jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::{JobScaleStatus, ScalingPolicyListStub, TaskGroupScaleStatus};
use model::alloc::ClientStatus;
use model::job::{Job, ScalingMeta};
use model::{Index, JobKey, ScalingPolicyId};
use serde::Deserialize;
use state::{State, Table, WatchKey};
use wire::command::{Command, ScaleJob};

use super::Request;
use super::job::key;
use super::jobs::jobs_with_prefix;
use crate::Api;
use crate::http::{Body, Error, Response, Watched, Work, decode};
use crate::shapes::Registered;

/// Body of a request to scale a group.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct ScaleRequest {
    target: Option<BTreeMap<String, String>>,
    count: Option<i64>,
    message: Option<String>,
    error: Option<bool>,
    meta: Option<ScalingMeta>,
    job_modify_index: Option<u64>,
}

impl ScaleRequest {
    fn target(&self, name: &str) -> Option<&str> {
        self.target.as_ref()?.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The command for a job, if the request has the right form (N-26.2).
    fn command(self, job: JobKey, count_max: u32) -> Result<ScaleJob, Error> {
        let Some(group) = self.target("Group") else {
            return Err(Error::bad_request("missing task group name for scaling action"));
        };
        if self.target("Job").is_some_and(|id| *id != *job.id) {
            return Err(Error::bad_request("job ID in payload did not match URL"));
        }
        let error = self.error.unwrap_or_default();
        if error && self.count.is_some() {
            return Err(Error::bad_request("scaling action should not contain count if error is true"));
        }
        if self.count.is_some_and(|count| count < 0) {
            return Err(Error::bad_request("scaling action count can't be negative"));
        }
        Ok(ScaleJob {
            group: group.into(),
            job,
            // A count that is larger than any limit is refused all the same.
            count: self.count.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
            count_max,
            message: self.message.unwrap_or_default().into(),
            error,
            meta: self.meta,
            enforce_index: self.job_modify_index.filter(|index| *index > 0).map(Index),
        })
    }
}

/// Scales a group of a job, or records an event. The applier judges whether that may be, on the newest state.
pub(crate) async fn scale(api: &Api, request: &Request) -> Result<Response, Error> {
    let body = decode::<ScaleRequest>(&request.body, &api.limits)?;
    let command = Command::ScaleJob(body.command(key(request), api.rules.count_max)?);
    let done = api.command_by_kind(&request.query, &command).await?;
    let mut scaled = Registered::new(&done, String::new());
    scaled.meta.known_leader = true;
    Ok(Response::written(&scaled, done.index))
}

/// Reads the counts of a job's groups, with the last requests to scale them.
pub(crate) async fn status(api: &Api, request: &Request) -> Result<Response, Error> {
    const TABLES: [Table; 3] = [Table::Jobs, Table::JobSummaries, Table::Allocs];
    let key = key(request);
    let index = |state: &State| {
        let indexes = TABLES.map(|table| state.job_index(table, &key));
        indexes.into_iter().max().unwrap_or_default()
    };
    let watched = Watched::new(TABLES.map(|table| WatchKey::Job(table, key.clone())), index);
    api.read(&request.query, watched, |snapshot| {
        let job = snapshot.job(&key).ok_or_else(|| Error::not_found("job not found"))?;
        Ok(Body::json(&scale_status(snapshot, job)).into())
    })
    .await
}

/// The counts of a job's groups (N-26.5). Allocations that have ended, canaries, and those of an earlier job with the same
/// id are not counted.
fn scale_status(state: &State, job: &Job) -> JobScaleStatus {
    let key = job.key();
    let summary = state.job_summary(&key);
    let events = summary.and_then(|summary| summary.scaling_events.as_deref());
    let mut groups: BTreeMap<String, TaskGroupScaleStatus> = BTreeMap::new();
    for group in job.spec.task_groups.iter() {
        let events = events.and_then(|events| events.get(&group.name));
        let status = TaskGroupScaleStatus {
            desired: Some(i64::from(group.count)),
            placed: Some(0),
            running: Some(0),
            healthy: Some(0),
            unhealthy: Some(0),
            events: events.map(|events| events.iter().map(model::job::ScalingEvent::to_api).collect()),
        };
        groups.insert(group.name.to_string(), status);
    }
    for alloc in state.allocs_of_job(&key) {
        let health = alloc.health();
        let is_canary = health.is_some_and(|health| health.canary);
        if alloc.common().job.create_index != job.create_index || alloc.is_terminal() || is_canary {
            continue;
        }
        let Some(group) = groups.get_mut(&**alloc.group_name()) else { continue };
        let healthy = health.and_then(|health| health.healthy);
        for (counter, is_counted) in [
            (&mut group.placed, true),
            (&mut group.running, alloc.client_status() == ClientStatus::Running),
            (&mut group.healthy, healthy == Some(true)),
            (&mut group.unhealthy, healthy == Some(false)),
        ] {
            *counter = counter.map(|count| count.saturating_add(i64::from(is_counted)));
        }
    }
    JobScaleStatus {
        job_id: Some(job.spec.id.to_string()),
        namespace: Some(job.spec.namespace.to_string()),
        job_create_index: Some(job.create_index.0),
        job_modify_index: Some(job.job_modify_index.0),
        job_stopped: Some(job.spec.stop),
        task_groups: Some(groups),
    }
}

/// Lists the scaling policies of a namespace's jobs, by id.
pub(crate) async fn policies(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let (namespace, job, kind) =
        (query.namespace(), query.text("job").to_owned(), query.text("type").to_owned());
    let watched = Watched::table(Table::Jobs);
    // The groups of all jobs are decoded, so it does not block the serving thread.
    api.read_in_background(query, watched, Work::List, move |state| {
        let jobs = jobs_with_prefix(state, &namespace, &job);
        let jobs = jobs.filter(|found| job.is_empty() || *found.spec.id == *job);
        let mut stubs: Vec<ScalingPolicyListStub> = jobs.flat_map(|job| stubs(job)).collect();
        stubs.retain(|stub| kind.is_empty() || stub.r#type.as_ref() == Some(&kind));
        stubs.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        Ok(serde_json::to_vec(&stubs).expect("plain data always serializes to JSON"))
    })
    .await
}

/// The policies of a job, as a list shows them.
fn stubs(job: &Job) -> Vec<ScalingPolicyListStub> {
    let policies = job.scaling_policies().filter_map(|(_, group)| job.scaling_policy(group));
    let stub = |policy: api_types::ScalingPolicy| ScalingPolicyListStub {
        id: policy.id,
        enabled: policy.enabled,
        r#type: policy.r#type,
        target: policy.target,
        create_index: policy.create_index,
        modify_index: policy.modify_index,
    };
    policies.map(stub).collect()
}

/// Reads a scaling policy, whatever its namespace.
pub(crate) async fn policy(api: &Api, request: &Request) -> Result<Response, Error> {
    let id: Option<ScalingPolicyId> = request.id().parse().ok();
    // The job that has the policy, as far as this server knows. Only changes of this job wake a blocked reader then.
    let known = id.and_then(|id| owner(&api.replica.snapshot(), id).map(|job| job.key()));
    let watched = match &known {
        Some(key) => {
            let index = |state: &State| match state.job(key) {
                Some(job) => job.job_modify_index,
                None => state.table_index(Table::Jobs),
            };
            Watched::new([WatchKey::Job(Table::Jobs, key.clone())], index)
        }
        None => Watched::table(Table::Jobs),
    };
    let known = known.clone();
    api.read_in_background(&request.query, watched, Work::List, move |state| {
        let missing = || Error::not_found("policy not found");
        let id = id.ok_or_else(missing)?;
        let has = |job: &Arc<Job>| job.scaling_policies().any(|(found, _)| found == id);
        let known = known.as_ref().and_then(|key| state.job(key)).filter(|job| has(job));
        let job = known.or_else(|| owner(state, id)).ok_or_else(missing)?;
        let group = job.scaling_policies().find(|(found, _)| *found == id).map(|(_, group)| group);
        let policy = group.and_then(|group| job.scaling_policy(group)).ok_or_else(missing)?;
        Ok(serde_json::to_vec(&policy).expect("plain data always serializes to JSON"))
    })
    .await
}

/// The job that has a policy.
fn owner(state: &State, id: ScalingPolicyId) -> Option<&Arc<Job>> {
    state.jobs().find(|job| job.scaling_policies().any(|(found, _)| found == id))
}
