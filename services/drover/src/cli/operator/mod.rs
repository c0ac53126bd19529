//! The commands of `drover operator …` that use the API.

mod api;
mod keyring;
mod metrics;
mod scheduler;

use super::WithApi;
use crate::command::commands;

commands! {
    /// The commands for operators that use the API.
    Command {
        Api(WithApi<api::Args>),
        Metrics(WithApi<metrics::Args>),
        #[command(subcommand)]
        Root(keyring::Root),
        #[command(subcommand)]
        Scheduler(scheduler::Command),
    }
}
