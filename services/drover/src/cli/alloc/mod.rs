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
use super::format;
use super::page::Page;
use super::prefix::{Kind, resolve_id};

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
            table(&mut page, allocs, format::now(), false);
            page
        },
    };
    resolve_id(client, &kind, prefix).await
}

/// A table of allocations, the newest first.
pub(super) fn table(page: &mut Page, allocs: &[AllocListStub], now: i64, verbose: bool) {
    if allocs.is_empty() {
        return page.line("No allocations placed");
    }
    let mut allocs: Vec<&AllocListStub> = allocs.iter().collect();
    allocs.sort_by_key(|alloc| (std::cmp::Reverse(alloc.create_index), alloc.id.clone()));
    let row = |alloc: &&AllocListStub| {
        [
            format::id(alloc.id.as_ref(), verbose),
            format::id(alloc.node_id.as_ref(), verbose),
            format::text(alloc.task_group.as_ref()),
            alloc.job_version.unwrap_or_default().to_string(),
            format::text(alloc.desired_status.as_ref()),
            format::text(alloc.client_status.as_ref()),
            format::ago(alloc.create_time.unwrap_or_default(), now, verbose),
            format::ago(alloc.modify_time.unwrap_or_default(), now, verbose),
        ]
    };
    if !verbose {
        let header = ["ID", "Node ID", "Task Group", "Version", "Desired", "Status", "Created", "Modified"];
        return page.table(&header, allocs.iter().map(row));
    }
    let rows = allocs.iter().map(|alloc| {
        let [id, node, group, version, desired, status, created, modified] = row(alloc);
        let eval = format::text(alloc.eval_id.as_ref());
        [
            id,
            eval,
            node,
            format::text(alloc.node_name.as_ref()),
            group,
            version,
            desired,
            status,
            created,
            modified,
        ]
    });
    let header = [
        "ID",
        "Eval ID",
        "Node ID",
        "Node Name",
        "Task Group",
        "Version",
        "Desired",
        "Status",
        "Created",
        "Modified",
    ];
    page.table(&header, rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_listed_newest_first() {
        let minute = 60_000_000_000;
        let alloc = |id: &str, index: u64, at: i64| AllocListStub {
            id: Some(format!("{id}-0000-4000-8000-000000000000")),
            eval_id: Some("e0000000".to_owned()),
            node_id: Some("40000000-0000".to_owned()),
            task_group: Some("web".to_owned()),
            job_version: Some(2),
            desired_status: Some("run".to_owned()),
            client_status: Some("running".to_owned()),
            create_index: Some(index),
            create_time: Some(at * minute),
            modify_time: Some(at * minute),
            ..AllocListStub::default()
        };
        let allocs = [alloc("a1b2c3d4", 7, 10), alloc("b1b2c3d4", 9, 70)];
        let mut page = Page::default();
        table(&mut page, &allocs, 71 * minute, false);
        table(&mut page, &allocs[..1], 71 * minute, true);
        table(&mut page, &[], 0, false);
        insta::assert_snapshot!(page, @r"
        ID        Node ID   Task Group  Version  Desired  Status   Created   Modified
        b1b2c3d4  40000000  web         2        run      running  1m ago    1m ago
        a1b2c3d4  40000000  web         2        run      running  1h1m ago  1h1m ago
        ID                                    Eval ID   Node ID        Node Name  Task Group  Version  Desired  Status   Created               Modified
        a1b2c3d4-0000-4000-8000-000000000000  e0000000  40000000-0000  <none>     web         2        run      running  1970-01-01T00:10:00Z  1970-01-01T00:10:00Z
        No allocations placed
        ");
    }
}
