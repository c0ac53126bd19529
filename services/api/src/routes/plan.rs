//! Route that plans a job without registering it (http-api §11.3, `docs/rules/scheduling.md` §10). Nothing is written: the
//! scheduler's core runs here on a copy of the state.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::{AllocListStub, AllocMetric, Evaluation, JobDiff, PlanAnnotations, Time};
use model::job::{Job, JobSpec};
use model::schedule::Schedule;
use model::{AllocId, Index, Timestamp};
use scheduling::DryRun;
use serde::{Deserialize, Serialize};
use state::State;
use telemetry::clock;

use super::Request;
use super::jobs::requested_job;
use crate::Api;
use crate::admission;
use crate::http::{Error, Response, Work, decode};
use crate::shapes::{AllocParts, alloc_stub};

/// Body of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct PlanRequest {
    job: Option<api_types::Job>,
    diff: Option<bool>,
    policy_override: Option<bool>,
    region: Option<String>,
    namespace: Option<String>,
    /// Whether the metrics of failed groups have all reasons. Not part of Nomad's API.
    reasons: Option<bool>,
}

/// Response (http-api A.9).
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Planned {
    annotations: PlanAnnotations,
    #[serde(rename = "FailedTGAllocs")]
    failed_tg_allocs: Option<BTreeMap<String, AllocMetric>>,
    job_modify_index: u64,
    created_evals: Option<Vec<Evaluation>>,
    diff: Option<JobDiff>,
    /// When a periodic job would be launched next, if it is enabled.
    next_periodic_launch: Option<Time>,
    warnings: String,
    index: u64,
}

/// Plans a job.
pub(crate) async fn plan(api: &Api, request: &Request) -> Result<Response, Error> {
    let PlanRequest { job, diff, region, namespace, reasons, .. } = decode(&request.body, &api.limits)?;
    let job = job.ok_or_else(|| Error::bad_request("Job must be specified"))?;
    match job.id.as_deref() {
        None => return Err(Error::bad_request("Job must have a valid ID")),
        Some(id) if id != request.id() => return Err(Error::bad_request("Job ID does not match")),
        Some(_) => {}
    }
    admission::weights_fit(&job).map_err(Error::bad_request)?;
    let mut job = requested_job(api, &request.query, job, region, namespace)?;
    let state = api.fresh_snapshot(false).await?;
    let warnings = admission::warnings(&job, &state).to_string();
    admission::fill_defaults(&mut job, &api.rules);
    let spec = admission::admit(&job, &state, &api.rules)?;
    let shown = Shown { diff: diff.unwrap_or_default(), reasons: reasons.unwrap_or_default() };
    // Planning a large job on many nodes takes milliseconds, so it does not block the serving thread.
    let now = api.contact.cluster_now().max(state.at());
    let planning = move || plan_job(&state, &spec, now, shown, warnings);
    let planned = api.background.run(Work::Plan, planning).await?;
    let index = Index(planned.index);
    Ok(Response::written(&planned, index))
}

/// Optional parts of a response.
#[derive(Debug, Clone, Copy)]
struct Shown {
    diff: bool,
    reasons: bool,
}

fn plan_job(state: &State, spec: &Arc<JobSpec>, now: Timestamp, shown: Shown, warnings: String) -> Planned {
    let run = scheduling::dry_run(state, spec, now, true, &mut clock::random_bytes);
    let diff = shown.diff.then(|| diff(&run, spec));
    let DryRun { annotations, failed_groups, creates, job_modify_index, existing: _ } = run;
    let next_launch = spec.launch_config().and_then(|config| Schedule::new(config).next(now));
    let failed = failed_groups.iter().map(|(group, metric)| {
        let metric = if shown.reasons { metric.to_api_with_reasons() } else { metric.to_api() };
        (group.to_string(), metric)
    });
    let preempted_allocs = preempted(&annotations.preempted, state);
    // The snapshot index of the simulated state means nothing to clients.
    let created = creates.iter().map(|eval| Evaluation {
        snapshot_index: None,
        create_time: Some(now.0),
        modify_time: Some(now.0),
        ..eval.to_api()
    });
    Planned {
        annotations: PlanAnnotations { preempted_allocs, ..annotations.to_api() },
        failed_tg_allocs: (!failed_groups.is_empty()).then(|| failed.collect()),
        job_modify_index: job_modify_index.0,
        created_evals: (!creates.is_empty()).then(|| created.collect()),
        diff,
        next_periodic_launch: next_launch.map(|next| Time::from_unix_nanos(next.0)),
        warnings,
        index: job_modify_index.0,
    }
}

/// The preempted allocations as list entries (http-api A.9). `None` if there are none.
fn preempted(ids: &[AllocId], state: &State) -> Option<Vec<AllocListStub>> {
    let stubs = ids.iter().filter_map(|id| state.alloc(*id));
    let stubs: Vec<_> = stubs.map(|alloc| alloc_stub(alloc, AllocParts::default())).collect();
    (!stubs.is_empty()).then_some(stubs)
}

/// The difference between the job and the registered one, annotated with its effects.
fn diff(run: &DryRun, spec: &Arc<JobSpec>) -> JobDiff {
    let before = run.existing.as_ref().map(|job| job.to_api());
    let after = Job { spec: Arc::clone(spec), ..Job::default() }.to_api();
    let mut diff = model::diff::diff(before.as_ref(), Some(&after));
    model::diff::annotate(&mut diff, &run.annotations.desired_updates);
    diff
}
