//! What operators set: the scheduler's configuration (http-api §29); and namespaces (§19), for reading.

use actix_web::http::StatusCode;
use api_types::SchedulerConfiguration;
use model::Index;
use model::cluster::{SchedulerAlgorithm, SchedulerConfig};
use model::text::quoted;
use serde::Serialize;
use state::{State, Table, WatchKey};
use wire::command::{Command, SetSchedulerConfig};
use wire::{Refusal, RefusalKind};

use super::Request;
use super::shapes;
use crate::Api;
use crate::frame::{Answer, Body, Error, Shown, decode, list, ordered, piece};

/// What is answered about the scheduler's settings.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Scheduler {
    scheduler_config: SchedulerConfiguration,
    #[serde(flatten)]
    meta: shapes::Meta,
}

/// The scheduler's settings.
pub(crate) async fn scheduler(api: &Api, request: &Request) -> Result<Answer, Error> {
    let stale = request.query.reading()?.stale;
    api.read(&request.query, Shown::table(Table::SchedulerConfig), |snapshot| {
        let config = snapshot.scheduler_config().copied().unwrap_or_default();
        let mut shown = config.to_api();
        if config.algorithm.is_none() {
            shown.scheduler_algorithm = Some(SchedulerAlgorithm::Binpack.to_string());
        }
        let (ago, known_leader) = api.contact(stale);
        let meta = shapes::Meta {
            index: snapshot.table_index(Table::SchedulerConfig).max(Index(1)).0,
            last_contact: u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX),
            known_leader,
            next_token: String::new(),
        };
        Ok(Body::json(&Scheduler { scheduler_config: shown, meta }).into())
    })
    .await
}

/// What is answered to new settings.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Updated {
    updated: bool,
    index: Index,
}

/// Sets the scheduler's settings, if they are still those of the index in `cas`, where one is given.
pub(crate) async fn set_scheduler(api: &Api, request: &Request) -> Result<Answer, Error> {
    let cas = match request.query.get("cas") {
        None => None,
        Some(text) => Some(Index(text.parse().map_err(|_| {
            let text = quoted(text);
            Error::bad_request(format!(
                "Error parsing cas value: strconv.ParseUint: parsing {text}: invalid syntax"
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
    let command = Command::SetSchedulerConfig(SetSchedulerConfig { config, enforce_index: cas });
    let (updated, index) = match api.bus.command(&command, api.limits.leader_within).await {
        Ok(done) => (true, done.index),
        Err(bus::CommandError::Refused(Refusal { kind: RefusalKind::Conflict, .. })) => {
            (false, api.replica.snapshot().index())
        }
        Err(error) => return Err(api.failed(&error)),
    };
    Ok(Answer::written(&Updated { updated, index }, index))
}

/// Lists namespaces by name.
pub(crate) async fn namespaces(api: &Api, request: &Request) -> Result<Answer, Error> {
    let query = &request.query;
    let page = query.page()?;
    let (prefix, reverse) = (query.text("prefix").to_owned(), page.reverse);
    let make = move |state: &State, from: Option<&str>, limit: usize| {
        let namespaces = ordered(state.namespaces(), reverse)
            .filter(|namespace| namespace.name.starts_with(&prefix))
            .skip_while(|namespace| {
                from.is_some_and(
                    |from| {
                        if reverse { &*namespace.name > from } else { &*namespace.name < from }
                    },
                )
            });
        piece(namespaces, limit, |one| one.name.to_string(), |one| shapes::namespace(one))
    };
    let shown = Shown::prefix(Table::Namespaces, query.text("prefix"));
    api.read(query, shown, |snapshot| Ok(list::body(snapshot, page, make))).await
}

/// Reads a namespace.
pub(crate) async fn namespace(api: &Api, request: &Request) -> Result<Answer, Error> {
    let name = request.id();
    if name.is_empty() {
        return Err(Error::bad_request("Missing Namespace Name"));
    }
    let index = |state: &State| match state.namespace(name) {
        Some(namespace) => namespace.modify_index,
        None => state.table_index(Table::Namespaces),
    };
    let shown = Shown::new([WatchKey::Prefix(Table::Namespaces, name.into())], index);
    api.read(&request.query, shown, |snapshot| {
        let namespace = snapshot.namespace(name).ok_or_else(|| Error::not_found("Namespace not found"))?;
        Ok(Body::json(&shapes::namespace(namespace)).into())
    })
    .await
}

/// There is no licence to show.
pub(crate) fn license(_: &Api, _: &Request) -> Result<Answer, Error> {
    Ok(Answer::ok(Body::Empty).status(StatusCode::NO_CONTENT))
}

/// There is no licence to set.
pub(crate) fn set_license(_: &Api, _: &Request) -> Result<Answer, Error> {
    Err(Error::not_built("Nomad Enterprise only endpoint"))
}
