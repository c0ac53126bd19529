//! Routes of namespaces (http-api §19).

use model::Text;
use model::cluster::Namespace;
use model::features::Feature;
use model::text::quoted;
use wire::command::{Command, DeleteNamespace, SetNamespace};

use super::{Request, small_objects};
use crate::Api;
use crate::admission::Problems;
use crate::http::{Effort, Error, Page, Response, decode};

/// Maximum length of a name and of a description, in characters.
const NAME_CHARS_MAX: usize = 128;
const DESCRIPTION_CHARS_MAX: usize = 256;

/// Lists namespaces by name.
pub(crate) async fn list(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    // The list has no pages, and one order only.
    query.page()?;
    let whole = Page { limit: None, from: None, reverse: false };
    let prefix = query.text("prefix");
    small_objects::list(api, query, prefix, whole, Effort::Cheap, |_: &Namespace| Ok(true)).await
}

/// Reads a namespace.
pub(crate) async fn read(api: &Api, request: &Request) -> Result<Response, Error> {
    if request.id().is_empty() {
        return Err(missing_name());
    }
    small_objects::read::<Namespace>(api, request, "Namespace not found").await
}

/// Creates or updates a namespace. A path without a name is reported before the body.
pub(crate) async fn set(api: &Api, request: &Request) -> Result<Response, Error> {
    if request.params.first().is_some_and(String::is_empty) {
        return Err(missing_name());
    }
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
    api.check_region(&request.query)?;
    let mut problems = problems(&name, &description);
    for (is_set, text) in [
        (node_pool_configuration.is_some(), "node pool configuration: Node Pools Governance"),
        (vault_configuration.is_some(), "vault configuration: Multi-Cluster Vault"),
        (consul_configuration.is_some(), "consul configuration: Multi-Cluster Consul"),
    ] {
        problems.add_if(is_set, || format!("invalid {text} is unlicensed."));
    }
    if !problems.is_empty() {
        return Err(Error::failed(format!("Invalid namespace {}: {problems}", quoted(&name))));
    }
    if let Some(quota) = quota.filter(|quota| !quota.is_empty()) {
        let (name, quota) = (quoted(&name), quoted(&quota));
        return Err(Error::failed(format!("namespace {name} using non-existent quota {quota}")));
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
    let done =
        api.command(&request.query, &Command::SetNamespace(Box::new(SetNamespace { namespace }))).await?;
    Ok(Response::done(done.index))
}

fn missing_name() -> Error {
    Error::bad_request("Missing Namespace Name")
}

fn problems(name: &str, description: &str) -> Problems {
    let mut problems = Problems::default();
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '-';
    let is_name = (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(is_allowed);
    problems.add_if(!is_name, || {
        format!("invalid name {}. Must match regex ^[a-zA-Z0-9-]{{1,128}}$", quoted(name))
    });
    let is_long = description.chars().count() > DESCRIPTION_CHARS_MAX;
    problems.add_if(is_long, || format!("description longer than {DESCRIPTION_CHARS_MAX}"));
    problems
}

/// Deletes a namespace.
pub(crate) async fn delete(api: &Api, request: &Request) -> Result<Response, Error> {
    if request.id().is_empty() {
        return Err(missing_name());
    }
    let name = Text::from(request.id());
    let done = api.command(&request.query, &Command::DeleteNamespace(DeleteNamespace { name })).await?;
    Ok(Response::done(done.index))
}
