//! `drover job inspect`: prints a job as the API returns it.

use std::process::ExitCode;

use anyhow::Context as _;
use api_types::JobSubmission;
use model::cluster::Namespace;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::{ResolvedJob, resolve};
use crate::cli::client::{Client, escaped};
use crate::cli::object::{Object, indented};
use crate::cli::paging::quote;
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
    /// With -hcl: also print, to standard error, how to run the job with the values that its variables had.
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
            session.output.raw(source(&submission).as_bytes());
            if self.with_vars {
                let command = command_line(&job, self.version, &submission);
                let title = "To run this job as originally submitted:";
                session.output.report(|_| format!("\n{title}\n{command}"));
            }
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

/// The job file.
fn source(submission: &JobSubmission) -> String {
    let mut text = submission.source.clone().unwrap_or_default();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// The command that registers a version as it was registered, for a shell.
fn command_line(job: &ResolvedJob, version: Option<u64>, submission: &JobSubmission) -> String {
    let namespace = (job.namespace != Namespace::DEFAULT).then(|| format!("-namespace={}", job.namespace));
    let version = version.map(|version| format!("-version={version}"));
    let mut inspect = vec!["drover job inspect -hcl".to_owned()];
    inspect.extend(namespace.iter().chain(&version).map(|flag| quote(flag)));
    inspect.push(quote(&job.id));
    let mut run = vec!["drover job run".to_owned()];
    run.extend(namespace.iter().map(|flag| quote(flag)));
    if submission.format.as_deref() == Some("json") {
        run.push("-json".to_owned());
    }
    let Values { pairs, files } = Values::of(submission);
    let assignments = pairs.iter().map(|(name, value)| quote(&format!("{name}={value}")));
    run.extend(assignments.flat_map(|assignment| ["-var".to_owned(), assignment]));
    run.push("-".to_owned());
    let command = format!("{} | {}", inspect.join(" "), run.join(" "));
    match files.is_empty() {
        true => command,
        false => {
            format!("{command}\n\nwith the values in these files, for which it needs -var-file:\n{files}")
        }
    }
}

/// The values that the variables of a job file had.
struct Values {
    /// Names and values, in the notation of `-var`.
    pairs: Vec<(String, String)>,
    /// The text of files with values, if it cannot be taken apart.
    files: String,
}

impl Values {
    /// Flags override files, and later files override earlier ones.
    fn of(submission: &JobSubmission) -> Self {
        let flags = submission.variable_flags.clone().unwrap_or_default();
        let decoded = |value: &str| percent_decode_str(value).decode_utf8_lossy().into_owned();
        let mut pairs: Vec<(String, String)> =
            flags.iter().map(|(name, value)| (name.clone(), decoded(value))).collect();
        let files = submission.variables.as_deref().unwrap_or_default();
        let Some(assigned) = json_values(files).or_else(|| hcl_values(files)) else {
            // Files in HCL and in JSON together.
            return Self { pairs, files: files.to_owned() };
        };
        for (at, (name, value)) in assigned.iter().enumerate() {
            let is_set_later = assigned[at + 1..].iter().any(|(later, _)| later == name);
            if !is_set_later && !flags.contains_key(name) {
                pairs.push((name.clone(), value.clone()));
            }
        }
        Self { pairs, files: String::new() }
    }
}

/// The values in files in HCL, with their names.
fn hcl_values(text: &str) -> Option<Vec<(String, String)>> {
    let assigned = jobspec::assignments(text)?.into_iter();
    let value = |(name, text): (String, &str)| {
        let (_, value) = text.split_once('=').unwrap_or_default();
        (name, flag_value(value.trim()))
    };
    Some(assigned.map(value).collect())
}

/// A value of HCL in the notation of `-var`, in which a text has no quotes.
fn flag_value(text: &str) -> String {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.filter(|inner| !inner.contains(['"', '\\', '$', '%'])).unwrap_or(text).to_owned()
}

/// The values in files in JSON, with their names.
fn json_values(text: &str) -> Option<Vec<(String, String)>> {
    let objects = serde_json::Deserializer::from_str(text).into_iter::<Map<String, Value>>();
    let objects: Vec<_> = objects.collect::<Result<_, _>>().ok()?;
    let value = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Some(objects.into_iter().flatten().map(|(name, found)| (name, value(found))).collect())
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

    fn resolved(id: &str, namespace: &str) -> ResolvedJob {
        ResolvedJob { id: id.to_owned(), namespace: namespace.to_owned(), is_exact: true }
    }

    #[test]
    fn a_job_file_comes_with_the_command_that_runs_it() {
        let submission = JobSubmission {
            source: Some("job \"web\" {}".to_owned()),
            variable_flags: Some([("image".to_owned(), "a%22b%0Ac".to_owned())].into()),
            variables: Some("count = 3\n\n".to_owned()),
            ..JobSubmission::default()
        };
        assert_eq!(source(&submission), "job \"web\" {}\n");
        assert_eq!(
            command_line(&resolved("web", "default"), None, &submission),
            "drover job inspect -hcl web | drover job run -var 'image=a\"b\nc' -var count=3 -"
        );
        let json = JobSubmission { format: Some("json".to_owned()), ..JobSubmission::default() };
        assert_eq!(
            command_line(&resolved("a b", "team"), Some(7), &json),
            "drover job inspect -hcl -namespace=team -version=7 'a b' | drover job run -namespace=team -json -"
        );
    }

    #[test]
    fn each_variable_is_set_once_to_the_value_that_counts() {
        let values_of = |flags: &[(&str, &str)], files: &str| {
            let flags = flags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let submission = JobSubmission {
                variable_flags: Some(flags.collect()),
                variables: Some(files.to_owned()),
                ..JobSubmission::default()
            };
            let Values { pairs, files } = Values::of(&submission);
            let mut values: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
            values.extend(Some(files).filter(|files| !files.is_empty()));
            values
        };
        let files = "count = 3\nimage = \"old\"\n\nname = \"web\"\ntags = [\n  \"a\",\n]\ncount = 4\n";
        assert_eq!(
            values_of(&[("image", "new")], files),
            ["image=new", "name=web", "tags=[\n  \"a\",\n]", "count=4"]
        );
        let json = "{\"count\": 3, \"image\": \"old\"}\n{\"count\": 4, \"name\": \"web\"}\n";
        assert_eq!(values_of(&[("image", "new")], json), ["image=new", "count=4", "name=web"]);
        assert_eq!(values_of(&[], "count = 3\n{\"count\": 4}\n"), ["count = 3\n{\"count\": 4}\n"]);
        assert_eq!(values_of(&[("count", "5")], ""), ["count=5"]);
        assert_eq!(flag_value("\"${a}\""), "\"${a}\"", "a template is not a text");
    }
}
