//! `drover alloc fs`: the files of an allocation.

use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use api_types::Time;
use serde::Deserialize;

use super::frames::Frames;
use super::selection::Selection;
use super::tail::Tail;
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, format};

/// Lists a directory of an allocation, or prints a file in it.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:\n  drover alloc fs 1a2b3c4d\n  drover alloc fs 1a2b3c4d alloc/logs")]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// The path of the directory or file, relative to the allocation's directory.
    #[arg(default_value = "/")]
    path: String,
    /// Print information about the file or directory instead of its content.
    #[arg(long, conflicts_with_all = ["follow", "tail", "lines", "bytes"])]
    stat: bool,
    /// Of a directory, or with -stat: print sizes in bytes.
    #[arg(short = 'H')]
    machine: bool,
    #[command(flatten)]
    tail: Tail,
    /// Print whole ids in errors.
    #[arg(long)]
    verbose: bool,
}

/// Information about a file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct FileInfo {
    name: String,
    is_dir: bool,
    size: u64,
    file_mode: String,
    mod_time: Option<Time>,
    content_type: String,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let id = self.selection.find(&session.client, self.verbose).await?;
        let path = [("path", self.path.as_str())];
        let info: FileInfo = session.client.get(&format!("/v1/client/fs/stat/{id}"), &path).await?;
        if self.stat {
            session.output.page(&described(&info, self.machine));
            return Ok(ExitCode::SUCCESS);
        }
        self.check_kind(info.is_dir)?;
        if info.is_dir {
            let files: Vec<FileInfo> = session.client.get(&format!("/v1/client/fs/ls/{id}"), &path).await?;
            session.output.page(&listed(&files, self.machine));
        } else if self.tail.is_whole() {
            let mut pieces = session.client.stream(&format!("/v1/client/fs/cat/{id}"), &path).await?;
            while let Some(piece) =
                pieces.chunk().await.context("the connection was lost before the end of the file")?
            {
                session.output.raw(&piece);
            }
        } else {
            stream(&session, &id, &self).await?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    /// Refuses flags that have no effect on a directory, or on a file.
    fn check_kind(&self, is_dir: bool) -> anyhow::Result<()> {
        ensure!(is_dir || !self.machine, "-H has no effect: {} is a file, and -stat is not set", self.path);
        let flag = self.tail.given().filter(|_| is_dir);
        ensure!(flag.is_none(), "{} has no effect: {} is a directory", flag.unwrap_or_default(), self.path);
        Ok(())
    }
}

/// Prints the end of a file, and new content if the file is followed.
async fn stream(session: &Session, id: &str, args: &Args) -> anyhow::Result<()> {
    let (origin, offset) = args.tail.origin();
    let query = [
        ("path", args.path.as_str()),
        ("follow", if args.tail.follow { "true" } else { "false" }),
        ("origin", origin),
        ("offset", offset.as_str()),
    ];
    let mut pieces = session.client.stream(&format!("/v1/client/fs/stream/{id}"), &query).await?;
    let (mut frames, mut sink) = (Frames::default(), args.tail.sink(session.output));
    while let Some(piece) =
        pieces.chunk().await.context("the connection was lost before the end of the file")?
    {
        for frame in frames.take(&piece)? {
            sink.write(&frame.data.0);
            if !frame.file_event.is_empty() {
                session.output.error(&frame.file_event);
            }
        }
    }
    sink.finish();
    Ok(())
}

fn size(info: &FileInfo, machine: bool) -> String {
    if machine { info.size.to_string() } else { format::bytes(info.size) }
}

/// The name; that of a directory ends with a slash.
fn name(info: &FileInfo) -> String {
    format!("{}{}", info.name, if info.is_dir { "/" } else { "" })
}

fn listed(files: &[FileInfo], machine: bool) -> Page {
    let mut page = Page::default();
    let rows = files
        .iter()
        .map(|info| [info.file_mode.clone(), size(info, machine), format::time(info.mod_time), name(info)]);
    page.table(&["Mode", "Size", "Modified Time", "Name"], rows);
    page
}

fn described(info: &FileInfo, machine: bool) -> Page {
    let mut page = Page::default();
    let row = [
        info.file_mode.clone(),
        size(info, machine),
        format::time(info.mod_time),
        info.content_type.clone(),
        name(info),
    ];
    page.table(&["Mode", "Size", "Modified Time", "Content Type", "Name"], [row]);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_for_people_and_for_programs() {
        let files: Vec<FileInfo> = api_types::decode::from_slice(
            br#"[{"Name": "alloc", "IsDir": true, "Size": 4096, "FileMode": "drwxr-xr-x", "ModTime": "2006-01-02T15:04:05Z"},
                {"Name": "a.txt", "Size": 59, "FileMode": "-rw-r--r--", "ModTime": "2006-01-02T15:04:05.5+02:00",
                "ContentType": "text/plain"}]"#,
        )
        .unwrap();
        let text =
            format!("{}{}{}", listed(&files, false), listed(&files, true), described(&files[1], false));
        insta::assert_snapshot!(text, @r"
        Mode        Size   Modified Time         Name
        drwxr-xr-x  4 KiB  2006-01-02T15:04:05Z  alloc/
        -rw-r--r--  59 B   2006-01-02T13:04:05Z  a.txt
        Mode        Size  Modified Time         Name
        drwxr-xr-x  4096  2006-01-02T15:04:05Z  alloc/
        -rw-r--r--  59    2006-01-02T13:04:05Z  a.txt
        Mode        Size  Modified Time         Content Type  Name
        -rw-r--r--  59 B  2006-01-02T13:04:05Z  text/plain    a.txt
        ");
    }
}
