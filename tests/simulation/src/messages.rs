//! What processes say to each other and to the database. The contents are those of the real system; what is left out is
//! the encoding.

use std::ops::RangeInclusive;
use std::sync::Arc;

use model::{Epoch, Index, NodeId, ProcessId, RequestId, Timestamp};
use plan_applier::Reply as Verdict;
use state::State;
use store::LogRow;
use wire::Refusal;
use wire::broker::{Delivery, Dequeue, HandOut};
use wire::command::{Answer, Command, RenewLease};
use wire::feed::Head;
use wire::node::{AskWork, Heartbeat, NodeAnswer, Register, Report, Work, WorkIndex};

/// The place of a process among all.
pub(crate) type Pid = usize;

/// What may be listened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Command,
    Lease,
    AskHead,
    Probe,
    Dequeue,
    HandOut,
    /// Heartbeats, which all trackers hear; and whatever else nodes say to the active one.
    Heartbeat,
    Node,
    Changes,
    Head,
    Wake(NodeId),
}

/// What is asked or announced.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    Command(RequestId, Command),
    Renew(RenewLease),
    AskHead,
    Probe,
    Dequeue(Dequeue),
    HandOut(HandOut),
    Register(Register),
    Heartbeat(Heartbeat),
    AskWork(AskWork),
    Report(Report),
    /// Committed change sets, by their indexes: the database has them.
    Changes(RangeInclusive<u64>),
    Head(Head),
    Wake(WorkIndex),
}

/// What is answered.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// By the applier.
    Verdict(Verdict),
    Probed,
    Dequeued(Vec<Delivery>),
    HandOut(bool),
    Node(Result<NodeAnswer, Refusal>),
    Work(Result<Work, Refusal>),
    Reported(Result<(), Refusal>),
    /// Nobody listens.
    NoResponders,
    TimedOut,
}

/// A request, and who waits for the answer to it; nobody for an announcement.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) from: Option<Address>,
    pub(crate) body: Body,
}

/// Where an answer goes: one call of one life of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) pid: Pid,
    pub(crate) life: u32,
    pub(crate) call: u64,
}

/// What the database is asked to do.
#[derive(Debug, Clone)]
pub(crate) enum Statement {
    Take {
        process: ProcessId,
        force: bool,
    },
    Commit {
        epoch: Epoch,
        from: Index,
        rows: Vec<LogRow>,
    },
    FindOut {
        epoch: Epoch,
        from: Index,
        rows: Vec<LogRow>,
    },
    Renew(Epoch),
    Confirm(Epoch),
    /// The state at the head, and the ids of the requests that were committed.
    Load,
    /// How far the log is.
    Log,
    /// What the request that was committed at an index was told.
    AnswerAt(Index),
}

/// What the database answers.
#[derive(Debug, Clone)]
pub(crate) enum Row {
    Taken(Head),
    Held(ProcessId),
    Done,
    Deposed,
    NotCommitted,
    Loaded(Head, Arc<State>, Vec<(RequestId, Index, Timestamp)>),
    Head(Head),
    Answer(Option<Answer>),
    /// It did not do it.
    Failed,
    /// No answer came.
    Lost,
}

/// What happens to a process.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    Start,
    Timer(Timer),
    Asked(Asked),
    Reply(u64, Reply),
    Row(u64, Row),
}

/// What a process waits for; the number tells one from another of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// A look at whether there is something to do.
    Look,
    /// Something that is done again and again.
    Beat,
    /// A lease is asked for, or renewed.
    Lease,
    /// A command is sent again.
    Again(RequestId),
    /// A piece of work goes on.
    Task(u64),
    /// A piece of work's hand-out is renewed.
    Renew(u64),
}
