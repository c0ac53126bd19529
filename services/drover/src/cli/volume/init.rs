//! `drover volume init`: writes an example specification of a host volume.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;

use super::{HOST, check_type};
use crate::cli::{Output, flags, run_here};
use crate::command::Run;

/// The default names of the file.
const HCL_FILE: &str = "volume.hcl";
const JSON_FILE: &str = "volume.json";

pub(super) const HCL: &str = r#"# A directory on one node, which jobs can mount.
type      = "host"
name      = "data"
plugin_id = "mkdir"

# Where it may be created. Without node_id, the servers choose a node that meets the constraints.
node_pool = "default"

constraint {
  attribute = "${attr.kernel.name}"
  value     = "linux"
}

# How jobs may use it.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

# Parameters of the plugin. mkdir knows mode, uid and gid.
parameters {
  mode = "0755"
}
"#;
pub(super) const JSON: &str = r#"{
  "type": "host",
  "name": "data",
  "plugin_id": "mkdir",
  "node_pool": "default",
  "constraint": { "attribute": "${attr.kernel.name}", "value": "linux" },
  "capability": { "access_mode": "single-node-writer", "attachment_mode": "file-system" },
  "parameters": { "mode": "0755" }
}
"#;

/// Writes an example specification of a volume.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The file to write; `volume.hcl` or `volume.json` by default.
    file: Option<String>,
    /// Write JSON instead of HCL.
    #[arg(long)]
    json: bool,
    /// The type of the volume.
    #[arg(long, value_name = "TYPE", default_value = HOST)]
    r#type: String,
    #[command(flatten)]
    colours: flags::ColourFlags,
}

impl Run for Args {
    fn run(self) -> ExitCode {
        run_here(&self.colours, |output| write(output, &self))
    }
}

fn write(output: Output, args: &Args) -> anyhow::Result<ExitCode> {
    check_type(&args.r#type)?;
    let (text, default) = if args.json { (JSON, JSON_FILE) } else { (HCL, HCL_FILE) };
    let file = args.file.as_deref().unwrap_or(default);
    let opened = OpenOptions::new().write(true).create_new(true).open(file);
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {file}"))?;
    output.line(&format!("Example volume specification written to {file}"));
    Ok(ExitCode::SUCCESS)
}
