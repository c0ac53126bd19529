//! Routes of services in the cluster's own service discovery (http-api §21).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix_web::http::Method;
use model::service::{ServiceKey, ServiceRegistration};
use model::{AllocId, SmallObject, Text};
use state::State;
use wire::command::{Command, DeleteService};

use super::{Request, allocations, job};
use crate::Api;
use crate::filter::{Filter, FilterError, matches_filter};
use crate::http::{Body, Effort, Error, Namespace, Query, Response, Watched, Work, ordered, parse_id, piece};
use crate::shapes::{Choice, targets};

/// Lists the services of each namespace, with the tags of all their instances.
pub(crate) async fn list(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let page = query.page()?;
    api.check_region(query)?;
    let (namespace, prefix) = (query.namespace(), query.text("prefix").to_owned());
    let watched = Watched::prefix(ServiceRegistration::TABLE, &prefix);
    let reverse = page.reverse;
    let make = move |state: &State, from: Option<&str>, limit: usize| {
        let stubs = by_namespace(in_namespaces(state, &namespace), &prefix);
        let is_before = |name: &str| from.is_some_and(|from| if reverse { name > from } else { name < from });
        let stubs = ordered(stubs.into_iter(), reverse).skip_while(|(name, _)| is_before(name));
        piece(
            stubs,
            limit,
            |_| Ok(true),
            |(name, _)| name.to_string(),
            |(name, services)| stub(&name, services),
        )
    };
    api.list(query, watched, page, Effort::Expensive, make).await
}

/// The tags of the instances of each service, by its name.
type Services = BTreeMap<Text, BTreeSet<Text>>;

/// The registrations in the selected namespaces, by key.
fn in_namespaces<'a>(
    state: &'a State,
    namespace: &'a Namespace,
) -> impl Iterator<Item = &'a Arc<ServiceRegistration>> + use<'a> {
    let first = match namespace {
        Namespace::Any => ServiceKey::default(),
        Namespace::Only(name) => ServiceKey::first_of(name, ""),
    };
    state
        .small_objects_from::<ServiceRegistration>(&first)
        .take_while(|registration| namespace.holds(&registration.key.namespace))
}

/// The services whose name begins with a prefix, by namespace.
fn by_namespace<'a>(
    registrations: impl Iterator<Item = &'a Arc<ServiceRegistration>>,
    prefix: &str,
) -> BTreeMap<Text, Services> {
    let mut namespaces: BTreeMap<Text, Services> = BTreeMap::new();
    for registration in registrations.filter(|registration| registration.key.name.starts_with(prefix)) {
        let ServiceKey { namespace, name, .. } = &registration.key;
        let services = namespaces.entry(namespace.clone()).or_default();
        services.entry(name.clone()).or_default().extend(registration.tags.iter().cloned());
    }
    namespaces
}

fn stub(namespace: &str, services: Services) -> api_types::ServiceRegistrationListStub {
    let service = |(name, tags): (Text, BTreeSet<Text>)| api_types::ServiceRegistrationStub {
        service_name: Some(name.to_string()),
        tags: Some(tags.iter().map(ToString::to_string).collect()),
    };
    api_types::ServiceRegistrationListStub {
        namespace: Some(namespace.to_owned()),
        services: Some(services.into_iter().map(service).collect()),
    }
}

/// Reads the instances of a service, or deletes one of them. What the path lacks is refused in this order: too many parts,
/// then the method, then the name.
pub(crate) async fn service(api: &Api, request: &Request) -> Result<Response, Error> {
    let parts: Vec<&str> = request.id().split('/').collect();
    match (&parts[..], &request.method) {
        ([""], &Method::GET) => Err(Error::bad_request("missing service name")),
        ([name], &Method::GET) => instances(api, &request.query, name).await,
        ([_, id], &Method::DELETE) => delete(api, &request.query, id).await,
        ([_] | [_, _], _) => Err(Error::wrong_method()),
        _ => Err(Error::bad_request("invalid URI")),
    }
}

/// Lists the instances of a service, or some of them that are chosen by a key.
async fn instances(api: &Api, query: &Query, name: &str) -> Result<Response, Error> {
    let page = query.page()?;
    let choice = match query.text("choose") {
        "" => None,
        text => Some(Choice::read(text).ok_or_else(no_choice)?),
    };
    api.check_region(query)?;
    let filter = query.filter::<api_types::ServiceRegistration>(&api.limits)?;
    let watched = Watched::prefix(ServiceRegistration::TABLE, name);
    let (namespace, name, reverse) = (query.namespace().name().to_owned(), name.to_owned(), page.reverse);
    let effort = Effort::of(filter.as_ref());
    let make = move |state: &State, from: Option<&str>, limit: usize| {
        let mut found = wanted(named(state, &namespace, &name), filter.as_ref())?;
        if let Some(choice) = &choice {
            choice.keep(&mut found);
        }
        let token = |one: &Arc<ServiceRegistration>| format!("{}.{}", one.key.namespace, one.key.id);
        let is_before =
            |token: &str| from.is_some_and(|from| if reverse { token > from } else { token < from });
        let found = ordered(found.into_iter(), reverse).skip_while(|one| is_before(&token(one)));
        piece(found, limit, |_| Ok(true), token, |one| one.shape())
    };
    api.list(query, watched, page, effort, make).await
}

fn no_choice() -> Error {
    Error::bad_request("failed to choose services: Parameter for choose must be in form '<number>|<key>'")
}

/// The instances of a service, by id.
fn named<'a>(
    state: &'a State,
    namespace: &'a str,
    name: &'a str,
) -> impl Iterator<Item = &'a Arc<ServiceRegistration>> + use<'a> {
    state
        .small_objects_from::<ServiceRegistration>(&ServiceKey::first_of(namespace, name))
        .take_while(move |registration| registration.key.is_of(namespace, name))
}

/// The registrations that match a filter.
fn wanted<'a>(
    registrations: impl Iterator<Item = &'a Arc<ServiceRegistration>>,
    filter: Option<&Filter>,
) -> Result<Vec<Arc<ServiceRegistration>>, FilterError> {
    let mut found = Vec::new();
    for registration in registrations {
        if matches_filter(filter, &**registration)? {
            found.push(Arc::clone(registration));
        }
    }
    Ok(found)
}

/// Deletes a registration. It is found by namespace and id alone.
async fn delete(api: &Api, query: &Query, id: &str) -> Result<Response, Error> {
    let namespace = query.namespace().name().into();
    let command = DeleteService { namespace, id: id.into() };
    let done = api.command(query, &Command::DeleteService(command)).await?;
    Ok(Response::done(done.index))
}

/// Lists the registrations of a job.
pub(crate) async fn of_job(api: &Api, request: &Request) -> Result<Response, Error> {
    let key = job::key(request);
    let watched = Watched::table(ServiceRegistration::TABLE);
    api.read_in_background(&request.query, watched, Work::List, move |state| {
        state.job(&key).ok_or_else(|| Error::not_found("job not found"))?;
        let allocs = state.allocs_of_job(&key).map(|alloc| alloc.id());
        Ok(shown(state, allocs))
    })
    .await
}

/// Lists the registrations of an allocation.
pub(crate) async fn of_alloc(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    query.read_options()?;
    api.check_region(query)?;
    let id: AllocId = parse_id(allocations::LOOKUP, request.id())?;
    let namespace = query.namespace();
    let watched = Watched::table(ServiceRegistration::TABLE);
    api.read(query, watched, |state| {
        let alloc = state.alloc(id).filter(|alloc| namespace.holds(&alloc.job_key().namespace));
        alloc.ok_or_else(|| Error::not_found("allocation not found"))?;
        Ok(Body::Json(shown(state, [id].into_iter())).into())
    })
    .await
}

/// The registrations of allocations, by id, as JSON.
fn shown(state: &State, allocs: impl Iterator<Item = AllocId>) -> Vec<u8> {
    let mut found: Vec<&Arc<ServiceRegistration>> =
        allocs.flat_map(|alloc| state.small_objects_of(alloc)).collect();
    found.sort_by(|one, other| one.key.id.cmp(&other.key.id));
    let shapes: Vec<api_types::ServiceRegistration> = found.into_iter().map(|one| one.shape()).collect();
    serde_json::to_vec(&shapes).expect("plain data always serializes to JSON")
}

/// Lists the instances of all services as targets of Prometheus's HTTP service discovery
/// (`docs/operations/services.md`).
pub(crate) async fn prometheus(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let filter = query.filter::<api_types::ServiceRegistration>(&api.limits)?;
    let (namespace, prefix) = (query.namespace(), query.text("prefix").to_owned());
    let watched = Watched::prefix(ServiceRegistration::TABLE, &prefix);
    api.read_in_background(query, watched, Work::List, move |state| {
        let registrations = in_namespaces(state, &namespace);
        let registrations = registrations.filter(|one| one.key.name.starts_with(&*prefix));
        let found = wanted(registrations, filter.as_ref())?;
        Ok(serde_json::to_vec(&targets(&found)).expect("plain data always serializes to JSON"))
    })
    .await
}
