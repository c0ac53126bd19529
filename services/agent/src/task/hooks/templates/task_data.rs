//! What the templates of one task read: the environment, files, and answers that the node follows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::select_all;
use go_template::{Answer, Data, Service, ServiceName};
use model::Text;
use model::service::ServiceRegistration;
use telemetry::clock;
use tokio::sync::watch;
use wire::directory::{QueryResult, ServiceQuery};

use super::files;
use super::plan::{Owner, Source};
use crate::context::Context;
use crate::disk::tree::OpenDir;
use crate::node::templates::TemplateSettings;
use crate::services::directory::Found;
use crate::task::env::Env;

/// Maximum number of queries of the templates of one task.
const QUERIES_MAX: usize = 256;
/// Maximum size of a file that the function `file` reads, in bytes.
const FILE_BYTES_MAX: usize = 4 << 20;
/// How long one rendering may take.
const RENDER_TIME_MAX: Duration = Duration::from_secs(2);

/// What the templates of a task read.
pub(super) struct TaskData {
    /// The task's name.
    pub(super) task: Text,
    /// The namespace of its job.
    pub(super) namespace: Text,
    /// Its environment.
    pub(super) env: Arc<Env>,
    /// The directory of its allocation.
    pub(super) alloc: PathBuf,
    /// The agent's shared values.
    pub(super) context: Arc<Context>,
    /// The queries that are followed.
    pub(super) followed: Mutex<Followed>,
}

/// The queries that the templates of a task follow.
#[derive(Default)]
pub(super) struct Followed {
    answers: BTreeMap<ServiceQuery, watch::Receiver<Found>>,
    /// The queries that were asked since the beginning of the pass.
    asked: BTreeSet<ServiceQuery>,
}

impl TaskData {
    /// The queries are asked anew by all templates.
    pub(super) fn begin_pass(&self) {
        self.followed().asked.clear();
    }

    /// All templates have asked. What none of them asks for any more is no longer followed.
    pub(super) fn end_pass(&self) {
        let Followed { answers, asked } = &mut *self.followed();
        answers.retain(|query, _| asked.contains(query));
    }

    /// Waits until an answer has changed since it was last asked for.
    pub(super) async fn changed(&self) {
        let answers: Vec<_> = self.followed().answers.values().cloned().collect();
        if answers.is_empty() {
            return std::future::pending().await;
        }
        let changes = answers.into_iter().map(|mut answer| {
            async move {
                if answer.changed().await.is_err() {
                    // This answer is final.
                    std::future::pending::<()>().await;
                }
            }
            .boxed()
        });
        select_all(changes).await;
    }

    /// Opens the directory of the allocation.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(super) fn open(&self) -> Result<OpenDir, String> {
        OpenDir::open(&self.alloc).map_err(|error| format!("cannot open the allocation's directory: {error}"))
    }

    /// Reads the text of a template.
    ///
    /// # Errors
    /// If its file cannot be read.
    pub(super) fn template(&self, source: &Source) -> Result<Text, String> {
        let bytes_max = go_template::limits::SOURCE_BYTES_MAX;
        let (read, path) = match source {
            Source::Inline(text) => return Ok(text.clone()),
            Source::Allocation(place) => (files::read(&self.open()?, place, bytes_max), place.as_path()),
            Source::Node(path) => (files::read_of_node(path, bytes_max), path.as_path()),
        };
        read.map(Text::from).map_err(|error| format!("cannot read the template {}: {error}", path.display()))
    }

    fn owner(&self) -> Owner<'_> {
        Owner { task: &self.task, env: &self.env, node: &self.context.node, settings: self.settings() }
    }

    /// The operator's settings.
    pub(super) fn settings(&self) -> &TemplateSettings {
        &self.context.config.templates
    }

    /// The answer to a query at the moment. The query is followed from now on, once for the whole node.
    fn ask(&self, query: ServiceQuery) -> Answer<Arc<QueryResult>> {
        let mut followed = self.followed();
        let Followed { answers, asked } = &mut *followed;
        if !answers.contains_key(&query) {
            if answers.len() >= QUERIES_MAX {
                let reason = format!("the templates of a task may ask for at most {QUERIES_MAX} services");
                return Answer::Refused(reason);
            }
            match self.context.services.directory.watch(query.clone()) {
                Ok(watched) => answers.insert(query.clone(), watched),
                Err(error) => return Answer::Refused(error.to_string()),
            };
        }
        let found = answers.get_mut(&query).and_then(|answer| answer.borrow_and_update().clone());
        asked.insert(query);
        found.map_or(Answer::Unknown, Answer::Known)
    }

    fn followed(&self) -> MutexGuard<'_, Followed> {
        // A poisoned lock is harmless: what is followed can only be too much.
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one rendering reads.
pub(super) struct Reading {
    data: Arc<TaskData>,
    begun: Instant,
}

impl Reading {
    /// A rendering begins.
    pub(super) fn new(data: &Arc<TaskData>) -> Self {
        Self { data: Arc::clone(data), begun: clock::monotonic() }
    }
}

impl Data for Reading {
    fn env(&self, name: &str) -> Option<String> {
        self.data.env.get(name).cloned()
    }

    fn service(&self, name: &str) -> Answer<Vec<Service>> {
        let namespace = self.data.namespace.clone();
        match self.data.ask(ServiceQuery::Instances { namespace, name: name.into() }) {
            Answer::Known(found) => {
                Answer::Known(found.instances.iter().map(|found| service(found)).collect())
            }
            Answer::Unknown => Answer::Unknown,
            Answer::Refused(reason) => Answer::Refused(reason),
        }
    }

    fn services(&self) -> Answer<Vec<ServiceName>> {
        let texts = |texts: &[Text]| texts.iter().map(Text::to_string).collect();
        match self.data.ask(ServiceQuery::Names { namespace: self.data.namespace.clone() }) {
            Answer::Known(found) => {
                let names = found.names.iter();
                let names =
                    names.map(|found| ServiceName { name: found.name.to_string(), tags: texts(&found.tags) });
                Answer::Known(names.collect())
            }
            Answer::Unknown => Answer::Unknown,
            Answer::Refused(reason) => Answer::Refused(reason),
        }
    }

    fn file(&self, path: &str) -> Result<String, String> {
        let data = &self.data;
        if data.settings().disable_file_sandbox && Path::new(path).is_absolute() {
            return files::read_of_node(Path::new(path), FILE_BYTES_MAX)
                .map_err(|error| format!("cannot read {path}: {error}"));
        }
        let place = data.owner().place(path).map_err(|error| format!("{path}: {error}"))?;
        files::read(&data.open()?, &place, FILE_BYTES_MAX)
            .map_err(|error| format!("cannot read {path}: {error}"))
    }

    fn now(&self) -> i64 {
        clock::now().as_secs()
    }

    fn is_out_of_time(&self) -> bool {
        clock::monotonic().saturating_duration_since(self.begun) > RENDER_TIME_MAX
    }
}

/// A registration, as templates see it.
fn service(found: &ServiceRegistration) -> Service {
    Service {
        id: found.key.id.to_string(),
        name: found.key.name.to_string(),
        node: found.node_id.to_string(),
        address: found.address.to_string(),
        port: found.port.into(),
        datacenter: found.datacenter.to_string(),
        tags: found.tags.iter().map(Text::to_string).collect(),
        job_id: found.job_id.to_string(),
        alloc_id: found.alloc_id.to_string(),
    }
}
