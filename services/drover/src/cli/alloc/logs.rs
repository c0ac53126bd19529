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
#[command(after_help = "Examples:\n  \
    drover alloc logs -f 1a2b3c4d\n  \
    drover alloc logs -stderr -tail -n 50 1a2b3c4d app\n  \
    drover alloc logs -job web")]
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
    /// Print what the task wrote to standard output. This is the default. With -f, the default is both: what the task writes
    /// to standard error goes to standard error.
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
        // What is followed without naming a stream is both, each to its own stream of this process (`docs/rules/cli.md` 5.3).
        if self.tail.follow && !self.stderr && !self.stdout {
            let [stdout, stderr] =
                [Stream::Stdout, Stream::Stderr].map(|stream| self.print(&session, &id, &task, stream));
            tokio::try_join!(stdout, stderr)?;
            return Ok(ExitCode::SUCCESS);
        }
        let stream = if self.stderr { Stream::StderrAlone } else { Stream::Stdout };
        self.print(&session, &id, &task, stream).await?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A stream of a task, and where it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    /// Standard error, printed to standard error.
    Stderr,
    /// Standard error, printed to standard output.
    StderrAlone,
}

impl Args {
    /// Prints one stream of the task.
    async fn print(&self, session: &Session, id: &str, task: &str, stream: Stream) -> anyhow::Result<()> {
        let (origin, offset) = self.tail.origin();
        let query = [
            ("task", task),
            ("type", if stream == Stream::Stdout { "stdout" } else { "stderr" }),
            ("plain", "true"),
            ("follow", if self.tail.follow { "true" } else { "false" }),
            ("origin", origin),
            ("offset", offset.as_str()),
        ];
        let mut pieces = session.client.stream(&format!("/v1/client/fs/logs/{id}"), &query).await?;
        let sink = self.tail.sink(session.output);
        let mut sink = if stream == Stream::Stderr { sink.into_stderr() } else { sink };
        while let Some(piece) =
            pieces.chunk().await.context("the connection was lost before the end of the log")?
        {
            sink.write(&piece);
        }
        sink.finish();
        Ok(())
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
