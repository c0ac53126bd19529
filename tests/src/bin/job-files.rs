//! Compares recorded job files with what our parser makes of them, and prints what differs: `job-files <folder>`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command says what it found")]

use std::path::PathBuf;
use std::process::ExitCode;

use tests::job_files;

fn main() -> ExitCode {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let Some(cases) = folder.as_deref().and_then(job_files::cases_in) else {
        eprintln!("say a folder of job files: <case>.hcl with <case>.json beside each");
        return ExitCode::FAILURE;
    };
    match job_files::compare(&cases) {
        Ok(report) => {
            println!("{report}");
            if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("cannot read {}: {error}", cases.display());
            ExitCode::FAILURE
        }
    }
}
