//! `drover operator metrics`: prints the metrics of the cluster.

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::Value;

use crate::cli::object::Object;
use crate::cli::{Session, flags};

const METRICS: &str = "/v1/metrics";

/// Prints the metrics of the cluster.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    /// Print this format instead of JSON.
    #[arg(long, value_name = "FORMAT", value_parser = ["prometheus"], conflicts_with_all = ["pretty", "json", "template"])]
    format: Option<String>,
    /// Indent the JSON.
    #[arg(long)]
    pretty: bool,
    #[command(flatten)]
    object: Object,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    if let Some(format) = &args.format {
        let mut pieces = session.client.stream(METRICS, &[("format", format.as_str())]).await?;
        while let Some(piece) =
            pieces.chunk().await.context("the connection was lost before the end of the metrics")?
        {
            session.output.raw(&piece);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let metrics: Value = session.client.get(METRICS, &[]).await?;
    match args.pretty || args.object.is_requested() {
        true => args.object.print(session.output, &metrics)?,
        false => session.output.line(&metrics.to_string()),
    }
    Ok(ExitCode::SUCCESS)
}
