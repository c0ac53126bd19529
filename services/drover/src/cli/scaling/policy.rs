//! `drover scaling policy …`: shows the policies by which an autoscaler scales task groups.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use api_types::{ScalingPolicy, ScalingPolicyListStub};
use serde_json::{Value, json};

use crate::cli::object::indented;
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, WithApi, flags, format};
use crate::command::commands;

const LIST: &str = "/v1/scaling/policies";

commands! {
    /// Shows scaling policies.
    Command {
        Info(WithApi<Info>),
        List(WithApi<List>),
    }
}

/// Shows a scaling policy.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Info {
    #[command(flatten)]
    show: flags::Show,
    /// The id of a scaling policy, or a prefix of it. Without it, -json and -t print the list of all policies.
    #[arg(required_unless_present_any = ["json", "template"])]
    policy: Option<String>,
}

/// Lists scaling policies.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct List {
    #[command(flatten)]
    show: flags::Show,
    /// Show only policies of the job with this id.
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// Show only policies of this type, such as `horizontal`.
    #[arg(long, value_name = "TYPE")]
    r#type: Option<String>,
}

impl ApiCommand for List {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let (job, kind) = (self.job.unwrap_or_default(), self.r#type.unwrap_or_default());
        let query = [("job", job.as_str()), ("type", kind.as_str())];
        if self.show.object.is_requested() {
            let policies: Value = session.client.get(LIST, &query).await?;
            self.show.object.print(session.output, &policies)?;
            return Ok(ExitCode::SUCCESS);
        }
        let policies: Vec<ScalingPolicyListStub> = session.client.get(LIST, &query).await?;
        let mut page = Page::default();
        match policies.is_empty() {
            true => page.line("No policies found"),
            false => table(&mut page, &policies, self.show.verbose),
        }
        session.output.page(&page);
        Ok(ExitCode::SUCCESS)
    }
}

impl ApiCommand for Info {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let Some(prefix) = &self.policy else {
            let policies: Value = session.client.get(LIST, &[]).await?;
            self.show.object.print(session.output, &policies)?;
            return Ok(ExitCode::SUCCESS);
        };
        let policies: Vec<ScalingPolicyListStub> = session.client.get(LIST, &[]).await?;
        let id = chosen(policies, prefix, self.show.verbose)?;
        let path = format!("/v1/scaling/policy/{id}");
        if self.show.object.is_requested() {
            let policy: Value = session.client.get(&path, &[]).await?;
            self.show.object.print(session.output, &policy)?;
            return Ok(ExitCode::SUCCESS);
        }
        let policy: ScalingPolicy = session.client.get(&path, &[]).await?;
        session.output.page(&page(&policy, self.show.verbose));
        Ok(ExitCode::SUCCESS)
    }
}

/// The id of the only policy with this prefix.
fn chosen(mut policies: Vec<ScalingPolicyListStub>, prefix: &str, verbose: bool) -> anyhow::Result<String> {
    let prefix = prefix.to_lowercase();
    policies.retain(|policy| policy.id.as_ref().is_some_and(|id| id.starts_with(&prefix)));
    match &policies[..] {
        [] => {
            bail!("Error querying scaling policy: no scaling policies with prefix or ID \"{prefix}\" found")
        }
        [only] => Ok(format::text(only.id.as_ref())),
        several => {
            let mut page = Page::default();
            table(&mut page, several, verbose);
            bail!("Prefix matched multiple scaling policies\n\n{}", page.to_string().trim_end())
        }
    }
}

fn table(page: &mut Page, policies: &[ScalingPolicyListStub], verbose: bool) {
    let rows = policies.iter().map(|policy| {
        [
            format::id(policy.id.as_ref(), verbose),
            policy.enabled.unwrap_or_default().to_string(),
            format::text(policy.r#type.as_ref()),
            target(policy.target.as_ref()),
        ]
    });
    page.table(&["ID", "Enabled", "Type", "Target"], rows);
}

fn page(policy: &ScalingPolicy, verbose: bool) -> Page {
    let mut page = Page::default();
    page.block(&[
        ("ID", format::id(policy.id.as_ref(), verbose)),
        ("Enabled", policy.enabled.unwrap_or_default().to_string()),
        ("Target", target(policy.target.as_ref())),
        ("Min", format::number(policy.min)),
        ("Max", format::number(policy.max)),
    ]);
    page.title("Policy:");
    page.line(indented(&json!(policy.policy)));
    page
}

/// A target from the outside to the inside, such as `Namespace:default,Job:web,Group:g`.
fn target(target: Option<&BTreeMap<String, String>>) -> String {
    let parts = ["Namespace", "Job", "Group", "Task"].into_iter();
    let parts = parts.filter_map(|part| Some(format!("{part}:{}", target?.get(part)?)));
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stub(id: &str) -> ScalingPolicyListStub {
        let target = [("Group", "g"), ("Job", "web"), ("Namespace", "default")];
        let target = target.map(|(name, value)| (name.to_owned(), value.to_owned()));
        ScalingPolicyListStub {
            id: Some(id.to_owned()),
            enabled: Some(true),
            r#type: Some("horizontal".to_owned()),
            target: Some(target.into()),
            ..ScalingPolicyListStub::default()
        }
    }

    #[test]
    fn policies_are_listed_with_their_targets() {
        // cli.md §13.
        let mut page = Page::default();
        table(&mut page, &[stub("0a1b2c3d-0000-4000-8000-000000000000")], false);
        let text = page.to_string();
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row, ["0a1b2c3d", "true", "horizontal", "Namespace:default,Job:web,Group:g"]);
    }

    #[test]
    fn a_policy_is_found_by_its_prefix() {
        let policies = || vec![stub("0a1b"), stub("0a2b")];
        let chosen = |prefix: &str| chosen(policies(), prefix, false).map_err(|error| error.to_string());
        assert_eq!(chosen("0A1"), Ok("0a1b".to_owned()));
        let text = "Error querying scaling policy: no scaling policies with prefix or ID \"zz\" found";
        assert_eq!(chosen("zz"), Err(text.to_owned()));
        assert!(chosen("0a").unwrap_err().starts_with("Prefix matched multiple scaling policies\n\nID"));
    }
}
