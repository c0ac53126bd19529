//! `drover alloc …`: commands for allocations.

mod frames;
pub(crate) mod fs;
pub(crate) mod logs;
pub(crate) mod restart;
mod selection;
pub(crate) mod signal;
pub(crate) mod status;
pub(crate) mod stop;
mod tail;

use api_types::AllocListStub;

use super::client::Client;
use super::page::Page;
use super::prefix::{Kind, resolve_id};
use super::{format, tables};

/// Shows allocations, their logs and their files, and stops or restarts them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Shows an allocation with its tasks and their events
    Status(status::Args),
    /// Shows an allocation's files
    Fs(fs::Args),
    /// Prints the output of a task
    Logs(logs::Args),
    /// Stops an allocation; a new one replaces it
    Stop(stop::Args),
    /// Restarts running tasks of an allocation
    Restart(restart::Args),
    /// Sends a signal to running tasks of an allocation
    Signal(signal::Args),
}

/// Finds the id of the allocation with this prefix.
async fn resolve(client: &Client, prefix: &str) -> anyhow::Result<String> {
    let kind = Kind {
        list: "/v1/allocations",
        plural: "allocations",
        not_found: "No allocation(s) with prefix or id \"{}\" found",
        id: |alloc: &AllocListStub| alloc.id.as_ref(),
        table: |allocs| {
            let mut page = Page::default();
            tables::allocs(&mut page, allocs, format::now(), false);
            page
        },
    };
    resolve_id(client, &kind, prefix).await
}
