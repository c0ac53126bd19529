//! `drover agent-info`: statistics of the process that answers.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::Value;

use super::object::Object;
use super::page::Page;
use super::{ApiCommand, Session};

const SELF: &str = "/v1/agent/self";

/// Shows statistics of the server that answers the request.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    object: Object,
}

/// The part of the response that is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Agent {
    stats: BTreeMap<String, BTreeMap<String, String>>,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        if self.object.is_requested() {
            let agent: Value = session.client.get(SELF, &[]).await?;
            self.object.print(session.output, &agent)?;
            return Ok(ExitCode::SUCCESS);
        }
        let agent: Agent = session.client.get(SELF, &[]).await?;
        session.output.page(&sections(&agent));
        Ok(ExitCode::SUCCESS)
    }
}

/// Statistics in sections, sorted by name.
fn sections(agent: &Agent) -> Page {
    let mut page = Page::default();
    for (section, stats) in &agent.stats {
        page.bold(section);
        let width = stats.keys().map(|name| name.chars().count()).max().unwrap_or(0);
        stats.iter().for_each(|(name, value)| page.line(format!("  {name:width$} = {value}")));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_in_sections() {
        let agent: Agent = api_types::decode::from_slice(
            br#"{"config": {"Region": "global"}, "stats": {
                "serf": {"members": "1"}, "nomad": {"server": "true", "known_regions": "1"}}}"#,
        )
        .unwrap();
        insta::assert_snapshot!(sections(&agent), @r"
        nomad
          known_regions = 1
          server        = true
        serf
          members = 1
        ");
    }
}
