//! `drover alloc …`: commands for allocations.

pub(crate) mod checks;
pub(crate) mod exec;
mod frames;
pub(crate) mod fs;
pub(crate) mod gc;
pub(crate) mod logs;
pub(crate) mod restart;
mod selection;
pub(crate) mod signal;
pub(crate) mod status;
pub(crate) mod stop;
mod tail;

use super::WithApi;
use super::chosen::{choose_task, resolve};
use crate::command::commands;

commands! {
    /// Shows allocations, their checks, logs and files, runs commands in them, and stops, restarts or removes them.
    Command {
        Status(WithApi<status::Args>),
        Checks(WithApi<checks::Args>),
        Exec(WithApi<exec::Args>),
        Fs(WithApi<fs::Args>),
        Logs(WithApi<logs::Args>),
        Stop(WithApi<stop::Args>),
        Restart(WithApi<restart::Args>),
        Signal(WithApi<signal::Args>),
        Gc(WithApi<gc::Args>),
    }
}
