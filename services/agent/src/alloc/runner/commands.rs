//! Commands to an allocation: from the servers, and from users for its tasks.

use std::sync::Arc;

use model::Text;
use model::alloc::{TaskEventKind, TaskRunState};
use telemetry::clock;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;

use super::{AllocRunner, save_spec};
use crate::alloc::core::Kills;
use crate::reports::core::AllocEvent;
use crate::task::commands::{Outcome, TaskAction, TaskCommand, TaskSelector, TasksCommand};
use crate::work::spec::AllocSpec;

/// The refusal of a command for a task that is not running.
pub(crate) const NOT_RUNNING: &str = "Task not running";
/// The refusal of a restart of all tasks, if the allocation is to end or has ended.
pub(crate) const SHOULD_NOT_RUN: &str = "restart of an alloc that should not run";
/// The refusal of a command for a task whose command channel is full.
pub(super) const BUSY: &str = "too many commands are queued for the task";

/// Why an allocation that has ended refuses a command: it has no task to restart, and a named task is not running
/// (http-api §18).
pub(crate) fn refusal_of_ended(command: &TasksCommand) -> &'static str {
    match (&command.selector, &command.action) {
        (TaskSelector::Running | TaskSelector::All, TaskAction::Restart { .. }) => SHOULD_NOT_RUN,
        _ => NOT_RUNNING,
    }
}

/// A command to an allocation.
#[derive(Debug)]
pub(crate) enum Command {
    /// The servers changed the allocation.
    Update(Box<AllocSpec>),
    /// The servers had marked the allocation as unknown, and the node has reconnected.
    Reconnect(Box<AllocSpec>),
    /// A user command for its tasks.
    Tasks(TasksCommand),
    /// Stop all tasks. None of them may run afterwards.
    Destroy,
}

impl AllocRunner {
    /// Carries out a command while the allocation runs.
    pub(super) async fn handle_command(&mut self, command: Command) -> Kills {
        let now = clock::now();
        match command {
            Command::Update(spec) => {
                let spec = Arc::new(*spec);
                save_spec(&self.context, &spec).await;
                let kills = self.core.update(Arc::clone(&spec), now);
                if spec.should_run() && !self.core.is_over() {
                    // The hooks of the allocation see the change before those of its tasks.
                    match self.is_set_up {
                        true => self.hooks.update(&self.alloc_run()).await,
                        false => self.changed_in_setup = true,
                    }
                }
                self.spec.send_replace(spec);
                kills
            }
            Command::Reconnect(newer) => {
                let mut spec = AllocSpec::clone(self.core.spec());
                (spec.history, spec.work.alloc_modify_index) = (newer.history, newer.work.alloc_modify_index);
                let spec = Arc::new(spec);
                save_spec(&self.context, &spec).await;
                self.spec.send_replace(Arc::clone(&spec));
                self.core.add_event(&TaskEventKind::Reconnected, now);
                let event = AllocEvent::ReportAgain(spec.id());
                let _ = self.reporter.send(event).await;
                self.core.update(spec, now)
            }
            Command::Tasks(TasksCommand {
                selector: TaskSelector::All,
                action: TaskAction::Restart { reason },
                done,
            }) => self.restart_all(reason, done),
            // The checks of an allocation end with it, but a restart may have been on its way.
            Command::Tasks(TasksCommand { action: TaskAction::RestartFailed { .. }, done, .. })
                if self.core.is_ending() =>
            {
                let _ = done.send(Err(SHOULD_NOT_RUN.into()));
                Kills::new()
            }
            Command::Tasks(command) => {
                self.forward(command);
                Kills::new()
            }
            Command::Destroy => self.core.destroy(now),
        }
    }

    /// Forwards a command to the selected tasks that are running. It does not wait for them, because they
    /// report their changes to this runner.
    fn forward(&self, TasksCommand { selector, action, done }: TasksCommand) {
        let selected = self.core.tasks().iter().filter(|(name, _)| selector.matches(name));
        let running = selected.clone().filter(|(_, task)| task.state.state == TaskRunState::Running);
        let mut outcomes = Vec::new();
        for (name, _) in running {
            let Some(control) = self.tasks.get(name) else { continue };
            let (done, outcome) = oneshot::channel();
            if let Err(TrySendError::Full(refused)) =
                control.commands.try_send(TaskCommand { action: action.clone(), done })
            {
                let _ = refused.done.send(Err(BUSY.into()));
            }
            outcomes.push(outcome);
        }
        if outcomes.is_empty() {
            let is_restart = matches!(action, TaskAction::Restart { .. });
            let refusal: Text = match selector {
                TaskSelector::Task(task) if selected.count() == 0 => {
                    format!("Could not find task runner for task: {task}").into()
                }
                TaskSelector::Running if is_restart && !self.core.spec().should_run() => {
                    SHOULD_NOT_RUN.into()
                }
                TaskSelector::Task(_) | TaskSelector::Running | TaskSelector::All => NOT_RUNNING.into(),
            };
            let _ = done.send(Err(refusal));
            return;
        }
        reply_when_done(outcomes, done);
    }

    /// Restarts all tasks, including those that have ended, or none of them.
    fn restart_all(&mut self, reason: &'static str, done: oneshot::Sender<Outcome>) -> Kills {
        let mut running = Vec::new();
        for (name, control) in &self.tasks {
            let task = self.core.tasks().get(name);
            if task.is_none_or(|task| task.state.state != TaskRunState::Running) {
                continue;
            }
            match control.commands.clone().try_reserve_owned() {
                Ok(permit) => running.push((Text::clone(name), permit)),
                Err(TrySendError::Full(_)) => {
                    let _ = done.send(Err(BUSY.into()));
                    return Kills::new();
                }
                // The task has ended and will report that.
                Err(TrySendError::Closed(_)) => {}
            }
        }
        let names = running.iter().map(|(name, _)| Text::clone(name));
        let Some((ended, kills)) = self.core.restart_all(reason, names, clock::now()) else {
            let _ = done.send(Err(SHOULD_NOT_RUN.into()));
            return Kills::new();
        };
        for name in ended {
            let known = self.core.tasks().get(&name).map(|task| task.state.clone());
            self.run_task(&name, known);
        }
        let outcomes = running.into_iter().map(|(_, permit)| {
            let (done, outcome) = oneshot::channel();
            permit.send(TaskCommand { action: TaskAction::Restart { reason }, done });
            outcome
        });
        reply_when_done(outcomes.collect(), done);
        kills
    }
}

/// Replies to a command that several tasks carry out, when all of them are done.
fn reply_when_done(outcomes: Vec<oneshot::Receiver<Outcome>>, done: oneshot::Sender<Outcome>) {
    tokio::spawn(async move {
        let mut combined = Ok(());
        for outcome in outcomes {
            // A task that ended meanwhile sends no outcome.
            combined = combined.and(outcome.await.unwrap_or_else(|_| Err(NOT_RUNNING.into())));
        }
        // Fails if the requester has stopped waiting.
        let _ = done.send(combined);
    });
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::Signal;

    use super::*;

    /// http-api §18.
    #[test]
    fn an_ended_allocation_says_what_it_cannot_do() {
        let refusal = |selector, action| {
            let (done, _) = oneshot::channel();
            refusal_of_ended(&TasksCommand { selector, action, done })
        };
        let restart = || TaskAction::Restart { reason: "" };
        assert_eq!(refusal(TaskSelector::Running, restart()), SHOULD_NOT_RUN);
        assert_eq!(refusal(TaskSelector::All, restart()), SHOULD_NOT_RUN);
        assert_eq!(refusal(TaskSelector::Task("t".into()), restart()), NOT_RUNNING);
        assert_eq!(refusal(TaskSelector::Running, TaskAction::Signal(Signal::SIGHUP)), NOT_RUNNING);
    }
}
