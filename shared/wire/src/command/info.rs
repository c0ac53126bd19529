//! [`CommandInfo`]: the properties of a command that the applier needs before it judges the command.

use model::change::Cause;

use crate::role::Role;

/// The properties of a command that the applier needs before it judges the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandInfo {
    /// The role of the service that sends the command. No other may send it.
    pub sender: Role,
    /// The command's place in the applier's queue.
    pub class: Class,
    /// The cause of its change set, which names events.
    pub cause: Cause,
    /// Whether the cost of judging it is not bounded by its size, because it may affect any number of objects.
    pub is_expensive: bool,
    /// Whether its sender may be told to retry while the log is full. Commands about nodes and leases may not be deferred:
    /// they are small, and rejecting them would make the overload worse.
    pub is_deferrable: bool,
}

/// Commands that share an order, and a share of each batch (`docs/architecture/commit-path.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Commands of the node-tracker, and others about nodes.
    Nodes,
    /// Plans; those of higher priority come first.
    Plans {
        /// The evaluation's priority.
        priority: u16,
    },
    /// All other commands.
    Rest,
}

/// The body of one kind of command.
pub(crate) trait CommandBody {
    /// The properties that the applier needs before it judges the command.
    fn info(&self) -> CommandInfo;
}
