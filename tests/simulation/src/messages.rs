//! The messages between processes, and the statements for the database. Their contents are those of the real system;
//! only the encoding is left out.

use std::sync::Arc;

use model::change::ChangeSet;
use model::{Epoch, HistoryId, Index, NodeId, ProcessId, RequestId, Timestamp};
use plan_applier::Reply as ApplierReply;
use state::State;
use wire::LogRow;
use wire::Refusal;
use wire::broker::{Delivery, Dequeue, EvalLeaseRequest};
use wire::command::{Answer, Command, RenewLease};
use wire::feed::{Committer, Head, LostWrites};
use wire::node::{GetWork, Heartbeat, NodeResponse, Register, Report, Work, WorkIndex};
use wire::services::{RegisterServices, ServicesAnswer};

/// Index of a process among all processes.
pub(crate) type Pid = usize;

/// A subject that processes can subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Command,
    Lease,
    ReadHead,
    Probe,
    Dequeue,
    EvalLease,
    /// Heartbeats. Every tracker is subscribed to them.
    Heartbeat,
    /// All other messages of nodes, for the active tracker.
    Node,
    Changes,
    Head,
    LostWrites,
    Wake(NodeId),
}

/// The body of a request or of an announcement.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    Command(RequestId, Command),
    Renew(RenewLease),
    ReadHead,
    Probe,
    Dequeue(Dequeue),
    EvalLease(EvalLeaseRequest),
    Register(Register),
    Heartbeat(Heartbeat),
    GetWork(GetWork),
    Report(Report),
    Services(RegisterServices),
    Changes(Option<Committer>, Arc<Run>),
    Head(Head),
    LostWrites(LostWrites),
    Wake(WorkIndex),
}

/// Consecutive change sets of the log.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) history: HistoryId,
    /// The request of the change set before them; `None` if they are the first ones.
    pub(crate) previous: Option<RequestId>,
    /// Index of the first one.
    pub(crate) first: Index,
    /// The change sets, each with the state after it.
    pub(crate) sets: Vec<(Arc<ChangeSet>, Arc<State>)>,
}

/// The reply to a request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// From the plan applier.
    Applier(ApplierReply),
    Probed,
    Dequeued(Vec<Delivery>),
    EvalLease(bool),
    Node(Result<NodeResponse, Refusal>),
    Work(Result<Work, Refusal>),
    ReportAccepted(Result<(), Refusal>),
    Services(Result<ServicesAnswer, Refusal>),
    /// The subject has no subscribers.
    NoResponders,
    TimedOut,
}

/// A request with the address for the reply, or an announcement, which has none.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) from: Option<Address>,
    pub(crate) body: Body,
}

/// The destination of a reply: one call of one incarnation of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) pid: Pid,
    pub(crate) incarnation: u32,
    pub(crate) call: u64,
}

/// A statement for the database.
#[derive(Debug, Clone)]
pub(crate) enum Statement {
    TakeOver {
        process: ProcessId,
        force: bool,
    },
    Commit {
        epoch: Epoch,
        from: Index,
        rows: Vec<LogRow>,
    },
    ReadOutcome {
        epoch: Epoch,
        from: Index,
        rows: Vec<LogRow>,
    },
    Renew(Epoch),
    Confirm(Epoch),
    /// Reads the state at the head, and the ids of the committed requests.
    Load,
    /// Reads the change sets after an index.
    ReadAfter(Index),
    /// Marks the database as one that lacks writes, unless it has another history by now.
    Mark(HistoryId),
    /// Reads the answer to the request that was committed at an index.
    AnswerAt(Index),
}

/// The reply of the database.
#[derive(Debug, Clone)]
pub(crate) enum DbReply {
    /// The lease was taken, at this time of the database's clock.
    Taken(Head, Timestamp),
    Held(ProcessId),
    /// It succeeded, at this time of the database's clock.
    Done(Timestamp),
    Deposed,
    /// Nothing is written before an operator accepts the database.
    Refusing,
    NotCommitted,
    Loaded(Head, Arc<State>, Vec<(RequestId, Index, Timestamp)>),
    /// The change sets after an index, and the head.
    Run(Head, Arc<Run>),
    /// The log has not reached the index.
    NotReached,
    Answer(Option<Answer>),
    /// The statement was not carried out.
    Failed,
    /// No reply arrived.
    Lost,
}

/// An input of a process.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    Start,
    Timer(Timer),
    Message(Message),
    Reply(u64, Reply),
    DbReply(u64, DbReply),
}

/// A timer of a process. The number tells timers of one kind apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Check whether there is something to do.
    Poll,
    /// Send a periodic message.
    Heartbeat,
    /// Take or renew a lease.
    Lease,
    /// Send a command again.
    Resend(RequestId),
    /// Continue with a piece of work.
    Task(u64),
    /// Renew the lease of an evaluation that is worked on.
    Renew(u64),
}
