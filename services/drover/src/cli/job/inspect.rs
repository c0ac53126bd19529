//! `drover job inspect`: a job as the API has it.

use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::{Named, named};
use crate::cli::client::{Client, escaped, indented};
use crate::cli::{Session, flags};

/// Prints a job as JSON, in the form in which it can be registered again.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    /// The job: its id, or the beginning of it.
    job: String,
    /// An older version of the job.
    #[arg(long, value_name = "VERSION")]
    version: Option<u64>,
    /// Print the API's object, without `Job` around it.
    #[arg(long)]
    json: bool,
    /// Format with a Go template; not built yet, use -json.
    #[arg(short, value_name = "TEMPLATE", conflicts_with = "json")]
    template: Option<String>,
    /// Print what the job was registered from; not built yet.
    #[arg(long, hide = true)]
    hcl: bool,
    /// Print the values of its variables, too; not built yet.
    #[arg(long, hide = true)]
    with_vars: bool,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    ensure!(args.template.is_none(), "not built yet: -t; use -json and a tool such as jq");
    ensure!(
        !args.hcl && !args.with_vars,
        "not built yet: -hcl and -with-vars; the job is printed as JSON without them"
    );
    let job = named(&session.client, &args.job).await?;
    let found = match args.version {
        None => {
            let path = format!("/v1/job/{}", escaped(&job.id));
            session.client.get(&path, &[("namespace", job.namespace.as_str())]).await?
        }
        Some(version) => one_version(&session.client, &job, version).await?,
    };
    let shown = if args.json { found } else { json!({ "Job": found }) };
    session.output.line(&indented(&shown));
    Ok(ExitCode::SUCCESS)
}

async fn one_version(client: &Client, job: &Named, version: u64) -> anyhow::Result<Value> {
    let path = format!("/v1/job/{}/versions", escaped(&job.id));
    let answer: Value = client.get(&path, &[("namespace", job.namespace.as_str())]).await?;
    pick(&answer, version).cloned().with_context(|| missing(&job.id, version))
}

/// The version of that number, out of all.
fn pick(answer: &Value, version: u64) -> Option<&Value> {
    let versions = answer["Versions"].as_array()?;
    versions.iter().find(|job| job["Version"] == version)
}

/// What is said where there is no such version, or none any more.
pub(super) fn missing(job: &str, version: u64) -> String {
    format!("No version {version} of job \"{job}\" found; see drover job history {job}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_by_their_numbers() {
        let answer = json!({ "Versions": [{ "Version": 3, "ID": "new" }, { "Version": 1, "ID": "old" }] });
        assert_eq!(pick(&answer, 1).unwrap()["ID"], "old");
        assert_eq!(pick(&answer, 2), None);
        assert_eq!(pick(&json!({}), 0), None);
    }
}
