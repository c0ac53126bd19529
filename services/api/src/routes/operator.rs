//! Routes for operators: scheduler configuration (http-api §29) and garbage collection (§28).

use actix_web::http::StatusCode;
use api_types::{JobListStub, SchedulerConfiguration};
use model::cluster::{SchedulerAlgorithm, SchedulerConfig};
use model::job::{Job, Task};
use model::text::quoted;
use model::{Index, JobKey};
use serde::Serialize;
use state::Table;
use wire::command::{
    Command, CommandError, ForceGarbageCollection, GarbageCollectionStarted, RECONCILED_SUMMARIES_MAX,
    ReconcileSummaries, SetSchedulerConfig,
};
use wire::{Refusal, RefusalKind, Subject};

use super::Request;
use crate::Api;
use crate::http::{Body, Error, NO_LEADER, Response, Watched, Work, decode, unsigned};
use crate::shapes;

/// Beginning of the names of workload identities for Vault.
const VAULT_IDENTITY: &str = "vault_";

/// Response with the scheduler configuration.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Scheduler {
    scheduler_config: SchedulerConfiguration,
    #[serde(flatten)]
    meta: shapes::Meta,
}

/// Reads the scheduler configuration.
pub(crate) async fn scheduler(api: &Api, request: &Request) -> Result<Response, Error> {
    let stale = request.query.read_options()?.stale;
    api.read(&request.query, Watched::table(Table::SchedulerConfig), |snapshot| {
        let config = snapshot.scheduler_config().copied().unwrap_or_default();
        let mut shown = config.to_api();
        if config.algorithm.is_none() {
            shown.scheduler_algorithm = Some(SchedulerAlgorithm::Binpack.to_string());
        }
        let meta = api.meta(snapshot.table_index(Table::SchedulerConfig).max(Index(1)), stale);
        Ok(Body::json(&Scheduler { scheduler_config: shown, meta: (&meta).into() }).into())
    })
    .await
}

/// Response to a change of the configuration.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Updated {
    updated: bool,
    index: Index,
}

/// Sets the scheduler configuration. If `cas` is given, its modify index must still be that index.
pub(crate) async fn set_scheduler(api: &Api, request: &Request) -> Result<Response, Error> {
    let cas = match request.query.get("cas") {
        None => None,
        Some(text) => Some(Index(unsigned(text).map_err(|problem| {
            let text = quoted(text);
            Error::bad_request(format!(
                "Error parsing cas value: strconv.ParseUint: parsing {text}: {problem}"
            ))
        })?)),
    };
    let unreadable =
        |error: Error| Error { text: format!("Error parsing scheduler config: {}", error.text), ..error };
    let body: SchedulerConfiguration = decode(&request.body, &api.limits).map_err(unreadable)?;
    let algorithm = body.scheduler_algorithm.as_deref().unwrap_or_default();
    if !algorithm.is_empty() && algorithm.parse::<SchedulerAlgorithm>().is_err() {
        return Err(Error::bad_request(format!("invalid scheduler algorithm: {algorithm}")));
    }
    let config = SchedulerConfig::from_api(body).map_err(|error| Error::bad_request(error.to_string()))?;
    api.check_region(&request.query)?;
    let command = Command::SetSchedulerConfig(SetSchedulerConfig { config, enforce_index: cas });
    let (updated, index) = match api.bus.command(&command, api.limits.leader_timeout).await {
        Ok(done) => (true, done.index),
        Err(CommandError::Refused(Refusal { kind: RefusalKind::Conflict, .. })) => {
            (false, api.replica.snapshot().index())
        }
        Err(error) => return Err(api.command_error(&error)),
    };
    Ok(Response::written(&Updated { updated, index }, index))
}

/// Computes the summaries of all jobs again, some jobs with each command (N-25.8).
pub(crate) async fn reconcile_summaries(api: &Api, request: &Request) -> Result<Response, Error> {
    api.check_region(&request.query)?;
    let snapshot = api.fresh_snapshot(false).await?;
    let jobs: Vec<JobKey> = snapshot.jobs().map(|job| job.key()).collect();
    drop(snapshot);
    for jobs in jobs.chunks(RECONCILED_SUMMARIES_MAX) {
        let command = Command::ReconcileSummaries(ReconcileSummaries { jobs: jobs.to_vec() });
        api.command(&request.query, &command).await?;
    }
    Ok(Response::ok(Body::Empty))
}

/// Collects all garbage, whatever its age. The response says only that the collection has begun.
pub(crate) async fn collect_garbage(api: &Api, request: &Request) -> Result<Response, Error> {
    api.check_region(&request.query)?;
    let within = api.limits.leader_timeout;
    let begun = api
        .bus
        .request::<_, GarbageCollectionStarted>(
            Subject::ForceGarbageCollection,
            &ForceGarbageCollection {},
            within,
        )
        .await;
    begun.map_err(|error| {
        let reasons = [vec![telemetry::chain(&error)], api.outages()].concat();
        Error::unavailable(format!("{NO_LEADER}: {}", reasons.join("; ")))
    })?;
    Ok(Response::ok(Body::Empty))
}

/// There is no license.
pub(crate) fn license(_: &Api, _: &Request) -> Result<Response, Error> {
    Ok(Response::ok(Body::Empty).status(StatusCode::NO_CONTENT))
}

/// Setting a license and sending reports of the utilization belong to Nomad Enterprise (http-api §33).
pub(crate) fn enterprise_only(_: &Api, _: &Request) -> Result<Response, Error> {
    Err(Error::not_built("Nomad Enterprise only endpoint"))
}

/// There is nothing else about Raft.
pub(crate) fn unknown_raft(_: &Api, _: &Request) -> Result<Response, Error> {
    Err(Error::not_found("Invalid method"))
}

/// There is no other request about keys.
pub(crate) fn wrong_method(_: &Api, _: &Request) -> Result<Response, Error> {
    Err(Error::wrong_method())
}

/// What does not fit workload identities for Vault. There are no nodes and tokens of older versions.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct VaultIdentities {
    jobs_without_vault_identity: Vec<JobListStub>,
    outdated_nodes: [(); 0],
    vault_tokens: Option<()>,
    #[serde(flatten)]
    meta: shapes::Meta,
}

/// Lists the jobs whose tasks have access to Vault without an identity for it.
pub(crate) async fn vault_identities(api: &Api, request: &Request) -> Result<Response, Error> {
    let stale = request.query.read_options()?.stale;
    api.check_region(&request.query)?;
    let state = api.fresh_snapshot(stale).await?;
    let searching = move || {
        let lacks = |task: &Task| {
            let has_identity =
                task.identities.iter().any(|identity| identity.name.starts_with(VAULT_IDENTITY));
            task.vault.is_some() && !has_identity
        };
        let is_lacking = |job: &Job| job.spec.task_groups.iter().any(|group| group.tasks.iter().any(lacks));
        let lacking = state.jobs().filter(|job| is_lacking(job));
        let stubs: Vec<JobListStub> = lacking.map(|job| shapes::job_stub(job, &state, false)).collect();
        (stubs, state.table_index(Table::Jobs).max(Index(1)))
    };
    let (jobs_without_vault_identity, index) = api.background.run(Work::List, searching).await?;
    let meta = api.meta(index, stale);
    let found = VaultIdentities {
        jobs_without_vault_identity,
        outdated_nodes: [],
        vault_tokens: None,
        meta: (&meta).into(),
    };
    Ok(Response::json(&found).with(meta))
}

/// There is no other check before an upgrade.
pub(crate) fn unknown_check(_: &Api, request: &Request) -> Result<Response, Error> {
    Err(Error::not_found(format!("Path /v1/operator/upgrade-check/{} not found", request.id())))
}
