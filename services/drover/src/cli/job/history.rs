//! `drover job history`: shows the versions of a job and their differences.

use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use api_types::Job;
use serde::Deserialize;
use serde_json::{Value, json};

use super::diff::Diff;
use super::inspect::missing;
use super::resolve;
use crate::cli::client::escaped;
use crate::cli::object::{Object, indented};
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, format};

/// Shows the versions of a job, the newest first, and their differences.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:\n  drover job history -p web")]
pub(crate) struct Args {
    /// The id of a job, or a prefix of it.
    job: String,
    /// Show how each version differs from the one before it, or from the version of -diff-version or -diff-tag.
    #[arg(short = 'p', conflicts_with_all = ["json", "template"])]
    diffs: bool,
    /// With -p: compare with the version that has this number.
    #[arg(long, value_name = "VERSION", requires = "diffs")]
    diff_version: Option<u64>,
    /// With -p: compare with the version that has this tag.
    #[arg(long, value_name = "TAG", requires = "diffs", conflicts_with = "diff_version")]
    diff_tag: Option<String>,
    /// Print the whole job of each version as JSON.
    #[arg(long, conflicts_with_all = ["json", "template"])]
    full: bool,
    /// Show only the version with this number.
    #[arg(long, value_name = "VERSION")]
    version: Option<u64>,
    #[command(flatten)]
    object: Object,
}

/// The API's response.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct History {
    versions: Vec<Value>,
    diffs: Option<Vec<Diff>>,
}

/// One version.
struct Version {
    job: Job,
    /// The job as the API returns it.
    object: Value,
    /// The difference from the version that it is compared with.
    diff: Option<Diff>,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let job = resolve(&session.client, &self.job).await?;
        let against = self.diff_version.map(|version| version.to_string());
        let mut query = vec![("namespace", job.namespace.as_str())];
        query.extend(self.diffs.then_some(("diffs", "true")));
        query.extend(against.as_deref().map(|version| ("diff_version", version)));
        query.extend(self.diff_tag.as_deref().map(|tag| ("diff_tag", tag)));
        let path = format!("/v1/job/{}/versions", escaped(&job.id));
        let mut history: History = session.client.get(&path, &query).await?;
        if self.object.is_requested() {
            let shown = match self.version {
                None => Value::from(history.versions),
                Some(version) => {
                    let found = history.versions.iter().position(|job| job["Version"] == version);
                    history.versions.swap_remove(found.with_context(|| missing(&job.id, version))?)
                }
            };
            self.object.print(session.output, &shown)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut versions = versions(history)?;
        if let Some(version) = self.version {
            versions.retain(|one| one.job.version == Some(version));
            ensure!(!versions.is_empty(), missing(&job.id, version));
        }
        let mut page = Page::default();
        for (at, version) in versions.iter().enumerate() {
            if at > 0 {
                page.line("");
            }
            show(&mut page, version, self.full);
        }
        session.output.page(&page);
        Ok(ExitCode::SUCCESS)
    }
}

/// The versions with their differences. The oldest has none.
fn versions(history: History) -> anyhow::Result<Vec<Version>> {
    let diffs = history.diffs.unwrap_or_default().into_iter().map(Some);
    let diffs = diffs.chain(std::iter::repeat_with(|| None));
    let version = |(object, diff): (Value, Option<Diff>)| {
        let job = api_types::decode::from_slice(object.to_string().as_bytes())?;
        Ok(Version { job, object, diff })
    };
    history.versions.into_iter().zip(diffs).map(version).collect()
}

fn show(page: &mut Page, version: &Version, full: bool) {
    let Version { job, object, diff } = version;
    let mut pairs = vec![
        ("Version", job.version.unwrap_or_default().to_string()),
        ("Stable", job.stable.unwrap_or_default().to_string()),
        ("Submit Date", format::moment(job.submit_time.unwrap_or_default())),
    ];
    if let Some(tag) = &job.version_tag {
        pairs.push(("Tag Name", format::text(tag.name.as_ref())));
        let description = tag.description.as_ref().filter(|description| !description.is_empty());
        pairs.extend(description.map(|description| ("Tag Description", description.clone())));
    }
    page.block(&pairs);
    if let Some(diff) = diff {
        page.title("Diff");
        if diff.is_none() {
            page.line("No differences");
        } else {
            diff.show(page, false);
        }
    }
    if full {
        page.title("Full Job");
        page.line(indented(&json!({ "Job": object })));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str, full: bool) -> String {
        let history = api_types::decode::from_slice(json.as_bytes()).unwrap();
        let mut page = Page::default();
        versions(history).unwrap().iter().for_each(|version| show(&mut page, version, full));
        page.to_string()
    }

    #[test]
    fn each_version_says_what_differs_from_the_one_before() {
        let text = shown(
            r#"{"Versions": [
                {"ID": "shop", "Version": 2, "SubmitTime": 1136214245000000000, "VersionTag": {"Name": "golden", "Description": "it works"}},
                {"ID": "shop", "Version": 1, "Stable": true},
                {"ID": "shop", "Version": 0}],
            "Diffs": [
                {"Type": "Edited", "ID": "shop", "Fields": [{"Type": "Edited", "Name": "Priority", "Old": "50", "New": "60"}]},
                {"Type": "None", "ID": "shop"}]}"#,
            false,
        );
        insta::assert_snapshot!(text, @r#"
        Version         = 2
        Stable          = false
        Submit Date     = 2006-01-02T15:04:05Z
        Tag Name        = golden
        Tag Description = it works

        Diff
        +/- Job: "shop"
        +/- Priority: "50" => "60"
        Version     = 1
        Stable      = true
        Submit Date = <none>

        Diff
        No differences
        Version     = 0
        Stable      = false
        Submit Date = <none>
        "#);
    }

    #[test]
    fn a_version_is_shown_whole_where_that_is_wanted() {
        let text = shown(r#"{"Versions": [{"ID": "shop", "Version": 0}], "Diffs": null}"#, true);
        insta::assert_snapshot!(text, @r#"
        Version     = 0
        Stable      = false
        Submit Date = <none>

        Full Job
        {
            "Job": {
                "ID": "shop",
                "Version": 0
            }
        }
        "#);
    }
}
