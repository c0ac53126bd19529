//! Watches the templates of a running task: renders them again when their data changes, and tells the task.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::AllocId;
use model::alloc::TaskEventKind;
use telemetry::chain;
use tokio::io::{copy, sink};
use tokio::time::{Duration, Instant, sleep_until, timeout};

use super::changes::{Action, Changes};
use super::plan::{Mode, Plan, Script};
use super::session::{Failure, Session, Written, digest};
use crate::driver::exec_session::{ExecRequest, ExecSession};
use crate::driver::{Running, read_signal};
use crate::task::commands::{HookRequest, HookRequests};
use crate::task::hooks::TaskRun;
use crate::task::updates::Updates;

/// A moment that is far enough in the future to stand for never.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How long a program may run that has no timeout of its own.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The reason of a restart, for its event.
const RESTART_REASON: &str = "Template with change_mode restart re-rendered";
/// The reason of a signal, for its event.
const SIGNAL_REASON: &str = "Template re-rendered";
/// The reason of a failure after a program has failed.
const SCRIPT_REASON: &str = "Template change script failed";

/// Watches the templates of a running task.
pub(crate) struct Watch {
    session: Session,
    task: Arc<dyn Running>,
    alloc: AllocId,
    updates: Updates,
    requests: HookRequests,
    /// Whether the driver can send signals.
    has_signals: bool,
    /// Failures that an event has shown.
    shown: BTreeSet<String>,
}

impl Watch {
    /// Watches the templates of a task.
    pub(crate) fn new(session: Session, run: &TaskRun, task: &Arc<dyn Running>) -> Self {
        let driver = run.spec.task(&run.name).and_then(|task| run.context.drivers.get(&task.driver));
        Self {
            session,
            task: Arc::clone(task),
            alloc: run.spec.id(),
            updates: run.updates.clone(),
            requests: run.requests.clone(),
            has_signals: driver.is_some_and(|driver| driver.capabilities().signals),
            shown: BTreeSet::new(),
        }
    }

    /// Watches until it is dropped. `is_first` says that the task has just been started with newly rendered templates.
    pub(crate) async fn run(mut self, is_first: bool) {
        if is_first {
            let scripts = self.session.plans.iter().filter_map(|plan| match &plan.mode {
                Mode::Script(script) if script.on_first_render => Some(script.clone()),
                Mode::Script(_) | Mode::Noop | Mode::Restart | Mode::Signal(_) => None,
            });
            for script in scripts.collect::<Vec<_>>() {
                self.run_script(&script).await;
            }
        }
        let plans = Arc::clone(&self.session.plans);
        let watched: Vec<usize> =
            (0..plans.len()).filter(|at| plans.get(*at).is_some_and(|plan| !plan.once)).collect();
        let (begun, mut changes) = (Instant::now(), Changes::default());
        let data = Arc::clone(&self.session.data);
        loop {
            // Also at first: data may have changed since the start.
            self.render(&watched, &plans, &mut changes, begun).await;
            let changed = data.changed();
            tokio::pin!(changed);
            loop {
                self.act(&plans, &mut changes, begun).await;
                let due = changes.poll_timeout();
                tokio::select! {
                    () = &mut changed => break,
                    () = sleep_until(begun + due.unwrap_or(NEVER)) => {}
                }
            }
        }
    }

    async fn render(&mut self, watched: &[usize], plans: &[Plan], changes: &mut Changes, begun: Instant) {
        let pass = match self.session.pass(watched.to_vec(), false).await {
            Ok(pass) => pass,
            Err(error) => return self.failed(error.message).await,
        };
        let now = begun.elapsed();
        for (position, outcome) in pass.outcomes {
            let Some(plan) = plans.get(position) else { continue };
            match outcome {
                Ok(text) => {
                    let digest = digest(&text);
                    let written = self.session.record.written.get(position).map(|written| written.digest);
                    if written == Some(digest) {
                        changes.is_same(position);
                    } else {
                        changes.differs(position, plan, text, digest, now);
                    }
                }
                // The file stays as it is until the data is there.
                Err(Failure::Missing) => {}
                Err(Failure::Failed { message, .. }) => self.failed(message).await,
            }
        }
    }

    /// Writes the texts that are due, and takes the action that is due.
    async fn act(&mut self, plans: &[Plan], changes: &mut Changes, begun: Instant) {
        let mut has_written = false;
        for (position, text, digest) in changes.due_texts(begun.elapsed()) {
            let Some(plan) = plans.get(position) else { continue };
            let written = Written::of(plan, &text);
            if let Err(error) = self.session.write(vec![(position, text.clone())]).await {
                self.failed(error.message).await;
                changes.not_written(position, text, digest, begun.elapsed());
                continue;
            }
            has_written = true;
            if let Some(record) = self.session.record.written.get_mut(position) {
                *record = written;
            }
            changes.wrote(position, plans, begun.elapsed(), rand::random());
        }
        if has_written && let Err(error) = self.session.save().await {
            tracing::warn!(
                alloc.id = %self.alloc, task = &*self.updates.task, error = chain(&error),
                "cannot save the state of templates"
            );
        }
        match changes.due_action(plans, begun.elapsed()) {
            Some(Action::Restart) => self.requests.ask(HookRequest::Restart { reason: RESTART_REASON }),
            Some(Action::Notify { signals, scripts }) => {
                for signal in signals {
                    self.signal(&signal).await;
                }
                for position in scripts {
                    if let Some(Plan { mode: Mode::Script(script), .. }) = plans.get(position) {
                        self.run_script(script).await;
                    }
                }
            }
            None => {}
        }
    }

    /// Sends the task a signal.
    async fn signal(&mut self, name: &str) {
        // The name was checked when the task started.
        let Ok(Some(signal)) = read_signal(name) else { return };
        if !self.has_signals {
            let reason = "the driver cannot send signals to its tasks";
            return self.failed(format!("Template skipped signal {name}: {reason}")).await;
        }
        let event = TaskEventKind::Signaling { signal: name.into(), reason: SIGNAL_REASON.into() };
        self.updates.event(event).await;
        if let Err(error) = self.task.signal(signal).await {
            self.failed(format!("Template skipped signal {name}: {error}")).await;
        }
    }

    /// Runs a program in the task.
    async fn run_script(&mut self, script: &Script) {
        let limit = if script.timeout.is_zero() { SCRIPT_TIMEOUT } else { script.timeout };
        let error = match timeout(limit, self.script_outcome(script)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            // The program ended with its session, which was dropped.
            Err(_) => format!("it took longer than {} seconds", limit.as_secs_f64()),
        };
        let program = script.command.first().map_or("", String::as_str);
        self.shown.clear();
        self.failed(format!("Template change script {program} failed: {error}")).await;
        if script.fail_on_error {
            self.requests.ask(HookRequest::Fail { reason: SCRIPT_REASON });
        }
    }

    async fn script_outcome(&self, script: &Script) -> Result<(), String> {
        let request = ExecRequest { command: script.command.clone(), tty: false, size: None };
        let ExecSession { stdin, mut stdout, mut stderr, resize: _resize, exit } =
            self.task.exec(request).await.map_err(|error| error.to_string())?;
        drop(stdin);
        // What it writes is not shown: it may be secret. It is read, so that the program does not wait for that.
        let output = async {
            let _ = copy(&mut stdout, &mut sink()).await;
        };
        let errors = async {
            if let Some(stderr) = &mut stderr {
                let _ = copy(stderr, &mut sink()).await;
            }
        };
        match tokio::join!(exit, output, errors).0 {
            Ok(Ok(0)) => Ok(()),
            Ok(Ok(code)) => Err(format!("exit code {code}")),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("its session was lost".to_owned()),
        }
    }

    /// Shows a failure by an event, unless it was shown before. The file of the template stays as it is.
    async fn failed(&mut self, message: String) {
        /// Maximum number of failures that are remembered.
        const SHOWN_MAX: usize = 16;
        if self.shown.len() >= SHOWN_MAX {
            self.shown.clear();
        }
        if self.shown.insert(message.clone()) {
            tracing::warn!(
                alloc.id = %self.alloc, task = &*self.updates.task, error = message, "a template of a running task failed"
            );
            self.updates.event(TaskEventKind::HookMessage { message: message.into() }).await;
        }
    }
}
