//! What a command did to the secrets directory, for people and for programs.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use super::directory::Directory;
use crate::process::fail;

/// What became of a directory. It names files, and holds nothing of what is in them.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    dir: PathBuf,
    made: Vec<String>,
    kept: Vec<String>,
    notes: Vec<String>,
}

impl Report {
    /// Of what was done so far, with what an operator should know beside.
    pub(super) fn new(directory: &Directory, notes: Vec<String>) -> Self {
        let made = directory.made().to_vec();
        // What was made a moment ago is kept when it is asked for again.
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

/// Prints what was done, or why it failed.
pub(super) fn print(json: bool, report: anyhow::Result<Report>) -> ExitCode {
    let report = match report {
        Ok(report) => report,
        Err(error) => return fail(&error),
    };
    let text = if json {
        let json = serde_json::to_string(&report).expect("names of files have a JSON form");
        format!("{json}\n")
    } else {
        report.text()
    };
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
