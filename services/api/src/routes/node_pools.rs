//! Routes of node pools (http-api §17).

use model::Text;
use model::cluster::NodePool;
use model::text::quoted;
use wire::command::{Command, DeleteNodePool, SetNodePool};

use super::{Request, jobs, nodes, small_objects};
use crate::Api;
use crate::admission::Problems;
use crate::filter::matches_filter;
use crate::http::{Effort, Error, Response, decode};

/// Maximum length of a name and of a description, in characters.
const NAME_CHARS_MAX: usize = 128;
const DESCRIPTION_CHARS_MAX: usize = 256;

/// Lists node pools by name.
pub(crate) async fn list(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let page = query.page()?;
    api.check_region(query)?;
    let filter = query.filter::<api_types::NodePool>(&api.limits)?;
    let effort = Effort::of(filter.as_ref());
    let is_wanted = move |pool: &NodePool| matches_filter(filter.as_ref(), pool);
    small_objects::list(api, query, query.text("prefix"), page, effort, is_wanted).await
}

/// Reads a node pool.
pub(crate) async fn read(api: &Api, request: &Request) -> Result<Response, Error> {
    small_objects::read::<NodePool>(api, request, "node pool not found").await
}

/// Creates or updates a node pool.
pub(crate) async fn set(api: &Api, request: &Request) -> Result<Response, Error> {
    let pool: api_types::NodePool = decode(&request.body, &api.limits)?;
    let name = pool.name.clone().unwrap_or_default();
    if request.params.first().is_some_and(|named| *named != name) {
        return Err(Error::bad_request("Node pool name does not match request path"));
    }
    api.check_region(&request.query)?;
    let problems = problems(&name, pool.description.as_deref().unwrap_or_default());
    if !problems.is_empty() {
        return Err(Error::bad_request(format!("invalid node pool {}: {problems}", quoted(&name))));
    }
    if NodePool::is_built_in(&name) {
        let text = format!("modifying node pool {} is not allowed", quoted(&name));
        return Err(Error::bad_request(text));
    }
    if pool.scheduler_configuration.is_some() {
        return Err(Error::failed("Feature \"Node Pools Governance\" is unlicensed"));
    }
    let pool = NodePool::from_api(pool).map_err(|error| Error::bad_request(error.to_string()))?;
    let done = api.command(&request.query, &Command::SetNodePool(Box::new(SetNodePool { pool }))).await?;
    Ok(Response::done(done.index))
}

fn problems(name: &str, description: &str) -> Problems {
    let mut problems = Problems::default();
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    let is_name = (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(is_allowed);
    problems.add_if(!is_name, || {
        format!("invalid name {}, must match regex ^[a-zA-Z0-9-_]{{1,128}}$", quoted(name))
    });
    let is_long = description.chars().count() > DESCRIPTION_CHARS_MAX;
    problems.add_if(is_long, || format!("description longer than {DESCRIPTION_CHARS_MAX}"));
    problems
}

/// Deletes a node pool.
pub(crate) async fn delete(api: &Api, request: &Request) -> Result<Response, Error> {
    if request.id().is_empty() {
        return Err(Error::bad_request("node pool name is empty"));
    }
    let name = Text::from(request.id());
    let done = api.command(&request.query, &Command::DeleteNodePool(DeleteNodePool { name })).await?;
    Ok(Response::done(done.index))
}

/// Lists the nodes of a pool. The pool `all` contains every node.
pub(crate) async fn nodes(api: &Api, request: &Request) -> Result<Response, Error> {
    no_prefix(request)?;
    nodes::list_of(api, &request.query, Some(Text::from(request.id()))).await
}

/// Lists the jobs of a pool.
pub(crate) async fn jobs(api: &Api, request: &Request) -> Result<Response, Error> {
    no_prefix(request)?;
    jobs::list_of(api, &request.query, Some(Text::from(request.id()))).await
}

/// The lists of a pool cannot be filtered by prefix.
fn no_prefix(request: &Request) -> Result<(), Error> {
    match request.query.text("prefix") {
        "" => Ok(()),
        _ => Err(Error::bad_request("prefix argument not allowed")),
    }
}
