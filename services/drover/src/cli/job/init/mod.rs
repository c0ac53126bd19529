//! `drover job init`: writes an example job file.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};

use crate::cli::{Output, flags, run_here};
use crate::command::Run;

/// The default name of the file.
const FILE: &str = "example.nomad.hcl";

const FULL: &str = include_str!("full.nomad.hcl");
const SHORT: &str = include_str!("short.nomad.hcl");

/// Writes an example job file, with comments that explain it.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The file to write.
    #[arg(default_value = FILE)]
    file: String,
    /// Leave out the comments.
    #[arg(long)]
    short: bool,
    #[command(flatten)]
    colours: flags::ColourFlags,
}

impl Run for Args {
    fn run(self) -> ExitCode {
        run_here(&self.colours, |output| write(output, &self))
    }
}

fn write(output: Output, args: &Args) -> anyhow::Result<ExitCode> {
    let Args { file, short, .. } = args;
    let opened = OpenOptions::new().write(true).create_new(true).open(file);
    let text = if *short { SHORT } else { FULL };
    let is_taken = matches!(&opened, Err(error) if error.kind() == ErrorKind::AlreadyExists);
    ensure!(!is_taken, "Job '{file}' already exists");
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {file}"))?;
    output.line(&format!("Example job file written to {file}"));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_are_job_files_and_laid_out() {
        for text in [FULL, SHORT] {
            let job = jobspec::parse(text, &jobspec::Options::default()).unwrap();
            assert_eq!(job.id.as_deref(), Some("example"));
            assert_eq!(jobspec::format(text, FILE).unwrap(), text);
        }
    }
}
