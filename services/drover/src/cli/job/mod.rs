//! `drover job …`: commands for jobs.

pub(crate) mod action;
mod allocs;
mod deployments;
mod diff;
mod eval;
pub(crate) mod file;
mod history;
pub(crate) mod init;
pub(crate) mod inspect;
pub(crate) mod plan;
mod promote;
mod restart;
mod revert;
pub(crate) mod run;
mod scale;
mod scaling_events;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod stop;
mod tag;
pub(crate) mod validate;

use api_types::JobListStub;

use super::WithApi;
use super::client::Client;
use super::page::Page;
use crate::command::commands;

commands! {
    /// Registers, shows and stops jobs, and runs their actions.
    Command {
        Action(WithApi<action::Args>),
        Allocs(WithApi<allocs::Args>),
        Deployments(WithApi<deployments::Args>),
        Eval(WithApi<eval::Args>),
        History(WithApi<history::Args>),
        Init(init::Args),
        Inspect(WithApi<inspect::Args>),
        Plan(WithApi<plan::Args>),
        Promote(WithApi<promote::Args>),
        Restart(WithApi<restart::Args>),
        Revert(WithApi<revert::Args>),
        Run(WithApi<run::Args>),
        Scale(WithApi<scale::Args>),
        ScalingEvents(WithApi<scaling_events::Args>),
        Start(WithApi<start::Args>),
        Status(WithApi<status::Args>),
        Stop(WithApi<stop::Args>),
        #[command(subcommand)]
        Tag(tag::Command),
        Validate(WithApi<validate::Args>),
    }
}

/// Finds the job with this id, or the only job with this prefix (`docs/rules/cli.md` 1.4).
pub(super) async fn resolve(client: &Client, name: &str) -> anyhow::Result<ResolvedJob> {
    let mut found: Vec<JobListStub> = client.get("/v1/jobs", &[("prefix", name)]).await?;
    if let Some(exact) = found.iter().position(|job| job.id.as_deref() == Some(name)) {
        found = vec![found.swap_remove(exact)];
    }
    match found.as_slice() {
        [] => anyhow::bail!("No job(s) with prefix or ID \"{name}\" found"),
        [job] => {
            let id = job.id.clone().unwrap_or_default();
            let namespace = job.namespace.clone().unwrap_or_default();
            Ok(ResolvedJob { is_exact: id == name, id, namespace })
        }
        several => {
            let mut page = Page::default();
            status::table(&mut page, several, false);
            anyhow::bail!("Prefix matched multiple jobs\n\n{}", page.to_string().trim_end())
        }
    }
}

/// A job that was found.
pub(super) struct ResolvedJob {
    pub(super) id: String,
    pub(super) namespace: String,
    /// Whether the name is the whole id, not a prefix.
    pub(super) is_exact: bool,
}
