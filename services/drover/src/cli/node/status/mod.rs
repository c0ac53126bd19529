//! `drover node status`: shows nodes, or one node with its allocations.

mod one;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use api_types::{AllocListStub, Allocation, Node, NodeListStub};
use serde_json::Value;

use super::resolve;
use crate::cli::page::Page;
use crate::cli::paging::{self, Paging};
use crate::cli::{ApiCommand, Session, flags, format, tables};

/// Shows nodes, or one node with its allocations.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:\n  \
    drover node status\n  \
    drover node status -stats 1a2b3c4d\n  \
    drover node status -self")]
pub(crate) struct Args {
    #[command(flatten)]
    show: flags::Show,
    /// The id of a node, or a prefix of it. Without it, all nodes are listed.
    #[arg(conflicts_with_all = ["quiet", "allocs", "os", "per_page", "page_token", "filter"])]
    node: Option<String>,
    /// In the list: print only ids.
    #[arg(long, conflicts_with_all = ["json", "template", "verbose", "allocs", "os"])]
    quiet: bool,
    /// Show the node of the agent that answers.
    #[arg(
        long = "self",
        conflicts_with_all = ["node", "quiet", "allocs", "os", "per_page", "page_token", "filter"]
    )]
    this_node: bool,
    /// Of one node: leave out events and resources.
    #[arg(long, conflicts_with_all = ["json", "template"])]
    short: bool,
    /// Of one node: also show how much of each processor, of its memory and of each disk is in use.
    #[arg(long, conflicts_with_all = ["json", "template", "short"])]
    stats: bool,
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
        let (quiet, allocs, os, this_node, stats) = (false, false, false, false, false);
        Self { show, node, quiet, this_node, short, stats, allocs, os, paging: Paging::default() }
    }
}

impl Args {
    /// Refuses flags that have no effect on a list.
    fn check_list(&self) -> anyhow::Result<()> {
        let given = [("-short", self.short), ("-stats", self.stats)];
        for (flag, is_set) in given {
            ensure!(!is_set, "{flag} can only be used with <NODE> or -self");
        }
        Ok(())
    }
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        match &self.node {
            None if self.this_node => show_one(&session, &self, &own_node(&session).await?).await?,
            None => {
                self.check_list()?;
                list(&session, &self).await?;
            }
            Some(prefix) => {
                let id = resolve(&session.client, prefix, self.show.verbose).await?;
                show_one(&session, &self, &id).await?;
            }
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

/// The id of the node of the agent that answers.
async fn own_node(session: &Session) -> anyhow::Result<String> {
    let agent: Value = session.client.get("/v1/agent/self", &[]).await?;
    let id = agent["stats"]["client"]["node_id"].as_str().filter(|id| !id.is_empty());
    id.map(str::to_owned)
        .context("the process that answers has no agent, or its agent did not answer; name a node")
}

async fn show_one(session: &Session, args: &Args, id: &str) -> anyhow::Result<()> {
    let path = format!("/v1/node/{id}");
    if args.show.object.is_requested() {
        let node: Value = session.client.get(&path, &[]).await?;
        args.show.object.print(session.output, &node)?;
        return Ok(());
    }
    let node: Node = session.client.get(&path, &[]).await?;
    let allocs: Vec<Allocation> = session.client.get(&format!("{path}/allocations"), &[]).await?;
    let allocs: Vec<AllocListStub> = allocs.into_iter().map(one::stub).collect();
    let mut page = Page::default();
    let verbose = args.show.verbose;
    if args.short {
        one::head(&mut page, &node, None, (false, verbose));
    } else {
        let is_ready = node.status.as_deref() == Some("ready");
        let host = if is_ready { session.host_use(id).await } else { None };
        one::head(&mut page, &node, host.as_ref(), (true, verbose));
        if verbose {
            one::host_volumes(&mut page, &node);
            one::drivers(&mut page, &node);
        }
        one::events(&mut page, &node, verbose);
        one::reserved(&mut page, &node, &allocs);
        if let Some(host) = &host {
            let running = allocs.iter().filter(|alloc| alloc.client_status.as_deref() == Some("running"));
            let running: Vec<String> = running.filter_map(|alloc| alloc.id.clone()).collect();
            if let Some(used) = session.allocs_use(&running).await {
                one::used_by_allocs(&mut page, &node, used);
            }
            one::used_by_host(&mut page, &node, host);
        }
        if let Some(host) = host.as_ref().filter(|_| args.stats) {
            one::statistics(&mut page, host);
        }
        ensure!(
            !args.stats || host.is_some(),
            "the agent of node {id} does not answer, so there are no statistics"
        );
    }
    page.title("Allocations");
    tables::allocs(&mut page, &allocs, format::now(), verbose);
    if verbose && !args.short {
        one::attributes(&mut page, &node);
    }
    session.output.page(&page);
    Ok(())
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
