//! A running task: its hooks, commands of users, and its end.

use std::sync::Arc;
use std::time::Duration;

use model::alloc::{TaskEventKind as Event, TaskRunState};
use model::{Nanos, Text};
use telemetry::chain;
use tokio::time::sleep;

use super::{KillRequested, RunEnd, TaskRunner, until_killed};
use crate::driver::{Running, read_signal};
use crate::task::commands::{HookRequest, Kill, Outcome, TaskAction};
use crate::task::restarts::RunResult;
use crate::task::state::TaskChange;
use crate::wait::{to_std, until};

/// The pauses between attempts to stop a task.
const STOP_RETRY_PAUSES: [Duration; 5] = [
    Duration::from_secs(5),
    Duration::from_secs(20),
    Duration::from_secs(80),
    Duration::from_secs(120),
    Duration::from_secs(120),
];

impl TaskRunner {
    /// Runs the hooks and carries out commands until the task has ended.
    pub(super) async fn supervise(&mut self, task: &Arc<dyn Running>) -> RunEnd {
        let alloc = self.spec.borrow().id();
        self.requests.clear();
        let listed = self.context.running.add(alloc, &self.name, task);
        self.poststart(task).await;
        let end = self.until_ended(task).await;
        drop(listed);
        self.hooks.exited(&self.task_run()).await;
        end
    }

    /// Runs the hooks that follow a start, unless the task ends or must end before.
    async fn poststart(&self, task: &Arc<dyn Running>) {
        let hooks = async {
            // After a restart of the agent, the task runs before its allocation is set up again.
            until(&self.setup, Option::is_some).await;
            self.hooks.poststart(&self.task_run(), task).await;
        };
        tokio::select! {
            biased;
            KillRequested = self.kill_requested() => {}
            _ = task.wait() => {}
            () = hooks => {}
        }
    }

    async fn until_ended(&mut self, task: &Arc<dyn Running>) -> RunEnd {
        loop {
            let command = tokio::select! {
                exit = task.wait() => {
                    let run_result = RunResult::Exited { successful: exit.successful() };
                    return RunEnd::Ended { exit: Some(exit), run_result };
                }
                KillRequested = until_killed(&self.kill) => break,
                Ok(()) = self.spec.changed() => {
                    self.update().await;
                    continue;
                }
                Some(command) = self.commands.recv() => command,
                request = self.requests.next() => match self.carry_out(task, request).await {
                    Some(end) => return end,
                    None => continue,
                },
            };
            let (is_restart, is_failure) = match command.action {
                TaskAction::Restart { .. } => (true, false),
                TaskAction::RestartFailed { .. } => (true, true),
                TaskAction::Signal(_) => (false, false),
            };
            let outcome = self.perform(task, command.action).await;
            let is_over = is_restart && outcome.is_ok();
            // Fails if the requester has stopped waiting.
            let _ = command.done.send(outcome);
            if is_over {
                let exit = Some(task.wait().await);
                // A failed check counts as a failed exit, whatever the exit code is.
                let run_result = RunResult::Exited { successful: false };
                return match is_failure {
                    true => RunEnd::Ended { exit, run_result },
                    false => RunEnd::Restarted { exit },
                };
            }
        }
        self.hooks.pre_kill(&self.task_run()).await;
        self.delay_shutdown(task).await;
        match self.stop(task).await {
            Ok(()) => RunEnd::Killed { exit: Some(task.wait().await), error: String::new() },
            Err(error) => RunEnd::Killed { exit: None, error },
        }
    }

    /// Does what a hook asks for. `None` if the task could not be ended.
    async fn carry_out(&self, task: &Arc<dyn Running>, request: HookRequest) -> Option<RunEnd> {
        let outcome = match request {
            HookRequest::Restart { reason } => self.perform(task, TaskAction::Restart { reason }).await,
            HookRequest::Fail { .. } => {
                self.hooks.pre_kill(&self.task_run()).await;
                self.stop(task).await.map_err(Text::from)
            }
        };
        if let Err(error) = outcome {
            tracing::warn!(
                alloc.id = %self.spec.borrow().id(), task = &*self.name, error = &*error,
                "cannot end a task as its hooks ask"
            );
            return None;
        }
        let exit = Some(task.wait().await);
        Some(match request {
            HookRequest::Restart { .. } => RunEnd::Restarted { exit },
            HookRequest::Fail { reason } => RunEnd::Failed { exit, reason },
        })
    }

    /// Tells the hooks that the allocation has changed, unless the change is its end.
    async fn update(&self) {
        let run = self.task_run();
        if run.spec.should_run() {
            self.hooks.update(&run).await;
        }
    }

    /// Carries out a user command on the running task. A restart applies no shutdown delay.
    async fn perform(&self, task: &Arc<dyn Running>, action: TaskAction) -> Outcome {
        match action {
            TaskAction::Restart { reason } => self.end_for_restart(task, reason.into()).await,
            TaskAction::RestartFailed { reason } => self.end_for_restart(task, reason).await,
            TaskAction::Signal(signal) => {
                self.check_signals()?;
                let event = Event::Signaling { signal: signal.as_str().into(), reason: Text::default() };
                self.updates.event(event).await;
                task.signal(signal).await.map_err(|error| format!("cannot signal the task: {error}").into())
            }
        }
    }

    /// Stops the task, which will start again.
    async fn end_for_restart(&self, task: &Arc<dyn Running>, reason: Text) -> Outcome {
        self.updates.event(Event::RestartSignaled { reason }).await;
        self.hooks.pre_kill(&self.task_run()).await;
        self.stop(task).await.map_err(Text::from)
    }

    /// Refuses to signal a task whose driver cannot do so.
    fn check_signals(&self) -> Outcome {
        let spec = self.spec.borrow();
        let driver = spec.task(&self.name).map(|task| &*task.driver).unwrap_or_default();
        match self.context.drivers.get(driver) {
            Some(found) if !found.capabilities().signals => {
                Err(format!("the driver {driver} cannot send signals to its tasks").into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Waits for the delay between leaving service discovery and the kill signal.
    async fn delay_shutdown(&self, task: &Arc<dyn Running>) {
        let delay = self.spec.borrow().task(&self.name).map_or(Nanos::ZERO, |task| task.shutdown_delay);
        let skipped = |kill: &Option<Kill>| kill.as_ref().is_some_and(|kill| kill.skip_delay);
        if delay <= Nanos::ZERO {
            return;
        }
        if skipped(&self.kill.borrow()) {
            return self.updates.send(TaskChange::event(Event::ShutdownDelaySkipped { delay })).await;
        }
        self.updates.send(TaskChange::event(Event::ShutdownDelay { delay }).and(TaskRunState::Pending)).await;
        tokio::select! {
            () = sleep(to_std(delay)) => {}
            _ = task.wait() => {}
            _ = until(&self.kill, skipped) => {}
        }
    }

    /// Ends the task, with several attempts.
    pub(super) async fn stop(&self, task: &Arc<dyn Running>) -> Result<(), String> {
        let (timeout, signal) = {
            let spec = self.spec.borrow();
            let task = spec.task(&self.name);
            let timeout = task.map_or(Nanos::ZERO, |task| task.kill_timeout);
            let timeout = timeout.min(self.context.config.limits.kill_timeout_max);
            // The signal was checked when the task started.
            let signal = task.and_then(|task| read_signal(&task.kill_signal).ok()).flatten();
            (to_std(timeout), signal)
        };
        let mut retries = STOP_RETRY_PAUSES.into_iter();
        loop {
            let Err(error) = task.stop(signal, timeout).await else { return Ok(()) };
            let Some(pause) = retries.next() else { return Err(error.to_string()) };
            tracing::warn!(
                alloc.id = %self.spec.borrow().id(), task = &*self.name, error = chain(&error),
                "cannot stop a task"
            );
            sleep(pause).await;
        }
    }
}
