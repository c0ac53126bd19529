//! `drover alloc logs`: the output of a task.

use std::process::ExitCode;

use anyhow::Context as _;
use api_types::Allocation;

use super::choose_task;
use super::selection::Selection;
use super::tail::Tail;
use crate::cli::{ApiCommand, Session};

/// Prints the output of a task.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// The name of the task. It may be left out if the allocation has only one.
    task: Option<String>,
    /// The same as the argument TASK.
    #[arg(long = "task", value_name = "TASK", conflicts_with = "task")]
    task_flag: Option<String>,
    /// Print what the task wrote to standard error.
    #[arg(long, conflicts_with = "stdout")]
    stderr: bool,
    /// Print what the task wrote to standard output. This is the default.
    #[arg(long)]
    stdout: bool,
    #[command(flatten)]
    tail: Tail,
    /// Print whole ids in errors.
    #[arg(long)]
    verbose: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let id = self.selection.find(&session.client, self.verbose).await?;
        let task = match self.task.as_ref().or(self.task_flag.as_ref()) {
            Some(task) => task.clone(),
            None => only_task(&session, &id, self.verbose).await?,
        };
        let (origin, offset) = self.tail.origin();
        let query = [
            ("task", task.as_str()),
            ("type", if self.stderr { "stderr" } else { "stdout" }),
            ("plain", "true"),
            ("follow", if self.tail.follow { "true" } else { "false" }),
            ("origin", origin),
            ("offset", offset.as_str()),
        ];
        let mut pieces = session.client.stream(&format!("/v1/client/fs/logs/{id}"), &query).await?;
        let mut sink = self.tail.sink(session.output);
        while let Some(piece) =
            pieces.chunk().await.context("the connection was lost before the end of the log")?
        {
            sink.write(&piece);
        }
        sink.finish();
        Ok(ExitCode::SUCCESS)
    }
}

/// The name of the allocation's task.
///
/// # Errors
/// If the allocation has several tasks.
async fn only_task(session: &Session, id: &str, verbose: bool) -> anyhow::Result<String> {
    let alloc: Allocation = session.client.get(&format!("/v1/allocation/{id}"), &[]).await?;
    choose_task(&alloc, None, verbose).context("Failed to validate task")
}
