//! Evaluates the jobs that a node affects again (http-api §17).

use wire::command::{Done, EvaluateNode, Handler};
use wire::{Refusal, RefusalKind};

use super::nodes::affected_jobs;
use super::work::{Work, refusal};

impl Handler<EvaluateNode> for Work<'_> {
    fn handle(&mut self, command: EvaluateNode) -> Result<Done, Refusal> {
        let Some(node) = self.state().node(command.node) else {
            return Err(refusal(RefusalKind::NotFound, "node not found"));
        };
        let object_index = node.server().modify_index;
        let affected = affected_jobs(self.state(), &[command.node]);
        self.evaluate_affected(affected)?;
        Ok(Done { object_index, ..Done::default() })
    }
}
