//! The templates of one start of a task: rendered before the start, and known to what watches them afterwards.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use go_template::{Error, Template};
use model::Text;
use model::alloc::TaskEventKind;
use model::job::TaskTemplate;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use telemetry::clock;
use tokio::time::{Instant, sleep_until};

use super::changes::Digest;
use super::missing::Missing;
use super::plan::{Owner, Plan, Source};
use super::task_data::{Followed, Reading, TaskData};
use super::{env_file, files};
use crate::context::Context;
use crate::disk::store::{self, Durability, Saved};
use crate::task::env::Env;
use crate::task::hooks::{HookError, TaskRun};

/// Maximum size of the results of all templates of a task, in bytes.
const TASK_BYTES_MAX: usize = 64 << 20;
/// How long all templates of a task may take. The last one may take its own time beyond that.
const PASS_TIME_MAX: Duration = Duration::from_secs(10);
/// A moment that is far enough in the future to stand for never.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The templates of one start of a task.
#[derive(Clone)]
pub(crate) struct Session {
    context: Arc<Context>,
    /// What to do with each template.
    pub(super) plans: Arc<Vec<Plan>>,
    /// What they read.
    pub(super) data: Arc<TaskData>,
    /// Where the record is kept.
    file: PathBuf,
    /// What was last written.
    pub(super) record: Record,
}

/// What is kept of the templates of a running task, for an agent that restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The environment of the task, before templates add to it.
    env: Arc<Env>,
    /// What was written for each template.
    pub(super) written: Vec<Written>,
}

/// The file of a template, as it was last written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    /// Where it is, relative to the allocation's directory.
    place: PathBuf,
    /// The digest of its text.
    pub(super) digest: Digest,
}

/// The outcome of rendering some templates.
pub(super) struct Pass {
    /// The position of each template, and its text or why it has none.
    pub(super) outcomes: Vec<(usize, Result<String, Failure>)>,
    /// The data that is missing.
    pub(super) missing: BTreeSet<String>,
}

/// Why a template has no text.
#[derive(Debug)]
pub(super) enum Failure {
    /// Data is missing.
    Missing,
    /// The template failed.
    Failed {
        /// The reason.
        message: String,
        /// Whether a retry may help.
        recoverable: bool,
    },
}

impl Failure {
    fn failed(message: String) -> Self {
        Self::Failed { message, recoverable: true }
    }
}

impl Session {
    /// The templates of a task that is about to start in an environment.
    ///
    /// # Errors
    /// If a template is not valid.
    pub(crate) fn new(
        run: &TaskRun,
        templates: &[TaskTemplate],
        env: Arc<Env>,
        file: PathBuf,
    ) -> Result<Self, HookError> {
        let context = Arc::clone(&run.context);
        let settings = &context.config.templates;
        let owner = Owner { task: &run.name, env: &env, node: &context.node, settings };
        let plans = templates.iter().map(|template| {
            let plan = Plan::new(template, &owner);
            plan.map_err(|error| HookError::invalid(format!("template {}: {error}", &*template.dest_path)))
        });
        let plans = Arc::new(plans.collect::<Result<Vec<_>, _>>()?);
        let data = TaskData {
            task: Text::clone(&run.name),
            namespace: Text::clone(&run.spec.job.spec.namespace),
            env: Arc::clone(&env),
            alloc: run.dirs.alloc.clone(),
            context: Arc::clone(&context),
            followed: Mutex::new(Followed::default()),
        };
        let record = Record { env, written: Vec::new() };
        Ok(Self { context, plans, data: Arc::new(data), file, record })
    }

    /// The templates of a task that an earlier agent has started; `None` if nothing is known of them.
    pub(crate) fn restored(run: &TaskRun, templates: &[TaskTemplate], file: PathBuf) -> Option<Self> {
        let record = match store::load::<Record>(&file) {
            Saved::Read(record) if record.written.len() == templates.len() => record,
            Saved::Read(_) | Saved::Absent | Saved::Unreadable => return None,
        };
        let session = Self::new(run, templates, Arc::clone(&record.env), file).ok()?;
        Some(Self { record, ..session })
    }

    /// Renders all templates and writes their files, and returns the variables that they add to the environment. While data
    /// is missing, it waits, and an event says so.
    ///
    /// # Errors
    /// If a template fails, or its file cannot be written.
    pub(crate) async fn first(&mut self, run: &TaskRun) -> Result<Env, HookError> {
        let (begun, mut missing) = (Instant::now(), Missing::default());
        let all: Vec<usize> = (0..self.plans.len()).collect();
        let outcomes = loop {
            let pass = self.pass(all.clone(), true).await?;
            for (_, outcome) in &pass.outcomes {
                if let Err(Failure::Failed { message, recoverable }) = outcome {
                    let message = message.as_str();
                    return Err(match recoverable {
                        true => HookError::recoverable(message),
                        false => HookError::unrecoverable(message),
                    });
                }
            }
            if pass.missing.is_empty() {
                break pass.outcomes;
            }
            missing.set(pass.missing, begun.elapsed());
            self.until_changed(run, &mut missing, begun).await;
        };
        let texts = outcomes.into_iter().filter_map(|(_, outcome)| outcome.ok()).collect::<Vec<_>>();
        let env = self.variables(&texts)?;
        let written = texts.iter().zip(&*self.plans).map(|(text, plan)| Written::of(plan, text)).collect();
        self.write(all.into_iter().zip(texts).collect()).await?;
        self.record.written = written;
        self.save().await?;
        Ok(env)
    }

    /// Waits until data has changed. Meanwhile events say what is missing.
    async fn until_changed(&self, run: &TaskRun, missing: &mut Missing, begun: Instant) {
        let changed = self.data.changed();
        tokio::pin!(changed);
        loop {
            let due = begun + missing.poll_timeout().unwrap_or(NEVER);
            tokio::select! {
                () = &mut changed => return,
                () = sleep_until(due) => {}
            }
            if let Some(message) = missing.event(begun.elapsed()) {
                run.event(TaskEventKind::Template { message: message.into() }).await;
            }
        }
    }

    /// The variables in the texts of the templates that are read as such. Later templates win.
    fn variables(&self, texts: &[String]) -> Result<Env, HookError> {
        let mut env = Env::new();
        for (plan, text) in self.plans.iter().zip(texts).filter(|(plan, _)| plan.env) {
            let variables = env_file::parse(text)
                .map_err(|error| HookError::recoverable(format!("template {}: {error}", plan.shown)))?;
            env.extend(variables);
        }
        Ok(env)
    }

    /// Renders templates on a thread of its own. Before a start, a template that is rendered only once keeps the file that
    /// it already has.
    ///
    /// # Errors
    /// If the thread cannot be had.
    pub(super) async fn pass(&self, positions: Vec<usize>, is_start: bool) -> Result<Pass, HookError> {
        let failed = |error: &dyn std::error::Error| HookError::recoverable(error.to_string());
        let permit = Arc::clone(&self.context.renderings).acquire_owned().await;
        let permit = permit.map_err(|error| failed(&error))?;
        let session = self.clone();
        let rendered = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let earlier = if is_start { session.earlier() } else { Record::default() };
            session.render(positions, &earlier)
        });
        rendered.await.map_err(|error| failed(&error))
    }

    /// What an earlier start has written.
    fn earlier(&self) -> Record {
        match store::load::<Record>(&self.file) {
            Saved::Read(record) => record,
            Saved::Absent | Saved::Unreadable => Record::default(),
        }
    }

    fn render(&self, positions: Vec<usize>, earlier: &Record) -> Pass {
        let mut pass = Pass { outcomes: Vec::new(), missing: BTreeSet::new() };
        let (mut bytes_left, begun) = (TASK_BYTES_MAX, clock::monotonic());
        self.data.begin_pass();
        for position in positions {
            let Some(plan) = self.plans.get(position) else { continue };
            let kept = earlier.written.get(position).and_then(|written| self.kept(plan, written));
            let is_late = clock::monotonic().saturating_duration_since(begun) > PASS_TIME_MAX;
            let outcome = match kept {
                Some(text) => Ok(text),
                None if is_late => {
                    let secs = PASS_TIME_MAX.as_secs();
                    Err(Failure::failed(format!("the templates of the task take longer than {secs} seconds")))
                }
                None => self.render_one(plan, &mut pass.missing),
            };
            let outcome = outcome.and_then(|text| match bytes_left.checked_sub(text.len()) {
                Some(left) => {
                    bytes_left = left;
                    Ok(text)
                }
                None => {
                    let message = format!("the templates of the task write more than {TASK_BYTES_MAX} bytes");
                    Err(Failure::failed(message))
                }
            });
            pass.outcomes.push((position, outcome));
        }
        self.data.end_pass();
        pass
    }

    /// The text in the file of a template that is rendered only once, if it is the one that was written.
    fn kept(&self, plan: &Plan, written: &Written) -> Option<String> {
        if !plan.once || written.place != plan.destination {
            return None;
        }
        let text = files::read(&self.data.open().ok()?, &plan.destination, TASK_BYTES_MAX).ok()?;
        (digest(&text) == written.digest).then_some(text)
    }

    fn render_one(&self, plan: &Plan, missing: &mut BTreeSet<String>) -> Result<String, Failure> {
        let text = self.data.template(&plan.source).map_err(Failure::failed)?;
        let template = Template {
            name: &plan.shown,
            text: &text,
            left: &plan.delimiters.0,
            right: &plan.delimiters.1,
            error_on_missing_key: plan.error_on_missing_key,
            denied: &self.data.settings().denied,
        };
        match go_template::render(&template, Arc::new(Reading::new(&self.data))) {
            Ok(rendered) if rendered.missing.is_empty() => Ok(rendered.text),
            Ok(rendered) => {
                missing.extend(rendered.missing);
                Err(Failure::Missing)
            }
            // A template in a file may be another one at the next attempt.
            Err(error @ Error::Invalid(_)) => {
                let recoverable = !matches!(plan.source, Source::Inline(_));
                Err(Failure::Failed { message: error.to_string(), recoverable })
            }
            Err(error @ Error::Limit(_)) => Err(Failure::failed(format!("template {}: {error}", plan.shown))),
            Err(error @ Error::Failed(_)) => Err(Failure::failed(error.to_string())),
        }
    }

    /// Writes the files of templates.
    ///
    /// # Errors
    /// If one cannot be written.
    pub(super) async fn write(&self, texts: Vec<(usize, String)>) -> Result<(), HookError> {
        let (plans, data) = (Arc::clone(&self.plans), Arc::clone(&self.data));
        let written = tokio::task::spawn_blocking(move || {
            let alloc = data.open()?;
            for (position, text) in texts {
                let Some(plan) = plans.get(position) else { continue };
                files::write(&alloc, plan, &text)
                    .map_err(|error| format!("cannot write the template {}: {error}", plan.shown))?;
            }
            Ok::<_, String>(())
        });
        let written = written.await.map_err(|error| HookError::recoverable(error.to_string()))?;
        written.map_err(HookError::recoverable)
    }

    /// Keeps what was written, for an agent that restarts.
    ///
    /// # Errors
    /// If it cannot be saved.
    pub(super) async fn save(&self) -> std::io::Result<()> {
        store::save(self.file.clone(), &self.record, Durability::Process).await
    }
}

impl Written {
    /// The file of a template with this text.
    pub(super) fn of(plan: &Plan, text: &str) -> Self {
        Self { place: plan.destination.clone(), digest: digest(text) }
    }
}

/// The digest of a text.
pub(super) fn digest(text: &str) -> Digest {
    Sha256::digest(text).into()
}
