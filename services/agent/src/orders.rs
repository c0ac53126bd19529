//! What people want of tasks: asked by the API, carried out by the loop of each task, answered when it is
//! done.

use bus::{Request, Requests};
use model::text::quoted;
use model::{AllocId, Text};
use nix::sys::signal::Signal;
use tokio::sync::{mpsc, oneshot};
use wire::tasks::{RestartTasks, SignalTasks, TasksDone};
use wire::{Refusal, RefusalKind};

use crate::allocs::Order;
use crate::driver::read_signal;

/// How an order ended; why not, for people.
pub(crate) type Outcome = Result<(), Text>;

/// What is wanted of a running task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// To end and begin anew.
    Restart {
        /// Why, for the event.
        reason: &'static str,
    },
    /// To get a signal.
    Signal(Signal),
}

/// A wish for a running task, and who is told how it ended.
#[derive(Debug)]
pub(crate) struct TaskOrder {
    pub(crate) wish: Wish,
    pub(crate) done: oneshot::Sender<Outcome>,
}

/// The tasks that a wish is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Whom {
    /// One, which must run.
    Task(Text),
    /// All that run.
    Running,
    /// All, also those that have ended.
    All,
}

impl Whom {
    fn running(task: Option<Text>) -> Self {
        task.map_or(Self::Running, Self::Task)
    }

    /// Whether a task is meant.
    pub(crate) fn holds(&self, name: &str) -> bool {
        match self {
            Self::Task(task) => **task == *name,
            Self::Running | Self::All => true,
        }
    }
}

/// A wish for tasks of an allocation, and who is told how it ended.
#[derive(Debug)]
pub(crate) struct TasksOrder {
    pub(crate) whom: Whom,
    pub(crate) wish: Wish,
    pub(crate) done: oneshot::Sender<Outcome>,
}

/// Answers requests until there are no more.
pub(crate) async fn serve(mut requests: Requests, orders: mpsc::Sender<Order>) {
    while let Some(request) = requests.next().await {
        tokio::spawn(answer(request, orders.clone()));
    }
}

async fn answer(request: Request, orders: mpsc::Sender<Order>) {
    if request.is::<SignalTasks>() {
        let Some((request, ask)) = request.read::<SignalTasks>().await else { return };
        let outcome = match read_signal(&ask.signal) {
            Ok(Some(signal)) => {
                ordered(&orders, ask.alloc, Whom::running(ask.task), Wish::Signal(signal)).await
            }
            Ok(None) => Err(invalid("no signal was named")),
            Err(unknown) => Err(invalid(unknown)),
        };
        return reply(request, outcome).await;
    }
    let Some((request, ask)) = request.read::<RestartTasks>().await else { return };
    let outcome = match (&ask.task, ask.all) {
        (Some(_), true) => Err(invalid("task name cannot be set when restarting all tasks")),
        (None, true) => {
            let wish = Wish::Restart { reason: "User requested all tasks to restart" };
            ordered(&orders, ask.alloc, Whom::All, wish).await
        }
        (task, false) => {
            let reason = match task {
                Some(_) => "User requested task to restart",
                None => "User requested running tasks to restart",
            };
            ordered(&orders, ask.alloc, Whom::running(ask.task), Wish::Restart { reason }).await
        }
    };
    reply(request, outcome).await;
}

async fn reply(request: Request, outcome: Result<(), Refusal>) {
    match outcome {
        Ok(()) => request.answer(&TasksDone {}).await,
        Err(refusal) => request.refuse(refusal).await,
    }
}

async fn ordered(
    orders: &mpsc::Sender<Order>,
    alloc: AllocId,
    whom: Whom,
    wish: Wish,
) -> Result<(), Refusal> {
    let (done, outcome) = oneshot::channel();
    let order = Order::Tasks { alloc, order: TasksOrder { whom, wish, done } };
    if orders.send(order).await.is_err() {
        return Err(invalid("the agent ends"));
    }
    match outcome.await {
        Ok(outcome) => outcome.map_err(invalid),
        Err(_) => Err(Refusal {
            kind: RefusalKind::NotFound,
            message: format!("Unknown allocation {}", quoted(&alloc.to_string())).into(),
        }),
    }
}

fn invalid(message: impl Into<Text>) -> Refusal {
    Refusal { kind: RefusalKind::Invalid, message: message.into() }
}
