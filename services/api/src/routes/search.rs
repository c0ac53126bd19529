//! Route of the search by prefix (http-api §25): ids or names that begin with a text.

use std::collections::{BTreeMap, BTreeSet};

use model::text::quoted;
use model::{AllocId, DeploymentId, EvalId, HostVolumeId, Index, NodeId, ScalingPolicyId};
use serde::{Deserialize, Serialize};
use state::{State, Table};

use super::{Request, jobs};
use crate::Api;
use crate::http::{Error, Namespace, Query, Response, Work, decode, prefix_range};
use crate::shapes;

/// Maximum number of matches in each context.
const MATCHES_MAX: usize = 20;
/// Selects all contexts.
const ALL: &str = "all";
/// Contexts: the kinds of objects that can be searched.
const CONTEXTS: [&str; 12] = [
    "allocs",
    "jobs",
    "nodes",
    "node_pools",
    "evals",
    "deployment",
    "plugins",
    "volumes",
    "scaling_policy",
    "vars",
    "namespaces",
    "host_volumes",
];

/// Body of a search.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct SearchRequest {
    prefix: Option<String>,
    context: Option<String>,
    namespace: Option<String>,
}

/// Response to a search.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Found {
    matches: BTreeMap<&'static str, Option<Vec<String>>>,
    truncations: BTreeMap<&'static str, bool>,
    #[serde(flatten)]
    meta: shapes::Meta,
}

/// Searches one context, or all.
pub(crate) async fn prefix(api: &Api, request: &Request) -> Result<Response, Error> {
    let body: SearchRequest = decode(&request.body, &api.limits)?;
    let stale = request.query.read_options()?.stale;
    api.check_region(&request.query)?;
    let contexts = contexts(&body.context.unwrap_or_default())?;
    let (namespace, prefix) = (namespace(&request.query, body.namespace), body.prefix.unwrap_or_default());
    let state = api.fresh_snapshot(stale).await?;
    // Scaling policies are found in all jobs, which takes a while.
    let searching = move || {
        let (mut found, mut index) = (Found::default(), Index(1));
        for context in contexts {
            let Some((mut matches, table)) = matches(&state, context, &namespace, &prefix) else { continue };
            index = index.max(table.map_or(Index::ZERO, |table| state.table_index(table)));
            found.truncations.insert(context, matches.len() > MATCHES_MAX);
            matches.truncate(MATCHES_MAX);
            found.matches.insert(context, Some(matches).filter(|matches| !matches.is_empty()));
        }
        (found, index)
    };
    let (mut found, index) = api.background.run(Work::List, searching).await?;
    let meta = api.meta(index, stale);
    found.meta = (&meta).into();
    Ok(Response::json(&found).with(meta))
}

/// The contexts that a request names: one, or all.
///
/// # Errors
/// If there is no such context.
pub(super) fn contexts(context: &str) -> Result<Vec<&'static str>, Error> {
    let contexts: Vec<&'static str> =
        CONTEXTS.into_iter().filter(|one| context == ALL || *one == context).collect();
    if contexts.is_empty() {
        return Err(Error::failed(format!(
            "context must be one of [{}] or 'all' for all contexts; got {}",
            CONTEXTS.join(" "),
            quoted(context)
        )));
    }
    Ok(contexts)
}

/// The namespace to search: that of the query, or else that of the body.
pub(super) fn namespace(query: &Query, of_body: Option<String>) -> Namespace {
    match (query.get("namespace"), of_body) {
        (None | Some(""), Some(name)) if !name.is_empty() => Namespace::named(&name),
        _ => query.namespace(),
    }
}

/// Ids of the scaling policies in a namespace, in their order.
pub(super) fn scaling_policies(state: &State, namespace: &Namespace) -> BTreeSet<ScalingPolicyId> {
    let jobs = jobs::jobs_with_prefix(state, namespace, "");
    jobs.flat_map(|job| job.scaling_policies().map(|(id, _)| id)).collect()
}

/// Matches of a context, at most one more than are shown; `None` if no id can begin with the prefix.
fn matches(
    state: &State,
    context: &'static str,
    namespace: &Namespace,
    prefix: &str,
) -> Option<(Vec<String>, Option<Table>)> {
    let ids = || id_range(prefix);
    let in_namespace = |name: &str| namespace.holds(name);
    Some(match context {
        "jobs" => {
            let jobs = jobs::jobs_with_prefix(state, namespace, prefix);
            (take_matches(jobs.map(|job| &job.spec.id)), Some(Table::Jobs))
        }
        "allocs" => {
            let (first, last) = ids()?;
            let allocs = state.allocs_in(AllocId::from_bytes(first)..=AllocId::from_bytes(last));
            let allocs = allocs.filter(|alloc| in_namespace(&alloc.job_key().namespace));
            (take_matches(allocs.map(|alloc| alloc.id())), Some(Table::Allocs))
        }
        "evals" => {
            let (first, last) = ids()?;
            let evals = state.evals_in(EvalId::from_bytes(first)..=EvalId::from_bytes(last));
            let evals = evals.filter(|eval| in_namespace(&eval.job.namespace));
            (take_matches(evals.map(|eval| eval.id)), Some(Table::Evals))
        }
        "deployment" => {
            let (first, last) = ids()?;
            let ids = DeploymentId::from_bytes(first)..=DeploymentId::from_bytes(last);
            let deployments = state.deployments().filter(|deployment| ids.contains(&deployment.id));
            let deployments = deployments.filter(|deployment| in_namespace(&deployment.job.job.namespace));
            (take_matches(deployments.map(|deployment| deployment.id)), Some(Table::Deployments))
        }
        "nodes" => {
            let (first, last) = ids()?;
            let nodes = state.nodes_in(NodeId::from_bytes(first)..=NodeId::from_bytes(last));
            (take_matches(nodes.map(|node| node.id())), Some(Table::Nodes))
        }
        "node_pools" => {
            let pools = state.node_pools().filter(|pool| pool.name.starts_with(prefix));
            (take_matches(pools.map(|pool| &pool.name)), Some(Table::NodePools))
        }
        "namespaces" => {
            let namespaces = state.namespaces().filter(|namespace| namespace.name.starts_with(prefix));
            (take_matches(namespaces.map(|namespace| &namespace.name)), Some(Table::Namespaces))
        }
        "host_volumes" => {
            // If no id can begin with the prefix, the result has this context nevertheless, without matches.
            let ids =
                ids().map(|(first, last)| HostVolumeId::from_bytes(first)..=HostVolumeId::from_bytes(last));
            let volumes = state.host_volumes().filter(|volume| {
                ids.as_ref().is_some_and(|ids| ids.contains(&volume.id)) && in_namespace(&volume.namespace)
            });
            (take_matches(volumes.map(|volume| volume.id)), Some(Table::HostVolumes))
        }
        "scaling_policy" => {
            // As with host volumes, the result always has this context.
            let range = ids()
                .map(|(first, last)| ScalingPolicyId::from_bytes(first)..=ScalingPolicyId::from_bytes(last));
            let policies = scaling_policies(state, namespace).into_iter();
            let policies = policies.filter(|id| range.as_ref().is_some_and(|range| range.contains(id)));
            (take_matches(policies), Some(Table::Jobs))
        }
        "volumes" => {
            let volumes = state
                .csi_volumes()
                .filter(|volume| volume.key.id.starts_with(prefix) && in_namespace(&volume.key.namespace));
            (take_matches(volumes.map(|volume| &volume.key.id)), Some(Table::CsiVolumes))
        }
        // The other contexts have no objects, because creating them is not built yet.
        _ => (Vec::new(), None),
    })
}

fn take_matches(ids: impl Iterator<Item = impl ToString>) -> Vec<String> {
    ids.take(MATCHES_MAX + 1).map(|id| id.to_string()).collect()
}

/// Range of the ids that begin with a prefix. The last digit of a prefix with odd length is ignored.
pub(super) fn id_range(prefix: &str) -> Option<([u8; 16], [u8; 16])> {
    let digits = prefix.chars().filter(|char| *char != '-').count();
    let even = match prefix.char_indices().next_back() {
        Some((last, _)) if !digits.is_multiple_of(2) => &prefix[..last],
        _ => prefix,
    };
    prefix_range("", even).ok().map(std::ops::RangeInclusive::into_inner)
}
