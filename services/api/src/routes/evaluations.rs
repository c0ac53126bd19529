//! Routes of evaluations (http-api §15).

use std::collections::BTreeSet;
use std::sync::Arc;

use model::eval::Evaluation;
use model::{EvalId, Index};
use serde::{Deserialize, Serialize};
use state::{State, Table, WatchKey};
use wire::command::{Command, DeleteEvals, EVALS_DELETED_MAX};

use super::Request;
use super::allocations::{found_stub, ids_by_creation};
use crate::Api;
use crate::filter::{Filter, FilterError, matches_filter};
use crate::http::{
    Body, Effort, Error, Namespace, Piece, Response, Watched, Work, creation_token, decode, list, ordered,
    parse_id, piece, prefix_range,
};
use crate::shapes::{self, eval_stub};

/// How errors of the lookup of an evaluation begin in lists, and of one by its id.
const LIST_LOOKUP: &str = "eval lookup failed: ";
const LOOKUP: &str = "failed to lookup eval: eval lookup failed: ";

const NOT_FOUND: &str = "eval not found";

/// Maximum number of related evaluations in a response.
const RELATED_MAX: usize = 1_000;

/// Lists evaluations by creation, or by id if an id prefix is given.
pub(crate) async fn list(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let (status, job) = (query.text("status").to_owned(), query.text("job").to_owned());
    let is_narrowed = !status.is_empty() || !job.is_empty();
    if is_narrowed && !query.text("filter").is_empty() {
        return Err(Error::bad_request("Filter expression cannot be used with other filter parameters"));
    }
    let page = query.page()?;
    api.check_region(query)?;
    let (prefix, namespace, reverse) = (query.text("prefix"), query.namespace(), page.reverse);
    let (first, last) = prefix_range(LIST_LOOKUP, prefix)?.into_inner();
    let filter = query.filter::<api_types::Evaluation>(&api.limits)?;
    let effort = Effort::of(filter.as_ref());
    let wanted = move |eval: &&Arc<Evaluation>| {
        let is_selected = namespace.holds(&eval.job.namespace)
            && (job.is_empty() || *eval.job.id == *job)
            && (status.is_empty() || eval.status.as_str() == status);
        if is_selected { matches_filter(filter.as_ref(), &***eval) } else { Ok(false) }
    };
    let watched = Watched::prefix(Table::Evals, prefix);
    if prefix.is_empty() {
        let make = move |state: &State, from: Option<&str>, limit: usize| {
            let Some(bounds) = list::creation_bounds(from, reverse) else { return Ok(Piece::empty()) };
            let evals = ordered(state.evals_by_creation(bounds), reverse);
            let token = |eval: &&Arc<Evaluation>| creation_token(eval.create_index, eval.id);
            piece(evals, limit, &wanted, token, |eval| eval.to_api())
        };
        return api.list(query, watched, page, effort, make).await;
    }
    let ids = (EvalId::from_bytes(first), EvalId::from_bytes(last));
    let make = move |state: &State, from: Option<&str>, limit: usize| {
        let Some(bounds) = list::id_bounds(ids, from, reverse) else { return Ok(Piece::empty()) };
        let evals = ordered(state.evals_in(bounds), reverse);
        piece(evals, limit, &wanted, |eval| eval.id.to_string(), |eval| eval.to_api())
    };
    api.list(query, watched, page, effort, make).await
}

/// Body of a deletion.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct DeleteRequest {
    #[serde(rename = "EvalIDs")]
    eval_ids: Option<Vec<String>>,
    filter: Option<String>,
}

/// Response to a deletion.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Deleted {
    count: usize,
    index: u64,
}

/// Deletes evaluations by id or by filter. This is allowed only while the eval broker is paused.
pub(crate) async fn delete(api: &Api, request: &Request) -> Result<Response, Error> {
    let body: DeleteRequest = decode(&request.body, &api.limits)?;
    let ids = body.eval_ids.unwrap_or_default();
    let filter = body.filter.unwrap_or_default();
    match (ids.is_empty(), filter.is_empty()) {
        (true, true) => return Err(Error::bad_request("evals must be deleted by either ID or filter")),
        (false, false) => return Err(Error::bad_request("evals cannot be deleted by both ID and filter")),
        (true, false) | (false, true) => {}
    }
    if ids.len() > EVALS_DELETED_MAX {
        let text =
            format!("{} evaluation IDs in one request; at most {EVALS_DELETED_MAX} are allowed", ids.len());
        return Err(Error::bad_request(text));
    }
    api.check_region(&request.query)?;
    let snapshot = api.fresh_snapshot(false).await?;
    let is_paused = snapshot.scheduler_config().is_some_and(|config| config.pause_eval_broker);
    if !is_paused {
        return Err(Error::failed("eval broker is enabled; eval broker must be paused to delete evals"));
    }
    let ids = ids.iter().map(|id| parse_id(LIST_LOOKUP, id)).collect::<Result<BTreeSet<EvalId>, _>>()?;
    let filter = crate::filter::read::<api_types::Evaluation>(&filter, api.limits.filter);
    let filter = filter.map_err(|error| Error::failed(error.to_string()))?;
    let mut index = snapshot.index();
    let found = match filter {
        None if ids.iter().any(|id| snapshot.eval(*id).is_none()) => return Err(Error::failed(NOT_FOUND)),
        None => ids.into_iter().collect(),
        Some(filter) => {
            let namespace = request.query.namespace();
            let find = move || matching_ids(&snapshot, &namespace, &filter);
            api.background.run(Work::List, find).await?.map_err(filter_failed)?
        }
    };
    for ids in found.chunks(EVALS_DELETED_MAX) {
        let command = Command::DeleteEvals(DeleteEvals { ids: ids.to_vec() });
        index = api.command(&request.query, &command).await?.index;
    }
    Ok(Response::written(&Deleted { count: found.len(), index: index.0 }, index))
}

/// A filter that does not fit is a 500 where evaluations are counted and deleted, without an introduction (http-api §7.4).
fn filter_failed(error: FilterError) -> Error {
    match error {
        FilterError::Unfit(reason) => Error::failed(reason),
        limit @ FilterError::Limit(_) => Error::from(limit),
    }
}

/// Ids of the evaluations in a namespace that match a filter.
fn matching_ids(state: &State, namespace: &Namespace, filter: &Filter) -> Result<Vec<EvalId>, FilterError> {
    let mut ids = Vec::new();
    for eval in state.evals() {
        if namespace.holds(&eval.job.namespace) && filter.matches(&**eval)? {
            ids.push(eval.id);
        }
    }
    Ok(ids)
}

/// Response with a number of evaluations.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Counted {
    count: usize,
    #[serde(flatten)]
    meta: shapes::Meta,
}

/// Counts the evaluations in a namespace that match a filter.
pub(crate) async fn count(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    // The page has no effect on the number, but must be one.
    query.page()?;
    api.check_region(query)?;
    let (first, last) = prefix_range(LIST_LOOKUP, query.text("prefix"))?.into_inner();
    let ids = EvalId::from_bytes(first)..=EvalId::from_bytes(last);
    let filter = crate::filter::read::<api_types::Evaluation>(query.text("filter"), api.limits.filter);
    let filter = filter.map_err(|error| Error::failed(error.to_string()))?;
    let namespace = query.namespace();
    let stale = query.read_options()?.stale;
    let snapshot = api.fresh_snapshot(stale).await?;
    let meta = api.meta(snapshot.table_index(Table::Evals).max(Index(1)), stale);
    let counting = move || -> Result<usize, FilterError> {
        let mut count = 0;
        for eval in snapshot.evals_in(ids) {
            let is_counted =
                namespace.holds(&eval.job.namespace) && matches_filter(filter.as_ref(), &**eval)?;
            count += usize::from(is_counted);
        }
        Ok(count)
    };
    let count = api.background.run(Work::List, counting).await?.map_err(filter_failed)?;
    let counted = Counted { count, meta: shapes::Meta::from(&meta) };
    Ok(Response::json(&counted).with(meta))
}

/// Reads an evaluation, with its related evaluations, and with all reasons of failed placements, if requested.
pub(crate) async fn read(api: &Api, request: &Request) -> Result<Response, Error> {
    request.query.read_options()?;
    api.check_region(&request.query)?;
    let id: EvalId = parse_id(LOOKUP, request.id())?;
    // An invalid boolean counts as absent here.
    let related = request.query.flag("related", false).unwrap_or(false);
    let reasons = request.query.flag("reasons", false).unwrap_or(false);
    let index = |state: &State| match state.eval(id) {
        Some(eval) => eval.modify_index,
        None => state.table_index(Table::Evals),
    };
    api.read(&request.query, Watched::new([WatchKey::Eval(id)], index), |snapshot| {
        let eval = snapshot.eval(id).ok_or_else(|| Error::not_found(NOT_FOUND))?;
        let mut shown = eval.to_api();
        if related {
            let chain = chain(snapshot, eval);
            let related = chain.iter().map(|eval| eval_stub(eval)).collect::<Vec<_>>();
            shown.related_evals = Some(related).filter(|related| !related.is_empty());
        }
        if reasons && !eval.failed_groups.is_empty() {
            let failed = eval.failed_groups.iter();
            let failed = failed.map(|(group, metric)| (group.to_string(), metric.to_api_with_reasons()));
            shown.failed_tg_allocs = Some(failed.collect());
        }
        Ok(Body::json(&shown).into())
    })
    .await
}

/// The evaluations that are connected to `start` by next, previous and blocked evaluations.
fn chain<'a>(state: &'a State, start: &Evaluation) -> Vec<&'a Arc<Evaluation>> {
    let neighbours = |eval: &Evaluation| [eval.next_eval, eval.previous_eval, eval.blocked_eval];
    let mut found = Vec::new();
    let mut known = BTreeSet::from([start.id]);
    let mut next: Vec<EvalId> = neighbours(start).into_iter().flatten().collect();
    while let Some(id) = next.pop() {
        if found.len() == RELATED_MAX || !known.insert(id) {
            continue;
        }
        if let Some(eval) = state.eval(id) {
            next.extend(neighbours(eval).into_iter().flatten());
            found.push(eval);
        }
    }
    found
}

/// Lists the allocations that an evaluation placed or last updated.
pub(crate) async fn allocations(api: &Api, request: &Request) -> Result<Response, Error> {
    request.query.read_options()?;
    api.check_region(&request.query)?;
    let id: EvalId = parse_id("", request.id())?;
    let find = |state: &State| {
        let job = state.eval(id).map(|eval| &eval.job);
        let allocs = job.into_iter().flat_map(|job| state.allocs_of_job(job));
        ids_by_creation(allocs.filter(|alloc| alloc.eval_id() == id))
    };
    api.list_found(&request.query, Watched::table(Table::Allocs), find, found_stub).await
}
