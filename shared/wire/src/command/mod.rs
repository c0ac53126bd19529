//! Commands: requests to the plan applier that change the cluster's state.
//!
//! A command states the intended change. The applier computes the consequences (evaluations, statuses, summaries,
//! counters) at the command's own index. A sender that gets no response sends the command again with the same request
//! id.
//!
//! The ids of evaluations that a command creates are [`EvalId::derived`](model::EvalId::derived) from its request id,
//! numbered from 0. So the sender knows them in advance, and a command that is executed twice creates the same ids.
//!
//! Commands are grouped in files by the objects that they are about. Everything about a command is in one file: its line
//! in the list at the head of the file, which becomes a variant of [`Command`]; its body; its [`CommandInfo`]; and its
//! samples for tests.

mod answer;
#[macro_use]
mod cluster;
#[macro_use]
mod deployments;
#[macro_use]
mod drains;
mod error;
#[macro_use]
mod evals;
#[macro_use]
mod garbage;
mod info;
#[macro_use]
mod jobs;
#[macro_use]
mod launches;
#[macro_use]
mod leases;
#[macro_use]
mod nodes;
#[macro_use]
mod services;
#[macro_use]
mod volumes;

use serde::{Deserialize, Serialize};

pub use answer::{Answer, Done, PlanResult, PlanVerdict, REJECTED_NODES_MAX};
pub use cluster::*;
pub use deployments::*;
pub use drains::*;
pub use error::CommandError;
pub use evals::*;
pub use garbage::*;
pub use info::{Class, CommandInfo};
pub use jobs::*;
pub use launches::*;
pub use leases::*;
pub use nodes::*;
pub use services::*;
pub use volumes::*;

use crate::Refusal;
use crate::envelope::kinds;
use info::CommandBody;

/// Carries out commands of one kind.
pub trait Handler<C> {
    /// Carries out a command.
    ///
    /// # Errors
    /// If the command is refused.
    fn handle(&mut self, command: C) -> Result<Done, Refusal>;
}

/// Defines [`Command`] with the commands of all groups: calls the macro of each group in turn, which adds its commands
/// to those before it and calls this macro again.
macro_rules! collect {
    ([$group:ident $($groups:ident)*] $($commands:tt)*) => {
        $group! { [$($groups)*] $($commands)* }
    };
    ([] $($commands:tt)*) => {
        define! { $($commands)* }
    };
}

/// Defines [`Command`] with a variant for each name. The type in parentheses is the body of that name, or a box that
/// holds it.
macro_rules! define {
    ($( $(#[$meta:meta])* $name:ident($body:ty), )+) => {
        /// A request to change the cluster's state. The response is [`Answer`].
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub enum Command {
            $( $(#[$meta])* $name($body), )+
        }

        impl Command {
            /// Name of the command's kind, for spans and logs.
            pub fn name(&self) -> &'static str {
                match self {
                    $( Self::$name(_) => stringify!($name), )+
                }
            }

            /// The properties that the applier needs before it judges the command.
            pub fn info(&self) -> CommandInfo {
                match self {
                    $( Self::$name(body) => body.info(), )+
                }
            }

            /// Passes the command to its handler.
            ///
            /// # Errors
            /// If the command is refused.
            pub fn handle_with<H>(self, handler: &mut H) -> Result<Done, Refusal>
            where
                $( H: Handler<$name>, )+
            {
                match self {
                    $( Self::$name(body) => {
                        Handler::<$name>::handle(handler, Unboxed::<$name>::unboxed(body))
                    } )+
                }
            }
        }

        #[cfg(any(test, feature = "samples"))]
        impl Command {
            /// Samples of every kind of command.
            pub(crate) fn samples() -> Vec<Self> {
                let mut samples = Vec::new();
                $( samples.extend($name::samples().into_iter().map(|body| Self::$name(body.into()))); )+
                samples
            }
        }
    };
}

collect! {
    [
        job_commands
        launch_commands
        eval_commands
        node_commands
        drain_commands
        service_commands
        volume_commands
        deployment_commands
        garbage_commands
        cluster_commands
        lease_commands
    ]
}

/// The body in a variant of [`Command`], which may be in a box.
trait Unboxed<C> {
    /// Takes the body out of its box.
    fn unboxed(self) -> C;
}

impl<C> Unboxed<C> for C {
    fn unboxed(self) -> C {
        self
    }
}

impl<C> Unboxed<C> for Box<C> {
    fn unboxed(self) -> C {
        *self
    }
}

/// Samples of one kind of command, with all fields set, and without the fields that messages may omit.
#[cfg(any(test, feature = "samples"))]
pub(crate) trait Sample: Sized {
    /// The samples; at least one.
    fn samples() -> Vec<Self>;
}

kinds! {
    Command => "command",
    RenewLease => "lease.renew",
    ForceGarbageCollection => "garbage.force",
    GarbageCollectionStarted => "garbage.begun",
    ProbeHolder => "lease.ask-holder",
    HolderAlive => "lease.holding",
    Answer => "command.answer",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_map_from_its_name_to_its_body() {
        const MAP_OF_ONE: u8 = 0x81;
        const SHORT_TEXT: u8 = 0xa0;
        for command in Command::samples() {
            let name = command.name();
            let length = u8::try_from(name.len()).expect("a name is short");
            let head = [&[MAP_OF_ONE, SHORT_TEXT + length][..], name.as_bytes()].concat();
            assert!(crate::encode(&command).starts_with(&head), "{name}");
        }
    }
}
