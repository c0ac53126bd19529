//! `drover eval …`: commands for evaluations.

mod list;
pub(crate) mod status;

use super::WithApi;
use crate::command::commands;

commands! {
    /// Shows evaluations.
    Command {
        List(WithApi<list::Args>),
        Status(WithApi<status::Args>),
    }
}
