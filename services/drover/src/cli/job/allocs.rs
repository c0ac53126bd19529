//! `drover job allocs`: lists the allocations of a job.

use std::process::ExitCode;

use api_types::AllocListStub;
use serde_json::Value;

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::page::Page;
use crate::cli::{Session, flags, format, tables};

/// Lists the allocations of a job.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    #[command(flatten)]
    show: flags::Show,
    /// A job id or a prefix of one.
    job: String,
    /// Show allocations of earlier jobs with the same id, too.
    #[arg(long)]
    all: bool,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    let job = resolve(&session.client, &args.job).await?;
    let path = format!("/v1/job/{}/allocations", escaped(&job.id));
    let all = if args.all { "true" } else { "false" };
    let query = [("namespace", job.namespace.as_str()), ("all", all)];
    if args.show.object.is_requested() {
        let allocs: Value = session.client.get(&path, &query).await?;
        args.show.object.print(session.output, &allocs)?;
        return Ok(ExitCode::SUCCESS);
    }
    let allocs: Vec<AllocListStub> = session.client.get(&path, &query).await?;
    let mut page = Page::default();
    tables::allocs(&mut page, &allocs, format::now(), args.show.verbose);
    session.output.page(&page);
    Ok(ExitCode::SUCCESS)
}
