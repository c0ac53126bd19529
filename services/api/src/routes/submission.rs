//! What a version of a job was registered from (http-api §11.3).

use std::sync::Arc;

use model::job::JobSubmission;
use model::{JobKey, JobVersionKey};
use state::{State, Table, WatchKey};

use super::Request;
use super::job::key;
use crate::Api;
use crate::frame::{Answer, Body, Error, Shown, unescape};

/// Reads what a version was registered from.
pub(crate) async fn read(api: &Api, request: &Request) -> Result<Answer, Error> {
    let version = request.query.text("version").parse::<u64>();
    let version =
        version.map_err(|_| Error::bad_request("Unable to parse job submission version parameter"))?;
    let key = key(request);
    let index = |state: &State| match of_version(state, &key, version) {
        Some(submission) => submission.job_modify_index,
        None => state.table_index(Table::JobSubmissions),
    };
    let shown = Shown::new([WatchKey::Job(Table::JobSubmissions, key.clone())], index);
    api.read(&request.query, shown, |snapshot| {
        let submission = of_version(snapshot, &key, version);
        let submission = submission.ok_or_else(|| Error::not_found("job source not found"))?;
        Ok(Body::json(&as_shown(snapshot, submission)).into())
    })
    .await
}

/// What a version of the job as it is registered now was made of.
fn of_version<'a>(state: &'a State, job: &JobKey, version: u64) -> Option<&'a Arc<JobSubmission>> {
    let create_index = state.job(job)?.create_index;
    state.job_submission(&JobVersionKey { job: job.clone(), create_index, version })
}

/// Values of flags came escaped. They are shown so until another version takes the source over, and plain from then on.
fn as_shown(state: &State, submission: &JobSubmission) -> api_types::JobSubmission {
    let mut shown = submission.to_api();
    let next = JobVersionKey { version: submission.version.version + 1, ..submission.version.clone() };
    let is_shared = submission.is_copy || state.job_submission(&next).is_some_and(|next| next.is_copy);
    if is_shared {
        for value in shown.variable_flags.iter_mut().flat_map(|flags| flags.values_mut()) {
            // What is not properly escaped is as it is meant.
            *value = unescape(value, false).unwrap_or_else(|| value.clone());
        }
    }
    shown
}
