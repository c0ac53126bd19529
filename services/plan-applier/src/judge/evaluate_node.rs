//! Evaluates the jobs that a node affects again (http-api §17).

use wire::command::{Done, EvaluateNode};
use wire::{Refusal, RefusalKind};

use super::nodes::affected_jobs;
use super::work::{Work, refusal};

pub(super) fn evaluate_node(work: &mut Work<'_>, command: EvaluateNode) -> Result<Done, Refusal> {
    let Some(node) = work.state().node(command.node) else {
        return Err(refusal(RefusalKind::NotFound, "node not found"));
    };
    let object_index = node.server().modify_index;
    let affected = affected_jobs(work.state(), &[command.node]);
    work.evaluate_affected(affected)?;
    Ok(Done { object_index, ..Done::default() })
}
