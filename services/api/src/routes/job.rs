//! Routes of a single job and its objects (http-api §11.2, §11.3).

use std::sync::Arc;

use api_types::{Job, JobDiff, JobRegisterRequest};
use model::JobKey;
use model::deployment::Deployment;
use model::eval::Evaluation;
use serde::{Deserialize, Serialize};
use state::{State, Table};
use wire::command::{Command, DeregisterJob, EvaluateJob};

use super::Request;
use super::allocations::{found_stub, ids_by_creation};
use super::jobs::{eval_priority, register_job};
use crate::Api;
use crate::http::{Body, Error, Meta, Query, Response, Watched, Work, decode, unsigned};
use crate::shapes::{self, Deregistered, Registered, summary as shape_summary};

const NOT_FOUND: &str = "job not found";

/// Key of the job that a request names.
pub(super) fn key(request: &Request) -> JobKey {
    JobKey::new(request.query.namespace().name(), request.id())
}

/// Key of the job that a write names. The query's namespace takes precedence over the body's (http-api §3).
pub(super) fn key_of_write(request: &Request, namespace: Option<String>) -> JobKey {
    let is_free = request.query.text("namespace").is_empty();
    match namespace.filter(|namespace| is_free && !namespace.is_empty()) {
        Some(namespace) => JobKey::new(namespace, request.id()),
        None => key(request),
    }
}

/// Reads a job.
pub(crate) async fn read(api: &Api, request: &Request) -> Result<Response, Error> {
    let key = key(request);
    let index = |state: &State| match state.job(&key) {
        Some(job) => job.modify_index,
        None => state.table_index(Table::Jobs),
    };
    let watched = Watched::new([state::WatchKey::Job(Table::Jobs, key.clone())], index);
    api.read(&request.query, watched, |snapshot| {
        let job = snapshot.job(&key).ok_or_else(|| Error::not_found(NOT_FOUND))?;
        Ok(Body::json(&job.to_api()).into())
    })
    .await
}

/// Registers the job that the path names.
pub(crate) async fn register(api: &Api, request: &Request) -> Result<Response, Error> {
    let body: JobRegisterRequest = decode(&request.body, &api.limits)?;
    register_job(api, &request.query, body, Some(request.id())).await
}

/// Stops a job, or purges it. A job that does not exist is not an error (N-21.2).
pub(crate) async fn deregister(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let purge = query.flag("purge", false)?;
    // There are no other regions, but the parameter must be readable.
    query.flag("global", false)?;
    // A priority of 0 and below counts as absent here.
    let priority = query.integer("eval_priority")?.filter(|priority| *priority > 0);
    let eval_priority = priority.map(eval_priority).transpose()?.flatten();
    let no_shutdown_delay = query.flag("no_shutdown_delay", false).map_err(|error| {
        // The reference has a slip of the pen in this text, which clients may compare.
        Error { text: error.text.replacen("\"no_shutdown_delay\"", "\"no_shutdown_delay\"q", 1), ..error }
    })?;
    let command =
        Command::DeregisterJob(DeregisterJob { job: key(request), purge, eval_priority, no_shutdown_delay });
    api.check_region(query)?;
    if request.id().is_empty() {
        return Err(Error::failed("missing job ID for deregistering"));
    }
    let done = api.command(query, &command).await?;
    Ok(Response::written(&Deregistered::new(&done), done.index))
}

/// Body of a request for an evaluation.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct EvaluateRequest {
    #[serde(rename = "JobID")]
    job_id: Option<String>,
    eval_options: Option<EvalOptions>,
    namespace: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct EvalOptions {
    force_reschedule: Option<bool>,
}

/// Creates an evaluation of a job.
pub(crate) async fn evaluate(api: &Api, request: &Request) -> Result<Response, Error> {
    let body = if request.body.is_empty() {
        EvaluateRequest::default()
    } else {
        let body: EvaluateRequest = decode(&request.body, &api.limits)?;
        match body.job_id.as_deref().unwrap_or_default() {
            "" => return Err(Error::bad_request("Job ID must be specified")),
            id if id != request.id() => return Err(Error::bad_request("JobID not same as job name")),
            _ => body,
        }
    };
    let job = key_of_write(request, body.namespace);
    let force_reschedule = body.eval_options.unwrap_or_default().force_reschedule.unwrap_or_default();
    let done =
        api.command(&request.query, &Command::EvaluateJob(EvaluateJob { job, force_reschedule })).await?;
    Ok(Response::written(&Registered::new(&done, String::new()), done.index))
}

/// Lists the allocations of a job. With `all` these include allocations of earlier jobs with the same id.
pub(crate) async fn allocations(api: &Api, request: &Request) -> Result<Response, Error> {
    let key = key(request);
    // An invalid boolean counts as absent here.
    let all = request.query.flag("all", false).unwrap_or(false);
    let find = |state: &State| {
        let current = state.job(&key).map(|job| job.create_index);
        let wanted = |create_index| all || current.is_none_or(|current| current == create_index);
        let allocs = state.allocs_of_job(&key);
        ids_by_creation(allocs.filter(|alloc| wanted(alloc.common().job.create_index)))
    };
    api.list_found(&request.query, Watched::of_job(Table::Allocs, &key), find, found_stub).await
}

/// Lists the evaluations of a job.
pub(crate) async fn evaluations(api: &Api, request: &Request) -> Result<Response, Error> {
    let key = key(request);
    let find = |state: &State| {
        let mut evals: Vec<_> = state.evals_of_job(&key).cloned().collect();
        evals.sort_by_key(|eval| (eval.create_index, eval.id));
        evals
    };
    let shape = |_: &State, eval: &Arc<Evaluation>| eval.to_api();
    api.list_found(&request.query, Watched::of_job(Table::Evals, &key), find, shape).await
}

/// Lists the deployments of a job. With `all` these include deployments of earlier jobs with the same id.
pub(crate) async fn deployments(api: &Api, request: &Request) -> Result<Response, Error> {
    let key = key(request);
    // An invalid boolean counts as absent here.
    let all = request.query.flag("all", false).unwrap_or(false);
    let find = |state: &State| {
        let current = state.job(&key).map(|job| job.create_index);
        let wanted = |create_index| all || current.is_none_or(|current| current == create_index);
        let deployments = state.deployments_of_job(&key);
        let mut deployments: Vec<_> =
            deployments.filter(|one| wanted(one.job.create_index)).cloned().collect();
        deployments.sort_by_key(|deployment| (deployment.create_index, deployment.id));
        deployments
    };
    let shape = |_: &State, deployment: &Arc<Deployment>| deployment.to_api();
    api.list_found(&request.query, Watched::of_job(Table::Deployments, &key), find, shape).await
}

/// Reads the newest deployment of a job since it was created; `null` if there is none.
pub(crate) async fn deployment(api: &Api, request: &Request) -> Result<Response, Error> {
    let key = key(request);
    api.read(&request.query, Watched::of_job(Table::Deployments, &key), |snapshot| {
        let current = snapshot.job(&key).map(|job| job.create_index);
        let latest = snapshot.latest_deployment(&key);
        let latest = latest.filter(|latest| current.is_none_or(|current| current == latest.job.create_index));
        Ok(Body::json(&latest.map(|deployment| deployment.to_api())).into())
    })
    .await
}

/// Reads the allocation counts of a job.
pub(crate) async fn summary(api: &Api, request: &Request) -> Result<Response, Error> {
    let key = key(request);
    api.read(&request.query, Watched::of_job(Table::JobSummaries, &key), |snapshot| {
        let summary = snapshot.job_summary(&key).ok_or_else(|| Error::not_found(NOT_FOUND))?;
        Ok(Body::json(&shape_summary(summary)).into())
    })
    .await
}

/// Response with the versions of a job.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Versions {
    versions: Vec<Job>,
    diffs: Option<Vec<JobDiff>>,
    #[serde(flatten)]
    meta: shapes::Meta,
}

/// What the versions of a job are compared with.
enum DiffBase {
    /// Each version with its predecessor.
    Previous,
    /// Each version with this one.
    Version(u64),
    /// Each version with the one that has this tag.
    Tag(String),
}

impl DiffBase {
    /// The comparison that a request asks for; `None` if it asks for none.
    fn read(query: &Query) -> Result<Option<Self>, Error> {
        let diffs = query.flag("diffs", false)?;
        let diff_base = match (query.text("diff_version"), query.text("diff_tag")) {
            ("", "") => Self::Previous,
            ("", tag) => Self::Tag(tag.to_owned()),
            (version, _) => {
                let version = unsigned(version).map_err(|problem| {
                    let quoted = model::text::quoted(version);
                    Error::failed(format!(
                        "Failed to parse value of \"diff_version\" ({version}) as a uint64: \
                         strconv.ParseUint: parsing {quoted}: {problem}"
                    ))
                })?;
                Self::Version(version)
            }
        };
        Ok(diffs.then_some(diff_base))
    }

    /// Compares versions, which are sorted from the newest to the oldest.
    fn diffs(&self, versions: &[Job]) -> Result<Vec<JobDiff>, Error> {
        let is_base: &dyn Fn(&&Job) -> bool = match self {
            Self::Previous => {
                let pairs = versions.windows(2);
                return Ok(pairs.map(|pair| model::diff::diff(Some(&pair[1]), Some(&pair[0]))).collect());
            }
            Self::Version(number) => &|job| job.version == Some(*number),
            Self::Tag(tag) => {
                &|job| job.version_tag.as_ref().is_some_and(|found| found.name.as_ref() == Some(tag))
            }
        };
        let Some(base) = versions.iter().find(is_base) else {
            return Err(Error::failed(match self {
                Self::Tag(tag) => format!("tag {} not found", model::text::quoted(tag)),
                Self::Version(number) => format!("version {number} not found"),
                Self::Previous => "version not found".to_owned(),
            }));
        };
        Ok(versions.iter().map(|job| model::diff::diff(Some(base), Some(job))).collect())
    }
}

/// An action of a task in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ActionStub {
    name: Option<String>,
    command: Option<String>,
    args: Option<Vec<String>>,
    task_name: Option<String>,
    task_group_name: Option<String>,
}

/// Lists the actions of a job's tasks.
pub(crate) async fn actions(api: &Api, request: &Request) -> Result<Response, Error> {
    let key = key(request);
    api.read(&request.query, Watched::of_job(Table::Jobs, &key), |snapshot| {
        let unknown = || Error::failed(format!("Unknown job {}", model::text::quoted(&key.id)));
        let job = snapshot.job(&key).ok_or_else(unknown)?.to_api();
        let mut stubs = Vec::new();
        for group in job.task_groups.iter().flatten() {
            for task in group.tasks.iter().flatten() {
                stubs.extend(task.actions.iter().flatten().map(|action| ActionStub {
                    name: action.name.clone(),
                    command: action.command.clone(),
                    args: action.args.clone(),
                    task_name: task.name.clone(),
                    task_group_name: group.name.clone(),
                }));
            }
        }
        Ok(Body::json(&stubs).into())
    })
    .await
}

/// Lists the versions of a job, the newest first.
pub(crate) async fn versions(api: &Api, request: &Request) -> Result<Response, Error> {
    let (key, query) = (key(request), &request.query);
    let diff_base = DiffBase::read(query)?;
    let contact = api.contact(query.read_options()?.stale);
    let (watched, key) = (Watched::of_job(Table::Jobs, &key), key.clone());
    // Comparing the versions of a large job takes a while, so it does not block the serving thread.
    api.read_in_background(query, watched, Work::Comparison, move |state| {
        let current = state.job(&key).map(|job| job.create_index);
        let versions: Vec<Job> = state
            .job_versions(&key)
            .rev()
            .filter(|job| current.is_none_or(|current| current == job.create_index))
            .map(|job| job.to_api())
            .collect();
        if versions.is_empty() {
            return Err(Error::not_found("job versions not found"));
        }
        let index = Some(state.job_index(Table::Jobs, &key));
        let meta = shapes::Meta::from(&Meta { index, contact: Some(contact), next_token: None });
        let diffs = diff_base.map(|diff_base| diff_base.diffs(&versions)).transpose()?;
        let versions = Versions { versions, diffs, meta };
        Ok(serde_json::to_vec(&versions).expect("plain data always serializes to JSON"))
    })
    .await
}
