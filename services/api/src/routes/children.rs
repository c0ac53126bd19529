//! Routes that make children of jobs: dispatches of parameterized jobs, and launches of periodic ones by a user (http-api
//! §11.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use model::job::{Base64, DispatchError, Job, dispatched_id};
use model::{Index, JobKey, Text};
use serde::{Deserialize, Serialize};
use state::State;
use telemetry::clock;
use wire::command::{Command, DispatchJob, Done, ForceLaunch};

use super::Request;
use super::job::key;
use crate::Api;
use crate::http::{Error, Response, decode};

/// Maximum length of the prefix in the id of a dispatched job, in bytes. PostgreSQL indexes jobs by their ids, and its index
/// entries are limited in size.
const PREFIX_BYTES_MAX: usize = 512;

/// Body of a dispatch.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct DispatchRequest {
    #[serde(rename = "JobID")]
    job_id: Option<String>,
    payload: Option<Base64>,
    meta: Option<BTreeMap<String, String>>,
    id_prefix_template: Option<String>,
    priority: Option<i64>,
}

/// Response to a dispatch (http-api A.9).
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Dispatched {
    #[serde(rename = "DispatchedJobID")]
    dispatched_job_id: String,
    #[serde(rename = "EvalID")]
    eval_id: String,
    eval_create_index: u64,
    job_create_index: u64,
    index: u64,
}

/// Response to a launch by a user (http-api A.9).
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Launched {
    #[serde(rename = "EvalID")]
    eval_id: String,
    eval_create_index: u64,
    index: u64,
}

impl Launched {
    fn new(done: &Done) -> Self {
        let eval = done.evals.first();
        Self {
            eval_id: eval.map(ToString::to_string).unwrap_or_default(),
            eval_create_index: eval.map_or(0, |_| done.index.0),
            index: done.index.0,
        }
    }
}

/// Dispatches a parameterized job.
pub(crate) async fn dispatch(api: &Api, request: &Request) -> Result<Response, Error> {
    let body: DispatchRequest = decode(&request.body, &api.limits)?;
    let id = body.job_id.as_deref().unwrap_or_default();
    if !id.is_empty() && id != request.id() {
        return Err(Error::bad_request("Job ID does not match"));
    }
    dispatch_with(api, request, body).await
}

/// Dispatches a parameterized job with the body of the request as its payload.
pub(crate) async fn dispatch_payload(api: &Api, request: &Request) -> Result<Response, Error> {
    let payload = Some(Base64(request.body.to_vec()));
    dispatch_with(api, request, DispatchRequest { payload, ..DispatchRequest::default() }).await
}

/// Everything is checked here, because the applier does not know the limit on priorities, and a payload that is too long does
/// not fit into a command. The applier checks again what may have changed.
async fn dispatch_with(api: &Api, request: &Request, body: DispatchRequest) -> Result<Response, Error> {
    api.check_region(&request.query)?;
    let DispatchRequest { payload, meta, id_prefix_template, priority, job_id: _ } = body;
    let (parent, meta) = (key(request), meta.unwrap_or_default());
    let payload = payload.filter(|payload| !payload.0.is_empty());
    let state = api.fresh_snapshot(false).await?;
    let failed = |error: DispatchError| Error::failed(error.to_string());
    let job = state.job(&parent).ok_or(DispatchError::NotFound).map_err(failed)?;
    let payload_bytes = payload.as_ref().map_or(0, |payload| payload.0.len());
    job.spec.check_dispatch(payload_bytes, meta.keys().map(String::as_str)).map_err(failed)?;
    let priority = dispatch_priority(priority, api.rules.priority_max)?;
    let token = Text::from(request.query.text("idempotency_token"));
    if let Some(earlier) = dispatched_before(&state, &parent, &token) {
        return Ok(repeated(earlier));
    }
    let [one, two, three, four, ..] = clock::random_bytes();
    let now = api.contact.cluster_now().max(state.at());
    let prefix = id_prefix_template.unwrap_or_default();
    check_prefix(&prefix)?;
    let id = dispatched_id(&parent.id, &prefix, now, u32::from_be_bytes([one, two, three, four]));
    let meta = meta.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
    let command = DispatchJob {
        parent: parent.clone(),
        id: Text::clone(&id),
        payload,
        meta,
        priority,
        idempotency_token: Text::clone(&token),
    };
    let done = api.command(&request.query, &Command::DispatchJob(Box::new(command))).await?;
    if !done.written {
        // Another request with the same token came first.
        let state = api.fresh_snapshot(false).await?;
        let earlier = dispatched_before(&state, &parent, &token);
        return earlier.map(repeated).ok_or_else(|| Error::unavailable("the dispatched job was deleted"));
    }
    let Launched { eval_id, eval_create_index, index } = Launched::new(&done);
    let (dispatched_job_id, job_create_index) = (id.to_string(), done.index.0);
    let answer = Dispatched { dispatched_job_id, eval_id, eval_create_index, job_create_index, index };
    Ok(Response::written(&answer, done.index))
}

/// Checks that the id with this prefix is one that the database can hold.
fn check_prefix(prefix: &str) -> Result<(), Error> {
    let bytes = prefix.len();
    if bytes > PREFIX_BYTES_MAX {
        let text = format!("ID prefix has {bytes} bytes; at most {PREFIX_BYTES_MAX} are allowed");
        return Err(Error::bad_request(text));
    }
    if prefix.contains('\0') {
        return Err(Error::bad_request("ID prefix contains a null character"));
    }
    Ok(())
}

/// The priority of a dispatch; 0 counts as absent (N-24.4).
fn dispatch_priority(priority: Option<i64>, max: u16) -> Result<Option<u16>, Error> {
    let Some(priority) = priority.filter(|priority| *priority != 0) else { return Ok(None) };
    let fits = u16::try_from(priority).ok().filter(|priority| (1..=max).contains(priority));
    let error = || Error::failed(format!("dispatch job priority must be between [1, {max}]"));
    fits.map(Some).ok_or_else(error)
}

/// The child that was dispatched with this token, if there is a token and such a child (N-24.5).
fn dispatched_before<'a>(state: &'a State, parent: &JobKey, token: &Text) -> Option<&'a Arc<Job>> {
    let mut children = state.children_of_job(parent).filter(|_| !token.is_empty());
    children.find(|child| child.spec.dispatch_idempotency_token == *token)
}

/// The response to a repeated dispatch, which has no evaluation of its own.
fn repeated(earlier: &Arc<Job>) -> Response {
    let Index(index) = earlier.modify_index;
    let answer = Dispatched {
        dispatched_job_id: earlier.spec.id.to_string(),
        eval_id: String::new(),
        eval_create_index: 0,
        job_create_index: earlier.create_index.0,
        index,
    };
    Response::written(&answer, earlier.modify_index)
}

/// Launches a periodic job at once.
pub(crate) async fn force_launch(api: &Api, request: &Request) -> Result<Response, Error> {
    let done = api.command(&request.query, &Command::ForceLaunch(ForceLaunch { job: key(request) })).await?;
    Ok(Response::written(&Launched::new(&done), done.index))
}
