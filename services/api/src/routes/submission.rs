//! Route of the source that a version of a job was registered from (http-api §11.3).

use std::sync::Arc;

use actix_web::http::Method;
use model::job::JobSubmission;
use model::text::quoted;
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
        Ok(Body::json(&for_display(snapshot, submission)?).into())
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
///
/// # Errors
/// A 500 with the headers of a read if a value that has to be unescaped has an invalid escape.
fn for_display(state: &State, submission: &JobSubmission) -> Result<api_types::JobSubmission, Error> {
    let mut shown = submission.to_api();
    let next = JobVersionKey { version: submission.version.version + 1, ..submission.version.clone() };
    let is_shared = submission.is_copy || state.job_submission(&next).is_some_and(|next| next.is_copy);
    if is_shared {
        for value in shown.variable_flags.iter_mut().flat_map(|flags| flags.values_mut()) {
            if let Some(escape) = invalid_escape(value) {
                let text = format!("invalid URL escape {}", quoted(&escape));
                return Err(Error { keeps_headers: true, ..Error::failed(text) });
            }
            // Text that is not UTF-8 stays escaped.
            *value = unescape(value, false).unwrap_or_else(|| value.clone());
        }
    }
    Ok(shown)
}

/// The first percent escape that is invalid: the percent sign and the next two characters, or what is left.
fn invalid_escape(text: &str) -> Option<String> {
    let is_invalid = |escape: &str| {
        let mut digits = escape.chars().skip(1).take(2);
        !(digits.next().is_some_and(|digit| digit.is_ascii_hexdigit())
            && digits.next().is_some_and(|digit| digit.is_ascii_hexdigit()))
    };
    let mut escapes = text.match_indices('%').filter_map(|(at, _)| text.get(at..));
    escapes.find(|escape| is_invalid(escape)).map(|escape| escape.chars().take(3).collect())
}
