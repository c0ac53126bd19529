//! `drover job …`: commands for jobs.

pub(crate) mod allocs;
mod diff;
pub(crate) mod eval;
pub(crate) mod file;
pub(crate) mod history;
pub(crate) mod init;
pub(crate) mod inspect;
pub(crate) mod plan;
pub(crate) mod restart;
pub(crate) mod run;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod validate;

use api_types::JobListStub;

use super::client::Client;
use super::page::Page;

/// Registers, shows and stops jobs.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Lists the allocations of a job
    Allocs(allocs::Args),
    /// Creates an evaluation of a job
    Eval(eval::Args),
    /// Shows the versions of a job and their differences
    History(history::Args),
    /// Writes an example job file
    Init(init::Args),
    /// Prints a job as JSON
    Inspect(inspect::Args),
    /// Shows what registering a job would change
    Plan(plan::Args),
    /// Restarts a job's allocations in batches
    Restart(restart::Args),
    /// Registers a job and follows it until its tasks run
    Run(run::Args),
    /// Shows jobs, or one job with its allocations
    Status(status::Args),
    /// Stops jobs and follows them until the scheduler is done
    Stop(stop::Args),
    /// Checks a job file and the job in it
    Validate(validate::Args),
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
