//! The jobs that a node concerns are to be looked at again (http-api §17).

use wire::command::{Done, EvaluateNode};
use wire::{Refusal, RefusalKind};

use super::nodes::jobs_concerned;
use super::work::{Work, refusal};

pub(super) fn evaluate_node(work: &mut Work<'_>, command: EvaluateNode) -> Result<Done, Refusal> {
    let Some(node) = work.state().node(command.node) else {
        return Err(refusal(RefusalKind::NotFound, "node not found"));
    };
    let object_index = node.server().modify_index;
    let concerned = jobs_concerned(work.state(), &[command.node]);
    work.evaluate_concerned(concerned)?;
    Ok(Done { object_index, ..Done::default() })
}
