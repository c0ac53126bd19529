//! `drover server …`: shows the servers.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::Value;

use super::page::Page;
use super::{ApiCommand, Session, WithApi, flags, format};
use crate::command::commands;

commands! {
    /// Shows the servers.
    Command {
        Members(WithApi<Members>),
    }
}

/// Lists the servers.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Members {
    #[command(flatten)]
    show: flags::Show,
    /// Show all tags of the servers. The same as -verbose.
    #[arg(long)]
    detailed: bool,
}

/// The part of the response that is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Answer {
    members: Vec<Member>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Member {
    name: Option<String>,
    addr: Option<String>,
    port: Option<u16>,
    tags: BTreeMap<String, String>,
    status: Option<String>,
}

impl ApiCommand for Members {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        if self.show.object.is_requested() {
            let answer: Value = session.client.get("/v1/agent/members", &[]).await?;
            self.show.object.print(session.output, &answer["Members"])?;
            return Ok(ExitCode::SUCCESS);
        }
        let Answer { members } = session.client.get("/v1/agent/members", &[]).await?;
        let mut page = Page::default();
        if self.detailed || self.show.verbose {
            detailed(&mut page, &members);
        } else {
            let leader: String = session.client.get("/v1/status/leader", &[]).await?;
            table(&mut page, &members, &leader);
        }
        session.output.page(&page);
        Ok(ExitCode::SUCCESS)
    }
}

fn table(page: &mut Page, members: &[Member], leader: &str) {
    let rows = members.iter().map(|member| {
        let tag = |name: &str| format::text(member.tags.get(name));
        let is_leader = !leader.is_empty() && leader == address(&tag("rpc_addr"), &tag("port"));
        [
            format::text(member.name.as_ref()),
            format::text(member.addr.as_ref()),
            member.port.unwrap_or_default().to_string(),
            format::text(member.status.as_ref()),
            is_leader.to_string(),
            tag("raft_vsn"),
            tag("build"),
            tag("dc"),
            tag("region"),
        ]
    });
    let header =
        ["Name", "Address", "Port", "Status", "Leader", "Raft Version", "Build", "Datacenter", "Region"];
    page.table(&header, rows);
}

/// Host and port in the notation of the leader's address.
fn address(host: &str, port: &str) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn detailed(page: &mut Page, members: &[Member]) {
    let rows = members.iter().map(|member| {
        let tags: Vec<String> = member.tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
        [
            format::text(member.name.as_ref()),
            format::text(member.addr.as_ref()),
            member.port.unwrap_or_default().to_string(),
            tags.join(","),
        ]
    });
    page.table(&["Name", "Address", "Port", "Tags"], rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_listed_and_the_leader_is_told() {
        let member = |name: &str, host: &str| Member {
            name: Some(format!("{name}.global")),
            addr: Some(host.to_owned()),
            port: Some(4648),
            tags: [
                ("rpc_addr", host),
                ("port", "4647"),
                ("dc", "dc1"),
                ("region", "global"),
                ("build", "2.0.5"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
            status: Some("alive".to_owned()),
        };
        let members = [member("one", "10.0.0.1"), member("two", "fd00::2")];
        let mut page = Page::default();
        table(&mut page, &members, "[fd00::2]:4647");
        table(&mut page, &members[..1], "");
        detailed(&mut page, &members[..1]);
        insta::assert_snapshot!(page, @r"
        Name        Address   Port  Status  Leader  Raft Version  Build  Datacenter  Region
        one.global  10.0.0.1  4648  alive   false   <none>        2.0.5  dc1         global
        two.global  fd00::2   4648  alive   true    <none>        2.0.5  dc1         global
        Name        Address   Port  Status  Leader  Raft Version  Build  Datacenter  Region
        one.global  10.0.0.1  4648  alive   false   <none>        2.0.5  dc1         global
        Name        Address   Port  Tags
        one.global  10.0.0.1  4648  build=2.0.5,dc=dc1,port=4647,region=global,rpc_addr=10.0.0.1
        ");
    }
}
