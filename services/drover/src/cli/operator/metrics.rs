//! `drover operator metrics`: what the server that answers has counted.

use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::cli::client::indented;
use crate::cli::{Session, flags};

const METRICS: &str = "/v1/metrics";

/// Prints what the server that answers has counted.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    /// In this format rather than as JSON.
    #[arg(long, value_name = "FORMAT", value_parser = ["prometheus"], conflicts_with_all = ["pretty", "json"])]
    format: Option<String>,
    /// JSON over several lines.
    #[arg(long)]
    pretty: bool,
    /// Print the API's object.
    #[arg(long)]
    json: bool,
    /// Format with a Go template; not built yet, use -json.
    #[arg(short, value_name = "TEMPLATE", conflicts_with = "json")]
    template: Option<String>,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    ensure!(args.template.is_none(), "not built yet: -t; use -json and a tool such as jq");
    if let Some(format) = &args.format {
        let mut pieces = session.client.stream(METRICS, &[("format", format.as_str())]).await?;
        while let Some(piece) = pieces.chunk().await.context("the metrics break off")? {
            session.output.raw(&piece);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let metrics: Value = session.client.get(METRICS, &[]).await?;
    let is_indented = args.pretty || args.json;
    session.output.line(&if is_indented { indented(&metrics) } else { metrics.to_string() });
    Ok(ExitCode::SUCCESS)
}
