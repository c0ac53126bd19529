//! `drover alloc …`: commands for allocations.

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

use api_types::AllocListStub;

use super::client::Client;
use super::page::Page;
use super::prefix::{Kind, resolve_id};
use super::{WithApi, format, tables};
use crate::command::commands;

commands! {
    /// Shows allocations, their logs and their files, and stops, restarts or removes them.
    Command {
        Status(WithApi<status::Args>),
        Fs(WithApi<fs::Args>),
        Logs(WithApi<logs::Args>),
        Stop(WithApi<stop::Args>),
        Restart(WithApi<restart::Args>),
        Signal(WithApi<signal::Args>),
        Gc(WithApi<gc::Args>),
    }
}

/// Finds the id of the allocation with this prefix. With `verbose`, an error about several matches shows their whole ids.
async fn resolve(client: &Client, prefix: &str, verbose: bool) -> anyhow::Result<String> {
    let kind = Kind {
        list: "/v1/allocations",
        plural: "allocations",
        not_found: "No allocation(s) with prefix or id \"{}\" found",
        id: |alloc: &AllocListStub| alloc.id.as_ref(),
        table: |allocs, verbose| {
            let mut page = Page::default();
            tables::allocs(&mut page, allocs, format::now(), verbose);
            page
        },
    };
    resolve_id(client, &kind, prefix, verbose).await
}
