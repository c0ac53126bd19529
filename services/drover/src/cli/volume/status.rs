//! `drover volume status`: lists volumes, or shows one.

use std::process::ExitCode;

use anyhow::Context as _;
use api_types::HostVolume;
use serde_json::Value;

use super::{CSI, HOST, LIST, choose, list, not_found, table};
use crate::cli::object::Object;
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, format, tables};

/// Lists volumes, or shows one.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    object: Object,
    /// The id of a volume, or a prefix of it.
    volume: Option<String>,
    /// Show only volumes of this type: `host` or `csi`.
    #[arg(long, value_name = "TYPE")]
    r#type: Option<String>,
    /// Show only volumes on the node with this id.
    #[arg(long, value_name = "NODE", default_value = "")]
    node: String,
    /// Show only volumes on nodes of this pool.
    #[arg(long, value_name = "POOL", default_value = "")]
    node_pool: String,
    /// Of one volume: leave out its capabilities and allocations.
    #[arg(long, requires = "volume", conflicts_with_all = ["json", "template"])]
    short: bool,
    /// Show whole ids.
    #[arg(long)]
    verbose: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        if let Some(kind) = self.r#type.as_deref().filter(|kind| ![HOST, CSI].contains(kind)) {
            anyhow::bail!("No such volume type \"{kind}\"");
        }
        match &self.volume {
            None => list_all(&self, &session).await,
            Some(prefix) => show(&self, prefix, &session).await,
        }
    }
}

/// Lists the volumes of the wanted types. A type without volumes has its title on standard output, and the text on standard
/// error.
async fn list_all(args: &Args, session: &Session) -> anyhow::Result<ExitCode> {
    let wants = |kind: &str| args.r#type.as_deref().is_none_or(|wanted| wanted == kind);
    if args.object.is_requested() {
        let kind = args.r#type.as_deref().unwrap_or(HOST);
        let query = [("type", kind), ("node_id", &*args.node), ("node_pool", &*args.node_pool)];
        let volumes: Value = session.client.get(LIST, &query).await?;
        args.object.print(session.output, &volumes)?;
        return Ok(ExitCode::SUCCESS);
    }
    if wants(HOST) {
        let listed = list(&session.client, "", &args.node, &args.node_pool).await;
        let volumes = listed.context("Error listing host volumes")?;
        let mut page = Page::default();
        page.title("Dynamic Host Volumes");
        if !volumes.is_empty() {
            table(&mut page, &volumes, args.verbose);
        }
        session.output.page(&page);
        if volumes.is_empty() {
            session.output.error("No dynamic host volumes");
        }
    }
    if wants(CSI) {
        let mut page = Page::default();
        if wants(HOST) {
            page.line("");
        }
        page.bold("Container Storage Interface");
        session.output.page(&page);
        session.output.error("No CSI volumes");
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(args: &Args, prefix: &str, session: &Session) -> anyhow::Result<ExitCode> {
    let no_csi = || anyhow::anyhow!("Error listing CSI volumes: {}", not_found(prefix));
    if args.r#type.as_deref() == Some(CSI) {
        return Err(no_csi());
    }
    let found = list(&session.client, prefix, &args.node, &args.node_pool).await;
    let found = found.context("Error listing host volumes")?;
    if found.is_empty() && args.r#type.is_none() {
        session.output.error(&format!("Error listing host volumes: {}", not_found(prefix)));
        return Err(no_csi());
    }
    let id = choose(&found, prefix, args.verbose).context("Error listing host volumes")?;
    let path = format!("/v1/volume/host/{id}");
    if args.object.is_requested() {
        let volume: Value = session.client.get(&path, &[]).await.context("Error querying volume")?;
        args.object.print(session.output, &volume)?;
        return Ok(ExitCode::SUCCESS);
    }
    let volume: HostVolume = session.client.get(&path, &[]).await.context("Error querying volume")?;
    session.output.page(&page(&volume, args, format::now()));
    Ok(ExitCode::SUCCESS)
}

fn page(volume: &HostVolume, args: &Args, now: i64) -> Page {
    let mut page = Page::default();
    let capacity = volume.capacity_bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
    page.block(&[
        ("ID", format::text(volume.id.as_ref())),
        ("Name", format::text(volume.name.as_ref())),
        ("Namespace", format::text(volume.namespace.as_ref())),
        ("Plugin ID", format::text(volume.plugin_id.as_ref())),
        ("Node ID", format::text(volume.node_id.as_ref())),
        ("Node Pool", format::text(volume.node_pool.as_ref())),
        ("Capacity", format::bytes(capacity)),
        ("State", format::text(volume.state.as_ref())),
        ("Host Path", format::text(volume.host_path.as_ref())),
    ]);
    if args.short {
        return page;
    }
    page.title("Capabilities");
    let rows = volume.requested_capabilities.iter().flatten().map(|capability| {
        [format::text(capability.access_mode.as_ref()), format::text(capability.attachment_mode.as_ref())]
    });
    page.table(&["Access Mode", "Attachment Mode"], rows);
    page.title("Allocations");
    tables::allocs(&mut page, volume.allocations.as_deref().unwrap_or_default(), now, args.verbose);
    page
}

#[cfg(test)]
mod tests {
    use api_types::HostVolumeCapability;
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_volume_is_shown_with_its_capabilities_and_allocations() {
        // cli.md §13
        let capability = HostVolumeCapability {
            attachment_mode: Some("file-system".to_owned()),
            access_mode: Some("single-node-writer".to_owned()),
        };
        let volume = HostVolume {
            name: Some("data".to_owned()),
            capacity_bytes: Some(2 << 30),
            state: Some("ready".to_owned()),
            requested_capabilities: Some(vec![capability]),
            ..HostVolume::default()
        };
        let shown = |words: &[&str]| {
            let args = Line::parse_from(["status"].into_iter().chain(words.iter().copied())).args;
            page(&volume, &args, 0).to_string()
        };
        let text = shown(&[]);
        for part in [
            "Name      = data\n",
            "Capacity  = 2 GiB\n",
            "Access Mode",
            "single-node-writer",
            "No allocations placed",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert!(!shown(&["--short", "x"]).contains("Capabilities"));
    }
}
