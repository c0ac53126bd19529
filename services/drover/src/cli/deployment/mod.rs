//! `drover deployment …`: commands for deployments.

pub(crate) mod list;
pub(crate) mod rollout;
pub(crate) mod status;

use std::process::ExitCode;

use api_types::Deployment;
use serde_json::Value;

use super::client::Client;
use super::page::Page;
use super::prefix::{Kind, resolve_id};
use super::{Session, flags, format};

/// Shows deployments, and fails them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Fails a deployment, so that it places no more allocations
    Fail(Fail),
    /// Lists all deployments
    List(list::Args),
    /// Shows a deployment, or follows it to its end
    Status(status::Args),
}

/// Fails a deployment, so that it places no more allocations.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Fail {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    /// A deployment id or a prefix of one.
    deployment: String,
    /// Return once the deployment is marked as failed, with exit code 0.
    #[arg(long)]
    detach: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
}

pub(crate) async fn fail(session: Session, args: Fail) -> anyhow::Result<ExitCode> {
    let id = resolve(&session.client, &args.deployment).await?;
    let _: Value = session.client.put(&format!("/v1/deployment/fail/{id}"), &Value::Null).await?;
    session.output.line(&format!("Deployment \"{}\" failed", format::id(Some(&id), args.verbose)));
    if args.detach {
        return Ok(ExitCode::SUCCESS);
    }
    session.follow_deployment(&id, args.verbose).await
}

/// Finds the id of the deployment with this prefix.
async fn resolve(client: &Client, prefix: &str) -> anyhow::Result<String> {
    let kind = Kind {
        list: "/v1/deployments",
        plural: "deployments",
        not_found: "No deployment(s) with prefix or id \"{}\" found",
        id: |deployment: &Deployment| deployment.id.as_ref(),
        table: |deployments| {
            let mut page = Page::default();
            list::table(&mut page, deployments, false);
            page
        },
    };
    resolve_id(client, &kind, prefix).await
}
