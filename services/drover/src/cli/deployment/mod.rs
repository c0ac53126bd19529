//! `drover deployment …`.

pub(crate) mod list;
pub(crate) mod rollout;
pub(crate) mod status;

use std::process::ExitCode;

use api_types::Deployment;
use serde_json::Value;

use super::client::Client;
use super::page::Page;
use super::prefix::{Kind, whole_id};
use super::{Session, flags, format};

/// Deployments: look at them, give one up.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Gives a deployment up: nothing more of it is placed
    Fail(Fail),
    /// Shows all deployments
    List(list::Args),
    /// Shows a deployment, or follows it to its end
    Status(status::Args),
}

/// Gives a deployment up: nothing more of it is placed.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Fail {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    /// The deployment: its id, or the beginning of it.
    deployment: String,
    /// Return as soon as it is given up, with exit code 0.
    #[arg(long)]
    detach: bool,
    /// Whole ids.
    #[arg(long)]
    verbose: bool,
}

pub(crate) async fn fail(session: Session, args: Fail) -> anyhow::Result<ExitCode> {
    let id = named(&session.client, &args.deployment).await?;
    let _: Value = session.client.put(&format!("/v1/deployment/fail/{id}"), &Value::Null).await?;
    session.output.line(&format!("Deployment \"{}\" failed", format::id(Some(&id), args.verbose)));
    if args.detach {
        return Ok(ExitCode::SUCCESS);
    }
    session.follow_deployment(&id, args.verbose).await
}

/// The id of the deployment that begins so.
async fn named(client: &Client, beginning: &str) -> anyhow::Result<String> {
    let kind = Kind {
        list: "/v1/deployments",
        many: "deployments",
        none: "No deployment(s) with prefix or id \"{}\" found",
        id: |deployment: &Deployment| deployment.id.as_ref(),
        table: |deployments| {
            let mut page = Page::default();
            list::table(&mut page, deployments, false);
            page
        },
    };
    whole_id(client, &kind, beginning).await
}

/// How the groups of a deployment are getting on; columns for canaries only where there are some.
pub(crate) fn groups(page: &mut Page, deployment: &Deployment) {
    let groups: Vec<_> = deployment.task_groups.iter().flatten().collect();
    let has_canaries = groups.iter().any(|(_, group)| group.desired_canaries.unwrap_or_default() > 0);
    let mut header = vec!["Task Group"];
    header.extend(has_canaries.then_some("Promoted"));
    header.push("Desired");
    header.extend(has_canaries.then_some("Canaries"));
    header.extend(["Placed", "Healthy", "Unhealthy", "Progress Deadline"]);
    let rows = groups.iter().map(|(name, group)| {
        let mut row = vec![(*name).clone()];
        row.extend(has_canaries.then(|| group.promoted.unwrap_or_default().to_string()));
        row.push(format::number(group.desired_total));
        row.extend(has_canaries.then(|| format::number(group.desired_canaries)));
        row.extend([group.placed_allocs, group.healthy_allocs, group.unhealthy_allocs].map(format::number));
        row.push(format::time(group.require_progress_by));
        row
    });
    page.table(&header, rows);
}
