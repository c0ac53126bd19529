//! `drover fmt`: formats job files in the canonical style.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

use super::{Output, flags, job, run_here};
use crate::command::Run;

/// Extensions of the files that are formatted in a directory.
const EXTENSIONS: [&str; 2] = ["nomad", "hcl"];
/// Maximum depth of nested directories.
const DEPTH_MAX: usize = 64;

/// Formats job files in the canonical style.
///
/// Only white space changes. Without paths, formats the files in the current directory; in a directory, only files that end
/// in .nomad or .hcl. `-` formats standard input, and prints the result.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:\n  drover fmt\n  drover fmt -check -recursive jobs")]
pub(crate) struct Args {
    /// The files and directories to format.
    #[arg(default_value = ".")]
    paths: Vec<PathBuf>,
    /// Do not write files. Exit with 1 if a file would change.
    #[arg(long)]
    check: bool,
    /// Whether to print the names of the files that change.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1,
        require_equals = true, default_missing_value = "true")]
    list: bool,
    /// Whether to write the files that change. If false, their new text is printed instead.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1,
        require_equals = true, default_missing_value = "true")]
    write: bool,
    /// Also format files in nested directories.
    #[arg(long)]
    recursive: bool,
    #[command(flatten)]
    colours: flags::ColourFlags,
}

impl Run for Args {
    fn run(self) -> ExitCode {
        run_here(&self.colours, |output| format(output, &self))
    }
}

fn format(output: Output, args: &Args) -> anyhow::Result<ExitCode> {
    let mut counts = Counts::default();
    for path in &args.paths {
        if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
            let formatted = counts.format(output, &text, "<stdin>");
            if let Some(formatted) = formatted.filter(|_| !args.check) {
                output.raw(formatted.as_bytes());
            }
            continue;
        }
        for file in files(path, args.recursive)? {
            format_file(output, args, &file, &mut counts)?;
        }
    }
    let failed = counts.refused > 0 || (args.check && counts.changed > 0);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// How many files were changed and refused.
#[derive(Default)]
struct Counts {
    changed: usize,
    refused: usize,
}

impl Counts {
    /// Formats a text. Prints its errors, if it has any.
    fn format(&mut self, output: Output, text: &str, name: &str) -> Option<String> {
        match jobspec::format(text, name) {
            Ok(formatted) => {
                self.changed += usize::from(formatted != text);
                Some(formatted)
            }
            Err(error) => {
                self.refused += 1;
                output.report(|colours| job::file::render(&error, colours));
                None
            }
        }
    }
}

fn format_file(output: Output, args: &Args, file: &Path, counts: &mut Counts) -> anyhow::Result<()> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    let Some(formatted) = counts.format(output, &text, &name) else { return Ok(()) };
    if formatted == text {
        return Ok(());
    }
    if args.list {
        output.line(&name);
    }
    match (args.check, args.write) {
        (true, _) => {}
        (false, true) => std::fs::write(file, formatted).with_context(|| format!("cannot write {name}"))?,
        (false, false) => output.raw(formatted.as_bytes()),
    }
    Ok(())
}

/// The file itself, or the job files in a directory.
fn files(path: &Path, recursive: bool) -> anyhow::Result<Vec<PathBuf>> {
    let name = path.display();
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let (mut found, mut pending) = (Vec::new(), vec![(path.to_owned(), 0)]);
    while let Some((directory, depth)) = pending.pop() {
        let entries = std::fs::read_dir(&directory).with_context(|| format!("cannot read {name}"))?;
        for entry in entries {
            let path = entry.with_context(|| format!("cannot read {name}"))?.path();
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            if path.is_dir() && recursive && depth < DEPTH_MAX {
                pending.push((path, depth + 1));
            } else if path.is_file() && EXTENSIONS.contains(&extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
