//! `drover eval delete`: deletes evaluations, while the evaluation broker is paused.

use std::process::ExitCode;

use anyhow::bail;
use api_types::Evaluation;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::confirm::ask;
use crate::cli::page::Page;
use crate::cli::prefix::{Kind, resolve_id};
use crate::cli::{ApiCommand, Session, tables};

const LIST: &str = "/v1/evaluations";

/// Deletes an evaluation, or all that match a filter. The evaluation broker must be paused.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of an evaluation, or a prefix of it.
    #[arg(conflicts_with = "filter")]
    eval: Option<String>,
    /// Delete all evaluations that match this filter expression, such as `Status == complete`.
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
    /// Do not ask for confirmation. Only a filter needs one.
    #[arg(long, requires = "filter")]
    yes: bool,
}

/// A number of evaluations.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Counted {
    count: u64,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let Self { eval, filter, yes } = self;
        let Session { client, output } = &session;
        if eval.is_none() && filter.is_none() {
            bail!("Error validating command args and flags: evaluation ID or filter flag required");
        }
        let settings: Value = client.get("/v1/operator/scheduler/configuration", &[]).await?;
        if settings["SchedulerConfig"]["PauseEvalBroker"] != true {
            const SET: &str = "drover operator scheduler set-config -pause-eval-broker";
            output.line(&format!("To pause the evaluation broker, run: {SET}=true"));
            output.line(&format!("To unpause it afterwards, run: {SET}=false"));
            bail!("Eval broker is not paused");
        }
        let body = match (eval, filter) {
            (Some(prefix), _) => {
                let kind = Kind {
                    list: LIST,
                    plural: "evaluations",
                    not_found: "No evaluation(s) with prefix or id \"{}\" found",
                    id: |eval: &Evaluation| eval.id.as_ref(),
                    table: |evals, verbose| {
                        let mut page = Page::default();
                        tables::evals(&mut page, evals, verbose);
                        page
                    },
                };
                let id = resolve_id(client, &kind, &prefix, false).await?;
                json!({ "EvalIDs": [id] })
            }
            (None, filter) => {
                let filter = filter.unwrap_or_default();
                if !yes {
                    let query = [("filter", filter.as_str())];
                    let Counted { count } = client.get("/v1/evaluations/count", &query).await?;
                    let evals = if count == 1 { "eval" } else { "evals" };
                    if !ask(&format!("Are you sure you want to delete {count} {evals}?"))? {
                        output.line("Cancelling eval deletion\n");
                        output.line("No evaluations were deleted");
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                json!({ "Filter": filter })
            }
        };
        let Counted { count } = client.delete_with(LIST, &body).await?;
        let evaluations = if count == 1 { "evaluation" } else { "evaluations" };
        output.line(&format!("Successfully deleted {count} {evaluations}"));
        Ok(ExitCode::SUCCESS)
    }
}
