//! `drover eval …`: commands for evaluations.

mod delete;
mod list;
pub(crate) mod status;

use super::WithApi;
use crate::command::commands;

commands! {
    /// Shows and deletes evaluations.
    Command {
        Delete(WithApi<delete::Args>),
        List(WithApi<list::Args>),
        Status(WithApi<status::Args>),
    }
}
