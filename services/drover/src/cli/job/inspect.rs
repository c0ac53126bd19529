//! `drover job inspect`: prints a job as the API returns it.

use std::process::ExitCode;

use anyhow::Context as _;
use api_types::JobSubmission;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::{ResolvedJob, resolve};
use crate::cli::client::{Client, escaped};
use crate::cli::object::{Object, indented};
use crate::cli::{ApiCommand, Session};

/// Prints a job as JSON, in a form that `drover job run -json` accepts, or its job file.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of a job, or a prefix of it.
    job: String,
    /// Print the version with this number instead of the current one.
    #[arg(long, value_name = "VERSION")]
    version: Option<u64>,
    // With -json, the output is the API's object, without `Job` around it.
    #[command(flatten)]
    object: Object,
    /// Print the job file that the job was registered from.
    #[arg(long, conflicts_with_all = ["json", "template"])]
    hcl: bool,
    /// With -hcl: also print the values of the job file's variables, as comments.
    #[arg(long, requires = "hcl")]
    with_vars: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let job = resolve(&session.client, &self.job).await?;
        let namespace = [("namespace", job.namespace.as_str())];
        let path = format!("/v1/job/{}", escaped(&job.id));
        let current = async || session.client.get::<Value>(&path, &namespace).await;
        if self.hcl {
            let version = match self.version {
                Some(version) => version,
                None => current().await?["Version"].as_u64().unwrap_or_default(),
            };
            let submission = submitted(&session.client, &job, version).await?;
            session.output.raw(source(&submission, self.with_vars).as_bytes());
            return Ok(ExitCode::SUCCESS);
        }
        let found = match self.version {
            None => current().await?,
            Some(version) => one_version(&session.client, &job, version).await?,
        };
        match self.object.is_requested() {
            true => self.object.print(session.output, &found)?,
            false => session.output.line(&indented(&json!({ "Job": found }))),
        }
        Ok(ExitCode::SUCCESS)
    }
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
    let values = values(submission);
    // A value may have several lines. Each of them must become a comment.
    let mut lines =
        values.iter().flat_map(|value| value.lines()).filter(|line| !line.trim().is_empty()).peekable();
    if with_variables && lines.peek().is_some() {
        text.push_str("\n# Values of its variables:\n");
        lines.for_each(|line| text.extend(["# ", line, "\n"]));
    }
    text
}

/// The values of the job file's variables, such as `count = 3`. Flags override files, and later files override earlier ones.
fn values(submission: &JobSubmission) -> Vec<String> {
    let flags = submission.variable_flags.clone().unwrap_or_default();
    let decoded = |value: &str| percent_decode_str(value).decode_utf8_lossy().into_owned();
    let mut values: Vec<String> =
        flags.iter().map(|(name, value)| format!("{name} = {}", decoded(value))).collect();
    let files = submission.variables.as_deref().unwrap_or_default();
    match json_values(files).or_else(|| hcl_values(files)) {
        Some(assigned) => {
            for (at, (name, text)) in assigned.iter().enumerate() {
                let is_set_later = assigned[at + 1..].iter().any(|(later, _)| later == name);
                if !is_set_later && !flags.contains_key(name) {
                    values.push(text.clone());
                }
            }
        }
        // Files in HCL and in JSON together.
        None => values.push(files.to_owned()),
    }
    values
}

/// The values in files in HCL, with their names.
fn hcl_values(text: &str) -> Option<Vec<(String, String)>> {
    let values = jobspec::assignments(text)?;
    Some(values.into_iter().map(|(name, text)| (name, text.to_owned())).collect())
}

/// The values in files in JSON, with their names.
fn json_values(text: &str) -> Option<Vec<(String, String)>> {
    let objects = serde_json::Deserializer::from_str(text).into_iter::<Map<String, Value>>();
    let objects: Vec<_> = objects.collect::<Result<_, _>>().ok()?;
    let members = objects.into_iter().flatten();
    Some(members.map(|(name, value)| (name.clone(), format!("{name} = {value}"))).collect())
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

    #[test]
    fn each_variable_is_printed_once_with_the_value_that_counts() {
        let values_of = |flags: &[(&str, &str)], files: &str| {
            let flags = flags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            values(&JobSubmission {
                variable_flags: Some(flags.collect()),
                variables: Some(files.to_owned()),
                ..JobSubmission::default()
            })
        };
        let files = "count = 3\nimage = \"old\"\n\ntags = [\n  \"a\",\n]\ncount = 4\n";
        assert_eq!(
            values_of(&[("image", "new")], files),
            ["image = new", "tags = [\n  \"a\",\n]", "count = 4"]
        );
        let json = "{\"count\": 3, \"image\": \"old\"}\n{\"count\": 4}\n";
        assert_eq!(values_of(&[("image", "new")], json), ["image = new", "count = 4"]);
        assert_eq!(values_of(&[], "count = 3\n{\"count\": 4}\n"), ["count = 3\n{\"count\": 4}\n"]);
        assert_eq!(values_of(&[("count", "5")], ""), ["count = 5"]);
    }
}
