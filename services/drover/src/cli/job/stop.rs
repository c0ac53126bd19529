//! `drover job stop`: stops jobs, and follows them until the scheduler is done.

use std::process::ExitCode;

use api_types::JobDeregisterResponse;

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::confirm::ask;
use crate::cli::monitor::Until;
use crate::cli::{Session, flags};

/// Stops jobs, and follows them until the scheduler is done.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    /// Job ids or prefixes of them.
    #[arg(required = true)]
    jobs: Vec<String>,
    /// Delete the jobs and everything that belongs to them.
    #[arg(long)]
    purge: bool,
    /// Return once the stop is requested.
    #[arg(long)]
    detach: bool,
    /// Do not ask for confirmation if a prefix is given.
    #[arg(long)]
    yes: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
    /// Priority of the evaluation, from 1 to 100. By default, that of the job.
    #[arg(long, value_name = "PRIORITY", default_value_t = 0)]
    eval_priority: i64,
    /// Stop without the tasks' shutdown delay.
    #[arg(long)]
    no_shutdown_delay: bool,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    let mut exit = ExitCode::SUCCESS;
    for name in &args.jobs {
        let job = resolve(&session.client, name).await?;
        if !job.is_exact && !args.yes && !ask(&question(&job.id))? {
            session.output.line("Cancelling job stop");
            continue;
        }
        let priority = args.eval_priority.to_string();
        let query = [
            ("namespace", job.namespace.as_str()),
            ("purge", if args.purge { "true" } else { "false" }),
            ("no_shutdown_delay", if args.no_shutdown_delay { "true" } else { "false" }),
            ("eval_priority", priority.as_str()),
        ];
        let path = format!("/v1/job/{}", escaped(&job.id));
        let stopped: JobDeregisterResponse = session.client.delete(&path, &query).await?;
        match stopped.eval_id.filter(|eval| !eval.is_empty()) {
            None => session.output.line(&format!("Job \"{}\" stopped", job.id)),
            Some(eval) if args.detach => session.output.line(&eval),
            Some(eval) => {
                let followed = session.follow(&eval, Until::Scheduled, args.verbose).await?;
                if followed != ExitCode::SUCCESS {
                    exit = followed;
                }
            }
        }
    }
    Ok(exit)
}

fn question(job: &str) -> String {
    format!("Are you sure you want to stop job \"{job}\"?")
}
