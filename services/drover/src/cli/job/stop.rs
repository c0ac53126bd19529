//! `drover job stop`: stops jobs, and follows them until the scheduler is done.

use std::process::ExitCode;

use api_types::JobDeregisterResponse;

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::confirm::ask;
use crate::cli::monitor::Until;
use crate::cli::{ApiCommand, Session};

/// Stops jobs, and follows their evaluations until they are complete.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:\n  drover job stop web\n  drover job stop -purge -yes web")]
pub(crate) struct Args {
    /// The ids of jobs, or prefixes of them.
    #[arg(required = true)]
    jobs: Vec<String>,
    /// Delete the jobs and everything that belongs to them from the state.
    #[arg(long)]
    purge: bool,
    /// Print the ids of the evaluations, and do not follow them.
    #[arg(long)]
    detach: bool,
    /// Do not ask for confirmation. Without this flag, a prefix of an id needs one.
    #[arg(long)]
    yes: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
    /// The priority of the evaluation, from 1 to 100. 0 stands for the priority of the job.
    #[arg(long, value_name = "PRIORITY", default_value_t = 0)]
    eval_priority: i64,
    /// Stop the job in all of its regions. A cluster is one region.
    #[arg(long)]
    global: bool,
    /// Stop the tasks without their shutdown delay.
    #[arg(long)]
    no_shutdown_delay: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let mut exit = ExitCode::SUCCESS;
        for name in &self.jobs {
            let job = resolve(&session.client, name).await?;
            if !job.is_exact && !self.yes && !ask(&question(&job.id))? {
                session.output.line("Cancelling job stop");
                continue;
            }
            let priority = self.eval_priority.to_string();
            let query = [
                ("namespace", job.namespace.as_str()),
                ("purge", if self.purge { "true" } else { "false" }),
                ("global", if self.global { "true" } else { "false" }),
                ("no_shutdown_delay", if self.no_shutdown_delay { "true" } else { "false" }),
                ("eval_priority", priority.as_str()),
            ];
            let path = format!("/v1/job/{}", escaped(&job.id));
            let stopped: JobDeregisterResponse = session.client.delete(&path, &query).await?;
            match stopped.eval_id.filter(|eval| !eval.is_empty()) {
                None if self.detach => {}
                None => session.output.line(&format!("Job \"{}\" stopped", job.id)),
                Some(eval) if self.detach => session.output.line(&eval),
                Some(eval) => {
                    let followed = session.follow(&eval, Until::Scheduled, self.verbose).await?;
                    if followed != ExitCode::SUCCESS {
                        exit = followed;
                    }
                }
            }
        }
        Ok(exit)
    }
}

fn question(job: &str) -> String {
    format!("Are you sure you want to stop job \"{job}\"?")
}
