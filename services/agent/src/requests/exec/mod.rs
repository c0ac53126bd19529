//! Commands that users run in tasks: starts them, and passes on what users send to them. Each has a session of its
//! own (`session`) with the API process that asked for it.

mod session;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bus::{Request, Requests};
use model::alloc::TaskRunState;
use model::text::quoted;
use model::{AllocId, RequestId, Text};
use telemetry::clock;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use wire::exec::{COMMAND_BYTES_MAX, ExecInput, StartExec};
use wire::flow::MESSAGES_MAX;
use wire::{Refusal, RefusalKind};

use self::session::{End, Session};
use crate::alloc::runner::{spec_file, state_file};
use crate::context::Context;
use crate::disk::store;
use crate::driver::Running;
use crate::driver::exec_session::{ExecError, ExecRequest};
use crate::reports::core::AllocState;
use crate::work::spec::AllocSpec;

/// The maximum number of sessions on the node.
const SESSIONS_MAX: usize = 256;
/// The maximum number of sessions in the tasks of an allocation.
const ALLOC_SESSIONS_MAX: usize = 32;
/// The maximum number of messages that wait for a session: those with data, and room for those without.
const INPUT_MAX: usize = MESSAGES_MAX + 64;

/// The sessions that exist.
#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<BTreeMap<RequestId, Listed>>>);

/// A session as the others see it.
struct Listed {
    alloc: AllocId,
    input: mpsc::Sender<ExecInput>,
}

/// Keeps a session among those that exist until it is dropped.
struct Admitted {
    sessions: Sessions,
    id: RequestId,
}

/// Answers requests until the subscription ends. When this is dropped, all sessions end.
pub(crate) async fn serve(context: Arc<Context>, mut requests: Requests) {
    let sessions = Sessions::default();
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            request = requests.next() => match request {
                Some(request) if request.is::<ExecInput>() => {
                    if let Some((_, input)) = request.read::<ExecInput>().await {
                        sessions.pass_on(input);
                    }
                }
                Some(request) => {
                    running.spawn(open(Arc::clone(&context), sessions.clone(), request));
                }
                None => return,
            },
            Some(_) = running.join_next() => {}
        }
    }
}

impl Sessions {
    /// Adds a session.
    fn admit(&self, id: RequestId, alloc: AllocId) -> Result<(Admitted, mpsc::Receiver<ExecInput>), Refusal> {
        let mut sessions = self.lock();
        let of_alloc = sessions.values().filter(|session| session.alloc == alloc).count();
        let full = |max: usize, place: &str| {
            let message =
                format!("at most {max} commands run in tasks of {place} at the same time: end one first");
            Err(Refusal { kind: RefusalKind::NotReady, message: message.into() })
        };
        if sessions.len() >= SESSIONS_MAX {
            return full(SESSIONS_MAX, "a node");
        }
        if of_alloc >= ALLOC_SESSIONS_MAX {
            return full(ALLOC_SESSIONS_MAX, "an allocation");
        }
        let (sender, input) = mpsc::channel(INPUT_MAX);
        sessions.insert(id, Listed { alloc, input: sender });
        Ok((Admitted { sessions: self.clone(), id }, input))
    }

    /// Passes a message on to its session. The session notices if one is left out.
    fn pass_on(&self, input: ExecInput) {
        if let Some(session) = self.lock().get(&input.session) {
            // Fails if the session has ended, or the sender does not keep to the credit.
            let _ = session.input.try_send(input);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RequestId, Listed>> {
        // A poisoned lock is harmless, because each change is a single step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.sessions.lock().remove(&self.id);
    }
}

/// Starts a command, and serves its session until it ends.
async fn open(context: Arc<Context>, sessions: Sessions, request: Request) {
    let Some((request, ask)) = request.read::<StartExec>().await else { return };
    // Without a subject of the sender's own, nobody can be told anything.
    let Some(replies) = request.replies() else { return };
    let id = request.id();
    let (_admitted, input) = match sessions.admit(id, ask.alloc) {
        Ok(admitted) => admitted,
        Err(refusal) => return request.refuse(refusal).await,
    };
    let StartExec { alloc, task, command, tty, requester } = ask;
    let shown = if context.config.exec_log_commands {
        command.join(" ")
    } else {
        command.first().cloned().unwrap_or_default()
    };
    let running = match running_task(&context, alloc, &task, &command).await {
        Ok(running) => running,
        Err(refusal) => return request.refuse(refusal).await,
    };
    let exec = match running.exec(ExecRequest { command, tty, size: None }).await {
        Ok(exec) => exec,
        Err(ExecError(reason)) => {
            return request.refuse(Refusal { kind: RefusalKind::NotReady, message: reason.into() }).await;
        }
    };
    drop(request);
    let started = clock::monotonic();
    tracing::info!(
        session = %id, alloc.id = %alloc, task = &*task, requester = &*requester, command = shown, tty,
        "a user's command in a task has started"
    );
    let end = Session::new(replies, input, exec, started).run().await;
    let duration_ms = clock::monotonic().saturating_duration_since(started).as_millis();
    match end {
        End::Exited(exit_code) => tracing::info!(
            session = %id, alloc.id = %alloc, task = &*task, requester = &*requester, duration_ms, exit_code,
            "a user's command in a task has ended"
        ),
        End::Cut(reason) => tracing::info!(
            session = %id, alloc.id = %alloc, task = &*task, requester = &*requester, duration_ms, reason,
            "a user's command in a task was ended"
        ),
    }
}

/// Finds the task that a command is to run in.
async fn running_task(
    context: &Arc<Context>,
    alloc: AllocId,
    task: &Text,
    command: &[String],
) -> Result<Arc<dyn Running>, Refusal> {
    if context.config.disable_remote_exec {
        let message = "Permission denied: commands in tasks are disabled on this node (disable_remote_exec)";
        return Err(Refusal { kind: RefusalKind::Forbidden, message: message.into() });
    }
    if task.is_empty() {
        return Err(invalid("must provide task name"));
    }
    if command.first().is_none_or(String::is_empty) {
        return Err(invalid("command is not present"));
    }
    if command.iter().map(String::len).sum::<usize>() > COMMAND_BYTES_MAX {
        return Err(invalid(format!("the command is longer than {COMMAND_BYTES_MAX} bytes")));
    }
    if command.iter().any(|part| part.contains('\0')) {
        return Err(invalid("the command holds a null character"));
    }
    let (reading, name) = (Arc::clone(context), Text::clone(task));
    let found = tokio::task::spawn_blocking(move || find(&reading, alloc, &name)).await;
    let driver = found.map_err(|error| invalid(error.to_string()))??;
    if context.drivers.get(&driver).is_some_and(|driver| !driver.capabilities().exec) {
        return Err(invalid(ExecError::unsupported(&driver).0));
    }
    let not_running = || invalid(format!("task {} is not running.", quoted(task)));
    context.running.get(alloc, task).ok_or_else(not_running)
}

/// The driver of a task that has started.
fn find(context: &Context, alloc: AllocId, task: &str) -> Result<Text, Refusal> {
    let spec = store::read::<AllocSpec>(&spec_file(context, alloc)).ok().flatten();
    let unknown = || not_found(format!("Unknown allocation {}", quoted(&alloc.to_string())));
    let spec = spec.ok_or_else(unknown)?;
    let driver = spec.task(task).map(|task| Text::clone(&task.driver));
    let driver = driver.ok_or_else(|| invalid(format!("unknown task name {}", quoted(task))))?;
    let state = store::read::<AllocState>(&state_file(context, alloc)).ok().flatten();
    let states = state.map(|state| state.task_states.unpack().unwrap_or_default()).unwrap_or_default();
    let state = states.into_iter().find(|state| &*state.task == task);
    match state {
        Some(state) if state.state == TaskRunState::Running || state.started_at.is_set() => Ok(driver),
        Some(_) | None => Err(not_found(format!("task {} not started yet.", quoted(task)))),
    }
}

fn invalid(message: impl Into<Text>) -> Refusal {
    Refusal { kind: RefusalKind::Invalid, message: message.into() }
}

fn not_found(message: impl Into<Text>) -> Refusal {
    Refusal { kind: RefusalKind::NotFound, message: message.into() }
}

#[cfg(test)]
mod tests;
