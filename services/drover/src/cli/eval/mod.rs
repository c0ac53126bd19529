//! `drover eval …`: commands for evaluations.

pub(crate) mod list;
pub(crate) mod status;

/// Shows evaluations.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Lists all evaluations
    List(list::Args),
    /// Shows an evaluation, and why allocations could not be placed
    Status(status::Args),
}
