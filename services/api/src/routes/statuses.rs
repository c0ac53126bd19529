//! Route of job statuses: jobs with their allocations and newest deployments (http-api §11.1). The web interface starts
//! with it.
//!
//! Jobs are sorted by their last change, the newest first, which is an order that the state maintains. The index of a page
//! is the highest index of the objects on it, so only changes of those wake a blocking query. The jobs of a page are found,
//! and shown with their allocations, in the background.

use std::ops::{Bound, RangeBounds as _};
use std::sync::Arc;

use actix_web::http::StatusCode;
use model::job::Job;
use model::{DeploymentId, Index, JobKey, cluster};
use serde::Deserialize;
use state::{Snapshot, State, Table, WatchKey};

use super::Request;
use super::jobs::jobs_with_prefix;
use crate::Api;
use crate::filter::{Filter, FilterError, matches_filter};
use crate::http::list::Bounds;
use crate::http::{Content, Effort, Error, Namespace, Query, Response, Selection, Work, decode, ordered};
use crate::shapes::status::{JobStatus, is_parent};

/// Maximum number of jobs whose allocations are watched individually. Beyond it, all allocations are watched.
const WATCHED_MAX: usize = 500;

/// Lists the statuses of jobs.
pub(crate) async fn list(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let with_children = query.flag("include_children", false)?;
    respond(api, query, Criteria { with_children, ..Criteria::read(api, query)? }).await
}

/// Body with the names of jobs.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct StatusesRequest {
    jobs: Option<Vec<JobName>>,
    include_children: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct JobName {
    #[serde(rename = "ID")]
    id: Option<String>,
    namespace: Option<String>,
}

/// Lists the statuses of the named jobs.
pub(crate) async fn named(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    if request.body.is_empty() {
        return list(api, request).await;
    }
    let body: StatusesRequest = decode(&request.body, &api.limits).map_err(|error| match error.status {
        StatusCode::BAD_REQUEST => Error::bad_request(format!("error decoding request: {}", error.text)),
        _ => error,
    })?;
    let names = body.jobs.unwrap_or_default();
    if names.is_empty() {
        return Err(Error::bad_request("no jobs in request"));
    }
    let mut criteria = Criteria::read(api, query)?;
    // With the namespace `default`, which a request has if it names none, jobs may be named in any namespace.
    if criteria.namespace.holds(cluster::Namespace::DEFAULT) {
        criteria.namespace = Namespace::Any;
    }
    let key = |name: JobName| {
        let namespace = name.namespace.filter(|namespace| !namespace.is_empty());
        JobKey::new(namespace.as_deref().unwrap_or(cluster::Namespace::DEFAULT), name.id.unwrap_or_default())
    };
    criteria.named = Some(names.into_iter().map(key).collect());
    criteria.with_children =
        query.flag("include_children", false)? || body.include_children.unwrap_or_default();
    respond(api, query, criteria).await
}

async fn respond(api: &Api, query: &Query, criteria: Criteria) -> Result<Response, Error> {
    let with_children = criteria.with_children;
    let criteria = Arc::new(criteria);
    let evaluate = async |snapshot: Snapshot| {
        let criteria = Arc::clone(&criteria);
        let evaluated = api.background.run(Work::List, move || criteria.evaluate(&snapshot)).await?;
        evaluated.map_err(filter_failed)
    };
    let (snapshot, selection, meta) = api.select(query, evaluate).await?;
    let PageSelection { jobs, next_token, .. } = selection;
    let shape = move |state: &State, listed: &ListedJob| {
        let children = children_of(state, &listed.job).filter(|_| !with_children);
        JobStatus::new(state, &listed.job, children)
    };
    let content = api.render_found(snapshot, jobs, Effort::Expensive, shape).await?;
    Ok(Content { next_token, ..content }.into_response(meta))
}

/// A filter that does not fit is a 500 here (http-api §7.4).
fn filter_failed(error: FilterError) -> Error {
    let is_unfit = matches!(error, FilterError::Unfit(_));
    let error = Error::from(error);
    if is_unfit { Error::failed(error.text) } else { error }
}

/// Which jobs are requested, and the bounds of the page.
struct Criteria {
    namespace: Namespace,
    prefix: String,
    filter: Option<Filter>,
    named: Option<Vec<JobKey>>,
    /// Whether child jobs are listed like other jobs. Otherwise they are shown with their parent.
    with_children: bool,
    limit: Option<usize>,
    /// `None` if the token is malformed.
    bounds: Option<Bounds<(Index, JobKey)>>,
    newest_first: bool,
}

impl Criteria {
    fn read(api: &Api, query: &Query) -> Result<Self, Error> {
        let page = query.page()?;
        let newest_first = !page.reverse;
        Ok(Self {
            namespace: query.namespace(),
            prefix: query.text("prefix").to_owned(),
            // An invalid filter is a 500 here (http-api §7.4).
            filter: query.filter::<api_types::Job>(&api.limits).map_err(|error| Error::failed(error.text))?,
            named: None,
            with_children: false,
            limit: page.limit,
            bounds: bounds(page.from, newest_first),
            newest_first,
        })
    }

    fn includes(&self, job: &Job) -> Result<bool, FilterError> {
        // A named job is listed even if it is a child.
        let is_listed = self.with_children || self.named.is_some() || job.spec.parent_id.is_empty();
        let is_selected =
            is_listed && self.namespace.holds(&job.spec.namespace) && job.spec.id.starts_with(&self.prefix);
        if is_selected { matches_filter(self.filter.as_ref(), job) } else { Ok(false) }
    }

    /// The jobs in the page's bounds, in list order.
    fn candidates<'a>(&self, state: &'a State) -> Box<dyn Iterator<Item = &'a Arc<Job>> + 'a> {
        let Some(bounds) = self.bounds.clone() else { return Box::new(std::iter::empty()) };
        let Some(named) = &self.named else {
            return ordered(state.jobs_by_change(bounds), self.newest_first);
        };
        let mut jobs: Vec<_> = named
            .iter()
            .filter_map(|key| state.job(key))
            .map(|job| ((job.modify_index, job.key()), job))
            .collect();
        jobs.sort_by(|(one, _), (other, _)| one.cmp(other));
        jobs.dedup_by(|(one, _), (other, _)| one == other);
        jobs.retain(|(position, _)| bounds.contains(position));
        ordered(jobs.into_iter().map(|(_, job)| job), self.newest_first)
    }

    /// Finds the jobs of the page.
    fn evaluate(&self, state: &State) -> Result<PageSelection, FilterError> {
        if let Some(filter) = &self.filter {
            filter.renew_steps();
        }
        let mut selection = PageSelection { index: Index::ZERO, jobs: Vec::new(), next_token: None };
        for job in self.candidates(state) {
            if !self.includes(job)? {
                continue;
            }
            if self.limit.is_some_and(|limit| selection.jobs.len() == limit) {
                selection.next_token = Some(token(state, job, self.newest_first));
                break;
            }
            let (listed, index) = ListedJob::new(state, job, self.with_children);
            selection.index = selection.index.max(index);
            selection.jobs.push(listed);
        }
        if selection.jobs.is_empty() {
            selection.index = state.table_index(Table::Jobs);
        }
        Ok(selection)
    }
}

/// The jobs of a page.
struct PageSelection {
    index: Index,
    jobs: Vec<ListedJob>,
    next_token: Option<String>,
}

/// A job of a page, with what identifies the other objects that are shown with it.
struct ListedJob {
    job: Arc<Job>,
    deployment: Option<DeploymentId>,
    allocs: usize,
    children: usize,
}

impl ListedJob {
    /// Returns the job with the last index at which anything shown of it changed.
    fn new(state: &State, job: &Arc<Job>, with_children: bool) -> (Self, Index) {
        let key = job.key();
        let mut index = job.modify_index;
        let deployment = state.latest_deployment(&key).map(|deployment| deployment.id);
        if deployment.is_some() {
            index = index.max(state.job_index(Table::Deployments, &key));
        }
        let allocs = state.allocs_of_job(&key).len();
        if allocs > 0 {
            index = index.max(state.job_index(Table::Allocs, &key));
        }
        let mut children = 0;
        for child in children_of(state, job).filter(|_| !with_children) {
            index = index.max(child.modify_index);
            children += 1;
        }
        (Self { job: Arc::clone(job), deployment, allocs, children }, index)
    }

    fn has_same_objects(&self, other: &Self) -> bool {
        let parts = |listed: &Self| (listed.deployment, listed.allocs, listed.children);
        self.job.key() == other.job.key() && parts(self) == parts(other)
    }
}

impl Selection for PageSelection {
    fn index(&self) -> Index {
        self.index
    }

    fn watch_keys(&self) -> Vec<WatchKey> {
        const RELATED_TABLES: [Table; 2] = [Table::Allocs, Table::Deployments];
        let mut keys = vec![WatchKey::Table(Table::Jobs)];
        if self.jobs.len() > WATCHED_MAX {
            keys.extend(RELATED_TABLES.map(WatchKey::Table));
            return keys;
        }
        for listed in &self.jobs {
            keys.extend(RELATED_TABLES.map(|table| WatchKey::Job(table, listed.job.key())));
        }
        keys
    }

    fn has_same_objects(&self, other: &Self) -> bool {
        self.jobs.len() == other.jobs.len()
            && self.jobs.iter().zip(&other.jobs).all(|(one, other)| one.has_same_objects(other))
    }
}

/// The child jobs of a job.
fn children_of<'a>(state: &'a State, job: &'a Job) -> impl Iterator<Item = &'a Arc<Job>> {
    let prefix = is_parent(job).then(|| format!("{}/", job.spec.id));
    let namespace = Namespace::named(&job.spec.namespace);
    let below = prefix.map(|prefix| jobs_with_prefix(state, &namespace, &prefix).collect::<Vec<_>>());
    below.into_iter().flatten().filter(move |child| child.spec.parent_id == job.spec.id)
}

/// Token of the page that begins with a job: its modify index, and its key unless it is the first of the jobs that changed
/// at that index.
fn token(state: &State, job: &Job, newest_first: bool) -> String {
    let (index, key) = (job.modify_index, job.key());
    let mut before = ordered(state.jobs_by_change(bounds_at(index)), newest_first);
    match before.next() {
        Some(first) if first.key() != key => format!("{index}.{}.{}", key.namespace, key.id),
        Some(_) | None => index.to_string(),
    }
}

/// Bounds of the jobs that changed at an index.
fn bounds_at(index: Index) -> Bounds<(Index, JobKey)> {
    let first = JobKey::new("", "");
    let end = match index.0.checked_add(1) {
        Some(next) => Bound::Excluded((Index(next), first.clone())),
        None => Bound::Unbounded,
    };
    (Bound::Included((index, first)), end)
}

/// Bounds of the list from a token on; `None` if the token is malformed.
fn bounds(from: Option<&str>, newest_first: bool) -> Option<Bounds<(Index, JobKey)>> {
    let Some(token) = from else { return Some((Bound::Unbounded, Bound::Unbounded)) };
    let (index, job) = token.split_once('.').map_or((token, None), |(index, job)| (index, Some(job)));
    let index = Index(index.parse().ok()?);
    let (first, last) = match job {
        None => bounds_at(index),
        Some(job) => {
            let (namespace, id) = job.split_once('.')?;
            let position = Bound::Included((index, JobKey::new(namespace, id)));
            (position.clone(), position)
        }
    };
    Some(if newest_first { (Bound::Unbounded, last) } else { (first, Bound::Unbounded) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_lead_both_ways() {
        let job = |index, namespace: &str, id: &str| (Index(index), JobKey::new(namespace, id));
        let newest = bounds(Some("7"), true).unwrap();
        assert!(newest.contains(&job(7, "z", "z")) && newest.contains(&job(1, "a", "a")));
        assert!(!newest.contains(&job(8, "", "")));
        let oldest = bounds(Some("7"), false).unwrap();
        assert!(oldest.contains(&job(7, "a", "a")) && oldest.contains(&job(8, "", "")));
        assert!(!oldest.contains(&job(6, "z", "z")));
        let exact = bounds(Some("7.default.a.b"), true).unwrap();
        assert!(exact.contains(&job(7, "default", "a.b")) && !exact.contains(&job(7, "default", "a.c")));
        assert_eq!(bounds(Some("nonsense"), true), None);
        assert_eq!(bounds(Some("7.default"), true), None);
        assert!(bounds(Some("18446744073709551615"), true).unwrap().contains(&job(u64::MAX, "z", "z")));
    }
}
