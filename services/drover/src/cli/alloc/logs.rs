//! `drover alloc logs`: the output of a task.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use api_types::Allocation;

use super::selection::Selection;
use super::tail::Tail;
use crate::cli::{ApiCommand, Session, format};

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
    let group = alloc.job.iter().flat_map(|job| job.task_groups.iter().flatten());
    let group = group.into_iter().find(|group| group.name == alloc.task_group);
    let tasks: Vec<&str> = group
        .into_iter()
        .flat_map(|group| group.tasks.iter().flatten())
        .filter_map(|task| task.name.as_deref())
        .collect();
    match tasks.as_slice() {
        [task] => Ok((*task).to_owned()),
        several => bail!("Failed to validate task: {}", several_tasks(&alloc, several, verbose)),
    }
}

/// The message that asks for one of several tasks (`docs/rules/cli.md` 5.1).
fn several_tasks(alloc: &Allocation, tasks: &[&str], verbose: bool) -> String {
    let id = format::id(alloc.id.as_ref(), verbose);
    let tasks: String = tasks.iter().map(|task| format!("  * {task}\n")).collect();
    format!("Allocation \"{id}\" is running the following tasks:\n{tasks}\nPlease specify the task.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_tasks_must_be_named() {
        let id = "0a1b2c3d-0000-4000-8000-000000000000".to_owned();
        let alloc = Allocation { id: Some(id.clone()), ..Allocation::default() };
        insta::assert_snapshot!(several_tasks(&alloc, &["pre", "app"], false), @r#"
        Allocation "0a1b2c3d" is running the following tasks:
          * pre
          * app

        Please specify the task.
        "#);
        assert!(several_tasks(&alloc, &["pre", "app"], true).contains(&id));
    }
}
