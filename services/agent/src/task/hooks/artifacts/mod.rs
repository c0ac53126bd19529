//! Downloads the artifacts of a task before it starts. Each is downloaded and unpacked by a process of its own
//! (`crate::artifacts`), in a staging directory; what is there is inspected and then moved to the artifact's destination.

mod fetcher;
mod install;
mod plan;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream;
use model::alloc::TaskEventKind;

use self::fetcher::{Delivered, fetch};
use self::install::install;
use self::plan::Plan;
use super::{HookError, StartDraft, TaskHook, TaskRun};
use crate::artifacts::Sandbox;
use crate::context::Context;
use crate::disk::store::{self, Durability, Saved};
use crate::disk::tree::OpenDir;

/// The maximum number of artifacts of a task that are downloaded at the same time.
const PARALLEL_MAX: usize = 3;
/// The directory in the allocation's directory that contains the staging directories of its tasks.
const STAGING: &str = ".drover-artifacts";
/// How often making a staging directory is tried.
const MAKE_ATTEMPTS_MAX: u32 = 5;
/// Only the agent's user can reach staging directories by their path.
const STAGING_MODE: u32 = 0o700;
/// The directory in the state of the allocation by which agent and fetchers communicate.
const TALK: &str = "artifacts";

/// The hook.
pub(super) struct Artifacts;

#[async_trait]
impl TaskHook for Artifacts {
    fn name(&self) -> &'static str {
        "artifacts"
    }

    async fn prestart(&self, run: &TaskRun, draft: &mut StartDraft) -> Result<(), HookError> {
        let (_, task) = run.job_parts()?;
        let file = run.file(self.name());
        let mut done = match store::load::<BTreeSet<String>>(&file) {
            Saved::Read(done) => done,
            Saved::Absent | Saved::Unreadable => BTreeSet::new(),
        };
        let hashed = task.artifacts.iter().map(|artifact| (plan::hash(artifact), artifact));
        let missing: Vec<_> = hashed.filter(|(hash, _)| !done.contains(hash)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        run.event(TaskEventKind::DownloadingArtifacts).await;
        let owner = plan::Owner { task: &run.name, env: &draft.env, node: &run.context.node };
        let mut plans = Vec::new();
        let mut first_error = None;
        for (hash, artifact) in missing {
            match Plan::new(artifact, &owner) {
                Ok(plan) => plans.push((hash, Arc::new(plan))),
                Err(error) => {
                    first_error.get_or_insert(plan::failure(artifact, &error));
                }
            }
        }
        let places = Places::new(run);
        // What an attempt has left that was interrupted.
        places.clear().await?;
        let sandbox = Sandbox::available(run.context.config.drivers.exec.no_pivot_root).map_err(failed)?;
        let fetching: Vec<_> = plans
            .into_iter()
            .enumerate()
            .map(|(number, (hash, plan))| {
                let one = places.one(number);
                fetch_one(Arc::clone(&run.context), one, hash, plan, sandbox)
            })
            .collect();
        let mut fetching = stream::iter(fetching).buffered(PARALLEL_MAX);
        while let Some((hash, plan, outcome)) = fetching.next().await {
            let installed = match outcome {
                Ok(delivered) => put_in_place(run, Arc::clone(&plan), delivered).await,
                Err(error) => Err(error),
            };
            match installed {
                Ok(()) => {
                    done.insert(hash);
                    store::save(file.clone(), &done, Durability::Process).await?;
                }
                Err(error) => {
                    first_error.get_or_insert(plan.failure(&error));
                }
            }
        }
        drop(fetching);
        places.clear().await?;
        first_error.map_or(Ok(()), |error| Err(failed(error)))
    }

    async fn exited(&self, run: &TaskRun) -> Result<(), HookError> {
        let (_, task) = run.job_parts()?;
        if task.artifacts.is_empty() {
            return Ok(());
        }
        // A download that was interrupted has left something.
        Ok(Places::new(run).clear().await?)
    }
}

/// The error of artifacts, which has an event of its own.
fn failed(error: String) -> HookError {
    let event = TaskEventKind::FailedArtifactDownload { error: error.as_str().into() };
    HookError::recoverable(error).with_event(event)
}

/// Downloads one artifact.
async fn fetch_one(
    context: Arc<Context>,
    places: Places,
    hash: String,
    plan: Arc<Plan>,
    sandbox: Sandbox,
) -> (String, Arc<Plan>, Result<Delivered, String>) {
    let limits = context.config.artifacts.clone();
    let outcome = fetch(&context.config.drivers.executor, &places, &plan, limits, sandbox).await;
    (hash, plan, outcome)
}

/// Inspects what was downloaded, and moves it to its destination.
async fn put_in_place(run: &TaskRun, plan: Arc<Plan>, delivered: Delivered) -> Result<(), String> {
    let account = run.account.as_ref().map(|account| (account.uid, account.gid));
    let alloc = run.dirs.open_alloc().map_err(|error| error.to_string())?;
    let work = tokio::task::spawn_blocking(move || install(&delivered.out, &alloc, &plan, account));
    work.await.unwrap_or_else(|error| Err(error.to_string()))
}

/// Where the artifacts of a task are downloaded.
#[derive(Clone)]
struct Places {
    /// The directory of the allocation.
    alloc: PathBuf,
    /// The staging directory, as a path in the directory of the allocation.
    staging: PathBuf,
    /// The directory by which agent and fetchers communicate.
    talk: PathBuf,
}

impl Places {
    fn new(run: &TaskRun) -> Self {
        Self {
            alloc: run.dirs.alloc.clone(),
            staging: PathBuf::from(STAGING).join(&*run.name),
            talk: run.context.store.alloc(run.spec.id()).join(TALK).join(&*run.name),
        }
    }

    /// The places of one artifact.
    fn one(&self, number: usize) -> Self {
        let number = number.to_string();
        Self { alloc: self.alloc.clone(), staging: self.staging.join(&number), talk: self.talk.join(number) }
    }

    /// Removes all of it.
    async fn clear(&self) -> io::Result<()> {
        let Self { alloc, staging, talk } = self.clone();
        let removed = tokio::task::spawn_blocking(move || {
            for dir in [alloc.join(staging), talk] {
                match std::fs::remove_dir_all(dir) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    removed => removed?,
                }
            }
            // Fails while another task has one.
            let _ = std::fs::remove_dir(alloc.join(STAGING));
            Ok(())
        });
        removed.await.map_err(io::Error::other)?
    }

    /// Makes the staging directory, and opens it.
    fn make_staging(&self) -> io::Result<OpenDir> {
        for _ in 1..MAKE_ATTEMPTS_MAX {
            match self.try_make_staging() {
                // Another task has just removed the directory of all, because it was empty.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                made => return made,
            }
        }
        self.try_make_staging()
    }

    fn try_make_staging(&self) -> io::Result<OpenDir> {
        let mut dir = OpenDir::open(&self.alloc)?;
        for part in &self.staging {
            dir = dir.make(part, STAGING_MODE)?;
        }
        Ok(dir)
    }
}
