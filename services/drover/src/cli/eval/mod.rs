//! `drover eval …`: commands for evaluations.

pub(crate) mod list;
pub(crate) mod status;

use api_types::Evaluation;

use super::format;
use super::page::Page;

/// Shows evaluations.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Lists all evaluations
    List(list::Args),
    /// Shows an evaluation, and why allocations could not be placed
    Status(status::Args),
}

/// A table of evaluations, the newest first.
pub(super) fn table(page: &mut Page, evals: &[Evaluation], verbose: bool) {
    let mut evals: Vec<&Evaluation> = evals.iter().collect();
    evals.sort_by_key(|eval| (std::cmp::Reverse(eval.create_index), eval.id.clone()));
    let rows = evals.into_iter().map(|eval| {
        [
            format::id(eval.id.as_ref(), verbose),
            format::number(eval.priority),
            format::text(eval.triggered_by.as_ref()),
            format::text(eval.status.as_ref()),
            has_failures(eval).to_string(),
        ]
    });
    page.table(&["ID", "Priority", "Triggered By", "Status", "Placement Failures"], rows);
}

fn has_failures(eval: &Evaluation) -> bool {
    eval.failed_tg_allocs.as_ref().is_some_and(|failed| !failed.is_empty())
}
