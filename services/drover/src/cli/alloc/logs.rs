//! `drover alloc logs`: the output of a task.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use api_types::Allocation;

use super::selection::Selection;
use super::tail::Tail;
use crate::cli::{Session, flags};

/// Prints the output of a task.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    #[command(flatten)]
    selection: Selection,
    /// The task. Required if the allocation has several.
    task: Option<String>,
    /// The task, as a flag.
    #[arg(long = "task", value_name = "TASK", conflicts_with = "task")]
    task_flag: Option<String>,
    /// Print standard error.
    #[arg(long, conflicts_with = "stdout")]
    stderr: bool,
    /// Print standard output; the default.
    #[arg(long)]
    stdout: bool,
    #[command(flatten)]
    tail: Tail,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    let id = args.selection.find(&session.client).await?;
    let task = match args.task.as_ref().or(args.task_flag.as_ref()) {
        Some(task) => task.clone(),
        None => only_task(&session, &id).await?,
    };
    let (origin, offset) = args.tail.origin();
    let query = [
        ("task", task.as_str()),
        ("type", if args.stderr { "stderr" } else { "stdout" }),
        ("plain", "true"),
        ("follow", if args.tail.follow { "true" } else { "false" }),
        ("origin", origin),
        ("offset", offset.as_str()),
    ];
    let mut pieces = session.client.stream(&format!("/v1/client/fs/logs/{id}"), &query).await?;
    let mut sink = args.tail.sink(session.output);
    while let Some(piece) =
        pieces.chunk().await.context("the connection was lost before the end of the log")?
    {
        sink.write(&piece);
    }
    sink.finish();
    Ok(ExitCode::SUCCESS)
}

async fn only_task(session: &Session, id: &str) -> anyhow::Result<String> {
    let alloc: Allocation = session.client.get(&format!("/v1/allocation/{id}"), &[]).await?;
    let group = alloc.job.iter().flat_map(|job| job.task_groups.iter().flatten());
    let group = group.into_iter().find(|group| group.name == alloc.task_group);
    let tasks: Vec<&str> = group
        .into_iter()
        .flat_map(|group| group.tasks.iter().flatten())
        .filter_map(|task| task.name.as_deref())
        .collect();
    match tasks.as_slice() {
        [task] => Ok((*task).to_owned()),
        several => bail!("Allocation \"{id}\" has several tasks, name one of: {}", several.join(", ")),
    }
}
