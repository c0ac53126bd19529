//! `drover job action`: runs an action of a job.

use std::process::ExitCode;

use anyhow::Context as _;
use api_types::{AllocListStub, Allocation};
use telemetry::clock;

use super::resolve;
use crate::cli::chosen::{self, choose_task, pick};
use crate::cli::client::escaped;
use crate::cli::exec::Connection;
use crate::cli::{ApiCommand, Session, format};

/// Runs a command that a job names, in one of its allocations, and ends with its exit code.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The name of the action.
    action: String,
    /// The id of the job, or a prefix of it.
    #[arg(long, value_name = "JOB")]
    job: String,
    /// The id of an allocation of the job, or a prefix of it.
    #[arg(long, value_name = "ALLOC")]
    alloc: Option<String>,
    /// The task group: any running allocation of it is taken.
    #[arg(long, value_name = "GROUP", required_unless_present = "alloc", conflicts_with = "alloc")]
    group: Option<String>,
    /// The name of the task. With -alloc, it may be left out if the allocation has only one.
    #[arg(long, value_name = "TASK", required_unless_present = "alloc")]
    task: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let client = &session.client;
        let job = resolve(client, &self.job).await?;
        let namespace = [("namespace", job.namespace.as_str())];
        let path = format!("/v1/job/{}", escaped(&job.id));
        let id = match &self.alloc {
            Some(alloc) => chosen::resolve(client, alloc, false).await?,
            None => {
                let allocs: Vec<AllocListStub> =
                    client.get(&format!("{path}/allocations"), &namespace).await?;
                let random = u128::from_le_bytes(clock::random_bytes());
                let alloc = pick(&allocs, self.group.as_deref(), random).with_context(|| {
                    let group = self.group.as_deref().unwrap_or_default();
                    format!("task group \"{group}\" doesn't exist or it has no allocations")
                });
                format::text(alloc.context("Error fetching allocations")?.id.as_ref())
            }
        };
        let alloc: Allocation = client.get(&format!("/v1/allocation/{id}"), &[]).await?;
        let task = choose_task(&alloc, self.task.as_deref(), false)?;
        let query = [
            ("action", self.action.as_str()),
            ("task", task.as_str()),
            ("allocID", id.as_str()),
            ("namespace", job.namespace.as_str()),
        ];
        self.connection.run(&session, &format!("{path}/action"), &query).await
    }
}
