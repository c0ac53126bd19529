//! `drover node status`: shows nodes, or one node with its allocations.

use std::collections::BTreeMap;
use std::process::ExitCode;

use api_types::{AllocListStub, Node, NodeListStub};
use serde_json::Value;

use super::resolve;
use crate::cli::page::Page;
use crate::cli::paging::{self, Paging};
use crate::cli::{ApiCommand, Session, flags, format, tables};

/// Shows nodes, or one node with its allocations.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    show: flags::Show,
    /// The id of a node, or a prefix of it. Without it, all nodes are listed.
    #[arg(conflicts_with_all = ["quiet", "allocs", "os", "per_page", "page_token", "filter"])]
    node: Option<String>,
    /// In the list: print only ids.
    #[arg(long, conflicts_with_all = ["json", "template", "verbose", "allocs", "os"])]
    quiet: bool,
    /// Of one node: leave out events, resources and allocations.
    #[arg(long, requires = "node", conflicts_with_all = ["json", "template"])]
    short: bool,
    /// In the list: add a column with the number of running allocations.
    #[arg(long, conflicts_with_all = ["json", "template"])]
    allocs: bool,
    /// In the list: add a column with the operating system.
    #[arg(long)]
    os: bool,
    #[command(flatten)]
    paging: Paging,
}

impl Args {
    /// Arguments that show one node.
    pub(in crate::cli) fn one(show: flags::Show, node: Option<String>, short: bool) -> Self {
        let (quiet, allocs, os) = (false, false, false);
        Self { show, node, quiet, short, allocs, os, paging: Paging::default() }
    }
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        match &self.node {
            None => list(&session, &self).await?,
            Some(prefix) => one(&session, &self, prefix).await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn list(session: &Session, args: &Args) -> anyhow::Result<()> {
    let paging = args.paging.query();
    let mut query = vec![("os", if args.os { "true" } else { "false" })];
    query.extend(paging.iter().map(|(name, value)| (*name, value.as_str())));
    if args.show.object.is_requested() {
        let (nodes, next): (Value, _) = session.client.get_page("/v1/nodes", &query).await?;
        args.show.object.print(session.output, &nodes)?;
        paging::report_next(session.output, next.as_deref());
        return Ok(());
    }
    let (nodes, next): (Vec<NodeListStub>, _) = session.client.get_page("/v1/nodes", &query).await?;
    let verbose = args.show.verbose;
    let mut page = Page::default();
    if args.quiet {
        nodes.iter().for_each(|node| page.line(format::text(node.id.as_ref())));
    } else if nodes.is_empty() {
        page.line("No nodes registered");
    } else {
        let mut extras = Extras { running: None, os: args.os };
        if args.allocs {
            let query = [("namespace", "*")];
            let allocs: Vec<AllocListStub> = session.client.get("/v1/allocations", &query).await?;
            extras.running = Some(running(&allocs));
        }
        table(&mut page, &nodes, &extras, verbose);
    }
    if let Some(token) = next.filter(|_| !args.quiet) {
        paging::print_next(&mut page, &token);
    }
    session.output.page(&page);
    Ok(())
}

/// Optional columns.
#[derive(Default)]
pub(super) struct Extras {
    /// The number of running allocations, by node.
    running: Option<BTreeMap<String, usize>>,
    os: bool,
}

fn running(allocs: &[AllocListStub]) -> BTreeMap<String, usize> {
    let mut running = BTreeMap::new();
    for alloc in allocs.iter().filter(|alloc| alloc.client_status.as_deref() == Some("running")) {
        *running.entry(format::text(alloc.node_id.as_ref())).or_default() += 1;
    }
    running
}

pub(super) fn table(page: &mut Page, nodes: &[NodeListStub], extras: &Extras, verbose: bool) {
    let mut header = vec!["ID", "Node Pool", "DC", "Name", "Class"];
    header.extend(extras.os.then_some("OS"));
    header.extend(verbose.then_some(["Address", "Version"]).into_iter().flatten());
    header.extend(["Drain", "Eligibility", "Status"]);
    header.extend(extras.running.is_some().then_some("Running Allocs"));
    let row = |node: &NodeListStub| {
        let mut row = vec![
            format::id(node.id.as_ref(), verbose),
            format::text(node.node_pool.as_ref()),
            format::text(node.datacenter.as_ref()),
            format::text(node.name.as_ref()),
            format::text(node.node_class.as_ref()),
        ];
        if extras.os {
            row.push(format::text(node.attributes.as_ref().and_then(|attributes| attributes.get("os.name"))));
        }
        if verbose {
            row.extend([format::text(node.address.as_ref()), format::text(node.version.as_ref())]);
        }
        row.extend([
            node.drain.unwrap_or_default().to_string(),
            format::text(node.scheduling_eligibility.as_ref()),
            format::text(node.status.as_ref()),
        ]);
        if let Some(running) = &extras.running {
            row.push(node.id.as_ref().and_then(|id| running.get(id)).copied().unwrap_or(0).to_string());
        }
        row
    };
    page.table(&header, nodes.iter().map(row));
}

async fn one(session: &Session, args: &Args, prefix: &str) -> anyhow::Result<()> {
    let id = resolve(&session.client, prefix, args.show.verbose).await?;
    let path = format!("/v1/node/{id}");
    if args.show.object.is_requested() {
        let node: Value = session.client.get(&path, &[]).await?;
        args.show.object.print(session.output, &node)?;
        return Ok(());
    }
    let node: Node = session.client.get(&path, &[]).await?;
    let mut page = Page::default();
    head(&mut page, &node);
    if !args.short {
        let allocs: Vec<AllocListStub> = session.client.get(&format!("{path}/allocations"), &[]).await?;
        if args.show.verbose {
            drivers(&mut page, &node);
        }
        events(&mut page, &node);
        resources(&mut page, &node, &allocs);
        page.title("Allocations");
        tables::allocs(&mut page, &allocs, format::now(), args.show.verbose);
    }
    session.output.page(&page);
    Ok(())
}

fn head(page: &mut Page, node: &Node) {
    let healthy = node.drivers.iter().flatten();
    let healthy = healthy.filter(|(_, driver)| driver.healthy == Some(true)).map(|(name, _)| name.as_str());
    page.block(&[
        ("ID", format::text(node.id.as_ref())),
        ("Name", format::text(node.name.as_ref())),
        ("Node Pool", format::text(node.node_pool.as_ref())),
        ("Class", format::text(node.node_class.as_ref())),
        ("DC", format::text(node.datacenter.as_ref())),
        ("Drain", node.drain.unwrap_or_default().to_string()),
        ("Eligibility", format::text(node.scheduling_eligibility.as_ref())),
        ("Status", format::text(node.status.as_ref())),
        ("Drivers", healthy.collect::<Vec<_>>().join(",")),
    ]);
}

fn drivers(page: &mut Page, node: &Node) {
    page.title("Drivers");
    let rows = node.drivers.iter().flatten().map(|(name, driver)| {
        [
            name.clone(),
            driver.detected.unwrap_or_default().to_string(),
            driver.healthy.unwrap_or_default().to_string(),
            format::text(driver.health_description.as_ref()),
            format::time(driver.update_time),
        ]
    });
    page.table(&["Driver", "Detected", "Healthy", "Message", "Time"], rows);
}

fn events(page: &mut Page, node: &Node) {
    page.title("Node Events");
    let rows = node.events.iter().flatten().rev().map(|event| {
        [
            format::time(event.timestamp),
            format::text(event.subsystem.as_ref()),
            format::text(event.message.as_ref()),
        ]
    });
    page.table(&["Time", "Subsystem", "Message"], rows);
}

/// The resources of the node that non-terminal allocations use.
fn resources(page: &mut Page, node: &Node, allocs: &[AllocListStub]) {
    let ended = |alloc: &&AllocListStub| {
        !matches!(alloc.client_status.as_deref(), Some("complete" | "failed" | "lost"))
    };
    let live: Vec<_> =
        allocs.iter().filter(ended).filter_map(|alloc| alloc.allocated_resources.as_ref()).collect();
    let tasks = || live.iter().flat_map(|resources| resources.tasks.iter().flatten().map(|(_, task)| task));
    let cpu: i64 = tasks().filter_map(|task| task.cpu.as_ref()?.cpu_shares).sum();
    let memory: i64 = tasks().filter_map(|task| task.memory.as_ref()?.memory_mb).sum();
    let disk: i64 = live.iter().filter_map(|resources| resources.shared.as_ref()?.disk_mb).sum();
    let has = node.node_resources.as_ref();
    let cpu_max = has.and_then(|has| has.cpu.as_ref()?.cpu_shares).unwrap_or_default();
    let memory_max = has.and_then(|has| has.memory.as_ref()?.memory_mb).unwrap_or_default();
    let disk_max = has.and_then(|has| has.disk.as_ref()?.disk_mb).unwrap_or_default();
    page.title("Allocated Resources");
    let row = [
        format!("{cpu}/{cpu_max} MHz"),
        format!("{memory}/{memory_max} MiB"),
        format!("{disk}/{disk_max} MiB"),
        live.len().to_string(),
    ];
    page.table(&["CPU", "Memory", "Disk", "Alloc Count"], [row]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_listed_with_the_columns_that_were_asked_for() {
        let node = NodeListStub {
            id: Some("40000000-0000-4000-8000-000000000000".to_owned()),
            node_pool: Some("default".to_owned()),
            datacenter: Some("dc1".to_owned()),
            name: Some("one".to_owned()),
            address: Some("10.0.0.1".to_owned()),
            attributes: Some([("os.name".to_owned(), "debian".to_owned())].into()),
            scheduling_eligibility: Some("eligible".to_owned()),
            status: Some("ready".to_owned()),
            ..NodeListStub::default()
        };
        let alloc = |status: &str| AllocListStub {
            node_id: node.id.clone(),
            client_status: Some(status.to_owned()),
            ..AllocListStub::default()
        };
        let running = running(&[alloc("running"), alloc("complete"), alloc("running")]);
        let mut page = Page::default();
        let nodes = std::slice::from_ref(&node);
        table(&mut page, nodes, &Extras::default(), false);
        table(&mut page, nodes, &Extras { running: Some(running), os: true }, false);
        table(&mut page, nodes, &Extras::default(), true);
        insta::assert_snapshot!(page, @r"
        ID        Node Pool  DC   Name  Class   Drain  Eligibility  Status
        40000000  default    dc1  one   <none>  false  eligible     ready
        ID        Node Pool  DC   Name  Class   OS      Drain  Eligibility  Status  Running Allocs
        40000000  default    dc1  one   <none>  debian  false  eligible     ready   2
        ID                                    Node Pool  DC   Name  Class   Address   Version  Drain  Eligibility  Status
        40000000-0000-4000-8000-000000000000  default    dc1  one   <none>  10.0.0.1  <none>   false  eligible     ready
        ");
    }
}
