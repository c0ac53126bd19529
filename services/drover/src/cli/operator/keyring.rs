//! `drover operator root keyring …`: the cluster's signing keys.

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::Value;

use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, WithApi, flags, format};
use crate::command::commands;

const KEYS: &str = "/v1/operator/keyring/keys";

commands! {
    /// Shows the keys that the cluster signs with.
    Root {
        #[command(subcommand)]
        Keyring(Keyring),
    }
}

commands! {
    /// Shows the keys that the cluster signs with.
    Keyring {
        List(WithApi<Args>),
    }
}

/// Lists the keys that the cluster signs with.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    show: flags::Show,
}

/// A key.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Key {
    #[serde(rename = "KeyID")]
    key_id: String,
    state: String,
    create_time: i64,
    publish_time: i64,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        if self.show.object.is_requested() {
            let keys: Value = session.client.get(KEYS, &[]).await?;
            self.show.object.print(session.output, &keys)?;
            return Ok(ExitCode::SUCCESS);
        }
        let keys: Vec<Key> = session.client.get(KEYS, &[]).await?;
        session.output.page(&table(&keys, self.show.verbose));
        Ok(ExitCode::SUCCESS)
    }
}

fn table(keys: &[Key], verbose: bool) -> Page {
    let mut page = Page::default();
    let rows = keys.iter().map(|key| {
        [
            format::id(Some(&key.key_id), verbose),
            key.state.clone(),
            format::moment(key.create_time),
            format::moment(key.publish_time),
        ]
    });
    page.table(&["Key", "State", "Create Time", "Publish Time"], rows);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_in_a_table() {
        let key = Key {
            key_id: "0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b".to_owned(),
            state: "active".to_owned(),
            create_time: 1_800_000_000_000_000_000,
            publish_time: 0,
        };
        insta::assert_snapshot!(table(&[key], false), @r"
        Key       State   Create Time           Publish Time
        0b0b0b0b  active  2027-01-15T08:00:00Z  <none>
        ");
    }
}
