//! `drover job scale`: changes the count of a task group.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, ensure};
use api_types::{JobRegisterResponse, JobScaleStatus, TaskGroupScaleStatus};
use serde_json::json;

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::monitor::Until;
use crate::cli::{ApiCommand, Session};

/// The message of the scaling event.
const MESSAGE: &str = "submitted using the Nomad CLI";

/// Changes the count of a task group, and follows the evaluation.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of a job, or a prefix of it.
    job: String,
    /// The task group, or the count if the job has only one group.
    #[arg(value_name = "GROUP_OR_COUNT")]
    group_or_count: String,
    /// The count.
    count: Option<String>,
    /// Scale only if the modify index of the job is this.
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    check_index: u64,
    /// Print the id of the evaluation, and do not follow it.
    #[arg(long)]
    detach: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let (group, count) = match &self.count {
            Some(count) => (Some(self.group_or_count.as_str()), count),
            None => (None, &self.group_or_count),
        };
        let count = parsed(count)?;
        let job = resolve(&session.client, &self.job).await?;
        let namespace = [("namespace", job.namespace.as_str())];
        let path = format!("/v1/job/{}/scale", escaped(&job.id));
        let status: JobScaleStatus = session.client.get(&path, &namespace).await?;
        let group = chosen(&status.task_groups.unwrap_or_default(), group)?;
        let body = json!({
            "Target": { "Namespace": job.namespace, "Job": job.id, "Group": group },
            "Count": count,
            "Message": MESSAGE,
            "JobModifyIndex": self.check_index,
        });
        let scaled = session.client.put_with(&path, &namespace, &body).await;
        let scaled: JobRegisterResponse = scaled.context("Error submitting scaling request")?;
        let eval = scaled.eval_id.unwrap_or_default();
        if self.detach || eval.is_empty() {
            session.output.line("Job scale successful");
            session.output.line(&format!("Evaluation ID: {eval}"));
            return Ok(ExitCode::SUCCESS);
        }
        session.follow(&eval, Until::Running, self.verbose).await
    }
}

/// The count that a text says.
fn parsed(text: &str) -> anyhow::Result<i64> {
    text.parse().map_err(|_| {
        anyhow!("Failed to convert count string to int: strconv.Atoi: parsing \"{text}\": invalid syntax")
    })
}

/// The group that is named, or the only one.
fn chosen(groups: &BTreeMap<String, TaskGroupScaleStatus>, named: Option<&str>) -> anyhow::Result<String> {
    match named {
        Some(named) => {
            ensure!(groups.contains_key(named), "Group {named} not found within job");
            Ok(named.to_owned())
        }
        None => {
            let mut names = groups.keys();
            match (names.next(), names.next()) {
                (Some(only), None) => Ok(only.clone()),
                (None | Some(_), _) => Err(anyhow!("Group name required")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(names: &[&str]) -> BTreeMap<String, TaskGroupScaleStatus> {
        names.iter().map(|name| ((*name).to_owned(), TaskGroupScaleStatus::default())).collect()
    }

    #[test]
    fn the_only_group_need_not_be_named() {
        // cli.md 4.8.
        let text = |names: &[&str], named| chosen(&groups(names), named).map_err(|error| error.to_string());
        assert_eq!(text(&["web"], None), Ok("web".to_owned()));
        assert_eq!(text(&["db", "web"], Some("web")), Ok("web".to_owned()));
        assert_eq!(text(&["db", "web"], None), Err("Group name required".to_owned()));
        assert_eq!(text(&["web"], Some("g")), Err("Group g not found within job".to_owned()));
    }

    #[test]
    fn a_count_is_a_number() {
        assert_eq!(parsed("3").unwrap(), 3);
        let text = "Failed to convert count string to int: strconv.Atoi: parsing \"x\": invalid syntax";
        assert_eq!(parsed("x").unwrap_err().to_string(), text);
    }
}
