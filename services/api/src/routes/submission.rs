//! Route of the source that a version of a job was registered from (http-api §11.3).

use std::sync::Arc;

use actix_web::http::Method;
use model::job::JobSubmission;
use model::{JobKey, JobVersionKey};
use state::{State, Table, WatchKey};

use super::Request;
use super::job::key;
use crate::Api;
use crate::http::{Body, Error, Response, Watched, unescape, unsigned};

/// Reads the source of a version.
pub(crate) async fn read(api: &Api, request: &Request) -> Result<Response, Error> {
    let version = unsigned(request.query.text("version"));
    let version =
        version.map_err(|_| Error::bad_request("Unable to parse job submission version parameter"))?;
    if request.method != Method::GET {
        return Err(Error::wrong_method());
    }
    let key = key(request);
    let index = |state: &State| match submission_of(state, &key, version) {
        Some(submission) => submission.job_modify_index,
        None => state.table_index(Table::JobSubmissions),
    };
    let watched = Watched::new([WatchKey::Job(Table::JobSubmissions, key.clone())], index);
    api.read(&request.query, watched, |snapshot| {
        let submission = submission_of(snapshot, &key, version);
        let submission = submission.ok_or_else(|| Error::not_found("job source not found"))?;
        Ok(Body::json(&for_display(snapshot, submission)).into())
    })
    .await
}

/// The submission of a version since the job was created.
fn submission_of<'a>(state: &'a State, job: &JobKey, version: u64) -> Option<&'a Arc<JobSubmission>> {
    let create_index = state.job(job)?.create_index;
    state.job_submission(&JobVersionKey { job: job.clone(), create_index, version })
}

/// Values of variable flags are stored URL-escaped. They are shown escaped until another version reuses the source, and
/// unescaped from then on (http-api §11.3).
fn for_display(state: &State, submission: &JobSubmission) -> api_types::JobSubmission {
    let mut shown = submission.to_api();
    let next = JobVersionKey { version: submission.version.version + 1, ..submission.version.clone() };
    let is_shared = submission.is_copy || state.job_submission(&next).is_some_and(|next| next.is_copy);
    if is_shared {
        for value in shown.variable_flags.iter_mut().flat_map(|flags| flags.values_mut()) {
            // An invalid escape leaves the value as it is.
            *value = unescape(value, false).unwrap_or_else(|| value.clone());
        }
    }
    shown
}
