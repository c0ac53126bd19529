//! The end of an allocation: when all tasks have ended, its hooks clean up, also if the agent was restarted meanwhile.

use std::io;
use std::sync::Arc;

use model::Text;
use model::alloc::TaskState;
use telemetry::chain;

use super::{AllocRunner, Command, begun_file, refusal_of_ended};
use crate::reports::core::AllocEvent;

impl AllocRunner {
    /// Cleans up after an allocation that had ended when the agent stopped. `known` are the states of its tasks. What was
    /// reported of it stays as it was.
    pub(crate) async fn clean_up(mut self, known: Vec<TaskState>) {
        for state in known {
            let name = Text::clone(&state.task);
            self.run_task(&name, Some(state));
        }
        // All are dead, unless the allocation was declared ended before its tasks were.
        self.end_tasks();
        while !self.runners.is_empty() {
            tokio::select! {
                Some(_) = self.runners.join_next() => {}
                Some(update) = self.updates.1.recv() => {
                    // Fails if the task does not wait.
                    let _: Result<(), ()> = update.saved.send(());
                }
                command = self.commands.recv() => match command {
                    Some(command) => self.answer_ended(command).await,
                    // The agent detaches from the allocation.
                    None => return,
                },
            }
        }
        self.postrun().await;
    }

    /// Runs the hooks that follow the end of all tasks. If this agent does not come to their end, the next one runs them.
    pub(super) async fn postrun(&mut self) {
        let (hooks, alloc) = (Arc::clone(&self.hooks), self.alloc_run());
        let begun = begun_file(&self.context, alloc.spec.id());
        let work = async move {
            if !hooks.postrun(&alloc).await {
                return;
            }
            match tokio::fs::remove_file(&begun).await {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => tracing::warn!(
                    alloc.id = %alloc.spec.id(), file = %begun.display(), error = chain(&error),
                    "cannot remove a file of an ended allocation"
                ),
            }
        };
        tokio::pin!(work);
        loop {
            tokio::select! {
                () = &mut work => return,
                command = self.commands.recv() => match command {
                    Some(command) => self.answer_ended(command).await,
                    None => return,
                },
            }
        }
    }

    /// Answers a command to an allocation that has ended.
    async fn answer_ended(&self, command: Command) {
        match command {
            Command::Tasks(command) => {
                let reason = refusal_of_ended(&command);
                // Fails if the requester has stopped waiting.
                let _ = command.done.send(Err(reason.into()));
            }
            Command::Reconnect(spec) => {
                // Fails only when the agent ends.
                let _ = self.reporter.send(AllocEvent::ReportAgain(spec.id())).await;
            }
            Command::Update(_) | Command::Destroy => {}
        }
    }
}
