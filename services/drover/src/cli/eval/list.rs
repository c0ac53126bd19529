//! `drover eval list`: lists evaluations.

use std::process::ExitCode;

use api_types::Evaluation;
use serde_json::Value;

use crate::cli::page::Page;
use crate::cli::paging::{self, Paging};
use crate::cli::{ApiCommand, Session, flags, format, tables};

const LIST: &str = "/v1/evaluations";

/// Lists evaluations, in the order of their creation.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    show: flags::Show,
    #[command(flatten)]
    paging: Paging,
    /// Show only evaluations of the job with this id. Cannot be combined with -filter.
    #[arg(long, value_name = "JOB", conflicts_with = "filter")]
    job: Option<String>,
    /// Show only evaluations with this status, such as `pending`. Cannot be combined with -filter.
    #[arg(long, value_name = "STATUS", conflicts_with = "filter")]
    status: Option<String>,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let paging = self.paging.query();
        let mut query: Vec<_> = paging.iter().map(|(name, value)| (*name, value.as_str())).collect();
        query.extend(self.job.as_deref().map(|job| ("job", job)));
        query.extend(self.status.as_deref().map(|status| ("status", status)));
        if self.show.object.is_requested() {
            let (evals, next): (Value, _) = session.client.get_page(LIST, &query).await?;
            self.show.object.print(session.output, &evals)?;
            paging::report_next(session.output, next.as_deref());
            return Ok(ExitCode::SUCCESS);
        }
        let (evals, next): (Vec<Evaluation>, _) = session.client.get_page(LIST, &query).await?;
        let mut page = Page::default();
        if evals.is_empty() {
            page.line("No evals found");
        } else {
            table(&mut page, &evals, self.show.verbose);
        }
        if let Some(token) = next {
            paging::print_next(&mut page, &token);
        }
        session.output.page(&page);
        Ok(ExitCode::SUCCESS)
    }
}

fn table(page: &mut Page, evals: &[Evaluation], verbose: bool) {
    let rows = evals.iter().map(|eval| {
        [
            format::id(eval.id.as_ref(), verbose),
            format::number(eval.priority),
            format::text(eval.triggered_by.as_ref()),
            format::text(eval.job_id.as_ref()),
            format::text(eval.namespace.as_ref()),
            format::id(eval.node_id.as_ref(), verbose),
            format::text(eval.status.as_ref()),
            tables::placement_failures(eval),
        ]
    });
    let header =
        ["ID", "Priority", "Triggered By", "Job ID", "Namespace", "Node ID", "Status", "Placement Failures"];
    page.table(&header, rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluations_are_listed_as_they_come() {
        let eval = |id: &str, node: &str| Evaluation {
            id: Some(id.to_owned()),
            priority: Some(50),
            triggered_by: Some("node-update".to_owned()),
            job_id: Some("web".to_owned()),
            namespace: Some("default".to_owned()),
            node_id: Some(node.to_owned()),
            status: Some("complete".to_owned()),
            ..Evaluation::default()
        };
        let mut page = Page::default();
        table(&mut page, &[eval("e0000000-0000", "40000000-0000"), eval("a0000000-0000", "")], false);
        table(&mut page, &[eval("e0000000-0000", "40000000-0000")], true);
        insta::assert_snapshot!(page, @r"
        ID        Priority  Triggered By  Job ID  Namespace  Node ID   Status    Placement Failures
        e0000000  50        node-update   web     default    40000000  complete  false
        a0000000  50        node-update   web     default    <none>    complete  false
        ID             Priority  Triggered By  Job ID  Namespace  Node ID        Status    Placement Failures
        e0000000-0000  50        node-update   web     default    40000000-0000  complete  false
        ");
    }
}
