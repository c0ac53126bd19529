//! `drover volume …`: commands for host volumes (`docs/rules/cli.md` §13). Those of CSI volumes are refused.

mod claim;
mod create;
mod delete;
mod init;
mod register;
mod specification;
mod status;

use anyhow::bail;
use api_types::HostVolume;
use model::features::Feature;

use super::client::Client;
use super::page::Page;
use super::{WithApi, format};
use crate::command::commands;

const LIST: &str = "/v1/volumes";
/// The types of volumes.
const HOST: &str = "host";
const CSI: &str = "csi";

commands! {
    /// Shows, creates and deletes volumes.
    Command {
        #[command(subcommand)]
        Claim(claim::Command),
        Create(WithApi<create::Args>),
        Delete(WithApi<delete::Args>),
        Init(init::Args),
        Register(WithApi<register::Args>),
        Status(WithApi<status::Args>),
    }
}

/// Checks the type of a volume.
fn check_type(kind: &str) -> anyhow::Result<()> {
    match kind {
        HOST => Ok(()),
        CSI => bail!(Feature::CsiPlugins.refusal_of("volume type csi")),
        other => bail!("No such volume type \"{other}\""),
    }
}

/// The text if no volume has an id.
fn not_found(prefix: &str) -> String {
    format!("no volumes with prefix or ID \"{prefix}\" found")
}

/// The host volumes whose ids begin with a prefix; all if it is empty.
async fn list(client: &Client, prefix: &str, node: &str, pool: &str) -> anyhow::Result<Vec<HostVolume>> {
    let query = [("type", HOST), ("prefix", prefix), ("node_id", node), ("node_pool", pool)];
    Ok(client.get(LIST, &query).await?)
}

/// The id of the only host volume with this prefix.
fn choose(found: &[HostVolume], prefix: &str, verbose: bool) -> anyhow::Result<String> {
    let whole = found.iter().find(|volume| volume.id.as_deref() == Some(prefix));
    match (whole, found) {
        (Some(volume), _) | (None, [volume]) => Ok(format::text(volume.id.as_ref())),
        (None, []) => bail!("{}", not_found(prefix)),
        (None, several) => {
            let mut page = Page::default();
            table(&mut page, several, verbose);
            bail!("Prefix matched multiple volumes\n\n{}", page.to_string().trim_end())
        }
    }
}

fn table(page: &mut Page, volumes: &[HostVolume], verbose: bool) {
    let rows = volumes.iter().map(|volume| {
        [
            format::id(volume.id.as_ref(), verbose),
            format::text(volume.name.as_ref()),
            format::text(volume.namespace.as_ref()),
            format::text(volume.plugin_id.as_ref()),
            format::id(volume.node_id.as_ref(), verbose),
            format::text(volume.node_pool.as_ref()),
            format::text(volume.state.as_ref()),
        ]
    });
    page.table(&["ID", "Name", "Namespace", "Plugin ID", "Node ID", "Node Pool", "State"], rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(id: &str) -> HostVolume {
        HostVolume { id: Some(id.to_owned()), ..HostVolume::default() }
    }

    #[test]
    fn volumes_are_found_by_prefixes_of_their_ids() {
        // cli.md 1.4, §13
        let found = |ids: &[&str], prefix: &str| {
            let volumes: Vec<HostVolume> = ids.iter().map(|id| volume(id)).collect();
            choose(&volumes, prefix, false).map_err(|error| error.to_string())
        };
        assert_eq!(found(&["abc", "abcd"], "abc"), Ok("abc".to_owned()));
        assert_eq!(found(&["abcd"], "ab"), Ok("abcd".to_owned()));
        assert_eq!(found(&[], "x"), Err("no volumes with prefix or ID \"x\" found".to_owned()));
        let several = found(&["abc", "abd"], "ab").unwrap_err();
        assert!(several.starts_with("Prefix matched multiple volumes\n\nID"), "{several}");
    }

    #[test]
    fn types_are_checked() {
        assert!(check_type("host").is_ok());
        assert_eq!(check_type("zz").unwrap_err().to_string(), "No such volume type \"zz\"");
        assert_eq!(check_type("csi").unwrap_err().to_string(), "volume type csi is not built yet");
    }
}
