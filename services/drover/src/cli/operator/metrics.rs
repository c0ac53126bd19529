//! `drover operator metrics`: prints the metrics of the cluster.

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::Value;

use crate::cli::object::Object;
use crate::cli::{ApiCommand, Session};

const METRICS: &str = "/v1/metrics";

/// Prints the metrics of the cluster.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Print the metrics in this format instead of JSON.
    #[arg(long, value_name = "FORMAT", value_parser = ["prometheus"], conflicts_with_all = ["pretty", "json", "template"])]
    format: Option<String>,
    /// Print indented JSON.
    #[arg(long, conflicts_with = "template")]
    pretty: bool,
    #[command(flatten)]
    object: Object,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        if let Some(format) = &self.format {
            let mut pieces = session.client.stream(METRICS, &[("format", format.as_str())]).await?;
            while let Some(piece) =
                pieces.chunk().await.context("the connection was lost before the end of the metrics")?
            {
                session.output.raw(&piece);
            }
            return Ok(ExitCode::SUCCESS);
        }
        let metrics: Value = session.client.get(METRICS, &[]).await?;
        match self.pretty || self.object.is_requested() {
            true => self.object.print(session.output, &metrics)?,
            false => session.output.line(&metrics.to_string()),
        }
        Ok(ExitCode::SUCCESS)
    }
}
