//! Routes of namespaces (http-api §19).

use model::Text;
use model::cluster::Namespace;
use model::features::Feature;
use model::text::quoted;
use wire::command::{Command, DeleteNamespace, SetNamespace};

use super::{Request, small_objects};
use crate::Api;
use crate::http::{Effort, Error, Response, decode};

/// Maximum length of a name and of a description, in characters.
const NAME_CHARS_MAX: usize = 128;
const DESCRIPTION_CHARS_MAX: usize = 256;

/// Lists namespaces by name.
pub(crate) async fn list(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    small_objects::list(api, query, query.text("prefix"), Effort::Cheap, |_: &Namespace| Ok(true)).await
}

/// Reads a namespace.
pub(crate) async fn read(api: &Api, request: &Request) -> Result<Response, Error> {
    if request.id().is_empty() {
        return Err(Error::bad_request("Missing Namespace Name"));
    }
    small_objects::read::<Namespace>(api, request, "Namespace not found").await
}

/// Creates or updates a namespace.
pub(crate) async fn set(api: &Api, request: &Request) -> Result<Response, Error> {
    let api_types::Namespace {
        name,
        description,
        quota,
        capabilities,
        node_pool_configuration,
        vault_configuration,
        consul_configuration,
        meta,
        required_extra_claims,
        optional_extra_claims,
        hash: _,
        create_index: _,
        modify_index: _,
    } = decode(&request.body, &api.limits)?;
    let (name, description) = (name.unwrap_or_default(), description.unwrap_or_default());
    if request.params.first().is_some_and(|named| *named != name) {
        return Err(Error::bad_request("Namespace name does not match request path"));
    }
    if let Some(problem) = problem(&name, &description) {
        return Err(Error::failed(problem));
    }
    let has_enterprise_settings =
        node_pool_configuration.is_some() || vault_configuration.is_some() || consul_configuration.is_some();
    if has_enterprise_settings || quota.is_some_and(|quota| !quota.is_empty()) {
        return Err(Error::failed("Feature \"Resource Quotas\" is unlicensed"));
    }
    let claims = [required_extra_claims, optional_extra_claims];
    if claims.iter().flatten().any(|claims| !claims.is_empty()) {
        return Err(Error::not_built(Feature::WorkloadIdentities.refusal()));
    }
    let namespace = Namespace {
        name: name.into(),
        description: description.into(),
        meta: meta.into_iter().flatten().map(|(key, value)| (key.into(), value.into())).collect(),
        capabilities,
        ..Namespace::default()
    };
    let done = api.command(&Command::SetNamespace(Box::new(SetNamespace { namespace }))).await?;
    Ok(Response::done(done.index))
}

fn problem(name: &str, description: &str) -> Option<String> {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '-';
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_allowed) {
        return Some(format!("invalid name {}. Must match regex ^[a-zA-Z0-9-]{{1,128}}$", quoted(name)));
    }
    let is_long = description.chars().count() > DESCRIPTION_CHARS_MAX;
    is_long.then(|| format!("description longer than {DESCRIPTION_CHARS_MAX}"))
}

/// Deletes a namespace.
pub(crate) async fn delete(api: &Api, request: &Request) -> Result<Response, Error> {
    if request.id().is_empty() {
        return Err(Error::bad_request("Missing Namespace Name"));
    }
    let name = Text::from(request.id());
    let done = api.command(&Command::DeleteNamespace(DeleteNamespace { name })).await?;
    Ok(Response::done(done.index))
}
