//! `drover alloc logs`: what a task has written.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use api_types::Allocation;

use super::whole;
use crate::cli::{Session, flags};

/// How many lines `-tail` shows unless told otherwise.
const TAIL_LINES: usize = 10;
/// About how many bytes a line has, to know where to begin for so many of them.
const LINE_BYTES: u64 = 120;

/// Prints what a task has written.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    /// The allocation: its id, or the beginning of it.
    alloc: String,
    /// The task, where there are several.
    task: Option<String>,
    /// The task, said with a flag.
    #[arg(long = "task", value_name = "TASK", conflicts_with = "task")]
    task_flag: Option<String>,
    /// What was written to standard error.
    #[arg(long, conflicts_with = "stdout")]
    stderr: bool,
    /// What was written to standard output; the default.
    #[arg(long)]
    stdout: bool,
    /// Go on with what is written from now on.
    #[arg(short)]
    follow: bool,
    /// Begin near the end.
    #[arg(long)]
    tail: bool,
    /// How many lines before the end to begin.
    #[arg(short = 'n', value_name = "LINES")]
    lines: Option<usize>,
    /// How many bytes before the end to begin.
    #[arg(short = 'c', value_name = "BYTES", conflicts_with = "lines")]
    bytes: Option<u64>,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    let id = whole(&session.client, &args.alloc).await?;
    let task = match args.task.as_ref().or(args.task_flag.as_ref()) {
        Some(task) => task.clone(),
        None => only_task(&session, &id).await?,
    };
    let lines = (args.tail && args.bytes.is_none()).then(|| args.lines.unwrap_or(TAIL_LINES)).or(args.lines);
    let before_end = args.bytes.or(lines.map(|lines| lines as u64 * LINE_BYTES));
    let (origin, offset) = match before_end {
        Some(bytes) => ("end", bytes.to_string()),
        None => ("start", "0".to_owned()),
    };
    let query = [
        ("task", task.as_str()),
        ("type", if args.stderr { "stderr" } else { "stdout" }),
        ("plain", "true"),
        ("follow", if args.follow { "true" } else { "false" }),
        ("origin", origin),
        ("offset", offset.as_str()),
    ];
    let mut pieces = session.client.stream(&format!("/v1/client/fs/logs/{id}"), &query).await?;
    // How many lines the last bytes hold shows only at the end; a log that is followed has none.
    let mut tail = lines.filter(|_| !args.follow).map(|lines| (lines, Vec::new()));
    while let Some(piece) = pieces.chunk().await.context("the log breaks off")? {
        match &mut tail {
            Some((_, text)) => text.extend_from_slice(&piece),
            None => session.output.raw(&piece),
        }
    }
    if let Some((lines, text)) = tail {
        session.output.raw(last(lines, &text));
    }
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
        several => bail!("Allocation \"{id}\" has several tasks, say which: {}", several.join(", ")),
    }
}

/// The last lines of a text.
fn last(lines: usize, text: &[u8]) -> &[u8] {
    if lines == 0 {
        return &[];
    }
    let ends = text.iter().enumerate().rev().filter(|(at, byte)| **byte == b'\n' && at + 1 < text.len());
    let start = ends.map(|(at, _)| at + 1).nth(lines - 1).unwrap_or(0);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_last_lines() {
        let last = |lines, text: &'static str| std::str::from_utf8(last(lines, text.as_bytes())).unwrap();
        assert_eq!(last(2, "one\ntwo\nthree\n"), "two\nthree\n");
        assert_eq!(last(2, "one\ntwo\nthr"), "two\nthr");
        assert_eq!(last(9, "one\ntwo\n"), "one\ntwo\n");
        assert_eq!(last(0, "one\n"), "");
        assert_eq!(last(1, ""), "");
    }
}
