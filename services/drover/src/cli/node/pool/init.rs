//! `drover node pool init`: writes an example specification of a node pool.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::cli::{Output, flags, run_here};
use crate::command::Run;

/// The example in HCL.
pub(super) const HCL: &str = r#"node_pool "example" {
  description = "Example node pool"

  # Arbitrary data about the pool.
  meta {
    environment = "test"
    owner       = "platform"
  }
}
"#;
/// The same in the JSON of the API.
const JSON: &str = r#"{
  "Name": "example",
  "Description": "Example node pool",
  "Meta": {
    "environment": "test",
    "owner": "platform"
  }
}
"#;

/// The notation of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Notation {
    Hcl,
    Json,
}

/// Writes an example specification of a node pool.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The file to write: pool.nomad.hcl or pool.nomad.json by default.
    file: Option<String>,
    /// The notation of the file.
    #[arg(long, value_name = "NOTATION", value_enum, default_value_t = Notation::Hcl)]
    out: Notation,
    /// Print nothing.
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    colours: flags::ColourFlags,
}

impl Run for Args {
    fn run(self) -> ExitCode {
        run_here(&self.colours, |output| write(output, &self))
    }
}

fn write(output: Output, args: &Args) -> anyhow::Result<ExitCode> {
    let (text, default) = match args.out {
        Notation::Hcl => (HCL, "pool.nomad.hcl"),
        Notation::Json => (JSON, "pool.nomad.json"),
    };
    let file = args.file.as_deref().unwrap_or(default);
    let opened = OpenOptions::new().write(true).create_new(true).open(file);
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {file}"))?;
    if !args.quiet {
        output.line(&format!("Example node pool specification written to {file}"));
    }
    Ok(ExitCode::SUCCESS)
}
