//! `drover namespace inspect`: prints a namespace as the API shows it.

use std::process::ExitCode;

use serde_json::Value;

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::object::{format_with_template, indented};
use crate::cli::{ApiCommand, Session};

/// Prints a namespace as JSON.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The name of a namespace, or a prefix of it.
    #[arg(value_name = "NAMESPACE")]
    name: String,
    /// Print it formatted with this Go template.
    #[arg(short, value_name = "TEMPLATE")]
    template: Option<String>,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let name = resolve(&session.client, &self.name).await?;
        let found: Value = session.client.get(&format!("/v1/namespace/{}", escaped(&name)), &[]).await?;
        session.output.line(&match &self.template {
            Some(template) => format_with_template(template, &found)?,
            None => indented(&found),
        });
        Ok(ExitCode::SUCCESS)
    }
}
