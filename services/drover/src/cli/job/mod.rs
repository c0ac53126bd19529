//! `drover job …`: commands for jobs.

pub(crate) mod action;
mod allocs;
mod children;
mod deployments;
mod diff;
mod dispatch;
mod eval;
pub(crate) mod file;
mod history;
pub(crate) mod init;
pub(crate) mod inspect;
mod periodic;
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
        Dispatch(WithApi<dispatch::Args>),
        Eval(WithApi<eval::Args>),
        History(WithApi<history::Args>),
        Init(init::Args),
        Inspect(WithApi<inspect::Args>),
        #[command(subcommand)]
        Periodic(periodic::Command),
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

/// The kind of job that a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Any job.
    Any,
    /// A periodic job.
    Periodic,
    /// A parameterized job.
    Parameterized,
}

/// Finds the job with this id, or the only job with this prefix (`docs/rules/cli.md` 1.4).
pub(super) async fn resolve(client: &Client, name: &str) -> anyhow::Result<ResolvedJob> {
    resolve_kind(client, name, Kind::Any).await
}

/// Like [`resolve`], among jobs of one kind.
pub(super) async fn resolve_kind(client: &Client, name: &str, kind: Kind) -> anyhow::Result<ResolvedJob> {
    let mut found: Vec<JobListStub> = client.get("/v1/jobs", &[("prefix", name)]).await?;
    let kind = match kind {
        Kind::Any => "",
        Kind::Periodic => {
            found.retain(|job| job.periodic == Some(true));
            "periodic "
        }
        Kind::Parameterized => {
            found.retain(|job| job.parameterized_job == Some(true));
            "parameterized "
        }
    };
    if let Some(exact) = found.iter().position(|job| job.id.as_deref() == Some(name)) {
        found = vec![found.swap_remove(exact)];
    }
    match found.as_slice() {
        [] => anyhow::bail!("No {kind}job(s) with prefix or ID \"{name}\" found"),
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
