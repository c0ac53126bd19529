//! `drover scaling …`: commands for scaling policies.

mod policy;

use crate::command::commands;

commands! {
    /// Shows scaling policies.
    Command {
        #[command(subcommand)]
        Policy(policy::Command),
    }
}
