//! Routes of allocations (http-api §12).

use model::alloc::DesiredTransition;
use model::eval::EvalTrigger;
use model::{AllocId, Index};
use serde::Serialize;
use state::{AllocRef, State, Table, WatchKey};
use wire::command::{Command, Transition};

use super::Request;
use crate::Api;
use crate::filter::matches_filter;
use crate::http::{
    Body, Effort, Error, Piece, Response, Watched, creation_token, list, ordered, parse_id, piece,
    prefix_range,
};
use crate::shapes::{self, AllocParts, alloc_stub};

/// How errors of the lookup of an allocation begin.
pub(crate) const LOOKUP: &str = "alloc lookup failed: ";

/// Lists allocations by creation, or by id if an id prefix is given.
pub(crate) async fn list(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let page = query.page()?;
    let parts = AllocParts {
        resources: query.flag("resources", false)?,
        task_states: query.flag("task_states", true)?,
    };
    api.check_region(query)?;
    let (prefix, namespace, reverse) = (query.text("prefix"), query.namespace(), page.reverse);
    let (first, last) = prefix_range(LOOKUP, prefix)?.into_inner();
    let filter = query.filter::<api_types::Allocation>(&api.limits)?;
    let effort = Effort::of(filter.as_ref());
    let wanted = move |alloc: &AllocRef<'_>| {
        let is_selected = namespace.holds(&alloc.job_key().namespace);
        if is_selected { matches_filter(filter.as_ref(), alloc) } else { Ok(false) }
    };
    let watched = Watched::prefix(Table::Allocs, prefix);
    let stub = move |alloc: AllocRef<'_>| alloc_stub(alloc, parts);
    if prefix.is_empty() {
        let make = move |state: &State, from: Option<&str>, limit: usize| {
            let Some(bounds) = list::creation_bounds(from, reverse) else { return Ok(Piece::empty()) };
            let allocs = ordered(state.allocs_by_creation(bounds), reverse);
            let token = |alloc: &AllocRef<'_>| creation_token(alloc.create_index(), alloc.id());
            piece(allocs, limit, &wanted, token, stub)
        };
        return api.list(query, watched, page, effort, make).await;
    }
    let ids = (AllocId::from_bytes(first), AllocId::from_bytes(last));
    let make = move |state: &State, from: Option<&str>, limit: usize| {
        let Some(bounds) = list::id_bounds(ids, from, reverse) else { return Ok(Piece::empty()) };
        let allocs = ordered(state.allocs_in(bounds), reverse);
        piece(allocs, limit, &wanted, |alloc| alloc.id().to_string(), stub)
    };
    api.list(query, watched, page, effort, make).await
}

/// Ids of allocations, sorted by their creation.
pub(super) fn ids_by_creation<'a>(allocs: impl Iterator<Item = AllocRef<'a>>) -> Vec<AllocId> {
    let mut found: Vec<(Index, AllocId)> = allocs.map(|alloc| (alloc.create_index(), alloc.id())).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, id)| id).collect()
}

/// An allocation that was found in a state, as in a list.
pub(super) fn found_stub(state: &State, id: &AllocId) -> api_types::AllocListStub {
    alloc_stub(found(state, *id), AllocParts::default())
}

/// An allocation that was found in a state.
pub(super) fn found(state: &State, id: AllocId) -> AllocRef<'_> {
    state.alloc(id).expect("the allocation was found in this state")
}

/// There is nothing else about an allocation, whatever the method (http-api §12, §18).
pub(crate) fn unknown(_: &Api, _: &Request) -> Result<Response, Error> {
    Err(Error::not_found("resource not found"))
}

/// Reads an allocation with its job.
pub(crate) async fn read(api: &Api, request: &Request) -> Result<Response, Error> {
    if request.id().contains('/') {
        return unknown(api, request);
    }
    request.query.read_options()?;
    api.check_region(&request.query)?;
    let id: AllocId = parse_id(LOOKUP, request.id())?;
    let index = |state: &State| match state.alloc(id) {
        Some(alloc) => alloc.modify_index(),
        None => state.table_index(Table::Allocs),
    };
    api.read(&request.query, Watched::new([WatchKey::Alloc(id)], index), |snapshot| {
        let alloc = snapshot.alloc(id).ok_or_else(|| Error::not_found("alloc not found"))?;
        Ok(Body::json(&shapes::alloc_with_key(alloc, snapshot)).into())
    })
    .await
}

/// Response to a stop.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Stopped {
    #[serde(rename = "EvalID")]
    eval_id: String,
    index: Index,
}

/// Stops an allocation, which is then replaced (N-22.3).
pub(crate) async fn stop(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let transition = DesiredTransition {
        migrate: Some(true),
        reschedule: query.flag("reschedule", false)?.then_some(true),
        no_shutdown_delay: query.flag("no_shutdown_delay", false)?.then_some(true),
        ..DesiredTransition::default()
    };
    api.check_region(query)?;
    let id: AllocId = parse_id(LOOKUP, request.id())?;
    // The newest state is needed only if the replica does not contain the allocation.
    if api.replica.snapshot().alloc(id).is_none() && api.fresh_snapshot(false).await?.alloc(id).is_none() {
        return Err(Error::not_found("allocation not found"));
    }
    let trigger = EvalTrigger::AllocStop;
    let done = api
        .command(&request.query, &Command::Transition(Transition { allocs: vec![id], transition, trigger }))
        .await?;
    let eval_id = done.evals.first().map(ToString::to_string).unwrap_or_default();
    Ok(Response::written(&Stopped { eval_id, index: done.index }, done.index))
}
