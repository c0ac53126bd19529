//! Route of the fuzzy search (http-api §25): objects whose names contain a text, whatever the case of its letters, and
//! objects that have no names, whose ids begin with it.
//!
//! A search looks at every object of its contexts at most once, in a background thread, and stops in a context as soon as
//! it has found more than it may show.

use std::collections::BTreeMap;

use model::job::{Job, Task};
use model::{DeploymentId, EvalId, HostVolumeId, Index, ScalingPolicyId};
use serde::{Deserialize, Serialize};
use state::{State, Table};

use super::search::{contexts, id_range, namespace, scaling_policies};
use super::{Request, jobs};
use crate::Api;
use crate::http::{Error, Namespace, Response, Work, decode};
use crate::settings::FuzzySearch;
use crate::shapes;

/// Body of a search.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct SearchRequest {
    text: Option<String>,
    context: Option<String>,
    namespace: Option<String>,
}

/// An object that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct FuzzyMatch {
    /// The name or id that matches.
    #[serde(rename = "ID")]
    id: String,
    /// What the object belongs to, from the outside to the inside, and where its own id ends it.
    scope: Option<Vec<String>>,
}

/// Response to a search.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Found {
    matches: BTreeMap<&'static str, Vec<FuzzyMatch>>,
    truncations: BTreeMap<&'static str, bool>,
    #[serde(flatten)]
    meta: shapes::Meta,
}

/// Searches one context, or all.
pub(crate) async fn search(api: &Api, request: &Request) -> Result<Response, Error> {
    let body: SearchRequest = decode(&request.body, &api.limits)?;
    let stale = request.query.read_options()?.stale;
    api.check_region(&request.query)?;
    let limits = api.args.fuzzy_search();
    if !limits.enabled {
        return Err(Error::failed("fuzzy search is not enabled"));
    }
    let text = body.text.unwrap_or_default();
    if text.len() < limits.min_term_length {
        let (min, length) = (limits.min_term_length, text.len());
        return Err(Error::failed(format!(
            "fuzzy search query must be at least {min} characters, got {length}"
        )));
    }
    let contexts = contexts(&body.context.unwrap_or_default())?;
    let namespace = namespace(&request.query, body.namespace);
    let state = api.fresh_snapshot(stale).await?;
    let searching = move || {
        let (mut found, mut index) = (Found::default(), Index(1));
        let search =
            Search { state: &state, namespace: &namespace, needle: text.to_lowercase(), text: &text, limits };
        for context in contexts {
            let table = search.context(context, &mut found);
            index = index.max(table.map_or(Index::ZERO, |table| state.table_index(table)));
        }
        (found, index)
    };
    let (mut found, index) = api.background.run(Work::List, searching).await?;
    let meta = api.meta(index, stale);
    found.meta = (&meta).into();
    Ok(Response::json(&found).with(meta))
}

/// A search in a state.
struct Search<'a> {
    state: &'a State,
    namespace: &'a Namespace,
    /// The text in small letters.
    needle: String,
    text: &'a str,
    limits: FuzzySearch,
}

/// Matching names of one kind, each with where the text begins in it.
#[derive(Default)]
struct Names(Vec<(usize, FuzzyMatch)>);

impl Names {
    /// The matches in their order: the earlier the text begins, the shorter the name, the earlier in the alphabet. At most
    /// `limit`, and whether there are more.
    fn sorted(mut self, limit: usize) -> (Vec<FuzzyMatch>, bool) {
        let is_truncated = self.0.len() > limit;
        self.0.sort_by(|(position, one), (other_position, other)| {
            let key = |position: &usize, found: &FuzzyMatch| (*position, found.id.len());
            let by_place = key(position, one).cmp(&key(other_position, other));
            by_place.then_with(|| (&one.id, &one.scope).cmp(&(&other.id, &other.scope)))
        });
        self.0.truncate(limit);
        (self.0.into_iter().map(|(_, found)| found).collect(), is_truncated)
    }
}

impl Search<'_> {
    /// Where the text begins in a name.
    fn position(&self, name: &str) -> Option<usize> {
        name.to_lowercase().find(&self.needle)
    }

    /// Adds a name if it matches and the kind is not full. Returns whether the kind is full now.
    fn add(
        &self,
        names: &mut Names,
        limit: usize,
        name: &str,
        scope: impl FnOnce() -> Option<Vec<String>>,
    ) -> bool {
        if names.0.len() <= limit
            && let Some(position) = self.position(name)
        {
            names.0.push((position, FuzzyMatch { id: name.to_owned(), scope: scope() }));
        }
        names.0.len() > limit
    }

    /// Searches a context. Returns the table that the result depends on.
    fn context(&self, context: &'static str, found: &mut Found) -> Option<Table> {
        let Self { state, namespace, .. } = self;
        let limit = self.limits.limit_query.min(self.limits.limit_results);
        match context {
            "jobs" => self.jobs(limit, found),
            "allocs" => {
                let allocs = state.allocs().filter(|alloc| namespace.holds(&alloc.job_key().namespace));
                let scope = |alloc: &state::AllocRef<'_>| {
                    Some(vec![alloc.job_key().namespace.to_string(), alloc.id().to_string()])
                };
                self.names(context, limit, allocs.map(|alloc| (alloc.name(), move || scope(&alloc))), found);
            }
            "nodes" => {
                let nodes = state.nodes();
                let nodes = nodes.map(|node| (&node.spec().name, move || Some(vec![node.id().to_string()])));
                self.names(context, limit, nodes, found);
            }
            "node_pools" => {
                let pools = state.node_pools();
                let pools = pools.map(|pool| (&pool.name, move || Some(vec![pool.name.to_string()])));
                self.names(context, limit, pools, found);
            }
            "namespaces" => {
                let namespaces = state.namespaces();
                self.names(context, limit, namespaces.map(|namespace| (&namespace.name, || None)), found);
            }
            "evals" => {
                let range = id_range(self.text)
                    .map(|(first, last)| EvalId::from_bytes(first)..=EvalId::from_bytes(last));
                let evals = range.into_iter().flat_map(|range| state.evals_in(range));
                let evals = evals.filter(|eval| namespace.holds(&eval.job.namespace));
                let all = state.evals().filter(|eval| namespace.holds(&eval.job.namespace));
                self.ids(context, evals.map(|eval| eval.id.to_string()), all.count(), found);
            }
            "deployment" => {
                let all = state.deployments();
                let all = all.filter(|deployment| namespace.holds(&deployment.job.job.namespace));
                let all: Vec<DeploymentId> = all.map(|deployment| deployment.id).collect();
                let range = id_range(self.text)
                    .map(|(first, last)| DeploymentId::from_bytes(first)..=DeploymentId::from_bytes(last));
                let is_found = |id: &&DeploymentId| range.as_ref().is_some_and(|range| range.contains(*id));
                self.ids(context, all.iter().filter(is_found).map(ToString::to_string), all.len(), found);
            }
            "host_volumes" => {
                let all = state.host_volumes().filter(|volume| namespace.holds(&volume.namespace));
                let all: Vec<HostVolumeId> = all.map(|volume| volume.id).collect();
                let range = id_range(self.text)
                    .map(|(first, last)| HostVolumeId::from_bytes(first)..=HostVolumeId::from_bytes(last));
                let is_found = |id: &&HostVolumeId| range.as_ref().is_some_and(|range| range.contains(*id));
                self.ids(context, all.iter().filter(is_found).map(ToString::to_string), all.len(), found);
            }
            "scaling_policy" => {
                let all = scaling_policies(state, namespace);
                let range = id_range(self.text).map(|(first, last)| {
                    ScalingPolicyId::from_bytes(first)..=ScalingPolicyId::from_bytes(last)
                });
                let is_found =
                    |id: &&ScalingPolicyId| range.as_ref().is_some_and(|range| range.contains(*id));
                self.ids(context, all.iter().filter(is_found).map(ToString::to_string), all.len(), found);
            }
            "volumes" => {
                let all = || state.csi_volumes().filter(|volume| namespace.holds(&volume.key.namespace));
                let volumes = all().filter(|volume| volume.key.id.starts_with(self.text));
                self.ids(context, volumes.map(|volume| volume.key.id.to_string()), all().count(), found);
            }
            // The other contexts have no objects, because creating them is not built yet.
            _ => {
                found.truncations.insert(context, false);
            }
        }
        table_of(context)
    }

    /// Searches objects that have one name each. The context is in the result only if there is a match.
    fn names<N: AsRef<str>>(
        &self,
        context: &'static str,
        limit: usize,
        objects: impl Iterator<Item = (N, impl FnOnce() -> Option<Vec<String>>)>,
        found: &mut Found,
    ) {
        let mut names = Names::default();
        for (name, scope) in objects {
            if self.add(&mut names, limit, name.as_ref(), scope) {
                break;
            }
        }
        let (matches, is_truncated) = names.sorted(limit);
        found.truncations.insert(context, is_truncated);
        if !matches.is_empty() {
            found.matches.insert(context, matches);
        }
    }

    /// Adds objects that were found by their ids. The context is always in the result. It counts as truncated if there are
    /// many such objects, matching or not.
    fn ids(&self, context: &'static str, ids: impl Iterator<Item = String>, count: usize, found: &mut Found) {
        let limit = self.limits.limit_query;
        let matches = ids.take(limit.min(self.limits.limit_results)).map(|id| FuzzyMatch { id, scope: None });
        found.matches.insert(context, matches.collect());
        found.truncations.insert(context, count > limit);
    }

    /// Searches jobs, and what belongs to them.
    fn jobs(&self, limit: usize, found: &mut Found) {
        let (mut of_jobs, mut parts) = (Names::default(), BTreeMap::new());
        for job in jobs::jobs_with_prefix(self.state, self.namespace, "") {
            let scope = || Some(vec![job.spec.namespace.to_string(), job.spec.id.to_string()]);
            self.add(&mut of_jobs, limit, &job.spec.name, scope);
            self.parts(job, &mut parts);
        }
        let (matches, is_truncated) = of_jobs.sorted(limit);
        found.truncations.insert("jobs", is_truncated);
        let parts = parts.into_iter().map(|(kind, names)| (kind, names.sorted(self.limits.limit_results).0));
        let matches = parts.chain([("jobs", matches)]).filter(|(_, matches)| !matches.is_empty());
        found.matches.extend(matches);
    }

    /// Searches the groups, tasks, services, images, commands and classes of a job.
    fn parts(&self, job: &Job, parts: &mut BTreeMap<&'static str, Names>) {
        let limit = self.limits.limit_results;
        let of_job = [&job.spec.namespace, &job.spec.id].map(ToString::to_string);
        let mut add = |kind: &'static str, name: &str, inner: &[&str]| {
            let scope = || {
                let inner = inner.iter().map(|part| (*part).to_owned());
                Some(of_job.iter().cloned().chain(inner).collect())
            };
            self.add(parts.entry(kind).or_default(), limit, name, scope);
        };
        for group in job.spec.task_groups.iter() {
            add("groups", &group.name, &[]);
            for service in &group.services {
                add("services", &service.name, &[&group.name]);
            }
            for task in &group.tasks {
                add("tasks", &task.name, &[&group.name]);
                for service in &task.services {
                    add("services", &service.name, &[&group.name, &task.name]);
                }
                for (kind, setting) in [("images", "image"), ("commands", "command"), ("classes", "class")] {
                    if let Some(value) = text_setting(task, setting) {
                        add(kind, value, &[&group.name, &task.name]);
                    }
                }
            }
        }
    }
}

/// A text in the configuration of a task's driver.
fn text_setting<'t>(task: &'t Task, name: &str) -> Option<&'t str> {
    task.config.iter().find(|(found, _)| ***found == *name).and_then(|(_, value)| value.as_str())
}

/// The table of the objects of a context.
fn table_of(context: &str) -> Option<Table> {
    Some(match context {
        "jobs" | "scaling_policy" => Table::Jobs,
        "allocs" => Table::Allocs,
        "nodes" => Table::Nodes,
        "node_pools" => Table::NodePools,
        "namespaces" => Table::Namespaces,
        "evals" => Table::Evals,
        "deployment" => Table::Deployments,
        "host_volumes" => Table::HostVolumes,
        "volumes" => Table::CsiVolumes,
        _ => return None,
    })
}
