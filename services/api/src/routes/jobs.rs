//! Routes of all jobs: listing, registering, parsing, validating (http-api §11.1).

use std::ops::Bound;
use std::sync::Arc;

use api_types::{Job, JobParseRequest, JobRegisterRequest};
use model::job::JobSpec;
use model::{Index, JobKey, Text, cluster};
use serde::{Deserialize, Serialize};
use state::{State, Table, WatchKey};
use wire::command::{Command, RegisterJob};

use super::Request;
use crate::Api;
use crate::admission;
use crate::filter::matches_filter;
use crate::http::{
    Effort, Error, NO_REGION, Namespace, Query, Response, Watched, Work, decode, ordered, piece, remaining,
};
use crate::shapes::{Registered, job_stub};

/// Lists jobs.
pub(crate) async fn list(api: &Api, request: &Request) -> Result<Response, Error> {
    list_of(api, &request.query, None).await
}

/// Lists jobs, or the jobs of a node pool.
pub(super) async fn list_of(api: &Api, query: &Query, pool: Option<Text>) -> Result<Response, Error> {
    let (page, with_meta) = (query.page()?, query.flag("meta", false)?);
    api.check_region(query)?;
    let filter = query.filter::<Job>(&api.limits)?;
    let effort = Effort::of(filter.as_ref());
    let (namespace, prefix) = (query.namespace(), query.text("prefix").to_owned());
    // A prefix in all namespaces has one order only (http-api §6.2).
    let reverse = page.reverse && (namespace != Namespace::Any || prefix.is_empty());
    let make = move |state: &State, from: Option<&str>, limit: usize| {
        let from = from.map(key_of_token);
        let jobs = jobs(state, &namespace, &prefix, from, reverse);
        let wanted = |job: &&Arc<model::job::Job>| {
            let is_selected = job.spec.id.starts_with(&prefix)
                && pool.as_ref().is_none_or(|pool| job.spec.node_pool == *pool);
            if is_selected { matches_filter(filter.as_ref(), &***job) } else { Ok(false) }
        };
        piece(jobs, limit, wanted, |job| token(&job.key()), |job| job_stub(job, state, with_meta))
    };
    let watched = watched_jobs(query.text("prefix"));
    api.list(query, watched, page, effort, make).await
}

/// Watches jobs and job summaries by id prefix.
fn watched_jobs(prefix: &str) -> Watched<'static> {
    let keys = [Table::Jobs, Table::JobSummaries].map(|table| match prefix {
        "" => WatchKey::Table(table),
        prefix => WatchKey::Prefix(table, prefix.into()),
    });
    Watched::new(keys, |state| state.table_index(Table::Jobs).max(state.table_index(Table::JobSummaries)))
}

/// Jobs by namespace and id, from a key on. If all namespaces are selected, the prefix is not applied.
fn jobs<'a>(
    state: &'a State,
    namespace: &Namespace,
    prefix: &str,
    from: Option<JobKey>,
    reverse: bool,
) -> impl Iterator<Item = &'a Arc<model::job::Job>> + use<'a> {
    let bounds = match namespace {
        Namespace::Any => (Bound::Unbounded, Bound::Unbounded),
        Namespace::Only(namespace) => {
            // No id continues with the highest character, so this bound is the end of the prefix, or of the namespace if
            // the prefix is empty.
            let low = JobKey::new(namespace.as_str(), prefix);
            let high = JobKey::new(namespace.as_str(), format!("{prefix}{}", char::MAX));
            (Bound::Included(low), Bound::Included(high))
        }
    };
    ordered(state.jobs_in(remaining(bounds, from, reverse)), reverse)
}

/// Jobs whose id begins with `prefix`.
pub(super) fn jobs_with_prefix<'a>(
    state: &'a State,
    namespace: &Namespace,
    prefix: &str,
) -> impl Iterator<Item = &'a Arc<model::job::Job>> {
    jobs(state, namespace, prefix, None, false).filter(move |job| job.spec.id.starts_with(prefix))
}

fn token(job: &JobKey) -> String {
    format!("{}.{}", job.namespace, job.id)
}

/// Parses a token. A namespace cannot contain a dot, so a token without one is taken for a namespace: the list continues
/// with the first job of that namespace or of the next one.
fn key_of_token(token: &str) -> JobKey {
    let (namespace, id) = token.split_once('.').unwrap_or((token, ""));
    JobKey::new(namespace, id)
}

/// Registers a job.
pub(crate) async fn register(api: &Api, request: &Request) -> Result<Response, Error> {
    let body: JobRegisterRequest = decode(&request.body, &api.limits)?;
    register_job(api, &request.query, body, None).await
}

/// Registers a job. If the path names a job, it must be the same one (N-17).
pub(crate) async fn register_job(
    api: &Api,
    query: &Query,
    body: JobRegisterRequest,
    named: Option<&str>,
) -> Result<Response, Error> {
    let JobRegisterRequest {
        job,
        enforce_index,
        job_modify_index,
        policy_override: _,
        preserve_counts,
        preserve_resources,
        eval_priority: priority,
        submission,
        region,
        namespace,
        secret_id: _,
    } = body;
    let job = job.ok_or_else(|| Error::bad_request("Job must be specified"))?;
    if job.id.is_none() {
        return Err(Error::bad_request("Job ID hasn't been provided"));
    }
    if named.is_some_and(|named| !named.is_empty() && job.id.as_deref() != Some(named)) {
        return Err(Error::bad_request("Job ID does not match name"));
    }
    check_before_forwarding(&job)?;
    let eval_priority = eval_priority(priority.unwrap_or_default())?;
    let mut job = requested_job(api, query, job, region, namespace)?;
    let mut warnings = admission::warnings(&job, &api.replica.snapshot());
    let source = admission::source(submission, &api.rules, &mut warnings);
    admission::fill_defaults(&mut job, &api.rules);
    let spec = admit(api, &job).await?;
    let enforce_index = enforce_index.unwrap_or_default();
    let command = Command::RegisterJob(Box::new(RegisterJob {
        spec,
        source,
        enforce_index: enforce_index.then(|| Index(job_modify_index.unwrap_or_default())),
        eval_priority,
        preserve_counts: preserve_counts.unwrap_or_default(),
        preserve_resources: preserve_resources.unwrap_or_default(),
    }));
    let done = api.command(query, &command).await?;
    Ok(Response::written(&Registered::new(&done, warnings.to_string()), done.index))
}

/// What the reference checks of a job before it compares regions, and answers with a 400: weights while it decodes the body,
/// and scaling blocks.
fn check_before_forwarding(job: &Job) -> Result<(), Error> {
    admission::weights_fit(job).map_err(Error::bad_request)?;
    if admission::scales_a_system_job(job) {
        return Err(Error::bad_request("Task groups with job type system do not support scaling blocks"));
    }
    Ok(())
}

/// The job of a request, with the region and namespace that the request selects (http-api §3).
///
/// # Errors
/// If it is for another region.
pub(super) fn requested_job(
    api: &Api,
    query: &Query,
    mut job: Job,
    region: Option<String>,
    namespace: Option<String>,
) -> Result<Job, Error> {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let region = given(region)
        .or_else(|| given(Some(query.text("region").to_owned())))
        .or_else(|| given(job.region.take()))
        .unwrap_or_else(|| api.args.region.clone());
    if region != api.args.region {
        return Err(Error::failed(NO_REGION));
    }
    let namespace = given(Some(query.text("namespace").to_owned()))
        .or_else(|| given(namespace))
        .or_else(|| given(job.namespace.take()))
        .unwrap_or_else(|| cluster::Namespace::DEFAULT.to_owned());
    Ok(Job { region: Some(region), namespace: Some(namespace), ..job })
}

/// Checks an evaluation's priority; `None` for 0, which selects the job's priority.
///
/// # Errors
/// If the priority is out of range.
pub(crate) fn eval_priority(priority: i64) -> Result<Option<u16>, Error> {
    match u16::try_from(priority) {
        Ok(0) => Ok(None),
        Ok(priority @ 1..=100) => Ok(Some(priority)),
        Ok(_) | Err(_) => Err(Error::bad_request("Eval priority must be between 1 and 100 inclusively")),
    }
}

/// Checks admission in the replica's state, and if that rejects the job, in the newest state: the namespace or node pool
/// may have been created through another server.
async fn admit(api: &Api, job: &Job) -> Result<Arc<JobSpec>, Error> {
    let local = api.replica.snapshot();
    let rejection = match admission::admit(job, &local, &api.rules) {
        Ok(spec) => return Ok(spec),
        Err(rejection) if rejection.is_final() => return Err(rejection.into()),
        Err(rejection) => rejection,
    };
    let newest = api.fresh_snapshot(false).await?;
    if newest.index() == local.index() {
        return Err(rejection.into());
    }
    admission::admit(job, &newest, &api.rules).map_err(Error::from)
}

/// Response to a validation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Validated {
    driver_config_validated: bool,
    validation_errors: Option<Vec<String>>,
    error: String,
    warnings: String,
}

/// Body of a validation. The region and namespace of the request have no effect.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct ValidateRequest {
    job: Option<Job>,
}

/// Validates a job.
pub(crate) async fn validate(api: &Api, request: &Request) -> Result<Response, Error> {
    let body: ValidateRequest = decode(&request.body, &api.limits)?;
    let job = body.job.ok_or_else(|| Error::bad_request("Job must be specified"))?;
    admission::weights_fit(&job).map_err(Error::bad_request)?;
    api.check_region(&request.query)?;
    if job.namespace.as_deref() == Some("") {
        return Err(Error::failed("mismatched request namespace in request: \"default\", \"\""));
    }
    // Unlike a registration, a validation looks at the namespace of the job only.
    let region = job.region.clone().unwrap_or_else(|| api.args.region.clone());
    let namespace = job.namespace.clone().unwrap_or_else(|| cluster::Namespace::DEFAULT.to_owned());
    let mut job = Job { region: Some(region), namespace: Some(namespace), ..job };
    let snapshot = api.fresh_snapshot(false).await?;
    let warnings = admission::warnings(&job, &snapshot).to_string();
    admission::fill_defaults(&mut job, &api.rules);
    let problems = match admission::check(&job, &snapshot, &api.rules) {
        Ok(_) => admission::not_built(&job),
        Err(invalid) => invalid.problems,
    };
    let (error, errors) = match problems.is_empty() {
        true => (String::new(), None),
        false => (problems.to_string(), Some(problems.into_vec())),
    };
    let answer = Validated { driver_config_validated: true, validation_errors: errors, error, warnings };
    Ok(Response::json(&answer))
}

/// Parses a job file.
pub(crate) async fn parse(api: &Api, request: &Request) -> Result<Response, Error> {
    let JobParseRequest { job_hcl, variables, canonicalize } = decode(&request.body, &api.limits)?;
    let source = job_hcl.unwrap_or_default();
    if source.is_empty() {
        return Err(Error::bad_request("Job spec is empty"));
    }
    let options = parse_options(variables.unwrap_or_default());
    // Parsing a large file takes a while, so it does not block the serving thread.
    let parsed = api.background.run(Work::Parse, move || jobspec::parse(&source, &options)).await?;
    let mut job = parsed.map_err(|error| Error::bad_request(format!("Failed to parse job: {error}")))?;
    if canonicalize.unwrap_or_default() {
        model::canonicalise(&mut job);
    }
    Ok(Response::json(&jobspec::parse_route_json(&job)))
}

/// Options of the parse route: job files cannot read files of the server, and values for undeclared variables are ignored.
fn parse_options(variables: String) -> jobspec::Options {
    let mut options = jobspec::Options::default();
    if !variables.is_empty() {
        options.variables.push(jobspec::Variables::File { name: options.file_name.clone(), text: variables });
    }
    options.function_inputs.seed = telemetry::clock::random_bytes();
    options
}
