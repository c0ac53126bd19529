//! `drover job inspect`: prints a job as the API returns it.

use std::process::ExitCode;

use anyhow::Context as _;
use api_types::JobSubmission;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::{ResolvedJob, resolve};
use crate::cli::client::{Client, escaped};
use crate::cli::object::{Object, indented};
use crate::cli::{Session, flags};

/// Prints a job as JSON, in the form in which it can be registered again; or prints its job file.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    /// A job id or a prefix of one.
    job: String,
    /// Print this version of the job instead of the current one.
    #[arg(long, value_name = "VERSION")]
    version: Option<u64>,
    // With -json, the output is the API's object, without `Job` around it.
    #[command(flatten)]
    object: Object,
    /// Print the job file that the job was registered from.
    #[arg(long, conflicts_with_all = ["json", "template"])]
    hcl: bool,
    /// Print the values of its variables, too.
    #[arg(long, requires = "hcl")]
    with_vars: bool,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    let job = resolve(&session.client, &args.job).await?;
    let namespace = [("namespace", job.namespace.as_str())];
    let path = format!("/v1/job/{}", escaped(&job.id));
    let current = async || session.client.get::<Value>(&path, &namespace).await;
    if args.hcl {
        let version = match args.version {
            Some(version) => version,
            None => current().await?["Version"].as_u64().unwrap_or_default(),
        };
        let submission = submitted(&session.client, &job, version).await?;
        session.output.raw(source(&submission, args.with_vars).as_bytes());
        return Ok(ExitCode::SUCCESS);
    }
    let found = match args.version {
        None => current().await?,
        Some(version) => one_version(&session.client, &job, version).await?,
    };
    match args.object.is_requested() {
        true => args.object.print(session.output, &found)?,
        false => session.output.line(&indented(&json!({ "Job": found }))),
    }
    Ok(ExitCode::SUCCESS)
}

/// The source that a version was registered from.
async fn submitted(client: &Client, job: &ResolvedJob, version: u64) -> anyhow::Result<JobSubmission> {
    let path = format!("/v1/job/{}/submission", escaped(&job.id));
    let number = version.to_string();
    let query = [("namespace", job.namespace.as_str()), ("version", number.as_str())];
    client.get(&path, &query).await.with_context(|| {
        format!("cannot read the job file that version {version} of job \"{}\" was registered from", job.id)
    })
}

/// The job file, followed by comments with the values of its variables.
fn source(submission: &JobSubmission, with_variables: bool) -> String {
    let mut text = submission.source.clone().unwrap_or_default();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let flags = submission.variable_flags.iter().flatten();
    let flags =
        flags.map(|(name, value)| format!("{name} = {}", percent_decode_str(value).decode_utf8_lossy()));
    let values: Vec<String> = flags.chain(submission.variables.clone()).collect();
    // A value may have several lines. Each of them must become a comment.
    let mut lines =
        values.iter().flat_map(|value| value.lines()).filter(|line| !line.trim().is_empty()).peekable();
    if with_variables && lines.peek().is_some() {
        text.push_str("\n# Values of its variables:\n");
        lines.for_each(|line| text.extend(["# ", line, "\n"]));
    }
    text
}

async fn one_version(client: &Client, job: &ResolvedJob, version: u64) -> anyhow::Result<Value> {
    let path = format!("/v1/job/{}/versions", escaped(&job.id));
    let answer: Value = client.get(&path, &[("namespace", job.namespace.as_str())]).await?;
    pick(&answer, version).cloned().with_context(|| missing(&job.id, version))
}

/// The version with that number.
fn pick(answer: &Value, version: u64) -> Option<&Value> {
    let versions = answer["Versions"].as_array()?;
    versions.iter().find(|job| job["Version"] == version)
}

/// The error message if there is no such version.
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

    #[test]
    fn values_of_variables_follow_the_job_file() {
        let submission = JobSubmission {
            source: Some("job \"web\" {}".to_owned()),
            variable_flags: Some([("image".to_owned(), "a%22b%0Ac".to_owned())].into()),
            variables: Some("count = 3\n\n".to_owned()),
            ..JobSubmission::default()
        };
        assert_eq!(source(&submission, false), "job \"web\" {}\n");
        assert_eq!(
            source(&submission, true),
            "job \"web\" {}\n\n# Values of its variables:\n# image = a\"b\n# c\n# count = 3\n"
        );
    }
}
