//! Routes that return to an older version of a job, mark versions as stable, and tag them (http-api §11.3).

use std::sync::Arc;

use model::job::{Job, JobSpec};
use model::{JobKey, JobVersionKey};
use serde::{Deserialize, Serialize};
use state::State;
use wire::command::{Command, RevertJob, SetJobStability, TagJobVersion, UntagJobVersion};

use super::Request;
use super::job::{key, key_of_write};
use crate::Api;
use crate::admission::{self, Rules};
use crate::http::{Error, Response, decode};
use crate::shapes::{Meta, Registered};

/// Body of a request to revert. Tokens for Consul and Vault are ignored: workloads have identities of their own.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct RevertRequest {
    #[serde(rename = "JobID")]
    job_id: Option<String>,
    job_version: Option<u64>,
    enforce_prior_version: Option<u64>,
    namespace: Option<String>,
}

/// Body of a request about the stability of a version.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct StabilityRequest {
    #[serde(rename = "JobID")]
    job_id: Option<String>,
    job_version: Option<u64>,
    stable: Option<bool>,
    namespace: Option<String>,
}

/// The job of a request that names it in its path and in its body.
fn job_of(request: &Request, id: Option<&str>, namespace: Option<String>) -> Result<JobKey, Error> {
    match id.unwrap_or_default() {
        "" => return Err(Error::bad_request("JobID must be specified")),
        id if id != request.id() => return Err(Error::bad_request("Job ID does not match")),
        _ => {}
    }
    Ok(key_of_write(request, namespace))
}

/// Registers an older version of a job again, as a new version. The applier judges whether that may be, on the newest state;
/// the older version is validated here, because the rules for jobs may have changed since.
pub(crate) async fn revert(api: &Api, request: &Request) -> Result<Response, Error> {
    let body = decode::<RevertRequest>(&request.body, &api.limits)?;
    let job = job_of(request, body.job_id.as_deref(), body.namespace)?;
    api.check_region(&request.query)?;
    let version = body.job_version.unwrap_or_default();
    let state = api.fresh_snapshot(false).await?;
    let warnings = older(&state, &job, version).map(|older| admitted(&older, &state, &api.rules));
    let warnings = warnings.transpose()?.unwrap_or_default();
    let prior_version = body.enforce_prior_version;
    let done =
        api.command(&request.query, &Command::RevertJob(RevertJob { job, version, prior_version })).await?;
    Ok(Response::written(&Registered::new(&done, warnings), done.index))
}

/// An older version of a job, as it would be registered again. `None` if there is no such version, or it is the current one,
/// which the applier refuses.
fn older(state: &State, job: &JobKey, version: u64) -> Option<Job> {
    let current = state.job(job).filter(|current| current.version != version)?;
    let older = state.job_version(&JobVersionKey { version, ..current.version_key() })?;
    let spec = Arc::new(JobSpec { stop: false, ..JobSpec::clone(&older.spec) });
    Some(Job { spec, ..Job::default() })
}

/// The warnings about a version that may be registered again.
fn admitted(older: &Job, state: &State, rules: &Rules) -> Result<String, Error> {
    let job = older.to_api();
    admission::admit(&job, state, rules)?;
    Ok(admission::warnings(&job, state).to_string())
}

/// Response to a request about the stability of a version.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct StabilitySet {
    index: u64,
}

/// Marks a version of a job as stable, or as not stable.
pub(crate) async fn set_stability(api: &Api, request: &Request) -> Result<Response, Error> {
    let body = decode::<StabilityRequest>(&request.body, &api.limits)?;
    let job = job_of(request, body.job_id.as_deref(), body.namespace)?;
    let (version, stable) = (body.job_version.unwrap_or_default(), body.stable.unwrap_or_default());
    let done = api
        .command(&request.query, &Command::SetJobStability(SetJobStability { job, version, stable }))
        .await?;
    Ok(Response::written(&StabilitySet { index: done.index.0 }, done.index))
}

/// Body of a request to tag a version.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct TagRequest {
    version: Option<u64>,
    latest: Option<bool>,
    description: Option<String>,
    namespace: Option<String>,
}

/// Response to a change of a tag. It has no headers with an index.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Tagged {
    name: String,
    description: String,
    tagged_time: i64,
    #[serde(flatten)]
    meta: Meta,
}

/// The name of a tag in a path. Neither it nor the job's id may contain a slash.
fn tag_name(request: &Request) -> Result<&str, Error> {
    let name = request.params.get(1).map_or("", String::as_str);
    if request.id().contains('/') || name.contains('/') {
        return Err(Error::not_found("invalid job tag endpoint"));
    }
    Ok(name)
}

/// Gives a version of a job a name.
pub(crate) async fn tag(api: &Api, request: &Request) -> Result<Response, Error> {
    let name = tag_name(request)?;
    let body = decode::<TagRequest>(&request.body, &api.limits)?;
    let TagRequest { version, latest, description, namespace } = body;
    let (version, description) = (version.unwrap_or_default(), description.unwrap_or_default());
    api.check_region(&request.query)?;
    let is_latest = latest.unwrap_or_default();
    if is_latest && version != 0 {
        return Err(Error::failed(format!("version must be zero when tagging latest, got: {version}")));
    }
    let at = api.contact.cluster_now().max(api.replica.snapshot().at());
    let command = TagJobVersion {
        job: key_of_write(request, namespace),
        version: (!is_latest).then_some(version),
        name: name.into(),
        description: description.as_str().into(),
        at,
    };
    let done = api.command(&request.query, &Command::TagJobVersion(command)).await?;
    let meta = Meta { index: done.index.0, ..Meta::default() };
    Ok(Response::json(&Tagged { name: name.to_owned(), description, tagged_time: at.0, meta }))
}

/// Removes the name of a version of a job.
pub(crate) async fn untag(api: &Api, request: &Request) -> Result<Response, Error> {
    let name = tag_name(request)?.into();
    let done = api
        .command(&request.query, &Command::UntagJobVersion(UntagJobVersion { job: key(request), name }))
        .await?;
    let meta = Meta { index: done.index.0, ..Meta::default() };
    Ok(Response::json(&Tagged { meta, ..Tagged::default() }))
}
