//! Answers the API's requests to restart and signal tasks (A-12.4, A-12.5), and to remove what has ended (A-12.6, A-27.2):
//! turns each into a command and sends the answer when the command is done.

use bus::{Request, Requests};
use model::text::quoted;
use model::{AllocId, Text};
use nix::sys::signal::Signal;
use tokio::sync::{mpsc, oneshot};
use wire::tasks::{RemoveEnded, RestartTasks, SignalTasks, TasksDone};
use wire::{Refusal, RefusalKind};

use crate::alloc::allocs::AllocsCommand;
use crate::driver::read_signal;
use crate::task::commands::{TaskAction, TaskSelector, TasksCommand};

/// The refusal of a request that the agent can no longer carry out.
const STOPPING: &str = "the agent is stopping";

/// Answers requests until the subscription ends.
pub(crate) async fn serve(mut requests: Requests, commands: mpsc::Sender<AllocsCommand>) {
    while let Some(request) = requests.next().await {
        tokio::spawn(answer(request, commands.clone()));
    }
}

async fn answer(request: Request, commands: mpsc::Sender<AllocsCommand>) {
    if request.is::<SignalTasks>() {
        let Some((request, ask)) = request.read::<SignalTasks>().await else { return };
        let outcome = match signal_named(&ask.signal) {
            Ok(signal) => {
                send(&commands, ask.alloc, TaskSelector::running(ask.task), TaskAction::Signal(signal)).await
            }
            Err(unknown) => Err(invalid(unknown)),
        };
        return reply(request, outcome).await;
    }
    if request.is::<RemoveEnded>() {
        let Some((request, ask)) = request.read::<RemoveEnded>().await else { return };
        return reply(request, remove_ended(&commands, ask.alloc).await).await;
    }
    let Some((request, ask)) = request.read::<RestartTasks>().await else { return };
    let outcome = match (&ask.task, ask.all) {
        (Some(_), true) => Err(invalid("task name cannot be set when restarting all tasks")),
        (None, true) => {
            let action = TaskAction::Restart { reason: "User requested all tasks to restart" };
            send(&commands, ask.alloc, TaskSelector::All, action).await
        }
        (task, false) => {
            let reason = match task {
                Some(_) => "User requested task to restart",
                None => "User requested running tasks to restart",
            };
            send(&commands, ask.alloc, TaskSelector::running(ask.task), TaskAction::Restart { reason }).await
        }
    };
    reply(request, outcome).await;
}

/// The signal of this name; SIGINT without a name (http-api §18).
fn signal_named(name: &str) -> Result<Signal, String> {
    Ok(read_signal(name)?.unwrap_or(Signal::SIGINT))
}

async fn remove_ended(commands: &mpsc::Sender<AllocsCommand>, alloc: Option<AllocId>) -> Result<(), Refusal> {
    let (done, outcome) = oneshot::channel();
    if commands.send(AllocsCommand::RemoveEnded { alloc, done }).await.is_err() {
        return Err(stopping());
    }
    outcome.await.unwrap_or_else(|_| Err(STOPPING.into())).map_err(invalid)
}

async fn reply(request: Request, outcome: Result<(), Refusal>) {
    match outcome {
        Ok(()) => request.answer(&TasksDone {}).await,
        Err(refusal) => request.refuse(refusal).await,
    }
}

async fn send(
    commands: &mpsc::Sender<AllocsCommand>,
    alloc: AllocId,
    selector: TaskSelector,
    action: TaskAction,
) -> Result<(), Refusal> {
    let (done, outcome) = oneshot::channel();
    let command = AllocsCommand::Tasks { alloc, command: TasksCommand { selector, action, done } };
    if commands.send(command).await.is_err() {
        return Err(stopping());
    }
    match outcome.await {
        Ok(outcome) => outcome.map_err(invalid),
        Err(_) => Err(Refusal {
            kind: RefusalKind::NotFound,
            message: format!("Unknown allocation {}", quoted(&alloc.to_string())).into(),
        }),
    }
}

fn stopping() -> Refusal {
    invalid(STOPPING)
}

fn invalid(message: impl Into<Text>) -> Refusal {
    Refusal { kind: RefusalKind::Invalid, message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_without_a_name_is_an_interrupt() {
        // http-api §18.
        assert_eq!(signal_named(""), Ok(Signal::SIGINT));
        assert_eq!(signal_named("SIGHUP"), Ok(Signal::SIGHUP));
        assert_eq!(signal_named("SIGWHAT"), Err(r#"unknown signal "SIGWHAT""#.to_owned()));
    }
}
