//! The result of a command on the secrets directory, as text and as JSON.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use super::directory::Directory;
use crate::process::fail;

/// The changes to a secrets directory. It contains names of files, never their contents.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    dir: PathBuf,
    made: Vec<String>,
    kept: Vec<String>,
    notes: Vec<String>,
}

impl Report {
    /// The changes so far, with notes for the operator.
    pub(super) fn new(directory: &Directory, notes: Vec<String>) -> Self {
        let made = directory.made().to_vec();
        // A file that was created and then read again counts as created.
        let kept = directory.kept().iter().filter(|file| !made.contains(file)).cloned().collect();
        Self { dir: directory.root().to_owned(), made, kept, notes }
    }

    fn text(&self) -> String {
        let lines = |word: &str, names: &[String]| -> String {
            names.iter().map(|name| format!("{word}  {name}\n")).collect()
        };
        let notes: String = self.notes.iter().map(|note| format!("note  {note}\n")).collect();
        let (made, kept) = (self.made.len(), self.kept.len());
        let dir = self.dir.display();
        format!(
            "{}{}{notes}{dir}: {made} files made, {kept} kept\n",
            lines("made", &self.made),
            lines("kept", &self.kept)
        )
    }
}

/// Prints the report or the error.
pub(super) fn print(json: bool, report: anyhow::Result<Report>) -> ExitCode {
    let report = match report {
        Ok(report) => report,
        Err(error) => return fail(&error),
    };
    let text = if json {
        let json = serde_json::to_string(&report).expect("a report can be written as JSON");
        format!("{json}\n")
    } else {
        report.text()
    };
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
