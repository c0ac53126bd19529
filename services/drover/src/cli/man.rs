//! `drover man`: writes the manual pages, one per command, from the help texts. For packaging.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

use crate::process;

/// Writes the manual pages, one for each command: drover.1, drover-job.1, drover-job-run.1 and so on.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The directory for the pages. It is created if it is missing.
    #[arg(long)]
    dir: PathBuf,
}

/// Writes the pages of `tree`, the whole command line.
pub(crate) fn run(args: &Args, tree: clap::Command) -> ExitCode {
    match write(&args.dir, tree) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => process::fail(&error),
    }
}

fn write(dir: &Path, tree: clap::Command) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    clap_mangen::generate_to(tree, dir)
        .with_context(|| format!("cannot write the manual to {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn every_command_has_a_page_without_faults() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path().join("man1");
        write(&dir, Cli::command()).unwrap();
        let mut names: Vec<String> =
            dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        for name in
            ["drover.1", "drover-job.1", "drover-job-run.1", "drover-agent.1", "drover-config-validate.1"]
        {
            assert!(names.iter().any(|page| page == name), "{name} is missing: {names:?}");
        }
        for hidden in ["drover-executor.1", "drover-man.1", "drover-node-status-help.1"] {
            assert!(!names.iter().any(|page| page == hidden), "{hidden}");
        }
        let page = std::fs::read_to_string(dir.join("drover-job-run.1")).unwrap();
        assert!(page.contains(".SH OPTIONS") && page.contains("drover\\-job\\-run"), "{page}");
        // Pages must not contain values from the environment in which they are generated.
        let value = std::env::var("HOME").unwrap_or_else(|_| "/nowhere".to_owned());
        for name in &names {
            let page = std::fs::read_to_string(dir.join(name)).unwrap();
            assert!(!page.contains(&format!("{value}/")), "{name}");
        }
        lint(&dir, &names);
    }

    /// Typesets all pages with groff. Any warning fails the test, except one about a line with a word that is too long to
    /// adjust, such as a URL.
    fn lint(dir: &Path, names: &[String]) {
        let output = Command::new("groff")
            .args(["-Kutf8", "-man", "-ww", "-W", "break", "-z", "-Tutf8"])
            .args(names)
            .current_dir(dir)
            .output();
        let output = output.expect("groff is installed, see .ci/servers");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}
