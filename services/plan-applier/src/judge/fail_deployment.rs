//! Fails a deployment at a user's request (N-15).

use wire::command::{Done, FailDeployment, Handler};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

const MARKED: &str = "Deployment marked as failed";

impl Handler<FailDeployment> for Work<'_> {
    fn handle(&mut self, command: FailDeployment) -> Result<Done, Refusal> {
        let Some(deployment) = self.state().deployment(command.id).cloned() else {
            return Err(refusal(RefusalKind::NotFound, "deployment not found"));
        };
        if deployment.status.is_terminal() {
            return Err(refusal(RefusalKind::Invalid, "can't fail terminal deployment"));
        }
        self.fail_deployment(&deployment, MARKED)?;
        Ok(Done { object_index: self.index(), ..Done::default() })
    }
}
