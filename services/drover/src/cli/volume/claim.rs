//! `drover volume claim …`: lists and deletes the claims of task groups on sticky volumes.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use api_types::TaskGroupHostVolumeClaim;
use serde_json::Value;

use crate::cli::object::Object;
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, WithApi, confirm, format};
use crate::command::commands;

const LIST: &str = "/v1/volumes/claims";

commands! {
    /// Shows and deletes claims on sticky volumes.
    Command {
        Delete(WithApi<Delete>),
        List(WithApi<List>),
    }
}

/// Lists the claims of task groups on sticky volumes.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct List {
    #[command(flatten)]
    object: Object,
    /// Show only claims of the job with this id.
    #[arg(long, value_name = "JOB", default_value = "")]
    job: String,
    /// Show only claims of the task group with this name.
    #[arg(long, value_name = "GROUP", default_value = "")]
    group: String,
    /// Show only claims on volumes with this name.
    #[arg(long, value_name = "NAME", default_value = "")]
    volume_name: String,
    /// Show whole ids.
    #[arg(long)]
    verbose: bool,
}

/// Deletes a claim. The next allocation of its task group may then get another volume.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Delete {
    /// The id of a claim.
    claim: String,
    /// Do not ask for confirmation.
    #[arg(short)]
    yes: bool,
}

impl ApiCommand for List {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let query =
            [("job_id", &*self.job), ("task_group", &*self.group), ("volume_name", &*self.volume_name)];
        if self.object.is_requested() {
            let claims: Value = session.client.get(LIST, &query).await?;
            self.object.print(session.output, &claims)?;
            return Ok(ExitCode::SUCCESS);
        }
        let listed = session.client.get(LIST, &query).await;
        let claims: Vec<TaskGroupHostVolumeClaim> =
            listed.context("Error listing task group host volume claims")?;
        let mut page = Page::default();
        match claims.is_empty() {
            true => page.line("No task group host volume claims found"),
            false => table(&mut page, &claims, self.verbose),
        }
        session.output.page(&page);
        Ok(ExitCode::SUCCESS)
    }
}

fn table(page: &mut Page, claims: &[TaskGroupHostVolumeClaim], verbose: bool) {
    let rows = claims.iter().map(|claim| {
        [
            // A claim is deleted by its whole id.
            format::text(claim.id.as_ref()),
            format::text(claim.namespace.as_ref()),
            format::text(claim.job_id.as_ref()),
            format::text(claim.task_group_name.as_ref()),
            format::id(claim.alloc_id.as_ref(), verbose),
            format::id(claim.volume_id.as_ref(), verbose),
            format::text(claim.volume_name.as_ref()),
        ]
    });
    page.table(&["ID", "Namespace", "Job ID", "Task Group", "Alloc ID", "Volume ID", "Volume Name"], rows);
}

impl ApiCommand for Delete {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        if !self.yes {
            if !std::io::stdin().is_terminal() {
                bail!("This command needs a terminal to ask for confirmation; use -y to confirm");
            }
            let question = format!("Are you sure you want to delete the claim \"{}\"?", self.claim);
            if !confirm::ask(&question)? {
                session.output.line("Cancelled.");
                return Ok(ExitCode::SUCCESS);
            }
        }
        let path = format!("/v1/volumes/claim/{}", crate::cli::client::escaped(&self.claim));
        let deleted = session.client.delete::<Value>(&path, &[]).await;
        deleted.context("Error deleting task group host volume claim")?;
        session.output.line(&format!("Task group host volume claim {} successfully deleted", self.claim));
        Ok(ExitCode::SUCCESS)
    }
}
