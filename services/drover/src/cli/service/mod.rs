//! `drover service …`: commands for services in the cluster's own service discovery (`docs/rules/cli.md` §13).

mod delete;
mod info;
mod list;

use super::WithApi;
use crate::command::commands;

/// What is printed if there are no registrations.
const NOTHING: &str = "No service registrations found";

commands! {
    /// Lists services and their instances.
    Command {
        Delete(WithApi<delete::Args>),
        Info(WithApi<info::Args>),
        List(WithApi<list::Args>),
    }
}
